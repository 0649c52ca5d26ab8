package smoothing

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// NoiseMaker is a Classifier whose device can also make the noisy inputs. The examples must lie on a lattice. The
// inputs have the same bits as the inputs that LatticeInput makes. The device receives the examples' lattice points,
// keys and counters, and returns votes. So no noisy inputs and no outputs need to be transferred.
type NoiseMaker interface {
	Classifier
	// Noise returns the noise that the device makes, or nil if it makes none.
	Noise() *LatticeNoise
	// RunNoisy makes the noisy inputs that the argument 'rows' describes, and runs the model on them. It sets the slice
	// 'votes' [Batch()] to the Vote of each output. If the slice 'outputs' [Batch()·m] is not nil, RunNoisy also stores
	// the outputs in it, and 'votes' may then be nil. Several goroutines may call RunNoisy concurrently.
	RunNoisy(ctx context.Context, rows *Rows, votes []int32, outputs []float32) error
}

// Rows describes a batch. Coordinate d of row i is
//
//	values[Places[Example[i]][d] + label],  label = min(w, e[w mod 2ᵇ]) mod 2ᵇ
//
// Here e is the array of the noise's table (see Table), and 2ᵇ is the length of e. The array 'values' holds the model's
// inputs for the lattice points (see LatticeNoise). The word w is the word of Stream.Words for y = Start[i] + d·Key[i]
// and z = y + Key[i]. Places[k] has one entry for each coordinate of example k (see LatticeInput). The content of
// Places[k] never changes.
type Rows struct {
	Places  [][]int32 // lattice points of the batch's examples
	Example []int32   // [Batch()], index into Places for each row
	Key     []uint64  // [Batch()]
	Start   []uint64  // [Batch()]
}

// NewRows returns the rows of a batch of the given size. The caller must set every row whose results it uses.
func NewRows(batch int) *Rows {
	return &Rows{Example: make([]int32, batch), Key: make([]uint64, batch), Start: make([]uint64, batch)}
}

// Reset removes the examples. If the caller calls neither Noisy nor Clean for a row of the new batch, this row belongs
// to the batch's first example. Nobody uses the results of such a row.
func (r *Rows) Reset() {
	clear(r.Places) // otherwise the memory of the entries could not be freed
	r.Places = r.Places[:0]
	clear(r.Example)
	clear(r.Key)
	clear(r.Start)
}

// example returns the index in Places for the given example. If the example is not the last one in Places, the method
// appends it.
func (r *Rows) example(in LatticeInput) int32 {
	last := len(r.Places) - 1
	if last < 0 || &r.Places[last][0] != &in.places[0] {
		r.Places = append(r.Places, in.places)
		last++
	}
	return int32(last)
}

// Noisy sets row i to a sample of an example. Rows of the same example should be adjacent.
func (r *Rows) Noisy(i int, in LatticeInput, s Stream, sample int64) {
	r.Example[i], r.Key[i], r.Start[i] = r.example(in), s.key, uint64(sample)*weyl*s.key
}

// Clean sets row i to the input without noise. The row gets the key 0. So the numbers y and z in the comment of Rows
// both equal Start, and all coordinates use the same word. The method sets Start to a number whose word draws the
// integer 0.
func (r *Rows) Clean(i int, in LatticeInput) {
	r.Example[i], r.Key[i], r.Start[i] = r.example(in), 0, in.noise.zeroCounter()
}

// zeroTries limits the number of candidates that findZero tries. With a Gaussian table, a word draws 0 with probability
// at least 10⁻⁴.
const zeroTries = 1 << 24

// findZero returns the smallest number y with the following property: for y and z = y, the random word draws the
// integer 0 (see Stream.Words).
func (t *Table) findZero() (counter uint64, ok bool) {
	for c := range uint64(zeroTries) {
		if t.Integer(squares64(c, c)) == 0 {
			return c, true
		}
	}
	return 0, false
}

// Draws holds copies of a noise's tables in the form that devices use. For a word w, let column = w mod len(Next). Let
// 'place' be the entry of the coordinate in Rows.Places. Then
//
//	label = column                 if w < Next[column],
//	        column + Step[column]  otherwise,
//	value = Values[place + label].
//
// Every entry of Next is at least 1, so that a device can divide by it.
type Draws struct {
	Next   []uint64  // e[c] + 1 for each column c of the Table
	Step   []int32   // the alias of each column minus the column's index
	Values []float32 // the model's input for each lattice point, channel by channel
}

// Draws returns the noise's tables for devices. Rows.Clean needs a word that draws the integer 0. If Draws finds no
// such word, it returns an error. It also returns an error if an entry of Next would exceed 64 bits.
func (n *LatticeNoise) Draws() (d Draws, err error) {
	t := n.table
	if _, ok := t.findZero(); !ok {
		return d, fmt.Errorf("no word was found that %s draws 0 from", t.name)
	}
	mask := uint64(len(t.entries) - 1)
	for c, e := range t.entries {
		if e == math.MaxUint64 {
			return d, fmt.Errorf("column %d of %s has no room for a threshold", c, t.name)
		}
		d.Next = append(d.Next, e+1)
		d.Step = append(d.Step, int32(e&mask)-int32(c))
	}
	d.Values = slices.Clone(n.values)
	return d, nil
}

// CheckNoise runs at least 'checkedRows' inputs twice, once with noise made on the device and once with noise made on
// the host. It returns an error unless votes and outputs have the same bits in both runs. All NaNs count as equal.
// CheckNoise chooses examples from all parts of the lattice. The inputs are first, last and intermediate samples of
// these examples in both phases, and also inputs without noise. The function 'channel' returns the channel of a
// coordinate.
func CheckNoise(ctx context.Context, maker NoiseMaker, channel func(d int) int) error {
	b, d, m := maker.Batch(), maker.InputLen(), maker.Classes()
	inputs, err := maker.Noise().trials(d, channel)
	if err != nil {
		return err
	}
	rows, in := NewRows(b), make([]float32, b*d)
	want, got, votes := make([]float32, b*m), make([]float32, b*m), make([]int32, b)
	for first := 0; first < checkedRows; first += b {
		rows.Reset()
		for i := range b {
			rows.trial(i, first+i, inputs[i*len(inputs)/b], in[i*d:(i+1)*d])
		}
		if err := maker.Run(ctx, in, want); err != nil {
			return err
		}
		if err := maker.RunNoisy(ctx, rows, votes, got); err != nil {
			return err
		}
		if err := sameResults(want, got, votes); err != nil {
			return err
		}
	}
	return nil
}

// CompareNoise compares batches until it has compared comparedRows rows or until compareTime has passed. It compares at
// least one batch.
const (
	comparedRows = 4096
	compareTime  = 5 * time.Second
)

// CompareNoise makes the same comparison as CheckNoise, but on noisy inputs of a run. It goes through the run's
// examples in order. It draws an example's noise with the run's seed and the example's index. With some models, the
// rounding errors of a few in 1,000 outputs depend on the batch. Such a model may pass CheckNoise by chance, but it
// rarely passes CompareNoise.
func CompareNoise(ctx context.Context, maker NoiseMaker, seed uint64, indices []int, examples []LatticeInput) error {
	b, d, m := maker.Batch(), maker.InputLen(), maker.Classes()
	rows, in := NewRows(b), make([]float32, b*d)
	want, got, votes := make([]float32, b*m), make([]float32, b*m), make([]int32, b)
	started := time.Now()
	for first := 0; first < comparedRows && (first == 0 || time.Since(started) < compareTime); first += b {
		rows.Reset()
		// A batch has samples of two examples. As in a run, one example ends in the batch and the next one begins.
		e := first / b % len(examples)
		for i := range b {
			k := (e + 2*i/b) % len(examples)
			s := NewStream(seed, indices[k], Estimation)
			rows.Noisy(i, examples[k], s, int64(first+i))
			examples[k].Perturb(in[i*d:(i+1)*d], s, int64(first+i))
		}
		if err := maker.Run(ctx, in, want); err != nil {
			return err
		}
		if err := maker.RunNoisy(ctx, rows, votes, got); err != nil {
			return err
		}
		if err := sameResults(want, got, votes); err != nil {
			return fmt.Errorf("of %d noisy inputs of the run: %w", first+b, err)
		}
	}
	return nil
}

// checkedRows is the minimum number of rows that CheckNoise runs.
const checkedRows = 12

// CheckNoise numbers its test inputs. The method 'trial' sets row i of r to test input number k. This input is a sample
// of the example 'in', or the example without noise. The method also makes this input on the host, and writes it to the
// argument 'row'.
func (r *Rows) trial(i, k int, in LatticeInput, row []float32) {
	if k%4 == 3 {
		r.Clean(i, in)
		in.Clean(row)
		return
	}
	s := NewStream(uint64(k), k/3, Phase(k%2))
	sample := int64(k%3) * (MaxSamples - 1) / 2
	r.Noisy(i, in, s, sample)
	in.Perturb(row, s, sample)
}

// sameResults compares two sets of outputs [B·m]. The slice 'votes' [B] holds a vote for each output. sameResults
// returns an error unless the two sets have the same bits and each vote is the result of Vote for its output. All NaNs
// count as equal.
func sameResults(here, there []float32, votes []int32) error {
	m := len(here) / len(votes)
	for i, v := range votes {
		for k := range m {
			h, t := here[i*m+k], there[i*m+k]
			if math.Float32bits(h) != math.Float32bits(t) && (h == h || t == t) {
				return fmt.Errorf("a score of class %d is %v for an input made on the device, and %v for the same input made here", k, t, h)
			}
		}
		if want := Vote(here[i*m : (i+1)*m]); int(v) != want {
			return fmt.Errorf("the vote of an output is %d on the device, %d here", v, want)
		}
	}
	return nil
}

// trials returns examples for CheckNoise.
func (n *LatticeNoise) trials(d int, channel func(d int) int) (inputs [3]LatticeInput, err error) {
	span := n.lattice.High - n.lattice.Low + 1
	for e := range inputs {
		integers := make([]int32, d)
		for k := range integers {
			integers[k] = int32(n.lattice.Low + (k*(2*e+1)+e*span/2)%span)
		}
		if inputs[e], err = n.Input(integers, channel); err != nil {
			return inputs, err
		}
	}
	return inputs, nil
}

// maker returns the worker's classifier as a NoiseMaker if the classifier can make the noise of all examples of a
// batch. Otherwise maker returns nil.
func (w *worker) maker(batch []segment) NoiseMaker {
	maker, ok := w.Classifier.(NoiseMaker)
	if !ok || maker.Noise() == nil {
		return nil
	}
	for _, g := range batch {
		if in, ok := g.input.(LatticeInput); !ok || in.noise != maker.Noise() {
			return nil
		}
	}
	return maker
}

// runNoisy makes the noisy inputs of a batch on the model's device, and runs the model on these inputs.
func (w *worker) runNoisy(ctx context.Context, maker NoiseMaker, batch []segment) error {
	if w.rows == nil {
		w.rows = NewRows(maker.Batch())
	}
	w.rows.Reset()
	row := 0
	var outputs []float32
	if w.Voter != nil {
		outputs = w.out
	}
	for _, g := range batch {
		if _, observed := g.Experiment.(Observer); observed {
			outputs = w.out
		}
		in := g.input.(LatticeInput)
		if g.phase == clean {
			w.rows.Clean(row, in)
			row++
			continue
		}
		stream := NewStream(g.seed, g.index, g.phase)
		for i := range g.count {
			w.rows.Noisy(row, in, stream, g.first+int64(i))
			row++
		}
	}
	w.scored = outputs != nil
	if err := maker.RunNoisy(ctx, w.rows, w.votes, outputs); err != nil || w.Voter == nil {
		return err
	}
	w.count(row)
	return nil
}

// The method 'count' computes the votes of a batch from its outputs. The argument 'rows' is the number of rows that
// hold samples.
func (w *worker) count(rows int) {
	m := w.Classifier.Classes()
	for i := range rows {
		w.votes[i] = int32(w.vote(w.out[i*m : (i+1)*m]))
	}
}

// runHere makes the noisy inputs of a batch on the host, runs the model on them and computes their votes.
func (w *worker) runHere(ctx context.Context, batch []segment) error {
	d := w.Classifier.InputLen()
	if w.in == nil {
		w.in = make([]float32, w.Classifier.Batch()*d)
	}
	in, rows := w.in, 0
	for _, g := range batch {
		rows += g.count
		if g.phase == clean {
			g.input.Clean(in[:d])
			in = in[d:]
			continue
		}
		stream := NewStream(g.seed, g.index, g.phase)
		for i := range g.count {
			g.input.Perturb(in[:d], stream, g.first+int64(i))
			in = in[d:]
		}
	}
	clear(in) // rows without a sample are zeros
	w.scored = true
	if err := w.Classifier.Run(ctx, w.in, w.out); err != nil {
		return err
	}
	w.count(rows)
	return nil
}
