package attack

import (
	"context"
	"fmt"
	"math"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/smoothing"
)

// Keep says for which examples an attack on a smoothed classifier keeps a perturbed input.
type Keep string

// These are the values of Keep.
const (
	// KeepFound keeps the inputs at which the smoothed classifier verifiably answers another class than the label.
	KeepFound Keep = "found"
	// KeepAll keeps one input for every example: the input that Lower finds.
	KeepAll Keep = "all"
)

// Keeps lists all values of Keep.
var Keeps = choice.Of("keep", KeepFound, KeepAll).Describe(func(k Keep) string {
	return map[Keep]string{
		KeepFound: "only inputs that change the answer (adversarial.npz)",
		KeepAll:   "in addition, one input for every example: of the example and the ends of all starts, the one with the smallest estimated probability of the label (worst.npz)",
	}[k]
})

func (k Keep) String() string { return string(k) }

// MarshalText writes the value.
func (k Keep) MarshalText() ([]byte, error) { return []byte(k), nil }

// UnmarshalText reads a value.
func (k *Keep) UnmarshalText(text []byte) error { return Keeps.Unmarshal(text, k) }

// Lowered is the result of Lower: of all inputs that Lower tried, the input with the smallest probability of the label.
// This probability is the mean of the label's softmax over noisy copies.
type Lowered struct {
	Values   []float32 // in the units of the data; a point of the search's lattice if there is one
	Distance float64   // distance from the example, rounded up
	// Class is the smoothed classifier's answer at Values, or −1 if the classifier abstains. Lower does not set this
	// field.
	Class int
	// Before and After are the probabilities of the label at the example and at Values. Both are means over the
	// selection samples. Lower chose Values by the same samples, so on average the value of After is smaller than the
	// true probability.
	Before, After float64
}

// Lower searches for the perturbation that has at most the norm Epsilon and makes the probability of the label under
// noise as small as possible. Unlike Candidates, Lower returns an input for every example. It does so even if the label
// keeps the most votes, and even if the label has already lost at the example itself. If no perturbation lowers the
// probability, the input is the example itself.
//
// Each restart is projected gradient ascent (PGD, Madry et al. 2018). It ascends SmoothAdv's loss, which is −ln of the
// label's probability (Salman et al. 2019). Each step uses fresh noise. Step lengths begin at 2.5·ε/Steps. They shrink
// by the same factors as the step lengths of Candidates (see anneal). After each restart, Lower takes an input in the
// direction of the restart's perturbation, as far from the example as Epsilon allows. If the search has a lattice, this
// input is on the lattice. Lower computes two probabilities of the label: at this input and at the example. For both it
// uses the same s.Samples selection samples.
func (s *SmoothedSearch) Lower(ctx context.Context, x Example) (best Lowered, flat int, err error) {
	if err := s.check(x); err != nil {
		return best, 0, err
	}
	if math.IsInf(s.Epsilon, 1) {
		return best, 0, fmt.Errorf("a search for the smallest probability within %v: want a finite distance", s.Epsilon)
	}
	if best.Before, err = s.probability(ctx, x, x.Values); err != nil {
		return best, 0, err
	}
	best.Values, best.After = x.Values, best.Before
	ends, flat, err := s.restarts(ctx, func(ctx context.Context, restart int) ([]float64, int, error) {
		return s.sink(ctx, x, restart)
	})
	if err != nil {
		return best, flat, err
	}
	for _, delta := range ends {
		values, distance := s.point(x, ray{delta, s.Epsilon})
		p, err := s.probability(ctx, x, values)
		if err != nil {
			return best, flat, err
		}
		if p < best.After {
			best.Values, best.Distance, best.After = values, distance, p
		}
	}
	return best, flat, nil
}

// sink runs one restart of Lower. It returns the perturbation and the number of steps whose gradient was zero or not
// finite.
func (s *SmoothedSearch) sink(ctx context.Context, x Example, restart int) (delta []float64, flat int, err error) {
	blurred, err := s.newBlurred(x)
	if err != nil {
		return nil, 0, err
	}
	delta = s.start(x, restart, s.Epsilon)
	for step := range s.Steps {
		if _, err := blurred.run(ctx, delta, restart*s.Steps+step); err != nil {
			return nil, flat, err
		}
		if !blurred.follow(delta, 2.5*s.Epsilon/float64(s.Steps)*s.anneal(step)) {
			flat++
		}
		s.rescale(delta, x.Values, min(length(delta), s.Epsilon))
	}
	return delta, flat, nil
}

// probability returns the label's probability, averaged over s.Samples selection samples. A sample without an answer
// counts with probability 0.
func (s *SmoothedSearch) probability(ctx context.Context, x Example, values []float32) (float64, error) {
	input, err := s.Input(values)
	if err != nil {
		return 0, err
	}
	m, sum := s.Classifier.Classes(), 0.
	scores, err := s.scores(ctx, input, smoothing.NewStream(s.Seed, x.Index, smoothing.Selection), 0, s.Samples)
	for ; len(scores) > 0; scores = scores[m:] {
		if row := scores[:m]; smoothing.Vote(row) >= 0 {
			sum += math.Exp(-crossEntropy(row, x.Label, s.Probabilities))
		}
	}
	return sum / float64(s.Samples), err
}
