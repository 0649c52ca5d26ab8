package attack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/rscert/rscert/internal/smoothing"
)

// Classifier gives scores. Several goroutines may run it, and an example's scores do not depend on its batch.
type Classifier = smoothing.Classifier

// Gradients gives the scores of Examples inputs, the losses of a loss function, and the gradient of each loss in its
// input. targets are the classes that targeted attacks aim at; other losses ignore them. Several goroutines may run it.
type Gradients interface {
	Examples() int
	Run(ctx context.Context, x []float32, labels, targets []int64, scores, losses, gradient []float32) error
}

// Example is an input to attack.
type Example struct {
	Index, Label int
	Values       []float32
}

// Found is the outcome of an attack on one example.
type Found struct {
	Index, Label int
	Clean        int       // class of the example itself, −1 for none
	Adversarial  []float32 // nil: the example is wrong already, or no perturbation was found
	By           Method    // the attack that found Adversarial
	Class        int       // class of Adversarial
	Distance     float64   // of Adversarial, rounded up
	Flat         int       // steps whose gradient was zero
	// These are set by attacks that change confidences: the largest probability without attack, and the altered inputs,
	// for ACE one for each of Settings.
	Confidence float64
	Altered    []Altered
}

// Correct reports whether the classifier is right on the example itself.
func (f Found) Correct() bool { return f.Clean == f.Label }

// Robust reports whether the classifier is right and no perturbation was found.
func (f Found) Robust() bool { return f.Correct() && f.Adversarial == nil }

// Search attacks examples.
type Search struct {
	Threat
	Method     Method
	Classifier Classifier
	Gradients  Gradients // of methods that use them
	Shape      []int     // of an example
	Steps      int       // of PGD, Auto-PGD and FAB; queries of Square
	StepSize   float64   // of PGD
	Momentum   float64   // of PGD; 0: none
	Targets    int       // number of classes that an attack aims at in turn; 0: none
	Restarts   int       // random starts, for each of the Targets
	Then       *Search   // attacks the examples that this one leaves standing; nil: no other attack
	Seed       uint64
	Workers    int
	// Probabilities says that the scores are probabilities, not logits. Attacks that change confidences use it.
	Probabilities bool
	Progress      func(done int) // called with the number of examples settled; may be nil
}

// Run attacks the examples. Their values must be in the box.
func (s *Search) Run(ctx context.Context, examples []Example) ([]Found, error) {
	found := make([]Found, len(examples))
	group := s.workers() * max(s.Classifier.Batch(), 1) // bounds the memory
	for i := 0; i < len(examples); i += group {
		j := min(i+group, len(examples))
		if err := s.group(ctx, examples[i:j], found[i:j]); err != nil {
			return nil, err
		}
		if s.Progress != nil {
			s.Progress(j)
		}
	}
	return found, nil
}

// group attacks the examples that the classifier gets right.
func (s *Search) group(ctx context.Context, examples []Example, found []Found) error {
	inputs := make([][]float32, len(examples))
	for i, x := range examples {
		inputs[i] = x.Values
	}
	scores, err := s.scores(ctx, inputs)
	if err != nil {
		return err
	}
	definition := s.Method.definition()
	var targets []*target
	for i, x := range examples {
		found[i] = Found{Index: x.Index, Label: x.Label, Clean: smoothing.Vote(scores[i])}
		if definition.confidence {
			if found[i].Clean < 0 {
				return fmt.Errorf("example %d: the model gives no class, so it has no confidence", x.Index)
			}
			found[i].Confidence = s.confidence(scores[i])
		}
		if found[i].Correct() || definition.confidence {
			targets = append(targets, &target{Example: x, found: &found[i], others: others(scores[i], x.Label), goesOn: definition.confidence})
		}
	}
	for a := s; a != nil; a = a.Then {
		if err := a.Method.definition().run(a, ctx, standing(targets)); err != nil {
			return err
		}
	}
	for _, f := range found {
		if definition.confidence && f.Altered == nil {
			return fmt.Errorf("example %d: the model gives no class to perturbed inputs", f.Index)
		}
	}
	return nil
}

// target is an example that is still right.
type target struct {
	Example
	found  *Found
	others []int // the other classes, largest score of the example itself first
	aim    int   // the class that a targeted attack aims at
	// highest is the logarithm of the largest probability of a wrong class at found.Altered, for attacks that raise it.
	highest float64
	goesOn  bool // the attack goes on where the class is wrong
}

// others returns all classes but the label, the largest score first.
func others(scores []float32, label int) []int {
	all := make([]int, 0, len(scores))
	for k := range scores {
		if k != label {
			all = append(all, k)
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	return all
}

// rounds calls f for each random start. A targeted attack has Restarts rounds for each of the Targets: the first ones
// aim at the class with the largest score of the example itself, the next ones at the second class.
func (s *Search) rounds(targets []*target, f func(round int) error) error {
	aims := max(1, min(s.Targets, s.Classifier.Classes()-1))
	restarts := max(1, s.Restarts)
	for round := range aims * restarts {
		rest := standing(targets)
		if len(rest) == 0 {
			return nil
		}
		for _, t := range rest {
			if s.Targets > 0 {
				t.aim = t.others[round/restarts]
			}
		}
		if err := f(round); err != nil {
			return err
		}
	}
	return nil
}

// workers is the number of goroutines that run the model.
func (s *Search) workers() int { return max(1, s.Workers) }

// random returns the example's own random numbers: they do not depend on which examples are attacked beside it.
func (s *Search) random(t *target, restart int) *rand.Rand {
	return rand.New(rand.NewPCG(s.Seed, uint64(t.Index)<<20|uint64(restart)))
}

// settle takes a candidate as the example's adversarial input if it is allowed and the classifier gets it wrong.
func (s *Search) settle(t *target, candidate, scores []float32) error {
	class := smoothing.Vote(scores)
	if class == t.Label {
		return nil
	}
	distance, err := s.allowed(t, candidate)
	t.found.Adversarial, t.found.By, t.found.Class, t.found.Distance = candidate, s.Method, class, distance
	return err
}

// allowed returns the distance of a candidate from its example. A candidate that the threat does not allow is an error.
func (s *Search) allowed(t *target, candidate []float32) (float64, error) {
	distance := s.Distance(candidate, t.Values)
	if _, outside := s.Outside(candidate); outside || !(distance <= s.Epsilon) {
		return 0, errors.New("a perturbation is larger than allowed: please report this")
	}
	return distance, nil
}

// standing returns the targets that nothing has broken, and those of attacks that go on.
func standing(targets []*target) (rest []*target) {
	for _, t := range targets {
		if t.found.Adversarial == nil || t.goesOn {
			rest = append(rest, t)
		}
	}
	return rest
}

// scores runs the classifier on inputs, batch by batch.
func (s *Search) scores(ctx context.Context, inputs [][]float32) ([][]float32, error) {
	batch, d, m := s.Classifier.Batch(), s.Classifier.InputLen(), s.Classifier.Classes()
	scores := make([][]float32, len(inputs))
	err := s.parallel(len(inputs), batch, func(i, j int) error {
		in, out := make([]float32, batch*d), make([]float32, batch*m)
		for row := range batch { // the last batch is filled up
			copy(in[row*d:], inputs[min(i+row, j-1)])
		}
		if err := s.Classifier.Run(ctx, in, out); err != nil {
			return err
		}
		for row := range j - i {
			scores[i+row] = out[row*m : (row+1)*m : (row+1)*m]
		}
		return nil
	})
	return scores, err
}

// parallel calls f for each piece [i, j) of n things, several at a time.
func (s *Search) parallel(n, piece int, f func(i, j int) error) error {
	var wait sync.WaitGroup
	pieces := (n + piece - 1) / piece
	errs, slots := make([]error, pieces), make(chan struct{}, s.workers())
	for k := range pieces {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			errs[k] = f(k*piece, min((k+1)*piece, n))
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// margin is the label's score minus the largest other one.
func margin(scores []float32, label int) float64 {
	other := math.Inf(-1)
	for k, v := range scores {
		if k != label {
			other = max(other, float64(v))
		}
	}
	return float64(scores[label]) - other
}
