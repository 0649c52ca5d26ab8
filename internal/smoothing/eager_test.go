package smoothing

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
)

// The type 'keyed' adds a seed and an n0 to the type 'observed'. When a keyed experiment ends, it sends its index on a
// channel.
type keyed struct {
	observed
	seed uint64
	n0   int64
	done chan int // buffered; receives the index of the ended experiment
}

func (k *keyed) Key() (seed uint64, n0 int64) { return k.seed, k.n0 }

func (k *keyed) Emit() error {
	k.done <- k.index
	return nil
}

func newKeyed(index int, seed uint64, n0 int64, done chan int, goals ...int64) *keyed {
	return &keyed{observed{recorded{index: index, sigma: .5, clean: []float32{.2, .3}, goals: goals}}, seed, n0, done}
}

// TestEager runs examples that arrive one at a time. Each example arrives after the previous example has ended. A
// sampler that waits for a full batch would never end. Each example has its own seed and n0, which its method Key
// returns. The example's outputs must equal the outputs of a sampler whose fields Seed and N0 have these values.
func TestEager(t *testing.T) {
	for _, workers := range []int{1, 3} {
		done := make(chan int, 1)
		var asked []*keyed
		s := Sampler{Classifier: &linear{batch: 64}, Seed: 99, N0: 5, Workers: workers, Eager: true}
		err := s.Run(t.Context(), func() (Experiment, error) {
			if n := len(asked); n > 0 {
				<-done
			}
			if len(asked) == 6 {
				return nil, nil
			}
			i := len(asked)
			asked = append(asked, newKeyed(i, uint64(1000+i), int64(3*(i%2)), done, 10, 30))
			return asked[i], nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range asked {
			var log []string
			want := &observed{recorded{index: i, sigma: .5, clean: []float32{.2, .3}, goals: []int64{10, 30}, log: &log}}
			alone := Sampler{Classifier: &linear{batch: 7}, Seed: uint64(1000 + i), N0: int64(3 * (i % 2)), Workers: 1}
			if err := alone.Run(t.Context(), sourceOf([]*observed{want}, true)); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got.outputs, want.outputs) || !reflect.DeepEqual(got.final, want.final) {
				t.Errorf("%d workers, example %d: %v, alone %v", workers, i, got.final, want.final)
			}
		}
	}
}

// TestEagerOvertakes sends a short example while a long example is sampled. The short example must end first.
func TestEagerOvertakes(t *testing.T) {
	arrive, done := make(chan *keyed, 4), make(chan int, 4)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var drawn atomic.Int64
	short := newKeyed(1, 2, 0, done, 15)
	s := Sampler{Classifier: &linear{batch: 16}, Workers: 1, Eager: true, Progress: func(n int64) {
		if drawn.Add(n) > 3000 && short != nil { // the sampler has one worker, so calls of Progress do not overlap
			arrive <- short
			short = nil
		}
	}}
	arrive <- newKeyed(0, 1, 0, done, 2_000_000)
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, func() (Experiment, error) {
			select {
			case k := <-arrive:
				return k, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
	}()
	if first := <-done; first != 1 {
		t.Error("the long example ended first")
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(fmt.Errorf("after cancellation: %w", err))
	}
}

// abandonable adds the method Abandoned to the type 'keyed'. A test abandons the experiment by setting 'gone' to true.
type abandonable struct {
	*keyed
	gone atomic.Bool
}

func (a *abandonable) Abandoned() bool { return a.gone.Load() }

// TestAbandoned abandons an example at one of several moments: in its selection phase, in its estimation phase, or
// before it is sampled. After that, the workers may finish only the batches that are already running. The sampler must
// make no decision about the abandoned example, but must emit the example exactly once. Later examples must finish.
func TestAbandoned(t *testing.T) {
	const batch = 16
	for _, c := range []struct {
		name    string
		n0      int64
		after   int64 // number of samples before the example is abandoned
		workers int
	}{{"selection", 1 << 30, 1000, 1}, {"estimation", 0, 1000, 1}, {"at once", 0, 0, 1}, {"several workers", 500, 1000, 3}} {
		t.Run(c.name, func(t *testing.T) {
			arrive, done := make(chan Experiment, 4), make(chan int, 4)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var drawn atomic.Int64
			long := &abandonable{keyed: newKeyed(0, 1, c.n0, done, 1<<40)}
			long.gone.Store(c.after == 0)
			s := Sampler{Classifier: &linear{batch: batch}, Workers: c.workers, Eager: true, Progress: func(n int64) {
				if drawn.Add(n) >= c.after {
					long.gone.Store(true)
				}
			}}
			arrive <- long
			ended := make(chan error, 1)
			go func() {
				ended <- s.Run(ctx, func() (Experiment, error) {
					select {
					case e := <-arrive:
						return e, nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				})
			}()
			if first := <-done; first != 0 {
				t.Fatalf("example %d ended first", first)
			}
			if n := drawn.Load(); n < c.after || n > c.after+int64(batch*(c.workers+1)) {
				t.Errorf("%d samples were drawn, want about %d", n, c.after)
			}
			if long.final != nil {
				t.Errorf("the abandoned example was decided: %+v", long.final)
			}
			arrive <- newKeyed(1, 2, 3, done, 15, 40)
			if next := <-done; next != 1 {
				t.Errorf("example %d was emitted again", next)
			}
			if n := drawn.Load() - c.after; n < 43 {
				t.Errorf("%d samples after the end, want 43 of the next example", n)
			}
			cancel()
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		})
	}
}
