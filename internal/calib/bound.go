package calib

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
)

// Bound is an upper bound on the calibration error
//
//	CE = E|s − η(s)|,  η(s) = P(y = 1 | s),
//
// of a binary classifier with score s and label y.
type Bound struct {
	// Value is the bound: the sum of Terms, or 1 if the sum is larger.
	Value float64 `json:"value"`
	// OfSample is a bound on the error of the scores in the sample, (1/n)Σ|s_i − η(s_i)|: P(error > OfSample) ≤ Delta.
	// It is 0 if the method has no such bound.
	OfSample float64 `json:"of_sample,omitempty"`
	Delta    float64 `json:"delta"` // P(CE > Value) ≤ Delta if Sound is true
	Sound    bool    `json:"sound"`
	Terms    Terms   `json:"terms"`
	// Chosen holds, by name, the parameters that the method chose, for example the number of bins.
	Chosen Terms `json:"chosen"`
}

// Sum is the sum of the terms, which can exceed 1.
func (b Bound) Sum() float64 {
	sum := 0.0
	for _, t := range b.Terms {
		sum += t.Value
	}
	return sum
}

// Term is one summand of a bound.
type Term struct {
	Name  string
	Value float64
}

// Terms are the summands of a bound. They are written as one JSON object, in order.
type Terms []Term

// Get returns the value of the term with this name, or 0 if there is no such term.
func (t Terms) Get(name string) float64 {
	for _, term := range t {
		if term.Name == name {
			return term.Value
		}
	}
	return 0
}

// MarshalJSON keeps the order of the terms.
func (t Terms) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, term := range t {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(term.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(term.Value)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", term.Name, err)
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// CrossFit defines how a sample is split. Every point is a validation point of exactly one fold and a training point of
// the other folds. Each fold's bound fails with probability at most Delta/Folds, so the mean of these bounds fails with
// probability at most Delta.
type CrossFit struct {
	Delta float64 // in (0, 1)
	Folds int     // 2 to 255
	Seed  uint64
}

func checkDelta(delta float64) error {
	if !(delta > 0 && delta < 1) {
		return fmt.Errorf("delta %v is outside (0, 1)", delta)
	}
	return nil
}

// check returns an error if the sample is empty or delta is not in (0, 1).
func (s *Sample) check(delta float64) error {
	if s.N() == 0 {
		return errNoRows
	}
	return checkDelta(delta)
}

func checkBandwidth(h float64) error {
	if !(h > 0) || math.IsInf(h, 0) {
		return fmt.Errorf("bandwidth %v is not positive", h)
	}
	return nil
}

func (cf CrossFit) check(n int) error {
	if err := checkDelta(cf.Delta); err != nil {
		return err
	}
	if cf.Folds < 2 || cf.Folds > 255 {
		return fmt.Errorf("%d folds is outside 2 to 255", cf.Folds)
	}
	if n < 2*cf.Folds {
		return fmt.Errorf("%d rows are too few for %d folds: at least %d are needed", n, cf.Folds, 2*cf.Folds)
	}
	return nil
}

// maxParallelFolds is the largest number of folds that run at the same time. It limits the memory: each running fold
// holds two copies of the sample.
const maxParallelFolds = 4

// run calls the function 'fold' for every fold k and returns the means of the terms over the folds. For every k, 'fold'
// must return terms with the same names.
func (cf CrossFit) run(s *Sample, fold func(part split, k int) (terms, chosen Terms)) (terms, chosen Terms) {
	assigned := assignFolds(s.N(), cf.Folds, cf.Seed)
	all := make([][2]Terms, cf.Folds)
	slots := make(chan struct{}, min(maxParallelFolds, runtime.GOMAXPROCS(0)))
	var wg sync.WaitGroup
	for k := range cf.Folds {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			t, c := fold(s.split(assigned, uint8(k)), k)
			all[k] = [2]Terms{t, c}
		})
	}
	wg.Wait()
	mean := func(which int) Terms {
		out := make(Terms, len(all[0][which]))
		for j := range out {
			out[j].Name = all[0][which][j].Name
			for k := range all {
				out[j].Value += all[k][which][j].Value / float64(cf.Folds)
			}
		}
		return out
	}
	return mean(0), mean(1)
}

// newBound returns a Bound with the given terms and one more term: eps, a bound on the rounding error.
func newBound(terms, chosen Terms, delta, eps float64, sound bool) (Bound, error) {
	b := Bound{Delta: delta, Sound: sound, Terms: append(terms, Term{"rounding", eps}), Chosen: chosen}
	b.Value = min(1, b.Sum())
	if math.IsNaN(b.Value) {
		return Bound{}, errors.New("the bound is not a number")
	}
	return b, nil
}
