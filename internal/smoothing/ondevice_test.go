package smoothing

import (
	"context"
	"errors"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rscert/rscert/internal/law"
)

// A gadget is a NoiseMaker. It runs a linear model of two-dimensional inputs. It makes noise from Rows and Draws with
// its own arithmetic.
type gadget struct {
	linear
	noise  *LatticeNoise
	draws  Draws
	noisy  atomic.Int64                           // number of calls of RunNoisy
	scored atomic.Int64                           // number of calls of RunNoisy that asked for outputs
	spoil  func(votes []int32, outputs []float32) // changes results, unless it is nil
	rows   func(*Rows)                            // receives the rows, unless it is nil
}

func newGadget(t *testing.T, batch int, noise *LatticeNoise) *gadget {
	t.Helper()
	draws, err := noise.Draws()
	if err != nil {
		t.Fatal(err)
	}
	return &gadget{linear: linear{batch: batch}, noise: noise, draws: draws}
}

func (g *gadget) Noise() *LatticeNoise { return g.noise }

func (g *gadget) RunNoisy(ctx context.Context, rows *Rows, votes []int32, outputs []float32) error {
	if g.rows != nil {
		g.rows(rows)
	}
	in, out := make([]float32, g.batch*2), make([]float32, g.batch*3)
	for i := range g.batch {
		for d := range 2 {
			in[2*i+d] = g.draws.value(rows.Places[rows.Example[i]][d], rows.Start[i], rows.Key[i], uint64(d))
		}
	}
	if err := g.Run(ctx, in, out); err != nil {
		return err
	}
	for i := range votes {
		votes[i] = int32(Vote(out[3*i : 3*i+3]))
	}
	g.noisy.Add(1)
	if outputs != nil {
		g.scored.Add(1)
		copy(outputs, out)
	}
	if g.spoil != nil {
		g.spoil(votes, outputs)
	}
	return nil
}

// The method 'value' computes the value of a coordinate by the formulas in the comments of Rows, Draws and
// Stream.Words. It computes with integers of arbitrary precision (math/big).
func (d Draws) value(place int32, start, key, coordinate uint64) float32 {
	n := func(x uint64) *big.Int { return new(big.Int).SetUint64(x) }
	modulus := new(big.Int).Lsh(big.NewInt(1), 64)
	half := new(big.Int).Lsh(big.NewInt(1), 32)
	sum := func(x, y *big.Int) *big.Int { s := new(big.Int).Add(x, y); return s.Mod(s, modulus) }
	times := func(x, y *big.Int) *big.Int { p := new(big.Int).Mul(x, y); return p.Mod(p, modulus) }
	rot := func(x *big.Int) *big.Int { return sum(times(x, half), new(big.Int).Div(x, half)) }

	y := sum(n(start), times(n(coordinate), n(key)))
	z := sum(y, n(key))
	x := rot(sum(times(y, y), y))
	x = rot(sum(times(x, x), z))
	x = rot(sum(times(x, x), y))
	t := sum(times(x, x), z)
	x = rot(t)
	w := sum(t, new(big.Int).Div(sum(times(x, x), y), half)).Uint64()
	column := int32(w % uint64(len(d.Next)))
	label := column
	if w >= d.Next[column] {
		label += d.Step[column]
	}
	return d.Values[place+label]
}

// plainNoise returns noise with σ = 30 steps, for byte data in two channels.
func plainNoise(t *testing.T) *LatticeNoise {
	t.Helper()
	step := big.NewRat(1, 255)
	table, err := NewLawTable(law.Gaussian, 30./255, step)
	if err != nil {
		t.Fatal(err)
	}
	noise, err := NewLatticeNoise(Lattice{Step: step, High: 255}, table, []float64{.5, .25}, []float64{.5, 1})
	if err != nil {
		t.Fatal(err)
	}
	return noise
}

func twoChannels(d int) int { return d }

// TestRowsAndDraws checks that a device that uses Rows and Draws makes the same inputs as LatticeInput.
func TestRowsAndDraws(t *testing.T) {
	noise := plainNoise(t)
	draws, err := noise.Draws()
	if err != nil {
		t.Fatal(err)
	}
	rows, got, want := NewRows(1), make([]float32, 2), make([]float32, 2)
	same := func(what string, in LatticeInput) {
		t.Helper()
		if len(rows.Places) != 1 || rows.Example[0] != 0 || &rows.Places[0][0] != &in.places[0] {
			t.Fatalf("%s: %d examples", what, len(rows.Places))
		}
		for d := range got {
			got[d] = draws.value(rows.Places[0][d], rows.Start[0], rows.Key[0], uint64(d))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%s: %v, want %v", what, got, want)
		}
		rows.Reset()
	}
	for i := range 300 {
		in, err := noise.Input([]int32{int32(i % 256), int32(255 - i%256)}, twoChannels)
		if err != nil {
			t.Fatal(err)
		}
		rows.Clean(0, in)
		in.Clean(want)
		same("without noise", in)
		for _, sample := range []int64{0, 1, int64(i), MaxSamples - 1 - int64(i)} {
			s := NewStream(uint64(i)<<56, i, Phase(i%2))
			rows.Noisy(0, in, s, sample)
			in.Perturb(want, s, sample)
			same("noise", in)
		}
	}
}

// TestDrawsAtThresholds checks that Draws and the table draw the same integer from each tested word. The tested words
// include the words next to a column's threshold. There the column's label changes.
func TestDrawsAtThresholds(t *testing.T) {
	for _, sigma := range []float64{1.5 / 255, 30. / 255, 1. / 2} {
		table, err := NewLawTable(law.Gaussian, sigma, big.NewRat(1, 255))
		if err != nil {
			t.Fatal(err)
		}
		noise, err := NewLatticeNoise(Lattice{Step: big.NewRat(1, 255), High: 1}, table, []float64{0}, []float64{1})
		if err != nil {
			t.Fatal(err)
		}
		draws, err := noise.Draws()
		if err != nil {
			t.Fatal(err)
		}
		n := uint64(len(draws.Next))
		for c, next := range draws.Next {
			base := next - next%n + uint64(c)
			for _, w := range []uint64{uint64(c), base - n, base, base + n, math.MaxUint64 - n + 1 + uint64(c)} {
				if w%n != uint64(c) {
					continue // the value overflowed
				}
				label := int32(c)
				if w >= next {
					label += draws.Step[c]
				}
				if got := table.First + int(label); got != table.Integer(w) {
					t.Fatalf("σ = %v, word %d of column %d: %d, want %d", sigma, w, c, got, table.Integer(w))
				}
			}
		}
	}
}

// TestDrawsDivide checks that no division by 0 occurs. Devices divide by the entries of Draws.Next, which are the
// entries of the table plus 1. In this test, the table has an entry 0, because all cells of column 0 belong to label 0.
func TestDrawsDivide(t *testing.T) {
	table, err := NewTable("even", 0, []Mass{{Hi: 1 << 63}, {Hi: 1 << 63}})
	if err != nil {
		t.Fatal(err)
	}
	noise, err := NewLatticeNoise(Lattice{Step: big.NewRat(1, 1), High: 1}, table, []float64{0}, []float64{1})
	if err != nil {
		t.Fatal(err)
	}
	draws, err := noise.Draws()
	if err != nil || !slices.Equal(draws.Next, []uint64{1, 2}) || !slices.Equal(draws.Step, []int32{0, 0}) {
		t.Errorf("%v: %v, %v", err, draws.Next, draws.Step)
	}
}

// TestNoWordForZero checks that a table that never draws 0 is refused.
func TestNoWordForZero(t *testing.T) {
	table, err := NewTable("apart", 3, []Mass{{Hi: 1 << 63}, {Hi: 1 << 63}})
	if err != nil {
		t.Fatal(err)
	}
	noise, err := NewLatticeNoise(Lattice{Step: big.NewRat(1, 1), High: 1}, table, []float64{0}, []float64{1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := noise.Draws(); err == nil {
		t.Error("a noise without 0 has no row without noise")
	}
}

// TestSamplerOnDevice makes one run with noise from the device and one with noise from the host. All results must be
// equal.
func TestSamplerOnDevice(t *testing.T) {
	noise := plainNoise(t)
	run := func(c Classifier, observe bool) (log []string, seen []*observed) {
		seen = examples(5, []int64{10, 33, 90}, &log)
		for i, e := range seen {
			in, err := noise.Input([]int32{int32(40 * i), int32(255 - 50*i)}, twoChannels)
			if err != nil {
				t.Fatal(err)
			}
			e.input = in
		}
		s := Sampler{Classifier: c, Seed: 9, N0: 11, Workers: 3}
		if err := s.Run(t.Context(), sourceOf(seen, observe)); err != nil {
			t.Fatal(err)
		}
		return log, seen
	}
	for _, observe := range []bool{false, true} {
		for _, batch := range []int{1, 7, 64} {
			log, want := run(&linear{batch: batch}, observe)
			device := newGadget(t, batch, noise)
			device.rows = func(r *Rows) { // the rows must list the examples of this batch only
				last := slices.Max(r.Example)
				if int(last) != len(r.Places)-1 {
					t.Errorf("%d examples are held for rows of up to number %d", len(r.Places), last)
				}
				for i := range r.Key { // rows of an example must be adjacent, and unused rows must be empty
					if i > 0 && r.Example[i] != r.Example[i-1] && r.Example[i] != r.Example[i-1]+1 && r.Key[i]|r.Start[i] != 0 {
						t.Errorf("row %d is of example %d, after %d", i, r.Example[i], r.Example[i-1])
					}
				}
			}
			again, got := run(device, observe)
			if !reflect.DeepEqual(log, again) || len(log) != 5 {
				t.Errorf("emitted %v, want %v", again, log)
			}
			for i := range got {
				if got[i].final.N != 90 || got[i].final.N0 != 11 || !reflect.DeepEqual(got[i].final, want[i].final) {
					t.Errorf("votes %+v, want %+v", got[i].final, want[i].final)
				}
				if n := len(got[i].outputs[Estimation]); !reflect.DeepEqual(got[i].outputs, want[i].outputs) || observe != (n == 3*90) {
					t.Errorf("outputs of example %d differ, or there are %d", i, n)
				}
			}
			repeats := int64(0) // number of calls that rerun samples; for these calls, the host makes the inputs
			for _, e := range got {
				repeats += e.final.Compared * int64(min(2, batch))
			}
			if device.noisy.Load() == 0 || device.noisy.Load()+repeats != device.calls.Load() {
				t.Errorf("%d batches on the device of %d, %d of them to compare", device.noisy.Load(), device.calls.Load(), repeats)
			}
			if scored := device.scored.Load(); scored > device.noisy.Load() || observe != (scored > 0) {
				t.Errorf("%d batches gave outputs", scored)
			}
		}
	}
}

// TestOtherNoiseStaysHere checks that the host makes the noise of an input if the classifier cannot make this noise.
func TestOtherNoiseStaysHere(t *testing.T) {
	other, err := plainNoise(t).Input([]int32{1, 2}, twoChannels)
	if err != nil {
		t.Fatal(err)
	}
	for name, input := range map[string]Input{"floats": FloatInput{[]float32{1, 2}, []float32{1, 1}}, "another lattice": other} {
		var log []string
		device := newGadget(t, 16, plainNoise(t))
		es := examples(1, []int64{40}, &log)
		es[0].input = input
		if err := (Sampler{Classifier: device, N0: 5}).Run(t.Context(), sourceOf(es, false)); err != nil {
			t.Fatal(err)
		}
		if device.noisy.Load() != 0 || device.calls.Load() == 0 || len(log) != 1 {
			t.Errorf("%s: %d batches on the device, %d here", name, device.noisy.Load(), device.calls.Load())
		}
		device.noise = nil
		es = examples(1, []int64{40}, &log)
		es[0].input = input
		if err := (Sampler{Classifier: device}).Run(t.Context(), sourceOf(es, false)); err != nil || device.noisy.Load() != 0 {
			t.Errorf("%s: noise is made by a classifier that makes none: %v", name, err)
		}
	}
}

// TestCheckNoise changes one number at a time in the device's results. CheckNoise must notice each change.
func TestCheckNoise(t *testing.T) {
	device := newGadget(t, 24, plainNoise(t))
	check := func() error { return CheckNoise(t.Context(), device, twoChannels) }
	if err := check(); err != nil || device.noisy.Load() != 1 || device.calls.Load() != 2 {
		t.Fatalf("%v after %d batches on the device of %d", err, device.noisy.Load(), device.calls.Load())
	}
	for i := range 24 {
		device.spoil = func(votes []int32, _ []float32) { votes[i] = (votes[i] + 1) % 3 }
		if err := check(); err == nil || !strings.Contains(err.Error(), "on the device") {
			t.Errorf("vote %d: %v", i, err)
		}
		for k := range 3 {
			device.spoil = func(_ []int32, out []float32) { out[3*i+k] = math.Nextafter32(out[3*i+k], 9) }
			if err := check(); err == nil || !strings.Contains(err.Error(), "made on the device") {
				t.Errorf("score %d of row %d: %v", k, i, err)
			}
		}
	}
	device.spoil = func(_ []int32, out []float32) { out[0] = float32(math.NaN()) }
	if check() == nil {
		t.Error("NaN for a number")
	}
	device.spoil = nil
	device.fail = func(int64) error { return errors.New("out of order") }
	if err := check(); err == nil || err.Error() != "out of order" {
		t.Errorf("a failure: %v", err)
	}
}

// TestCheckNoiseTries checks which inputs CheckNoise runs, for several batch sizes.
func TestCheckNoiseTries(t *testing.T) {
	for _, batch := range []int{1, 5, 24} {
		device := newGadget(t, batch, plainNoise(t))
		rows, without, last, examples := 0, 0, 0, 0
		most := uint64(MaxSamples - 1)
		device.rows = func(r *Rows) {
			examples = max(examples, len(r.Places))
			for i, key := range r.Key {
				rows++
				switch {
				case key == 0:
					without++
				case r.Start[i] == most*weyl*key:
					last++
				}
			}
		}
		if err := CheckNoise(t.Context(), device, twoChannels); err != nil {
			t.Fatal(err)
		}
		if rows < checkedRows || rows >= checkedRows+batch || without < rows/4 || last < rows/6 || examples != min(3, batch) {
			t.Errorf("batches of %d: %d rows, %d without noise, %d of the last sample, %d examples", batch, rows, without, last, examples)
		}
	}
}

// TestTrialsSpan checks that the examples for CheckNoise include the smallest and the largest values of the data.
func TestTrialsSpan(t *testing.T) {
	noise := plainNoise(t)
	inputs, err := noise.trials(600, func(d int) int { return d / 300 })
	if err != nil {
		t.Fatal(err)
	}
	for i, in := range inputs {
		for c := range 2 {
			channel := in.places[300*c : 300*(c+1)]
			if low, high := slices.Min(channel), slices.Max(channel); int(low) != c*noise.width || int(high) != c*noise.width+255 {
				t.Errorf("example %d, channel %d: places %d to %d", i, c, low, high)
			}
		}
		if i > 0 && slices.Equal(in.places, inputs[0].places) {
			t.Errorf("example %d is the first", i)
		}
	}
}

// TestCompareNoise uses a device that is wrong in one of many rows. The few rows of CheckNoise do not show this error,
// but CompareNoise must find it.
func TestCompareNoise(t *testing.T) {
	noise := plainNoise(t)
	inputs, err := noise.trials(2, twoChannels)
	if err != nil {
		t.Fatal(err)
	}
	for _, batch := range []int{1, 24} {
		device := newGadget(t, batch, noise)
		compare := func() error {
			device.noisy.Store(0)
			return CompareNoise(t.Context(), device, 7, []int{3, 5, 11}, inputs[:])
		}
		rows, seen := 0, map[uint64]bool{}
		device.rows = func(r *Rows) {
			for i, key := range r.Key {
				rows++
				seen[key] = true
				if k := int64(rows - 1); k < 3 && r.Start[i] != uint64(k)*weyl*key {
					t.Errorf("row %d is not sample %d", k, k)
				}
			}
		}
		if err := compare(); err != nil || rows < 2048 {
			t.Fatalf("batches of %d: %v after %d rows", batch, err, rows)
		}
		for _, index := range []int{3, 5, 11} {
			if !seen[NewStream(7, index, Estimation).key] {
				t.Errorf("batches of %d: no noise of example %d", batch, index)
			}
		}
		if len(seen) != 3 {
			t.Errorf("batches of %d: %d streams", batch, len(seen))
		}
		device.rows = nil
		device.spoil = func(_ []int32, out []float32) {
			if device.noisy.Load() == int64(1500/batch) {
				out[0] = math.Nextafter32(out[0], 9)
			}
		}
		if err := CheckNoise(t.Context(), device, twoChannels); err != nil {
			t.Errorf("batches of %d: %v", batch, err)
		}
		if err := compare(); err == nil || !strings.Contains(err.Error(), "noisy inputs of the run: a score of class 0 is ") {
			t.Errorf("batches of %d: one score is off, and %v", batch, err)
		}
	}
}
