package attack

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/smoothing"
)

// Omega says which class's probability an ACE attack changes, ω of Emde et al. 2025, equation 2.
type Omega string

// The classes.
const (
	TrueLabel  Omega = "label"      // y
	Prediction Omega = "prediction" // ŷ, the model's class
)

// Omegas lists all classes.
var Omegas = choice.Of("omega", TrueLabel, Prediction)

func (o Omega) String() string { return string(o) }

// MarshalText writes the class.
func (o Omega) MarshalText() ([]byte, error) { return []byte(o), nil }

// UnmarshalText reads a class.
func (o *Omega) UnmarshalText(text []byte) error { return Omegas.Unmarshal(text, o) }

// Setting is an ACE attack, η·CE(f(x′), ω) → max. Eta 1 lowers the probability of Omega's class, Eta −1 raises it.
type Setting struct {
	Eta   int   `json:"eta"`
	Omega Omega `json:"omega"`
}

// Settings lists the ACE attacks, in the order of table 1 of Emde et al. 2025.
var Settings = []Setting{{-1, TrueLabel}, {1, TrueLabel}, {-1, Prediction}, {1, Prediction}}

// String returns a name for files, such as minus-label.
func (s Setting) String() string {
	sign := "plus"
	if s.Eta < 0 {
		sign = "minus"
	}
	return fmt.Sprintf("%s-%s", sign, s.Omega)
}

// ace runs the ACE attacks (Emde et al. 2025, equation 2 and appendix B.2; after Galil & El-Yaniv 2021): for each
// setting it maximises η·CE(f(x′), ω) over the allowed x′ to which the classifier gives the class of x. Steps follow the
// gradient itself, times a rate that starts at StepSize. It climbs from x.
func (s *Search) ace(ctx context.Context, targets []*target) error {
	for _, t := range targets {
		t.found.Altered = make([]Altered, len(Settings))
	}
	for k, setting := range Settings {
		var climbing []*target
		for _, t := range targets {
			if setting.Omega == TrueLabel || t.Label != t.found.Clean {
				climbing = append(climbing, t)
			}
		}
		candidates := make([][]float32, len(climbing))
		err := s.parallel(len(climbing), s.Gradients.Examples(), func(i, j int) error {
			return s.alter(ctx, climbing[i:j], setting, candidates[i:j])
		})
		if err != nil {
			return err
		}
		if err := s.keepClass(ctx, climbing, candidates, k); err != nil {
			return err
		}
	}
	for _, t := range targets { // where ŷ = y, the attacks for both are the same
		if t.found.Correct() {
			copy(t.found.Altered[2:], t.found.Altered[:2])
		}
	}
	return nil
}

// shares are the shares of a perturbation that keepClass tries.
var shares = []float64{1, .99, .9, .5, 0}

// keepClass takes the candidates as the altered inputs of setting k. The gradient's graph found that each keeps its class.
// Where the classifier itself disagrees, by rounding at a boundary, keepClass shortens the perturbation, at last to 0.
func (s *Search) keepClass(ctx context.Context, targets []*target, candidates [][]float32, k int) error {
	for _, share := range shares {
		inputs := make([][]float32, len(targets))
		for i, t := range targets {
			inputs[i] = s.shorten(t, candidates[i], share)
		}
		scores, err := s.scores(ctx, inputs)
		if err != nil {
			return err
		}
		var rest []*target
		var again [][]float32
		for i, t := range targets {
			class := smoothing.Vote(scores[i])
			if class != t.found.Clean {
				rest, again = append(rest, t), append(again, candidates[i])
				continue
			}
			if t.found.Altered[k], err = s.alteredBy(t, inputs[i], class, scores[i]); err != nil {
				return err
			}
		}
		if targets, candidates = rest, again; len(rest) == 0 {
			return nil
		}
	}
	return fmt.Errorf("example %d: the model gives it another class than before", targets[0].Index)
}

// shorten returns the example with a share of its perturbation.
func (s *Search) shorten(t *target, candidate []float32, share float64) []float32 {
	if share == 1 {
		return candidate
	}
	x := make([]float32, len(candidate))
	for i, v := range t.Values {
		x[i] = float32(float64(v) + share*(float64(candidate[i])-float64(v)))
	}
	s.Project(x, t.Values)
	return x
}

// The rate is multiplied by plateauFactor when more than plateauPatience steps in a row did not improve the loss by the
// factor 1 + plateauThreshold. These are the defaults of PyTorch's ReduceLROnPlateau, which the authors used.
const (
	plateauFactor    = .1
	plateauPatience  = 10
	plateauThreshold = 1e-4
)

// crossingFactor multiplies the rate when a step would change the class; the step is not taken. (The authors stop there,
// which leaves x itself where the first step is too long.)
const crossingFactor = .5

// alter climbs from the examples and returns the best point of each on the way that kept its class.
func (s *Search) alter(ctx context.Context, targets []*target, setting Setting, candidates [][]float32) error {
	n, d, m := s.Gradients.Examples(), len(targets[0].Values), s.Classifier.Classes()
	x, labels := s.start(targets, 0)
	climbs := make([]*gradual, len(targets))
	for row, t := range targets {
		if setting.Omega == Prediction {
			labels[row] = int64(t.found.Clean)
		}
		climbs[row] = &gradual{
			Search: s, target: t, eta: float64(setting.Eta), class: int(labels[row]), rate: s.StepSize,
			best: t.Values, value: math.Inf(-1), plateau: math.Inf(-1),
		}
	}
	scores, gradient := make([]float32, n*m), make([]float32, n*d)
	for step := 0; ; step++ {
		if err := s.Gradients.Run(ctx, x, labels, scores, gradient); err != nil {
			return err
		}
		moving := false
		for row, c := range climbs {
			c.look(x[row*d:(row+1)*d], scores[row*m:(row+1)*m], gradient[row*d:(row+1)*d])
			if step < s.Steps && c.move(x[row*d:(row+1)*d]) {
				moving = true
			}
		}
		if !moving {
			break
		}
	}
	for row, c := range climbs {
		candidates[row] = slices.Clone(c.best)
	}
	return nil
}

// gradual is an ACE attack on one example.
type gradual struct {
	*Search
	*target
	eta          float64
	class        int     // ω
	rate         float64 // learning rate
	at, gradient []float32
	best         []float32 // the point of the largest value
	value        float64   // of best, η·CE
	plateau      float64   // the value from which the last improvement counts
	waiting      int       // steps since then
	stuck        bool
}

// look takes the scores and the gradient at x. A point of another class is left for the last one that kept the class.
func (c *gradual) look(x, scores, gradient []float32) {
	if c.stuck {
		return
	}
	if smoothing.Vote(scores) != c.found.Clean {
		c.rate *= crossingFactor
		c.stuck = c.at == nil
		return
	}
	c.at, c.gradient = append(c.at[:0], x...), append(c.gradient[:0], gradient...)
	value := c.eta * c.crossEntropy(scores, c.class)
	if value > c.value {
		c.best, c.value = slices.Clone(x), value
	}
	if value > c.plateau+plateauThreshold*math.Abs(c.plateau) || math.IsInf(c.plateau, -1) {
		c.plateau, c.waiting = value, 0
		return
	}
	if c.waiting++; c.waiting > plateauPatience {
		c.rate, c.waiting = c.rate*plateauFactor, 0
	}
}

// move writes the next point to x and reports whether it is another one.
func (c *gradual) move(x []float32) bool {
	if c.stuck {
		return false
	}
	moved := false
	for i, g := range c.gradient {
		if g-g != 0 { // not finite
			moved = false
			break
		}
		x[i] = float32(float64(c.at[i]) + c.rate*c.eta*float64(g))
		moved = moved || g != 0
	}
	if !moved {
		c.found.Flat++
	} else {
		c.Project(x, c.Values)
		moved = !slices.Equal(x, c.at)
	}
	if !moved {
		copy(x, c.at)
		c.stuck = true
	}
	return moved
}
