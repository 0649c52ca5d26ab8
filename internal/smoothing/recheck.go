package smoothing

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/rscert/rscert/internal/param"
)

// rscert reruns some samples and compares the outputs, to check that the model's outputs do not depend on the other
// inputs of a batch. The seed chooses these samples. On average, it chooses one of every 'comparedSamples' samples. In
// addition, it chooses on average one of every 'comparedExamples' examples, and rscert reruns the first sample of each
// chosen example. Sampler.Compare can choose further examples, whose first samples are also rerun. With b inputs per
// call, a comparison takes two calls, that is 2·b inputs. With n samples per example, the share of comparisons in the
// model's work is 2b/2¹⁸ + 2b/(128·n). For b = 64 this share is 0.06 % if n = 10,000, and 0.15 % if n = 1,000. For b =
// 1,024, the largest b that rscert chooses by itself, the share is 0.94 % if n = 10,000.
const (
	comparedSamples  = 1 << 18
	comparedExamples = 128
)

// The method 'compares' returns a function that reports whether a sample of the given example and phase is chosen for
// comparison. The choice depends only on the Sampler's fields Seed, N0 and Compare, and on the example, the phase and
// the sample. So the recorded number of compared samples does not depend on batches, devices or interruptions.
func (s Sampler) compares(index int, phase Phase) func(sample int64) bool {
	choice := s.choice(index, phase)
	first := phase == firstPhase(s.N0) && (s.Compare != nil && s.Compare(index) || s.choice(index, clean)%comparedExamples == 0)
	return func(sample int64) bool {
		return mix(choice+uint64(sample+1)*weyl)%comparedSamples == 0 || sample == 0 && first
	}
}

// choice returns a pseudo-random number for an example and a phase. This number determines which samples are compared.
func (s Sampler) choice(index int, phase Phase) uint64 {
	return mix(mix(s.Seed+weyl) ^ (uint64(index)<<1 | uint64(phase)))
}

// firstPhase returns the phase of an example's first sample.
func firstPhase(n0 int64) Phase {
	if n0 > 0 {
		return Selection
	}
	return Estimation
}

// Compared returns the number of compared samples (Votes.Compared) of an example with n estimation samples. Of the
// Sampler's fields, the result depends only on Seed, N0 and Compare.
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

// A DependenceError says that the model's output for an input changed although the input did not change. The output of
// such a model is not a function of one input, so the model cannot be certified.
type DependenceError struct {
	Example int
	Phase   Phase
	Sample  int64
	What    string // difference between the two runs of the input; see the constants below
	result  string // "output" or "vote"
	change  string // old and new result
}

func (e *DependenceError) Error() string {
	return fmt.Sprintf("the model's %s for an input changes with %s: example %d, %s sample %d, %s",
		e.result, e.What, e.Example, e.Phase, e.Sample, e.change)
}

// These constants are the values of the field DependenceError.What. Each value names a difference between two runs of
// the same input. This difference may be the reason why the outputs differ.
const (
	otherInputs = "the other inputs of its batch"
	ownPlace    = "its place in the batch"
	otherSize   = "the size of its batch"
	otherCall   = "the call"
	noisePlace  = "where its noise is made"
)

// Hint returns advice for the user.
func (e *DependenceError) Hint() string { return e.SpellHint(param.Plain) }

// SpellHint returns the text of Hint, with parameter names spelled by s.
func (e *DependenceError) SpellHint(s param.Spelling) string {
	switch e.What {
	case otherCall:
		return "nothing can be certified of a model that draws random numbers: export it for inference (model.eval())"
	case noisePlace:
		return "make the noise on the host: " + s(param.NoiseOn) + " host"
	}
	return "run one input a call by " + s(param.Batch) + " 1, in a new folder, or export a model that has no operation across the batch; " +
		"the results of this run are not certified"
}

// recheck reruns the chosen samples of a batch and compares the outputs.
func (w *worker) recheck(ctx context.Context, batch []segment, onDevice bool) error {
	row := 0
	for i := range batch {
		g := &batch[i]
		if g.phase == clean {
			row++
			continue
		}
		s := w.Sampler
		s.Seed, s.N0 = g.seed, g.n0
		compares := s.compares(g.index, g.phase)
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

// compare reruns the sample in row 'row' of the batch, in two calls. In the first call, every row holds this sample. In
// the second call, only one row holds it, and the number of this row differs from 'row'. The other rows hold very
// different inputs. Both calls have the smallest batch size that the classifier offers. If this size is 1, there is no
// second call. All outputs for the sample must have the same bits. If the batch gave votes but no outputs, its vote for
// the sample must equal the vote of the first call.
func (w *worker) compare(ctx context.Context, g segment, sample int64, row int, onDevice bool) error {
	b, d, m := w.checker.Batch(), w.checker.InputLen(), w.checker.Classes()
	if w.in == nil {
		w.in = make([]float32, w.Classifier.Batch()*d)
	}
	if w.again == nil {
		w.again = make([]float32, b*m)
	}
	x, stream := make([]float32, d), NewStream(g.seed, g.index, g.phase)
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
	if err := w.checker.Run(ctx, w.in[:b*d], w.again); err != nil {
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
	case b != w.Classifier.Batch():
		what = otherSize
	case b == 1:
		what = otherCall
	}
	if w.scored {
		return differs(what, w.out[row*m:(row+1)*m], alone)
	}
	if was, is := int(w.votes[row]), w.vote(alone); was != is {
		return &DependenceError{g.index, g.phase, sample, what, "vote", fmt.Sprintf("class %d, then %d", was, is)}
	}
	return nil
}

// differentClass returns the first class whose outputs differ in a bit, or −1 if there is none. All NaNs count as
// equal.
func differentClass(a, b []float32) int {
	for k, v := range a {
		if math.Float32bits(v) != math.Float32bits(b[k]) && (v == v || b[k] == b[k]) {
			return k
		}
	}
	return -1
}

// runAmongOthers runs x in one row of a call. The other inputs of the call are strange inputs, which noise practically
// never produces. A model may refuse strange inputs, for example if it uses values as indices into a table. In that
// case, noisy inputs of the same example replace the strange inputs.
func (w *worker) runAmongOthers(ctx context.Context, x []float32, place int, input Input, stream Stream, sample int64) error {
	b, d := w.checker.Batch(), len(x)
	fill := func(companion func(dst []float32, k int)) {
		for k := range b - 1 {
			i := (place + 1 + k) % b
			companion(w.in[i*d:(i+1)*d], k)
		}
		copy(w.in[place*d:], x)
	}
	fill(func(dst []float32, k int) { strangeInput(dst, x, k) })
	err := w.checker.Run(ctx, w.in[:b*d], w.again)
	if err != nil && ctx.Err() == nil {
		fill(func(dst []float32, k int) { input.Perturb(dst, stream, (sample+1+int64(k))%MaxSamples) })
		err = w.checker.Run(ctx, w.in[:b*d], w.again)
	}
	if err != nil {
		return &deviceError{err}
	}
	return nil
}

// strangeInput sets dst [D] to strange input number k for x [D]. There are eight strange inputs. They are, in this
// order, large values of alternating sign, −8·x, a large constant, x/64, zeros, 8·x, a large negative constant, and a
// single large value. A small batch has room for only a few strange inputs. So the first ones are those that change the
// maximum, the minimum and the spread of a batch most.
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
