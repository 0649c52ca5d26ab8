package smoothing

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The type 'resizable' is a linear model that also offers smaller batches. It counts the calls with each batch size.
type resizable struct {
	dependentModel
	smaller []int
	all     map[int]*dependentModel // the models for smaller batches, by batch size
}

func newResizable(see func(in []float32, row int, outputs []float32), sizes ...int) *resizable {
	last := len(sizes) - 1
	c := &resizable{smaller: sizes[:last], all: map[int]*dependentModel{}}
	c.dependentModel.batch, c.see = sizes[last], see
	for _, size := range c.smaller {
		c.all[size] = &dependentModel{linear{batch: size}, see}
	}
	return c
}

func (c *resizable) Smaller() (all []Classifier) {
	for _, size := range c.smaller {
		all = append(all, c.all[size])
	}
	return all
}

// callsBySize returns the number of calls of each size, in ascending order of the sizes.
func (c *resizable) callsBySize() (calls []int64) {
	for _, size := range c.smaller {
		calls = append(calls, c.all[size].calls.Load())
	}
	return append(calls, c.dependentModel.calls.Load())
}

func unchanged([]float32, int, []float32) {}

// runEager runs examples that have all arrived before the first batch. Only one of the workers works, so that the
// number of calls does not depend on chance. The function returns the examples and the error of this worker.
func runEager(t *testing.T, s Sampler, goal int64, n int) (all []*keyed, err error) {
	t.Helper()
	done := make(chan int, n)
	for i := range n {
		all = append(all, newKeyed(i, uint64(1000+i), 0, done, goal))
	}
	sched := newScheduler(t.Context(), s)
	for _, e := range all {
		sched.arrivals <- e
	}
	close(sched.arrivals)
	return all, s.work(t.Context(), sched, sched.lanes[0])
}

// TestBatchesGrow checks that a worker takes larger batches if more samples wait, and that the samples are divided
// among the workers. To choose the size of the next batch, the sampler adds up the waiting samples, but it counts at
// most 4 samples of each example. The number 4 is the smallest batch size. Outputs and votes must not depend on the
// sizes.
func TestBatchesGrow(t *testing.T) {
	for _, c := range []struct {
		examples, workers int
		goal              int64
		want              []int64 // numbers of calls with 4, with 8 and with 32 rows
	}{
		{1, 1, 3, []int64{1, 0, 0}},
		{1, 1, 4, []int64{1, 0, 0}},
		{1, 1, 7, []int64{2, 0, 0}},   // a full batch and a partial one
		{1, 1, 8, []int64{2, 0, 0}},   // the sampler counts 4 of the 8 waiting samples: enough only for a batch of 4
		{3, 1, 96, []int64{2, 35, 0}}, // the sampler counts 3·4 = 12 waiting samples: too few for a batch of 32
		// the sampler counts 3·4 = 12 of the 30 waiting samples: enough for a batch of 8; after three such batches, two
		// batches of 4 take the last 6 samples
		{3, 1, 10, []int64{2, 3, 0}},
		// The sampler counts 8·4 = 32 waiting samples: enough for a batch of 32. This batch takes all samples of 3
		// examples and 2 samples of a fourth. After that, it counts at most 5·4 = 20 waiting samples: enough only for
		// batches of 8.
		{8, 1, 10, []int64{0, 6, 1}},
		// The sampler counts 8·4 = 32 waiting samples. This is 8 samples per worker, so the first batch has 8 rows. The
		// later batches have 4 rows.
		{8, 4, 10, []int64{18, 1, 0}},
	} {
		model := newResizable(unchanged, 4, 8, 32)
		s := Sampler{Classifier: model, Workers: c.workers, Eager: true, SkipClean: true}
		all, err := runEager(t, s, c.goal, c.examples)
		if err != nil {
			t.Fatal(err)
		}
		if got := model.callsBySize(); !slices.Equal(got, c.want) {
			t.Errorf("%d examples, %d workers, goal %d: calls %v, want %v", c.examples, c.workers, c.goal, got, c.want)
		}
		for i, got := range all {
			var log []string
			want := &observed{recorded{index: i, sigma: .5, clean: []float32{.2, .3}, goals: []int64{c.goal}, log: &log}}
			alone := Sampler{Classifier: &linear{batch: 7}, Seed: uint64(1000 + i), Workers: 1, SkipClean: true}
			if err := alone.Run(t.Context(), sourceOf([]*observed{want}, true)); err != nil {
				t.Fatal(err)
			}
			same := reflect.DeepEqual(got.outputs, want.outputs) && slices.Equal(got.final.Counts, want.final.Counts)
			if !same || got.final.Clean != none {
				t.Errorf("example %d: %v, alone %v", i, got.final, want.final)
			}
		}
	}
}

// TestSizeDependenceIsCaught samples a model whose output for an input has other bits in a large batch than in a small
// batch. The sampler reruns a sample of a large batch in a small batch, and must then end with an error.
func TestSizeDependenceIsCaught(t *testing.T) {
	model := newResizable(func(in []float32, _ int, out []float32) { ulp(&out[1], len(in) > 2*8) }, 4, 8, 32)
	s := Sampler{Classifier: model, Workers: 1, Eager: true, SkipClean: true, Compare: always}
	_, err := runEager(t, s, 8, 1)
	if err != nil {
		t.Errorf("in small batches: %v", err)
	}
	_, err = runEager(t, s, 10, 8)
	var found *DependenceError
	want := "changes with the size of its batch: example 0, estimation sample 0, class 1"
	if !errors.As(err, &found) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v", err)
	}
}
