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

// Classifier computes scores. Several goroutines may call Run at the same time. The scores of an example must not
// depend on the other examples in its batch.
type Classifier = smoothing.Classifier

// Gradients computes the scores and losses of a batch of inputs, and the gradient of each loss with respect to its
// input. The method Examples returns the size of the batch. The argument 'targets' holds the classes that a targeted
// attack aims at; losses without a target ignore this argument. Several goroutines may call Run at the same time.
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
	Clean        int       // the classifier's answer to the unperturbed example; −1 if it gives no class
	Adversarial  []float32 // nil if no perturbation was found, or if the classifier is wrong about the clean input
	By           Method    // the first attack that broke the example
	Class        int       // the classifier's answer to the adversarial input
	Distance     float64   // distance of the adversarial input from the example, rounded up
	Flat         int       // number of steps whose gradient was zero or not finite
	// Only attacks that change confidences set the fields Confidence and Altered. Confidence is the largest probability
	// without an attack. Altered holds the altered inputs: one for each element of the list Settings if the method is
	// ACE, and one otherwise.
	Confidence float64
	Altered    []Altered
	Lowered    *Lowered // result of the method Lower; nil if the attack did not run Lower
}

// Correct reports whether the classifier is right about the unperturbed example.
func (f Found) Correct() bool { return f.Clean == f.Label }

// Robust reports whether the classifier is right and no perturbation was found.
func (f Found) Robust() bool { return f.Correct() && f.Adversarial == nil }

// Search attacks examples.
type Search struct {
	Threat
	Method     Method
	Classifier Classifier
	Gradients  Gradients // only for methods that use gradients
	Shape      []int     // shape of an example
	Steps      int       // number of steps of PGD, Auto-PGD and FAB, or of queries of Square
	StepSize   float64   // step length of PGD; length of PGDConf's first steps; first learning rate of ACE
	Momentum   float64   // momentum of PGD; 0: none
	Targets    int       // number of classes that an attack aims at in turn; 0: none
	// number of runs of an untargeted attack, or of runs for each target class; PGDConf makes one run more
	Restarts int
	// attacks the examples that need further attacks after this search (see standing); nil: no other attack
	Then    *Search
	Seed    uint64
	Workers int
	// Probabilities is true if the scores are probabilities, and false if they are logits. Attacks that change
	// confidences use this field.
	Probabilities bool
	Progress      func(done int) // called with the number of finished examples; may be nil
}

// Run attacks the examples. Their values must be in the box from Low to High.
func (s *Search) Run(ctx context.Context, examples []Example) ([]Found, error) {
	found := make([]Found, len(examples))
	group := s.workers() * max(s.Classifier.Batch(), 1) // number of examples per group; limits the memory
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

// The method 'group' attacks the examples that the classifier gets right. An attack that changes confidences attacks
// all examples.
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

// target is an example under attack.
type target struct {
	Example
	found  *Found
	others []int // the other classes, in the order of the clean scores, largest first
	aim    int   // the class that a targeted attack aims at
	// highest is the logarithm of the largest probability of a wrong class at found.Altered. Only attacks that raise
	// this probability use it.
	highest float64
	goesOn  bool // the attack continues after the example is broken
}

// others returns all classes except the label, in the order of their scores, largest first.
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

// rounds calls f once for each round. It stops early if no example needs a further attack (see the function
// 'standing'). An untargeted attack has Restarts rounds. A targeted attack has Restarts rounds for each class that it
// aims at. These classes are the s.Targets wrong classes with the largest clean scores, or all wrong classes if there
// are fewer. The class with the largest score comes first.
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

// random returns the generator of random numbers for one example and one restart. The numbers depend on the seed, the
// example's index and the restart, but not on the other examples.
func (s *Search) random(t *target, restart int) *rand.Rand {
	return rand.New(rand.NewPCG(s.Seed, uint64(t.Index)<<20|uint64(restart)))
}

// settle stores a candidate as the example's adversarial input if the classifier's answer at the candidate is not the
// label. It returns an error if it stores a candidate that the threat does not allow.
func (s *Search) settle(t *target, candidate, scores []float32) error {
	class := smoothing.Vote(scores)
	if class == t.Label {
		return nil
	}
	distance, err := s.allowed(t, candidate)
	t.found.Adversarial, t.found.By, t.found.Class, t.found.Distance = candidate, s.Method, class, distance
	return err
}

// allowed returns the distance of a candidate from its example. It returns an error if the threat does not allow the
// candidate.
func (s *Search) allowed(t *target, candidate []float32) (float64, error) {
	distance := s.Distance(candidate, t.Values)
	if _, outside := s.Outside(candidate); outside || !(distance <= s.Epsilon) {
		return 0, errors.New("a perturbation is larger than allowed: please report this")
	}
	return distance, nil
}

// standing returns the targets that need further attacks. These are the targets that no attack has broken, and the
// targets whose field 'goesOn' is true.
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
		for row := range batch { // if the last batch is not full, copies of the last input fill it
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

// parallel splits n things into pieces and calls f for each piece [i, j). Several calls run at the same time.
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

// margin is the label's score minus the largest score of another class.
func margin(scores []float32, label int) float64 {
	other := math.Inf(-1)
	for k, v := range scores {
		if k != label {
			other = max(other, float64(v))
		}
	}
	return float64(scores[label]) - other
}
