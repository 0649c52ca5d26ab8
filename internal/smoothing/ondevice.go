package smoothing

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// NoiseMaker is a Classifier that can also make noisy inputs on its own device, for examples on a lattice. The inputs
// are the same bits as LatticeInput makes. Places, keys and counters then go to the device and votes come back,
// instead of inputs and outputs.
type NoiseMaker interface {
	Classifier
	// Noise returns the noise that the device makes, nil if none.
	Noise() *LatticeNoise
	// RunNoisy makes the noisy inputs of rows and runs the model on them. It sets votes [Batch()] to the Vote of each
	// output and, if outputs is not nil, outputs [Batch()·m]; votes may be nil then. Several goroutines call it at
	// once.
	RunNoisy(ctx context.Context, rows *Rows, votes []int32, outputs []float32) error
}

// Rows describe a batch. Coordinate d of row i is
//
//	values[Places[Example[i]][d] + label],  label = min(w, e[w mod 2ᵇ]) mod 2ᵇ
//
// where e is the noise's table, values its values, and w the word of Stream.Words for y = Start[i] + d·Key[i] and z =
// y + Key[i]. The places of an example have the length of an input and do not change.
type Rows struct {
	Places  [][]int32 // of the batch's examples
	Example []int32   // [Batch()], by row
	Key     []uint64  // [Batch()]
	Start   []uint64  // [Batch()]
}

// NewRows returns the rows of a batch of the given size; the caller sets all of them.
func NewRows(batch int) *Rows {
	return &Rows{Example: make([]int32, batch), Key: make([]uint64, batch), Start: make([]uint64, batch)}
}

// Reset removes the examples. Rows not set again belong to the next first example; their noise does not matter.
func (r *Rows) Reset() {
	clear(r.Places) // lets the memory go
	r.Places = r.Places[:0]
	clear(r.Example)
	clear(r.Key)
	clear(r.Start)
}

// example returns the number of an input's example, and adds it if it is new.
func (r *Rows) example(in LatticeInput) int32 {
	last := len(r.Places) - 1
	if last < 0 || &r.Places[last][0] != &in.places[0] {
		r.Places = append(r.Places, in.places)
		last++
	}
	return int32(last)
}

// Noisy sets row i to a sample. Keep rows of the same example together.
func (r *Rows) Noisy(i int, in LatticeInput, s Stream, sample int64) {
	r.Example[i], r.Key[i], r.Start[i] = r.example(in), s.key, uint64(sample)*weyl*s.key
}

// Clean sets row i to the input without noise: a key of 0 and a start whose word draws J = 0. All coordinates use
// this word.
func (r *Rows) Clean(i int, in LatticeInput) {
	r.Example[i], r.Key[i], r.Start[i] = r.example(in), 0, in.noise.still()
}

// stillTries bounds the search for a counter that draws 0. With a Gaussian table a word does so with probability 10⁻⁴
// or more.
const stillTries = 1 << 24

// findStill returns the least counter whose word, with key 0, draws the integer 0.
func (t *Table) findStill() (counter uint64, ok bool) {
	for c := range uint64(stillTries) {
		if t.Integer(squares64(c, c)) == 0 {
			return c, true
		}
	}
	return 0, false
}

// Draws are copies of a noise's tables, for devices. With column = w mod len(Next) of the word w,
//
//	label = column            if w < Next[column], which is 1 or more,
//	        column + Step[column]  else,
//	value = Values[place + label].
type Draws struct {
	Next   []uint64  // e + 1
	Step   []int32   // from a column to its alias
	Values []float32 // of all channels
}

// Draws returns the noise's tables. It fails for a table that Rows cannot use.
func (n *LatticeNoise) Draws() (d Draws, err error) {
	t := n.table
	if _, ok := t.findStill(); !ok {
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

// CheckNoise runs at least checkedRows inputs with noise made on the device and with noise made here. It fails unless
// votes and outputs are the same bits (all NaN count as the same). It covers several examples all over the lattice,
// both phases, first, last and intermediate samples, and inputs without noise. channel is the argument of
// LatticeNoise.Input.
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

// Limits of CompareNoise: the number of rows, and the time after which no further batch starts.
const (
	comparedRows = 4096
	compareTime  = 5 * time.Second
)

// CompareNoise is CheckNoise on a run's own noisy inputs: the examples with these indices in turn, with the noise of
// the seed. A model whose batches round a few rows in a thousand differently may pass CheckNoise by luck, but rarely
// this.
func CompareNoise(ctx context.Context, maker NoiseMaker, seed uint64, indices []int, examples []LatticeInput) error {
	b, d, m := maker.Batch(), maker.InputLen(), maker.Classes()
	rows, in := NewRows(b), make([]float32, b*d)
	want, got, votes := make([]float32, b*m), make([]float32, b*m), make([]int32, b)
	started := time.Now()
	for first := 0; first < comparedRows && (first == 0 || time.Since(started) < compareTime); first += b {
		rows.Reset()
		// A batch has two examples: one ends in it and the next begins, as in a run.
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

// checkedRows is the least number of rows that CheckNoise runs.
const checkedRows = 12

// trial sets row i, and the host's copy row, to trial number k of an example.
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

// sameResults returns an error unless the two sets of outputs [B·m] agree, and the votes [B] with them.
func sameResults(here, there []float32, votes []int32) error {
	m := len(here) / len(votes)
	for i, v := range votes {
		for k := range m {
			h, t := here[i*m+k], there[i*m+k]
			if math.Float32bits(h) != math.Float32bits(t) && (h == h || t == t) {
				return fmt.Errorf("a score of class %d is %v of an input made on the device, %v of the same made here", k, t, h)
			}
		}
		if want := Vote(here[i*m : (i+1)*m]); int(v) != want {
			return fmt.Errorf("the vote of an output is %d on the device, %d here", v, want)
		}
	}
	return nil
}

// trials returns examples on which to compare noise.
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

// maker returns the classifier if it can make the noise of all examples of a batch, otherwise nil.
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

// runNoisy makes the noise of a batch on the model's device, and runs the model on it.
func (w *worker) runNoisy(ctx context.Context, maker NoiseMaker, batch []segment) error {
	if w.rows == nil {
		w.rows = NewRows(maker.Batch())
	}
	w.rows.Reset()
	row := 0
	var outputs []float32
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
		stream := NewStream(w.Seed, g.index, g.phase)
		for i := range g.count {
			w.rows.Noisy(row, in, stream, g.first+int64(i))
			row++
		}
	}
	w.scored = outputs != nil
	return maker.RunNoisy(ctx, w.rows, w.votes, outputs)
}

// runHere makes the noise of a batch on the host, runs the model on it and counts its votes.
func (w *worker) runHere(ctx context.Context, batch []segment) error {
	d, m := w.Classifier.InputLen(), w.Classifier.Classes()
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
		stream := NewStream(w.Seed, g.index, g.phase)
		for i := range g.count {
			g.input.Perturb(in[:d], stream, g.first+int64(i))
			in = in[d:]
		}
	}
	clear(in) // pad a batch that is not full
	w.scored = true
	if err := w.Classifier.Run(ctx, w.in, w.out); err != nil {
		return err
	}
	for i := range rows {
		w.votes[i] = int32(Vote(w.out[i*m : (i+1)*m]))
	}
	return nil
}
