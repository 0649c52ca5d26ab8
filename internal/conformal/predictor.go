package conformal

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Hex is a float64 whose text in files is hexadecimal, for example 0x1.8p-01, so that no digit is lost. The text of −∞
// is -Inf.
type Hex float64

// MarshalText returns the hexadecimal text.
func (h Hex) MarshalText() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(h), 'x', -1, 64), nil
}

// UnmarshalText parses the text of a number.
func (h *Hex) UnmarshalText(text []byte) error {
	x, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 1) {
		return fmt.Errorf("threshold %.40q is not a number", text)
	}
	*h = Hex(x)
	return nil
}

// A Cell is a part of the population with its own threshold: everything (Marginal, Training), one class (Label) or one
// group (Group).
type Cell struct {
	Label *int   `json:"label,omitempty"` // for the guarantee Label
	Group string `json:"group,omitempty"` // for the guarantee Group
	N     int64  `json:"n"`               // calibration examples
	K     int64  `json:"k"`               // rank: τ̂ is the k-th smallest S_i (thresholds.rank); 0 if τ̂ has no rank
	Tau   Hex    `json:"tau"`             // τ̂; −∞ includes every class
}

// A Predictor turns counts into prediction sets. The file conformal.json contains its JSON.
type Predictor struct {
	Design
	Labels    int    `json:"labels"` // number of classes
	N         int64  `json:"n"`      // calibration examples
	Cells     []Cell `json:"cells"`
	Statement string `json:"statement"` // the guarantee in words (Design.Claim)
}

// Validate returns an error if the fields of a Predictor from a file are not consistent. It also calls Design.Check. It
// cannot check the thresholds, because the file does not hold the scores.
func (p *Predictor) Validate() error {
	if err := p.Check(); err != nil {
		return err
	}
	if p.Labels < 1 {
		return fmt.Errorf("%d classes: want 1 or more", p.Labels)
	}
	if p.Statement != p.Claim() {
		return fmt.Errorf("statement %.60q does not follow from the other fields", p.Statement)
	}
	if p.Rule == BinCP {
		if t, need := p.binCPCounts(p.N); t != p.T || need != p.QueryT {
			return fmt.Errorf("counts %d and %d: want %d and %d for %d examples", p.T, p.QueryT, t, need, p.N)
		}
	}
	return p.checkCells()
}

func (p *Predictor) checkCells() error {
	t, err := p.newThresholds()
	if err != nil {
		return err
	}
	n := int64(0)
	for i, c := range p.Cells {
		if c.N < 0 || (c.Label != nil) != (p.Guarantee == Label) || c.Label != nil && *c.Label != i {
			return fmt.Errorf("threshold %d does not fit the guarantee %s", i, p.Guarantee)
		}
		if p.Guarantee == Group && i > 0 && c.Group <= p.Cells[i-1].Group {
			return fmt.Errorf("group %.40q: the groups must be in alphabetical order", c.Group)
		}
		if want := max(0, t.rank(c.N)-t.lost()); len(p.Weights) == 0 && (c.K != want || c.K == 0 && !math.IsInf(float64(c.Tau), -1)) {
			return fmt.Errorf("threshold %d has the rank %d: want %d of %d examples", i, c.K, want, c.N)
		}
		n += c.N
	}
	switch {
	case n != p.N:
		return fmt.Errorf("%d calibration examples: the thresholds add up to %d", p.N, n)
	case p.Guarantee == Label && len(p.Cells) != p.Labels, p.Guarantee != Label && p.Guarantee != Group && len(p.Cells) != 1:
		return fmt.Errorf("%d thresholds for %d classes and the guarantee %s", len(p.Cells), p.Labels, p.Guarantee)
	}
	return nil
}

// Thresholds returns τ̂ of every class for a query of this group. The group matters only for the guarantee Group. A
// group without calibration examples gets −∞, which includes every class.
func (p *Predictor) Thresholds(group string) []float64 {
	t := make([]float64, p.Labels)
	for y := range t {
		t[y] = math.Inf(-1)
		switch p.Guarantee {
		case Label:
			t[y] = float64(p.Cells[y].Tau)
		case Group:
			if i := slices.IndexFunc(p.Cells, func(c Cell) bool { return c.Group == group }); i >= 0 {
				t[y] = float64(p.Cells[i].Tau)
			}
		default:
			t[y] = float64(p.Cells[0].Tau)
		}
	}
	return t
}

// CountDraw adds one draw to the counts of all classes: it increments counts[y] if scores[y] ≥ thresholds[y]. The
// method Predictor.Thresholds returns the thresholds. A score that is not a number counts as −∞.
func CountDraw(counts []int64, scores, thresholds []float64) {
	for y, s := range scores {
		if number(s) >= thresholds[y] {
			counts[y]++
		}
	}
}

// Verdict says what is known about a class after some of the draws of a query.
type Verdict int8

// These are the verdicts on a class.
const (
	Undecided Verdict = iota
	In
	Out
)

// Decide returns the verdict on every class. The argument 'drawn' is the number of draws so far, at most m′. The result
// 'decided' is true if no class is Undecided. Decide reuses the memory of dst. A class is in the set once t′ scores
// have reached its threshold. It is outside the set once too few draws remain for t′ scores to reach the threshold. So
// a query may stop once all classes are decided, because further draws would not change its set.
func (p *Predictor) Decide(dst []Verdict, counts []int64, drawn int64) (verdicts []Verdict, decided bool) {
	dst = slices.Grow(dst[:0], len(counts))[:len(counts)]
	decided = true
	for y, n := range counts {
		switch {
		case n >= p.QueryT:
			dst[y] = In
		case n+p.QueryM-drawn < p.QueryT:
			dst[y] = Out
		default:
			dst[y], decided = Undecided, false
		}
	}
	return dst, decided
}

// Set returns the classes in the set after the given number of draws, in increasing order. All classes must be decided.
func (p *Predictor) Set(counts []int64, drawn int64) ([]int, error) {
	if len(counts) != p.Labels || drawn < 0 || drawn > p.QueryM {
		return nil, fmt.Errorf("%d counts of %d draws: want %d counts of at most %d draws", len(counts), drawn, p.Labels, p.QueryM)
	}
	set := []int{}
	verdicts, _ := p.Decide(nil, counts, drawn)
	for y, v := range verdicts {
		switch v {
		case In:
			set = append(set, y)
		case Undecided:
			return nil, fmt.Errorf("class %d is undecided after %d of %d draws", y, drawn, p.QueryM)
		}
	}
	return set, nil
}
