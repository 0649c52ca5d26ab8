package smoothing

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

// NoiseMaker is a Classifier that can also make noisy inputs itself, where its model runs: of examples on a lattice,
// bit for bit those of LatticeInput. Then places, keys and counters go to the device and votes come back, in place of
// inputs and outputs.
type NoiseMaker interface {
	Classifier
	// Noise is the noise that it makes; nil: it makes none.
	Noise() *LatticeNoise
	// RunNoisy makes the noisy inputs of rows and runs the model on them. It sets votes [Batch()] to what Vote makes of
	// each output and, if outputs is not nil, outputs [Batch()·m]; votes may be nil then. It is called from several
	// goroutines at once.
	RunNoisy(ctx context.Context, rows *Rows, votes []int32, outputs []float32) error
}

// Rows say what a batch is made of. Coordinate d of row i is
//
//	values[Places[Example[i]][d] + label],  label = min(w, e[w mod 2ᵇ]) mod 2ᵇ
//
// of the noise's table e and values, and w the word of Stream.Words for y = Start[i] + d·Key[i] and z = y + Key[i]. The
// places of an example are as long as an input and stay as they are.
type Rows struct {
	Places  [][]int32 // of the batch's examples
	Example []int32   // [Batch()], by row
	Key     []uint64  // [Batch()]
	Start   []uint64  // [Batch()]
}

// NewRows returns the rows of a batch of that size; all are to be set.
func NewRows(batch int) *Rows {
	return &Rows{Example: make([]int32, batch), Key: make([]uint64, batch), Start: make([]uint64, batch)}
}

// Reset forgets the examples. Rows that are not set again are of the next first one: what they draw does not matter.
func (r *Rows) Reset() {
	clear(r.Places) // they would be kept in memory
	r.Places = r.Places[:0]
	clear(r.Example)
	clear(r.Key)
	clear(r.Start)
}

// example is the number of an input's example, which is added if it is new.
func (r *Rows) example(in LatticeInput) int32 {
	last := len(r.Places) - 1
	if last < 0 || &r.Places[last][0] != &in.places[0] {
		r.Places = append(r.Places, in.places)
		last++
	}
	return int32(last)
}

// Noisy makes row i that of a sample. Rows of an example had better stand together.
func (r *Rows) Noisy(i int, in LatticeInput, s Stream, sample int64) {
	r.Example[i], r.Key[i], r.Start[i] = r.example(in), s.key, uint64(sample)*weyl*s.key
}

// Clean makes row i the input without noise: a key of 0 and a start whose word draws J = 0. All coordinates have that
// one word.
func (r *Rows) Clean(i int, in LatticeInput) {
	r.Example[i], r.Key[i], r.Start[i] = r.example(in), 0, in.noise.still()
}

// stillTries bounds the search for a counter that draws 0. Of a Gaussian table the chance of a word is 10⁻⁴ and more.
const stillTries = 1 << 24

// findStill returns the least counter whose word, of key 0, draws the integer 0.
func (t *Table) findStill() (counter uint64, ok bool) {
	for c := range uint64(stillTries) {
		if t.Integer(squares64(c, c)) == 0 {
			return c, true
		}
	}
	return 0, false
}

// Draws are the tables of a noise, for those that draw in other words than Go's. They are copies. With column = w mod
// len(Next) of the word w,
//
//	label = column            if w < Next[column], which is 1 or more,
//	        column + Step[column]  else,
//	value = Values[place + label].
type Draws struct {
	Next   []uint64  // e + 1
	Step   []int32   // from a column to its alias
	Values []float32 // of all channels
}

// Draws returns the noise's tables. It fails for a table that a Rows cannot use.
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

// CheckNoise runs a batch, or more of few rows, by noise made on the device and by noise made here, and fails unless
// votes and outputs are the same bits (any NaN is the same as any other). There are several examples all over the
// lattice, both phases, first samples, last and those between, and inputs without noise. channel is that of
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

// Rows that CompareNoise runs at most, and the time after which it begins no further batch.
const (
	comparedRows = 4096
	compareTime  = 5 * time.Second
)

// CompareNoise is CheckNoise on noisy inputs of a run: the examples of these indices with the noise of the seed, all
// in turn. A model whose batches round a few rows in a thousand differently passes CheckNoise by luck, this rarely.
func CompareNoise(ctx context.Context, maker NoiseMaker, seed uint64, indices []int, examples []LatticeInput) error {
	b, d, m := maker.Batch(), maker.InputLen(), maker.Classes()
	rows, in := NewRows(b), make([]float32, b*d)
	want, got, votes := make([]float32, b*m), make([]float32, b*m), make([]int32, b)
	started := time.Now()
	for first := 0; first < comparedRows && (first == 0 || time.Since(started) < compareTime); first += b {
		rows.Reset()
		// A batch is of two examples: one ends in it and the next begins, as in a run.
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

// trial makes row i trial number k of an example, and row the same here.
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

// sameResults fails unless outputs [B·m] made in two ways are the same, and so are votes [B].
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

// trials are examples to try noise on.
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

// maker is the classifier if it makes the noise of all examples of a batch, else nil.
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

// runNoisy makes the noise of a batch where the model runs, and runs the model on it.
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

// runHere makes the noise of a batch here, runs the model on it and counts its votes.
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
	clear(in) // a batch that is not full is padded
	w.scored = true
	if err := w.Classifier.Run(ctx, w.in, w.out); err != nil {
		return err
	}
	for i := range rows {
		w.votes[i] = int32(Vote(w.out[i*m : (i+1)*m]))
	}
	return nil
}
