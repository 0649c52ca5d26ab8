package attack

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/smoothing"
)

// Omega is the class whose probability an ACE attack changes. It is the ω in equation 2 of Emde et al. 2025.
type Omega string

// These are the two classes whose probability an ACE attack can change.
const (
	TrueLabel  Omega = "label"      // the label y
	Prediction Omega = "prediction" // ŷ, the model's class
)

// Omegas lists all values of Omega.
var Omegas = choice.Of("omega", TrueLabel, Prediction)

func (o Omega) String() string { return string(o) }

// MarshalText writes the class.
func (o Omega) MarshalText() ([]byte, error) { return []byte(o), nil }

// UnmarshalText reads a class.
func (o *Omega) UnmarshalText(text []byte) error { return Omegas.Unmarshal(text, o) }

// Setting describes one ACE attack. The attack maximises η·CE(f(x′), ω), where CE is the cross-entropy of the scores
// f(x′) for the class ω. The field Eta is η. If η is 1, the attack lowers the probability of the class ω; if η is −1,
// it raises the probability.
type Setting struct {
	Eta   int   `json:"eta"`
	Omega Omega `json:"omega"`
}

// ACERate is the learning rate of ACE at the start (Emde et al. 2025, appendix B.2).
const ACERate = 10

// Settings lists the ACE attacks, in the order of table 1 of Emde et al. 2025.
var Settings = []Setting{{-1, TrueLabel}, {1, TrueLabel}, {-1, Prediction}, {1, Prediction}}

// String returns a name for use in file names, such as minus-label.
func (s Setting) String() string {
	sign := "plus"
	if s.Eta < 0 {
		sign = "minus"
	}
	return fmt.Sprintf("%s-%s", sign, s.Omega)
}

// ace runs the ACE attacks (Emde et al. 2025, equation 2 and appendix B.2; after Galil & El-Yaniv 2021). A setting
// consists of a sign η and a class ω. For each setting, ace searches the allowed inputs x′ for the largest η·CE(f(x′),
// ω), where CE is the cross-entropy. The classifier must answer the same class for x′ as for the example x. The ascent
// starts at x. A step is the gradient times a rate, and the rate starts at StepSize.
func (s *Search) ace(ctx context.Context, targets []*target) error {
	for _, t := range targets {
		t.found.Altered = make([]Altered, len(Settings))
	}
	for k, setting := range Settings {
		var climbing []*target
		for _, t := range targets {
			if setting.Omega == TrueLabel || !t.found.Correct() {
				climbing = append(climbing, t.aimed(setting.Omega))
			}
		}
		candidates, scores, err := s.candidates(ctx, climbing, func(t *target) ascent { return s.newGradual(t, setting.Eta) })
		if err != nil {
			return err
		}
		if err := s.keepClass(ctx, climbing, candidates, scores, k); err != nil {
			return err
		}
	}
	for _, t := range targets { // if ŷ = y, the attacks on ŷ give the same results as the attacks on y
		if t.found.Correct() {
			copy(t.found.Altered[2:], t.found.Altered[:2])
		}
	}
	return nil
}

// The method 'aimed' returns a target whose label is the class ω, so its loss is CE(f(x), ω). For the true label, the
// method returns t itself. Otherwise it returns a copy of t with another label.
func (t *target) aimed(omega Omega) *target {
	if omega == TrueLabel {
		return t
	}
	other := *t
	other.Label = t.found.Clean
	return &other
}

// shares holds factors for keepClass. If a perturbation changes the class, keepClass multiplies the perturbation by
// each of these factors in turn, until the classifier answers the example's class again.
var shares = []float64{.99, .9, .5, 0}

// keepClass stores each candidate, with its scores, as the altered input of setting k. According to the graph that
// computes gradients, each candidate keeps its example's class. Near a boundary, rounding can make the classifier
// itself answer another class. keepClass then shortens the perturbation, if necessary to 0.
func (s *Search) keepClass(ctx context.Context, targets []*target, candidates, scores [][]float32, k int) (err error) {
	for turn := 0; ; turn++ {
		var rest []*target
		var shorter [][]float32
		for i, t := range targets {
			class := smoothing.Vote(scores[i])
			switch {
			case class == t.found.Clean:
				if t.found.Altered[k], err = s.alteredBy(t, candidates[i], class, scores[i]); err != nil {
					return err
				}
			case turn == len(shares):
				return fmt.Errorf("example %d: the model gives it another class than before", t.Index)
			default:
				rest, shorter = append(rest, t), append(shorter, s.shorten(t, candidates[i], shares[turn]))
			}
		}
		if len(rest) == 0 {
			return nil
		}
		targets, candidates = rest, shorter
		if scores, err = s.scores(ctx, candidates); err != nil {
			return err
		}
	}
}

// shorten multiplies the candidate's perturbation by the argument 'share'. It adds the result to the example, and
// returns the projected sum.
func (s *Search) shorten(t *target, candidate []float32, share float64) []float32 {
	x := make([]float32, len(candidate))
	for i, v := range t.Values {
		x[i] = float32(float64(v) + share*(float64(candidate[i])-float64(v)))
	}
	s.Project(x, t.Values)
	return x
}

// Let v be η·CE at the last improvement. A step is a new improvement if its η·CE is above v + plateauThreshold·|v|.
// After more than plateauPatience steps in a row without an improvement, the rate is multiplied by plateauFactor. These
// constants have the default values of PyTorch's ReduceLROnPlateau, which the authors of ACE used.
const (
	plateauFactor    = .1
	plateauPatience  = 10
	plateauThreshold = 1e-4
)

// crossingFactor multiplies the rate when a step would change the class. The attack does not take this step, and
// continues with shorter steps. The authors' attack ends at the first step that changes the class. If this is the very
// first step, their attack returns x unchanged.
const crossingFactor = .5

// The type 'gradual' is an ACE attack on one example. Its result is the best of the points that kept the class.
type gradual struct {
	*Search
	*target
	eta          float64
	rate         float64   // learning rate
	steps        int       // number of steps left
	x            []float32 // the current point; observe gets the gradient at this point
	at, gradient []float32 // the last point that kept the class, and its gradient; nil at first
	best         []float32 // the point with the largest η·CE(f(x′), ω) so far (see Setting)
	value        float64   // η·CE at the point 'best', where CE is the cross-entropy
	plateau      float64   // η·CE at the last improvement
	waiting      int       // steps since the last improvement, or since a plateau last lowered the rate
	keeps        bool      // whether the classifier's answer at x is its clean answer for the example
	here         float64   // η·CE at x
}

func (s *Search) newGradual(t *target, eta int) *gradual {
	return &gradual{
		Search: s, target: t, eta: float64(eta), rate: s.StepSize, steps: s.Steps, x: slices.Clone(t.Values),
		best: t.Values, value: math.Inf(-1), plateau: math.Inf(-1),
	}
}

func (c *gradual) point() []float32 { return c.x }

func (c *gradual) watch(scores []float32) {
	c.keeps, c.here = smoothing.Vote(scores) == c.found.Clean, c.eta*c.crossEntropy(scores, c.Label)
}

// observe takes the next step from x if the classifier gives x the same class as the example. Otherwise it takes a
// shorter step from c.at, the last point that kept the class. observe ignores its second argument, the loss, because
// the value c.here is more accurate.
func (c *gradual) observe(_ bool, _ float64, gradient []float32) (done bool) {
	if c.keeps {
		c.at, c.gradient = append(c.at[:0], c.x...), append(c.gradient[:0], gradient...)
		c.judge()
	} else {
		c.rate *= crossingFactor
	}
	if c.steps == 0 || c.at == nil || !c.move() {
		c.x = slices.Clone(c.best)
		return true
	}
	c.steps--
	return false
}

// judge compares the value at x with the best value so far, and lowers the rate at a plateau.
func (c *gradual) judge() {
	if c.here > c.value {
		c.best, c.value = slices.Clone(c.x), c.here
	}
	if math.IsInf(c.plateau, -1) || c.here > c.plateau+plateauThreshold*math.Abs(c.plateau) {
		c.plateau, c.waiting = c.here, 0
		return
	}
	if c.waiting++; c.waiting > plateauPatience {
		c.rate, c.waiting = c.rate*plateauFactor, 0
	}
}

// move sets c.x to the point one step away from c.at. It reports whether the two points differ.
func (c *gradual) move() bool {
	flat := true
	for i, g := range c.gradient {
		if g-g != 0 { // not finite
			flat = true
			break
		}
		c.x[i] = float32(float64(c.at[i]) + c.rate*c.eta*float64(g))
		flat = flat && g == 0
	}
	if flat {
		c.found.Flat++
		return false
	}
	c.Project(c.x, c.Values)
	return !slices.Equal(c.x, c.at)
}
