package conformal

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/rscert/rscert/internal/choice"
)

// ScoreKind is a formula for the score of a class. A larger score means that the class conforms better to the input.
type ScoreKind string

const (
	// THR is the probability of the class (Sadinle et al. 2019).
	THR ScoreKind = "thr"
	// APS is −1 times the score of Romano et al. 2020 for adaptive prediction sets. The score of Romano et al. is the
	// sum of the probabilities of all classes ranked above y, plus u times the probability of y. The number u in [0, 1]
	// is random (see Scorer.Score).
	APS ScoreKind = "aps"
	// RAPS is APS with a penalty for each rank beyond a limit (Angelopoulos et al. 2021).
	RAPS ScoreKind = "raps"
)

// ScoreKinds lists all formulas, the default first.
var ScoreKinds = choice.Of("score", THR, APS, RAPS).Describe(func(s ScoreKind) string {
	return map[ScoreKind]string{
		THR:  "probability of the class",
		APS:  "−(a + b), where a is the sum of the probabilities of all more probable classes, and b is a random part of the class's own probability",
		RAPS: "the score 'aps' minus a penalty that grows with the rank of the class; keeps sets small",
	}[s]
})

func (s ScoreKind) String() string { return string(s) }

// MarshalText returns the name.
func (s ScoreKind) MarshalText() ([]byte, error) { return []byte(s), nil }

// UnmarshalText parses the name of a ScoreKind.
func (s *ScoreKind) UnmarshalText(text []byte) error { return ScoreKinds.Unmarshal(text, s) }

// Random reports whether the score needs a random number u.
func (s ScoreKind) Random() bool { return s == APS || s == RAPS }

// These are the defaults of RAPS (Angelopoulos et al. 2021, section 4: λ = 0.01, k_reg = 5).
const (
	DefaultPenalty = 0.01
	DefaultFree    = 5
)

// A Scorer computes scores of one kind. Calibration and queries must use the same Scorer.
type Scorer struct {
	Kind    ScoreKind `json:"score"`
	Penalty float64   `json:"penalty,omitempty"` // RAPS: λ, subtracted from the score for each rank beyond Free
	Free    int       `json:"free,omitempty"`    // RAPS: number of ranks without a penalty
}

// NewScorer returns a Scorer with the defaults of its kind.
func NewScorer(kind ScoreKind) Scorer {
	if kind == RAPS {
		return Scorer{Kind: kind, Penalty: DefaultPenalty, Free: DefaultFree}
	}
	return Scorer{Kind: kind}
}

// Validate returns an error if the scorer is not usable.
func (s Scorer) Validate() error {
	if _, err := ScoreKinds.Parse(string(s.Kind)); err != nil {
		return fmt.Errorf("score %w", err)
	}
	if !(s.Penalty >= 0) || math.IsInf(s.Penalty, 1) || s.Free < 0 {
		return fmt.Errorf("score %s: the penalty %v and the free ranks %d must be 0 or more", s.Kind, s.Penalty, s.Free)
	}
	return nil
}

// Score returns the score of a class, given the probabilities of all classes at one noisy input. The number u in [0, 1]
// is uniform. The caller draws it once per example, not once per noisy copy. THR ignores u. A probability that is not a
// number gives the score −∞. All machines compute the same bits, because the order of the additions is fixed and no
// product is fused with a sum.
func (s Scorer) Score(probabilities []float64, label int, u float64) float64 {
	if s.Kind == THR {
		return number(probabilities[label])
	}
	return s.Scores(nil, probabilities, u)[label]
}

// Scores returns the scores of all classes. It reuses the memory of dst. Each score is equal to the result of Score.
func (s Scorer) Scores(dst, probabilities []float64, u float64) []float64 {
	dst = slices.Grow(dst[:0], len(probabilities))[:len(probabilities)]
	if s.Kind == THR {
		for i, p := range probabilities {
			dst[i] = number(p)
		}
		return dst
	}
	order := make([]int, len(probabilities))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(probabilities[j], probabilities[i]) })
	above := 0.0
	for rank, i := range order {
		p := probabilities[i]
		sum := above + float64(u*p)
		if s.Kind == RAPS {
			sum += float64(s.Penalty * float64(max(0, rank+1-s.Free)))
		}
		dst[i] = number(-sum)
		above += p
	}
	return dst
}

// number returns x, or −∞ if x is not a number.
func number(x float64) float64 {
	if math.IsNaN(x) {
		return math.Inf(-1)
	}
	return x
}
