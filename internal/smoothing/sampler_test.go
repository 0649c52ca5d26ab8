package smoothing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rscert/rscert/internal/certify"
)

// The type 'linear' is a model with two-dimensional inputs and three classes.
type linear struct {
	batch int
	calls atomic.Int64
	fail  func(call int64) error
}

func (*linear) InputLen() int { return 2 }
func (*linear) Classes() int  { return 3 }
func (c *linear) Batch() int  { return c.batch }
func (c *linear) Run(ctx context.Context, in, out []float32) error {
	call := c.calls.Add(1)
	if c.fail != nil {
		if err := c.fail(call); err != nil {
			return err
		}
	}
	for i := range c.batch {
		x, y := in[2*i], in[2*i+1]
		out[3*i], out[3*i+1], out[3*i+2] = x+1, y, -x-y
	}
	return ctx.Err()
}

// The type 'recorded' is an experiment that asks for its goals in turn and records all calls.
type recorded struct {
	index int
	clean []float32
	sigma float32
	goals []int64
	log   *[]string // shared by all experiments; Emit appends to it
	input Input     // if nil, the input is the field 'clean' with floating-point noise

	asked   []Votes
	outputs [phases][]float32
	final   *Votes
}

func (r *recorded) Input() (int, Input) {
	if r.input != nil {
		return r.index, r.input
	}
	return r.index, FloatInput{r.clean, r.scale()}
}

// scale returns the standard deviation of the noise, which is 1 by default.
func (r *recorded) scale() []float32 {
	scale := make([]float32, len(r.clean))
	for d := range scale {
		scale[d] = cmp.Or(r.sigma, 1)
	}
	return scale
}

func (r *recorded) Goal(t Votes) (int64, error) {
	r.asked = append(r.asked, Votes{t.N0, append([]int64(nil), t.Counts0...), t.None0, t.N, append([]int64(nil), t.Counts...), t.None, t.Clean, t.Compared})
	for _, g := range r.goals {
		if g > t.N {
			return g, nil
		}
	}
	return t.N, nil
}
func (r *recorded) Finish(t Votes) error {
	if r.final != nil {
		return errors.New("finished twice")
	}
	r.final = &t
	return nil
}
func (r *recorded) Emit() error {
	*r.log = append(*r.log, fmt.Sprint(r.index, *r.final))
	return nil
}

// The type 'observed' adds the method Observe to the type 'recorded', so that the experiment also receives the outputs.
type observed struct{ recorded }

func (o *observed) Observe(phase Phase, outputs []float32) error {
	if phase == Selection && len(o.outputs[Estimation]) > 0 {
		return errors.New("selection after estimation")
	}
	o.outputs[phase] = append(o.outputs[phase], outputs...)
	return nil
}

func examples(n int, goals []int64, log *[]string) []*observed {
	es := make([]*observed, n)
	for i := range es {
		es[i] = &observed{recorded{index: 3 * i, sigma: 0.5, clean: []float32{float32(i) * 0.1, 0.3}, goals: goals, log: log}}
	}
	return es
}

func sourceOf(es []*observed, observe bool) func() (Experiment, error) {
	i := 0
	return func() (Experiment, error) {
		if i == len(es) {
			return nil, nil
		}
		i++
		if observe {
			return es[i-1], nil
		}
		return &es[i-1].recorded, nil
	}
}

// TestSamplerIndependent checks that votes, goals, outputs and the order of Emit are the same for every batch size and
// number of workers.
func TestSamplerIndependent(t *testing.T) {
	for _, goals := range [][]int64{{1000}, {10, 11, 37, 1000}} {
		var want []string
		var wantExamples []*observed
		for _, batch := range []int{64, 1, 7, 5000} {
			for _, workers := range []int{1, 2, 5} {
				for _, observe := range []bool{true, false} {
					var log []string
					es := examples(11, goals, &log)
					var drawn atomic.Int64
					s := Sampler{
						Classifier: &linear{batch: batch}, Seed: 7, N0: 20, Workers: workers,
						Progress: func(n int64) { drawn.Add(n) },
					}
					if err := s.Run(t.Context(), sourceOf(es, observe)); err != nil {
						t.Fatal(err)
					}
					name := fmt.Sprintf("goals %v, batch %d, workers %d, observe %v", goals, batch, workers, observe)
					if drawn.Load() != 11*1020 {
						t.Errorf("%s: drew %d samples", name, drawn.Load())
					}
					if want == nil {
						want, wantExamples = log, es
						if len(want) != 11 {
							t.Fatalf("%d examples emitted", len(want))
						}
						continue
					}
					if !reflect.DeepEqual(log, want) {
						t.Errorf("%s: emitted\n%s\nwant\n%s", name, strings.Join(log, "\n"), strings.Join(want, "\n"))
					}
					for i, e := range es {
						if !reflect.DeepEqual(e.asked, wantExamples[i].asked) {
							t.Errorf("%s: example %d asked with %v, want %v", name, i, e.asked, wantExamples[i].asked)
						}
						if observe && !reflect.DeepEqual(e.outputs, wantExamples[i].outputs) {
							t.Errorf("%s: example %d saw other outputs", name, i)
						}
					}
				}
			}
		}
	}
}

// TestSamplerVotes compares the votes with their exact distribution. Class 0 wins against class 1 where x+1 > y.
func TestSamplerVotes(t *testing.T) {
	var log []string
	es := examples(1, []int64{200000}, &log)
	s := Sampler{Classifier: &linear{batch: 256}, Seed: 1}
	if err := s.Run(t.Context(), sourceOf(es, true)); err != nil {
		t.Fatal(err)
	}
	tally := es[0].final
	var sum float64
	for i := 0; i < len(es[0].outputs[Estimation]); i += 3 {
		sum += float64(es[0].outputs[Estimation][i]) - 1 // the value of x
	}
	// The mean of 200,000 values with standard deviation 0.5 must differ from its expectation by at most 0.0056, which
	// is 5 standard errors. With random seeds, 6 of 10⁷ runs would fail. But the seed is fixed.
	if mean := sum / 200000; math.Abs(mean) > 0.0056 {
		t.Errorf("mean noise %v, want 0", mean)
	}
	if tally.N0 != 0 || tally.N != 200000 || tally.Counts[0]+tally.Counts[1]+tally.Counts[2] != tally.N {
		t.Errorf("tally %v", *tally)
	}
	// The test needs P(x+1 > y and x+1 > −x−y) for x ~ N(0, ¼) and y ~ N(0.3, ¼). The sum below computes this
	// probability by the midpoint rule in two dimensions.
	p := 0.0
	const h = 0.01
	for x := -4.0; x < 4; x += h {
		for y := -4.0; y < 4; y += h {
			if u, v := 0.5*x, 0.3+0.5*y; u+1 > v && u+1 > -u-v {
				p += math.Exp(-(x*x+y*y)/2) / (2 * math.Pi) * h * h
			}
		}
	}
	// The tolerance is 5 standard errors of a proportion plus 0.001 for the error of the midpoint rule.
	if got := float64(tally.Counts[0]) / 200000; math.Abs(got-p) > 5*math.Sqrt(p*(1-p)/200000)+0.001 {
		t.Errorf("class 0 won %v of the votes, want %v", got, p)
	}
}

func TestSamplerErrors(t *testing.T) {
	boom := errors.New("boom")
	tests := []struct {
		name   string
		class  Classifier
		source func(log *[]string) func() (Experiment, error)
		want   string
	}{
		{"model fails", &linear{batch: 8, fail: func(call int64) error {
			if call == 5 {
				return boom
			}
			return nil
		}}, nil, "boom"},
		{"source fails", &linear{batch: 8}, func(log *[]string) func() (Experiment, error) {
			next := sourceOf(examples(2, []int64{50}, log), false)
			return func() (Experiment, error) {
				if e, _ := next(); e != nil {
					return e, nil
				}
				return nil, boom
			}
		}, "boom"},
		{"wrong length", &linear{batch: 8}, func(log *[]string) func() (Experiment, error) {
			es := examples(1, []int64{50}, log)
			es[0].clean = []float32{1}
			return sourceOf(es, false)
		}, "example 0: input has 1 values, the model wants 2"},
		{"no samples", &linear{batch: 8}, func(log *[]string) func() (Experiment, error) {
			return sourceOf(examples(1, nil, log), false)
		}, "example 0: no samples asked for"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := runtime.NumGoroutine()
			var log []string
			source := sourceOf(examples(4, []int64{100}, &log), true)
			if tt.source != nil {
				source = tt.source(&log)
			}
			s := Sampler{Classifier: tt.class, N0: 5, Workers: 3}
			err := s.Run(t.Context(), source)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			for i := 0; runtime.NumGoroutine() > before; i++ {
				if i == 1000 {
					t.Fatalf("%d goroutines before, %d after", before, runtime.NumGoroutine())
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
}

// The type 'failing' is an experiment with one method that fails. The field 'call' names this method.
type failing struct {
	recorded
	call string
	from int64 // smallest number of estimation samples at which Goal fails, if 'call' is "goal"
}

var errExperiment = errors.New("the experiment fails")

func (f *failing) Goal(v Votes) (int64, error) {
	if f.call == "goal" && v.N >= f.from {
		return 0, errExperiment
	}
	return f.recorded.Goal(v)
}

func (f *failing) Finish(v Votes) error {
	if f.call == "finish" {
		return errExperiment
	}
	return f.recorded.Finish(v)
}

func (f *failing) Emit() error {
	if f.call == "emit" {
		return errExperiment
	}
	return f.recorded.Emit()
}

// TestExperimentErrors checks that a run ends with the error of an experiment, and that the example is not emitted.
func TestExperimentErrors(t *testing.T) {
	for _, f := range []failing{{call: "goal"}, {call: "goal", from: 40}, {call: "goal", from: 80}, {call: "finish"}, {call: "emit"}} {
		var log []string
		f.recorded = examples(1, []int64{40, 80}, &log)[0].recorded
		left := 1
		s := Sampler{Classifier: &linear{batch: 8}, N0: 5, Workers: 2}
		err := s.Run(t.Context(), func() (Experiment, error) {
			if left--; left < 0 {
				return nil, nil
			}
			return &f, nil
		})
		if !errors.Is(err, errExperiment) || len(log) > 0 || f.call == "goal" && f.final != nil {
			t.Errorf("%s from %d: error %v, emitted %v, final votes %v", f.call, f.from, err, log, f.final)
		}
	}
}

func TestVote(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, c := range []struct {
		outputs []float32
		want    int
	}{
		{[]float32{1, 3, 2}, 1},
		{[]float32{0, 3, 3}, 1}, // in a tie the first class wins
		{[]float32{-inf, -3, -inf}, 1},
		{[]float32{-3, -inf}, 0},
		{[]float32{-math.MaxFloat32, math.MaxFloat32}, 1},
		{[]float32{1, nan, 0}, none},
		{[]float32{nan, 1, 0}, none},
		{[]float32{1, 0, nan}, none},
		{[]float32{0, inf}, none},
		{[]float32{inf, nan}, none},
		{[]float32{-inf, nan}, none},
		{[]float32{-inf, -inf}, none},
	} {
		if got := Vote(c.outputs); got != c.want {
			t.Errorf("%v votes for %d, want %d", c.outputs, got, c.want)
		}
		// certify.IsNone must return true for exactly the outputs that vote for no class.
		if got := certify.IsNone(c.outputs); got != (c.want == none) {
			t.Errorf("%v is no answer: %v", c.outputs, got)
		}
	}
}

// The type 'partial' is a model that returns NaN where the second coordinate of its input is below 0.
type partial struct{ linear }

func (c *partial) Run(ctx context.Context, in, out []float32) error {
	err := c.linear.Run(ctx, in, out)
	for i := range c.batch {
		if in[2*i+1] < 0 {
			out[3*i+1] = float32(math.NaN())
		}
	}
	return err
}

// An output without an answer must vote for no class. The sampler must count it in the example's None0 in the selection
// phase, and in None in the estimation phase. The run must continue, and an Observer must receive the output.
func TestNoneIsCounted(t *testing.T) {
	var log []string
	es := examples(3, []int64{2000}, &log)
	// In the first example no output has a NaN. In the second example about half of the outputs have a NaN, and in the
	// third example all outputs have one.
	for i, y := range []float32{100, 0, -100} {
		es[i].clean[1] = y
	}
	s := Sampler{Classifier: &partial{linear{batch: 8}}, N0: 400, Workers: 3}
	if err := s.Run(t.Context(), sourceOf(es, true)); err != nil {
		t.Fatal(err)
	}
	for i, e := range es {
		v := *e.final
		sum0, sum := v.None0, v.None
		for k := range v.Counts {
			sum0, sum = sum0+v.Counts0[k], sum+v.Counts[k]
		}
		if sum0 != 400 || v.N0 != 400 || sum != 2000 || v.N != 2000 {
			t.Errorf("example %d: %+v: %d and %d samples are counted", i, v, sum0, sum)
		}
		// In the second example half of the samples have no answer. The tolerance is 5 standard deviations of the
		// binomial distribution: 50 for 400 samples, and 112 for 2000 samples.
		low0, high0, low, high := int64(150), int64(250), int64(888), int64(1112)
		if i == 0 {
			low0, high0, low, high = 0, 0, 0, 0
		}
		if i == 2 {
			low0, high0, low, high = 400, 400, 2000, 2000
		}
		if v.None0 < low0 || v.None0 > high0 || v.None < low || v.None > high {
			t.Errorf("example %d: %d and %d votes for nobody", i, v.None0, v.None)
		}
		var nans [phases]int64
		for phase := range nans {
			for _, x := range e.outputs[phase] {
				if x != x {
					nans[phase]++
				}
			}
		}
		if nans != [phases]int64{v.None0, v.None} {
			t.Errorf("example %d: the observer saw %v outputs with NaN, %d and %d are counted", i, nans, v.None0, v.None)
		}
	}
}

// The noise must differ between examples, phases, samples and coordinates. The test checks floating-point noise and
// lattice noise. With the same clean input, no two samples may be equal, not even a selection sample and an estimation
// sample. No coordinate may have the noise of another coordinate. If examples shared noise, their certificates would
// not be independent. If phases shared noise, the noise that chose a class would also certify this class.
func TestNoiseIsNeverShared(t *testing.T) {
	// The step is σ/3640. The probability that at least two of 2,000 samples agree in both coordinates by chance is
	// 0.01. With this seed, no two samples agree in both.
	lattice := latticeNoise(t, Lattice{Step: big.NewRat(1, greatestRatio), Low: 0, High: 1}, 1, []float64{0}, []float64{1})
	onLattice, err := lattice.Input([]int32{1, 1}, func(int) int { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	for name, input := range map[string]Input{
		"float":   FloatInput{Values: []float32{0, 0}, Scale: []float32{1, 1}},
		"lattice": onLattice,
	} {
		var log []string
		es := examples(4, []int64{300}, &log)
		for _, e := range es {
			e.input = input
		}
		s := Sampler{Classifier: &linear{batch: 16}, Seed: 5, N0: 200, Workers: 2}
		if err := s.Run(t.Context(), sourceOf(es, true)); err != nil {
			t.Fatal(err)
		}
		first := map[[3]float32]string{}
		same := 0 // number of samples whose two coordinates have the same noise
		for i, e := range es {
			for phase, outputs := range e.outputs {
				for k := 0; k < len(outputs); k += 3 {
					row, place := [3]float32(outputs[k:k+3]), fmt.Sprintf("%s: example %d, phase %d, sample %d", name, i, phase, k/3)
					if other, ok := first[row]; ok {
						t.Fatalf("%s has the noise of %s", place, other)
					}
					first[row] = place
					if row[0]-1 == row[1] {
						same++
					}
				}
			}
		}
		// In a sample of lattice noise, the two coordinates may have the same noise by chance. The expected value of
		// 'same' is 2,000/(2√π·3640) = 0.15.
		if len(first) != 4*500 || same > 5 {
			t.Errorf("%s: %d samples were seen, both coordinates of %d are equal", name, len(first), same)
		}
		// Another seed must give other noise in every sample.
		again := examples(1, []int64{300}, &log)
		again[0].input, again[0].index = input, es[0].index
		s.Seed = 6
		if err := s.Run(t.Context(), sourceOf(again, true)); err != nil {
			t.Fatal(err)
		}
		for phase, outputs := range again[0].outputs {
			for k := 0; k < len(outputs); k += 3 {
				if other, ok := first[[3]float32(outputs[k:k+3])]; ok {
					t.Fatalf("with another seed phase %d, sample %d has the noise of %s", phase, k/3, other)
				}
			}
		}
	}
}

// The type 'padded' is a classifier that records the inputs of its last call.
type padded struct {
	linear
	last []float32
}

func (c *padded) Run(ctx context.Context, in, out []float32) error {
	c.last = append(c.last[:0], in...)
	return c.linear.Run(ctx, in, out)
}

// Rows without a sample must be zeros instead of samples of the previous batch. There are 20 samples and the clean
// input. So the first batch has 16 inputs, and the second batch has 5.
func TestPaddingIsZeros(t *testing.T) {
	var log []string
	c := &padded{linear: linear{batch: 16}}
	if err := (Sampler{Classifier: c, Workers: 1}).Run(t.Context(), sourceOf(examples(1, []int64{20}, &log), false)); err != nil {
		t.Fatal(err)
	}
	for i, x := range c.last {
		if (x == 0) != (i >= 2*5) {
			t.Errorf("value %d of the last batch, of 5 inputs, is %v", i, x)
		}
	}
}

func TestSamplerCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var log []string
	c := &linear{batch: 8, fail: func(call int64) error {
		if call == 40 {
			cancel()
		}
		return nil
	}}
	// The test uses only one worker. With several workers, a slow worker could delay a batch of the first example, and
	// then no example would be emitted before the end.
	s := Sampler{Classifier: c, Workers: 1}
	if err := s.Run(ctx, sourceOf(examples(20, []int64{100}, &log), false)); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if len(log) == 0 || len(log) > 5 {
		t.Errorf("%d examples emitted after 40 batches of 8 for 100 samples each", len(log))
	}
}

// TestSamplerClean checks that the input without noise is run once, and that its answer is kept apart from the votes.
func TestSamplerClean(t *testing.T) {
	for class, values := range [][]float32{{2, 0.3}, {0, 3}, {-3, 0.3}} { // the outputs are x+1, y, −x−y
		var log []string
		e := &observed{recorded{clean: values, sigma: 0.01, goals: []int64{10, 25}, log: &log}}
		var drawn int64
		s := Sampler{Classifier: &linear{batch: 4}, Seed: 1, N0: 5, Workers: 1, Progress: func(n int64) { drawn += n }}
		if err := s.Run(t.Context(), sourceOf([]*observed{e}, true)); err != nil {
			t.Fatal(err)
		}
		if e.final.Clean != class || e.final.N0 != 5 || e.final.N != 25 || drawn != 30 {
			t.Errorf("clean vote %d of votes %+v, %d samples; want %d", e.final.Clean, *e.final, drawn, class)
		}
		if len(e.outputs[Estimation]) != 3*25 {
			t.Errorf("the observer saw %d outputs", len(e.outputs[Estimation])/3)
		}
	}
}
