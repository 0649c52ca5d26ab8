package conformal

import (
	"fmt"
	"math"
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
	if err != nil || math.IsNaN(x) {
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
	K     int64  `json:"k"`               // τ̂ is the k-th smallest S_i; 0 if there is none, and always 0 with weights
	Tau   Hex    `json:"tau"`             // τ̂; −∞ includes every class
}

// A Predictor turns counts into prediction sets. Its JSON is what conformal.json holds of this package.
type Predictor struct {
	Design
	Labels    int    `json:"labels"` // number of classes
	N         int64  `json:"n"`      // calibration examples
	Cells     []Cell `json:"cells"`
	Statement string `json:"statement"` // what is guaranteed, in words (Design.Claim)
}

// Validate returns an error if the fields of a Predictor from a file are not consistent. It includes Design.Check.
func (p *Predictor) Validate() error { return p.Check() }

// Thresholds returns τ̂ of every class for a query of this group. The group matters for the guarantee Group only; a group
// without calibration examples gets −∞, which includes every class.
func (p *Predictor) Thresholds(group string) []float64 { return nil }

// Verdict says what is known about a class after some of the draws of a query.
type Verdict int8

// The verdicts on a class.
const (
	Undecided Verdict = iota
	In
	Out
)

// CountDraw adds one draw to the counts of all classes: it increments counts[y] if scores[y] ≥ thresholds[y]. The
// thresholds come from Thresholds.
func CountDraw(counts []int64, scores, thresholds []float64) {}

// Decide returns the verdict on every class after the given number of draws, in dst, which it grows if necessary, and
// reports whether every class is decided. Stopping then gives exactly the set of all m′ draws.
func (p *Predictor) Decide(dst []Verdict, counts []int64, drawn int64) (verdicts []Verdict, decided bool) {
	return nil, false
}

// Set returns the classes in the set after the given number of draws, in increasing order. All classes must be decided.
func (p *Predictor) Set(counts []int64, drawn int64) ([]int, error) { return nil, nil }
