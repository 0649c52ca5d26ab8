package smoothing

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// A makingDevice is a device that makes noise itself from Rows and Draws. Like the type device, it writes its mark into
// every output, and tests can make it fail.
type makingDevice struct {
	*device
	noise *LatticeNoise
	draws Draws
	noisy atomic.Int64 // number of calls of RunNoisy
}

func (d *makingDevice) Noise() *LatticeNoise { return d.noise }

func (d *makingDevice) RunNoisy(ctx context.Context, rows *Rows, votes []int32, outputs []float32) error {
	d.noisy.Add(1)
	in, out := make([]float32, d.batch*2), make([]float32, d.batch*3)
	for i := range d.batch {
		for k := range 2 {
			in[2*i+k] = d.draws.value(rows.Places[rows.Example[i]][k], rows.Start[i], rows.Key[i], uint64(k))
		}
	}
	if err := d.Run(ctx, in, out); err != nil {
		// After a failed call on a real device, the slice 'votes' may hold arbitrary numbers. This device writes wrong
		// votes into it.
		for i := range votes {
			votes[i] = 2
		}
		return err
	}
	for i := range votes {
		votes[i] = int32(Vote(out[3*i : 3*i+3]))
	}
	if outputs != nil {
		copy(outputs, out)
	}
	return nil
}

// A blindExperiment passes all calls on to a restartable. It has no method Observe, so it receives no outputs.
type blindExperiment struct{ r *restartable }

func (b blindExperiment) Input() (int, Input)         { return b.r.Input() }
func (b blindExperiment) Goal(v Votes) (int64, error) { return b.r.Goal(v) }
func (b blindExperiment) Finish(v Votes) error        { return b.r.Finish(v) }
func (b blindExperiment) Emit() error                 { return b.r.Emit() }

func (b blindExperiment) Restart() (Experiment, error) {
	fresh, err := b.r.Restart()
	return blindExperiment{fresh.(*restartable)}, err
}

// TestLanesMakeNoise runs several devices. Some devices make their own noise, one device fails at some call, and some
// experiments receive the outputs of their samples. The results must equal the results of one device with noise made on
// the host. All samples of an example must come from one device.
func TestLanesMakeNoise(t *testing.T) {
	const n = 7
	noise := plainNoise(t)
	draws, err := noise.Draws()
	if err != nil {
		t.Fatal(err)
	}
	// The function 'run' draws samples on k devices. The slice 'makers' holds the indices of the devices that make
	// noise themselves.
	run := func(name string, k, batch int, failFrom int64, makers []int) (log []string, es []*restartable, lost int) {
		es, source := restartables(n, []int64{10, 33, 150}, &log)
		for i, e := range es {
			in, err := noise.Input([]int32{int32(30 * i), int32(255 - 30*i)}, twoChannels)
			if err != nil {
				t.Fatal(err)
			}
			e.input = in
		}
		// The field Compare stays nil, so it adds no comparisons. For a comparison, the host makes the noise. But in
		// this test, a device that makes noise must make the noise of all its batches.
		s := Sampler{Seed: 8, N0: 11, Workers: 3}
		var made []*makingDevice
		for i, d := range newDevices(k, batch, failFrom) {
			var c Classifier = d
			if slices.Contains(makers, i) {
				m := &makingDevice{device: d, noise: noise, draws: draws}
				made = append(made, m)
				c = m
			}
			if i == 0 {
				s.Classifier = c
			} else {
				s.Replicas = append(s.Replicas, c)
			}
		}
		var mu sync.Mutex
		var drawn int64
		s.Progress = func(n int64) {
			mu.Lock()
			defer mu.Unlock()
			drawn += n
		}
		s.Lost = func(_ Classifier, _ int, err error) {
			if lost++; !errors.Is(err, errDevice) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := s.Run(t.Context(), func() (Experiment, error) {
			e, err := source()
			if r, ok := e.(*restartable); ok && r.index%2 == 1 {
				return blindExperiment{r}, err
			}
			return e, err
		}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, m := range made {
			if m.noisy.Load() != m.calls.Load() {
				t.Errorf("%s: a device made the noise of %d batches of %d", name, m.noisy.Load(), m.calls.Load())
			}
		}
		if drawn != n*161 {
			t.Errorf("%s: %d samples are counted, want %d", name, drawn, n*161)
		}
		return log, es, lost
	}
	want, wantExamples, _ := run("here", 1, 64, 0, nil)
	losses := 0
	for _, k := range []int{1, 2, 3} {
		for _, makers := range [][]int{{0, 1, 2}, {0}, {k - 1}} {
			for _, batch := range []int{7, 64} {
				for _, failFrom := range []int64{0, 1, 2, 4, 8} {
					if k == 1 && failFrom > 0 {
						continue
					}
					name := fmt.Sprintf("%d devices, noise by %v, batch %d, fails from call %d", k, makers, batch, failFrom)
					log, es, lost := run(name, k, batch, failFrom, makers)
					losses += lost
					if !reflect.DeepEqual(log, want) || len(log) != n {
						t.Errorf("%s: emitted\n%v\nwant\n%v", name, log, want)
					}
					for i, e := range es {
						if _, err := unmark(e.observed); err != nil {
							t.Errorf("%s: %v", name, err)
						}
						if !reflect.DeepEqual(e.asked, wantExamples[i].asked) || !reflect.DeepEqual(e.outputs, wantExamples[i].outputs) {
							t.Errorf("%s: example %d, begun %d times, has other samples", name, i, 1+e.begun)
						}
						if seen := len(e.outputs[Estimation]); (seen == 3*150) != (e.index%2 == 0) || seen%(3*150) != 0 {
							t.Errorf("%s: example %d has seen %d outputs", name, i, seen)
						}
					}
				}
			}
		}
	}
	if losses == 0 {
		t.Error("no device failed")
	}
}
