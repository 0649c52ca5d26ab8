package smoothing

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rscert/rscert/internal/hint"
)

// A dependentModel is a linear model whose outputs for an input may depend on other inputs. The function 'see' gets the
// whole batch, and changes the outputs [3] of one row.
type dependentModel struct {
	linear
	see func(in []float32, row int, outputs []float32)
}

func (c *dependentModel) Run(ctx context.Context, in, out []float32) error {
	err := c.linear.Run(ctx, in, out)
	for i := range c.batch {
		c.see(in, i, out[3*i:3*i+3])
	}
	return err
}

func largest(in []float32) float32 {
	most := float32(0)
	for _, v := range in {
		most = max(most, v)
	}
	return most
}

// ulp changes an output by one unit in the last place if 'up' is true.
func ulp(x *float32, up bool) {
	if up {
		*x = math.Float32frombits(math.Float32bits(*x) ^ 1)
	}
}

// The map 'dependent' holds models whose output for an input depends on more than this input.
var dependent = map[string]struct {
	see  func(in []float32, row int, outputs []float32)
	says string
}{
	"scaled by the largest value": {func(in []float32, _ int, out []float32) { out[0] /= largest(in) }, "the other inputs of its batch"},
	// The noise of σ = 0.5 produces no inputs above 6. So only the strange inputs (see runAmongOthers) show that this
	// model's output depends on the other inputs of its batch.
	"one bit where another is large": {func(in []float32, _ int, out []float32) { ulp(&out[1], largest(in) > 6) }, "the other inputs of its batch"},
	"sum of the rows before": {func(in []float32, row int, out []float32) {
		for i := range row {
			out[2] += in[2*i]
		}
	}, "its place in the batch"},
	"one bit in the last row": {func(in []float32, row int, out []float32) { ulp(&out[2], row == len(in)/2-1) }, "its place in the batch"},
}

func TestDependenceIsCaught(t *testing.T) {
	for name, d := range dependent {
		for _, observe := range []bool{true, false} {
			for _, batch := range []int{2, 7, 64} {
				var log []string
				s := Sampler{
					Classifier: &dependentModel{linear{batch: batch}, d.see}, Seed: 3, N0: 5, Workers: 2,
					Compare: func(index int) bool { return index == 3 },
				}
				err := s.Run(t.Context(), sourceOf(examples(4, []int64{200}, &log), observe))
				var found *DependenceError
				if !errors.As(err, &found) {
					t.Fatalf("%s, batch %d: %v", name, batch, err)
				}
				want := fmt.Sprintf("the model's output for an input changes with %s: example 3, selection sample 0, class ", d.says)
				if !strings.HasPrefix(err.Error(), want) {
					t.Errorf("%s, batch %d: %v", name, batch, err)
				}
				if advice, _ := hint.Of(err); !strings.Contains(advice, "batch 1") {
					t.Errorf("%s: hint %q", name, advice)
				}
			}
		}
	}
}

// The test searches for a seed that chooses no samples for comparison. Runs of the models in the map 'dependent' must
// then succeed. This shows that only the comparison finds the dependence.
func TestDependenceIsFoundByComparing(t *testing.T) {
	const seed = 3
	var s Sampler
	for s = (Sampler{Seed: seed, N0: 5}); s.Compared(0, 200)+s.Compared(3, 200)+s.Compared(6, 200)+s.Compared(9, 200) > 0; {
		s.Seed++
	}
	for name, d := range dependent {
		var log []string
		s.Classifier = &dependentModel{linear{batch: 64}, d.see}
		if err := s.Run(t.Context(), sourceOf(examples(4, []int64{200}, &log), false)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The type 'random' stands for a model that draws random numbers. In every second call, it changes one bit of the first
// output, so two successive calls never give the same outputs for the same inputs.
type random struct{ linear }

func (c *random) Run(ctx context.Context, in, out []float32) error {
	err := c.linear.Run(ctx, in, out)
	ulp(&out[0], c.calls.Load()%2 == 0)
	return err
}

func always(int) bool { return true }

func TestBatchOfOneIsCompared(t *testing.T) {
	var log []string
	s := Sampler{Classifier: &linear{batch: 1}, Seed: 3, N0: 5, Workers: 1, Compare: always}
	if err := s.Run(t.Context(), sourceOf(examples(2, []int64{20}, &log), true)); err != nil {
		t.Error(err)
	}
	s.Classifier = &random{linear{batch: 1}}
	err := s.Run(t.Context(), sourceOf(examples(1, []int64{20}, &log), true))
	if err == nil || !strings.Contains(err.Error(), "changes with the call: example 0") {
		t.Errorf("error %v", err)
	}
}

// Two NaNs must count as equal even if their bits differ.
func TestDifferentClass(t *testing.T) {
	nan := float32(math.NaN())
	other := math.Float32frombits(math.Float32bits(nan) ^ 1)
	negative := float32(math.Copysign(0, -1))
	for _, c := range []struct {
		a, b []float32
		want int
	}{
		{[]float32{1, nan}, []float32{1, other}, -1},
		{[]float32{1, nan}, []float32{1, 2}, 1},
		{[]float32{1, 2}, []float32{1, nan}, 1},
		{[]float32{0, 2}, []float32{negative, 2}, 0},
		{[]float32{1, 2}, []float32{1, math.Nextafter32(2, 3)}, 1},
	} {
		if k := differentClass(c.a, c.b); k != c.want {
			t.Errorf("%v and %v: %d, want %d", c.a, c.b, k, c.want)
		}
	}
}

// The number of compared samples must not depend on batches and workers. The method Compared must return this number,
// even for an example whose goal (its total number of estimation samples) is raised several times. The test searches
// for a seed with which at least three samples of one example are compared.
func TestComparedCounts(t *testing.T) {
	const most = 20000
	for _, n0 := range []int64{0, most / 2} {
		s := Sampler{N0: n0, Compare: func(i int) bool { return i == 0 }}
		counts := func() (all []int64) {
			for i := range 4 {
				all = append(all, s.Compared(3*i, most))
			}
			return all
		}
		want := counts()
		for ; slices.Max(want) < 3; want = counts() {
			s.Seed++
		}
		for _, batch := range []int{64, 1, 50000} {
			for _, workers := range []int{1, 3} {
				var log []string
				es := examples(4, []int64{10, 11, 37, most}, &log)
				s.Classifier, s.Workers = &linear{batch: batch}, workers
				if err := s.Run(t.Context(), sourceOf(es, false)); err != nil {
					t.Fatal(err)
				}
				var got []int64
				for _, e := range es {
					got = append(got, e.final.Compared)
				}
				if got[0] < 1 || !reflect.DeepEqual(got, want) {
					t.Errorf("n0 %d, batch %d, workers %d: compared %v, want %v", n0, batch, workers, got, want)
				}
			}
		}
	}
}

// TestComparedShare checks how many samples are rerun and compared. On average, one of every 'comparedSamples' samples
// must be compared. In addition, the first sample must be compared in one of every 'comparedExamples' examples. The
// tolerance is five standard deviations. The test also checks what share of the model calls is made for comparisons. It
// must be at most 1 % with 10,000 samples per example, and at most 2 % with 1,000 samples per example.
func TestComparedShare(t *testing.T) {
	const n, examples = 1 << 25, 20000
	s := Sampler{Seed: 11, N0: 1}
	if k := float64(s.Compared(5, n)); math.Abs(k-n/comparedSamples) > 5*math.Sqrt(n/comparedSamples) {
		t.Errorf("%v of %d samples are compared", k, n)
	}
	first := 0.
	for i := range examples {
		if s.compares(i, Selection)(0) {
			first++
		}
	}
	mean := examples * (1./comparedExamples + 1./comparedSamples)
	if math.Abs(first-mean) > 5*math.Sqrt(mean) {
		t.Errorf("the first sample of %v of %d examples is compared", first, examples)
	}
	for _, c := range []struct{ batch, samples, most float64 }{{64, 10000, .01}, {256, 10000, .01}, {1024, 10000, .01}, {64, 1000, .02}, {256, 1000, .02}} {
		if share := 2 * c.batch * (1./comparedSamples + 1/(comparedExamples*c.samples)); share > c.most {
			t.Errorf("batches of %v, n = %v: %.2f %% of the calls", c.batch, c.samples, 100*share)
		}
	}
}

// If a model refuses strange inputs, noisy inputs must replace them.
func TestCompanyThatIsRefused(t *testing.T) {
	refused := errors.New("no such index")
	var calls atomic.Int64
	c := &dependentModel{linear{batch: 16}, func([]float32, int, []float32) {}}
	picky := pickyClassifier{c, func(in []float32) error {
		if calls.Add(1); largest(in) > 6 {
			return refused
		}
		return nil
	}}
	var log []string
	s := Sampler{Classifier: picky, Seed: 3, N0: 5, Workers: 1, Compare: always}
	es := examples(1, []int64{20}, &log)
	if err := s.Run(t.Context(), sourceOf(es, true)); err != nil {
		t.Fatal(err)
	}
	if es[0].final.Compared != 1 || calls.Load() < 5 {
		t.Errorf("compared %d in %d calls", es[0].final.Compared, calls.Load())
	}
	c.see = dependent["sum of the rows before"].see
	if err := s.Run(t.Context(), sourceOf(examples(1, []int64{20}, &log), true)); err == nil {
		t.Error("dependence is not noticed")
	}
}

type pickyClassifier struct {
	Classifier
	check func(in []float32) error
}

func (c pickyClassifier) Run(ctx context.Context, in, out []float32) error {
	if err := c.check(in); err != nil {
		return err
	}
	return c.Classifier.Run(ctx, in, out)
}

// If the device made a sample's noise, the comparison of this sample uses inputs made on the host. The comparison
// covers the outputs if the device returned them, and otherwise the votes.
func TestComparedOnDevice(t *testing.T) {
	noise := plainNoise(t)
	in, err := noise.Input([]int32{100, 30}, twoChannels)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		observe bool
		spoil   func(votes []int32, outputs []float32)
		says    string
	}{
		"votes":         {},
		"scores":        {observe: true},
		"another vote":  {false, func(votes []int32, _ []float32) { votes[1] = (votes[1] + 1) % 3 }, "the model's vote for an input changes with where its noise is made: example 3"},
		"another score": {true, func(_ []int32, outputs []float32) { ulp(&outputs[3*1], true) }, "the model's output for an input changes with where its noise is made: example 3, selection sample 0, class 0"},
	} {
		t.Run(name, func(t *testing.T) {
			var log []string
			g := newGadget(t, 16, noise)
			g.spoil = c.spoil
			e := &observed{recorded{index: 3, input: in, goals: []int64{50}, log: &log}}
			source := sourceOf([]*observed{e}, c.observe)
			s := Sampler{Classifier: g, Seed: 3, N0: 5, Workers: 1, Compare: always}
			err := s.Run(t.Context(), source)
			if c.says == "" {
				if err != nil || e.final.Compared < 1 || g.noisy.Load() == 0 {
					t.Errorf("compared %v, %v", e.final, err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), c.says) {
				t.Errorf("error %v", err)
			}
			if advice, _ := hint.Of(err); !strings.Contains(advice, "noise-on host") {
				t.Errorf("hint %q", advice)
			}
		})
	}
}

// If a device's outputs depend on other inputs, the run must end with a DependenceError. The sampler must not treat
// this as a failure of the device: other devices must not redraw the device's examples.
func TestDependenceOnReplica(t *testing.T) {
	var log []string
	see := dependent["scaled by the largest value"].see
	s := Sampler{
		Classifier: &dependentModel{linear{batch: 8}, see}, Replicas: []Classifier{&dependentModel{linear{batch: 8}, see}},
		Seed: 3, N0: 5, Workers: 4, Compare: always,
		Lost: func(Classifier, int, error) { t.Error("the device is said to have failed") },
	}
	err := s.Run(t.Context(), sourceOf(examples(4, []int64{50}, &log), false))
	var found *DependenceError
	if !errors.As(err, &found) {
		t.Errorf("error %v", err)
	}
}

// BenchmarkCompares measures how long it takes to decide which of the 64 samples of a call are rerun for comparison.
// Every call takes this time, even if none of its samples is rerun.
func BenchmarkCompares(b *testing.B) {
	s := Sampler{Seed: 1, N0: 100}
	chosen := 0
	for n := range b.N {
		compares := s.compares(5, Estimation)
		for i := range int64(64) {
			if compares(64*int64(n) + i) {
				chosen++
			}
		}
	}
	if chosen > b.N {
		b.Errorf("%d samples of %d calls", chosen, b.N)
	}
	b.ReportMetric(100*2*64*(1./comparedSamples+1./(comparedExamples*10000)), "%calls")
}
