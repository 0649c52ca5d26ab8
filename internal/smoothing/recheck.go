package smoothing

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// One sample in comparedSamples is run again, chosen by the seed, and so is the first sample of one example in
// comparedExamples; Sampler.Compare adds examples. With b inputs a call a comparison is two calls, of 2·b inputs, so
// of n samples an example the share 2b/2¹⁸ + 2b/(128·n) of all calls are comparisons: for b = 64 .06 % for n = 10,000
// and .15 % for n = 1,000; for b = 1,024, the most that is chosen, .94 % for n = 10,000.
const (
	comparedSamples  = 1 << 18
	comparedExamples = 128
)

// compares tells which samples of an example and phase are run again: a pure function of seed, example, phase and sample, so that the record
// of how many were compared does not depend on batches, devices or interruptions.
func (s Sampler) compares(index int, phase Phase) func(sample int64) bool {
	choice := s.choice(index, phase)
	first := phase == firstPhase(s.N0) && (s.Compare != nil && s.Compare(index) || s.choice(index, clean)%comparedExamples == 0)
	return func(sample int64) bool {
		return mix(choice+uint64(sample+1)*weyl)%comparedSamples == 0 || sample == 0 && first
	}
}

// choice is what the choice of an example's samples of a phase begins with.
func (s Sampler) choice(index int, phase Phase) uint64 {
	return mix(mix(s.Seed+weyl) ^ (uint64(index)<<1 | uint64(phase)))
}

// firstPhase is the phase of an example's first sample.
func firstPhase(n0 int64) Phase {
	if n0 > 0 {
		return Selection
	}
	return Estimation
}

// Compared is the number of samples that are run again of an example with n estimation samples: Votes.Compared, of
// Sampler's Seed, N0 and Compare alone.
func (s Sampler) Compared(index int, n int64) (k int64) {
	for phase, end := range [phases]int64{s.N0, n} {
		compares := s.compares(index, Phase(phase))
		for sample := range end {
			if compares(sample) {
				k++
			}
		}
	}
	return k
}

// A DependenceError says that the model's output for an input changed when the input was run again among other inputs:
// no certificate is about such a model, because it is no function of one input.
type DependenceError struct {
	Example int
	Phase   Phase
	Sample  int64
	What    string // that the output changes with
	result  string // that was compared: output or vote
	change  string // from what to what
}

func (e *DependenceError) Error() string {
	return fmt.Sprintf("the model's %s for an input changes with %s: example %d, %s sample %d, %s",
		e.result, e.What, e.Example, e.Phase, e.Sample, e.change)
}

// What an output changes with.
const (
	otherInputs = "the other inputs of its batch"
	ownPlace    = "its place in the batch"
	otherCall   = "the call"
	noisePlace  = "where its noise is made"
)

// Hint says what to do.
func (e *DependenceError) Hint() string {
	switch e.What {
	case otherCall:
		return "nothing can be certified of a model that draws random numbers: export it for inference (model.eval())"
	case noisePlace:
		return "make the noise on the host: --noise-on host"
	}
	return "run one input a call by --batch 1, in a new folder, or export a model that has no operation across the batch; " +
		"what this run has found is not certified"
}

// recheck runs the chosen samples of a batch again, alone and in other company.
func (w *worker) recheck(ctx context.Context, batch []segment, onDevice bool) error {
	row := 0
	for i := range batch {
		g := &batch[i]
		if g.phase == clean {
			row++
			continue
		}
		compares := w.compares(g.index, g.phase)
		for k := range g.count {
			if sample := g.first + int64(k); compares(sample) {
				if err := w.compare(ctx, *g, sample, row+k, onDevice); err != nil {
					return err
				}
				g.compared++
			}
		}
		row += g.count
	}
	return nil
}

// compare runs one sample again, which was in a row of the batch: in every row of a call, then in another row among
// inputs unlike those that it was among. All its outputs must be the same bits.
func (w *worker) compare(ctx context.Context, g segment, sample int64, row int, onDevice bool) error {
	b, d, m := w.Classifier.Batch(), w.Classifier.InputLen(), w.Classifier.Classes()
	if w.in == nil {
		w.in = make([]float32, b*d)
	}
	if w.again == nil {
		w.again = make([]float32, b*m)
	}
	x, stream := make([]float32, d), NewStream(w.Seed, g.index, g.phase)
	g.input.Perturb(x, stream, sample)
	differs := func(what string, first, then []float32) error {
		if k := differentClass(first, then); k >= 0 {
			return &DependenceError{g.index, g.phase, sample, what, "output", fmt.Sprintf("class %d: %v, then %v", k, first[k], then[k])}
		}
		return nil
	}

	for i := range b {
		copy(w.in[i*d:], x)
	}
	if err := w.Classifier.Run(ctx, w.in, w.again); err != nil {
		return &deviceError{err}
	}
	alone := slices.Clone(w.again[:m])
	for i := range b {
		if err := differs(ownPlace, alone, w.again[i*m:(i+1)*m]); err != nil {
			return err
		}
	}
	if b > 1 {
		place := (row + min(b/2+1, b-1)) % b
		if err := w.runAmongOthers(ctx, x, place, g.input, stream, sample); err != nil {
			return err
		}
		if err := differs(otherInputs, alone, w.again[place*m:(place+1)*m]); err != nil {
			return err
		}
	}
	what := otherInputs
	switch {
	case onDevice:
		what = noisePlace
	case b == 1:
		what = otherCall
	}
	if w.scored {
		return differs(what, w.out[row*m:(row+1)*m], alone)
	}
	if was, is := int(w.votes[row]), Vote(alone); was != is {
		return &DependenceError{g.index, g.phase, sample, what, "vote", fmt.Sprintf("class %d, then %d", was, is)}
	}
	return nil
}

// differentClass is the first class whose outputs are not the same bits, −1 if there is none. Any NaN is the same as
// any other.
func differentClass(a, b []float32) int {
	for k, v := range a {
		if math.Float32bits(v) != math.Float32bits(b[k]) && (v == v || b[k] == b[k]) {
			return k
		}
	}
	return -1
}

// runAmongOthers runs x in a place of a call among inputs unlike any that noise makes. A model that looks its inputs up
// may refuse those; the others are then further noisy inputs of the same example.
func (w *worker) runAmongOthers(ctx context.Context, x []float32, place int, input Input, stream Stream, sample int64) error {
	b, d := w.Classifier.Batch(), len(x)
	fill := func(companion func(dst []float32, k int)) {
		for k := range b - 1 {
			i := (place + 1 + k) % b
			companion(w.in[i*d:(i+1)*d], k)
		}
		copy(w.in[place*d:], x)
	}
	fill(func(dst []float32, k int) { strangeInput(dst, x, k) })
	err := w.Classifier.Run(ctx, w.in, w.again)
	if err != nil && ctx.Err() == nil {
		fill(func(dst []float32, k int) { input.Perturb(dst, stream, (sample+1+int64(k))%MaxSamples) })
		err = w.Classifier.Run(ctx, w.in, w.again)
	}
	if err != nil {
		return &deviceError{err}
	}
	return nil
}

// strangeInput sets dst [D] to companion number k of x [D], very different from it: a loud chequer, the negative, bright
// and constant, dark, zero, bright, dark and constant, one bright value. The first ones move the maximum, the minimum
// and the spread of a batch most.
func strangeInput(dst, x []float32, k int) {
	const far = 8
	most := float32(1)
	for _, v := range x {
		if v = max(v, -v); v <= math.MaxFloat32/far {
			most = max(most, v)
		}
	}
	const kinds = 8
	for d, v := range x {
		switch k % kinds {
		case 0:
			v = far * most
			if d%2 == 1 {
				v = -v
			}
		case 1:
			v *= -far
		case 2:
			v = far * most
		case 3:
			v /= far * far
		case 4:
			v = 0
		case 5:
			v *= far
		case 6:
			v = -far * most
		case 7:
			v = 0
			if d == k%len(x) {
				v = far * most
			}
		}
		dst[d] = v
	}
}
