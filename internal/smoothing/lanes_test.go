package smoothing

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A device runs the model 'linear'. It writes its own mark into the last bits of every output. Tests can make the
// device fail in chosen calls, or on chosen inputs.
type device struct {
	linear
	mark uint32
	bad  func(x float32) bool
}

// The constant 'marks' covers the last three bits of an output, which hold the device's mark. No vote depends on these
// bits.
const marks = 7

var errDevice = errors.New("the device fails")

func (d *device) Run(ctx context.Context, in, out []float32) error {
	if err := d.linear.Run(ctx, in, out); err != nil {
		return err
	}
	for i := range out {
		out[i] = math.Float32frombits(math.Float32bits(out[i])&^marks | d.mark)
	}
	for i := 0; d.bad != nil && i < len(in); i += 2 {
		if d.bad(in[i]) {
			return errDevice
		}
	}
	return nil
}

// newDevices returns k devices. If failFrom is not 0, the last device fails in its call number failFrom and in all
// later calls.
func newDevices(k, batch int, failFrom int64) []*device {
	devices := make([]*device, k)
	for i := range devices {
		devices[i] = &device{linear: linear{batch: batch}, mark: uint32(i)}
	}
	if failFrom > 0 {
		devices[k-1].fail = func(call int64) error {
			if call >= failFrom {
				return errDevice
			}
			return nil
		}
	}
	return devices
}

// onDevices returns a copy of s whose classifiers are the given devices.
func (s Sampler) onDevices(devices []*device) Sampler {
	s.Classifier = devices[0]
	for _, d := range devices[1:] {
		s.Replicas = append(s.Replicas, d)
	}
	return s
}

// A restartable is an experiment that can start again. A new experiment then takes its place in the list of
// experiments.
type restartable struct {
	*observed
	slot   **restartable
	thrown bool // the experiment was discarded
	begun  int
}

var errThrown = errors.New("an experiment that was thrown away is asked")

func (r *restartable) Restart() (Experiment, error) {
	if r.final != nil {
		return nil, errors.New("a finished experiment is begun again")
	}
	r.thrown = true
	o := r.observed
	fresh := &restartable{&observed{recorded{index: o.index, clean: o.clean, sigma: o.sigma, goals: o.goals, log: o.log, input: o.input}}, r.slot, false, r.begun + 1}
	*r.slot = fresh
	return fresh, nil
}

func (r *restartable) Goal(v Votes) (int64, error) {
	if r.thrown {
		return 0, errThrown
	}
	return r.observed.Goal(v)
}

func (r *restartable) Observe(phase Phase, outputs []float32) error {
	if r.thrown {
		return errThrown
	}
	return r.observed.Observe(phase, outputs)
}

// restartables returns n examples that can start again, and a source of these examples.
func restartables(n int, goals []int64, log *[]string) ([]*restartable, func() (Experiment, error)) {
	all := make([]*restartable, n)
	for i, e := range examples(n, goals, log) {
		all[i] = &restartable{observed: e, slot: &all[i]}
	}
	i := 0
	return all, func() (Experiment, error) {
		if i == n {
			return nil, nil
		}
		i++
		return all[i-1], nil
	}
}

// unmark removes the marks from the outputs of one example. It returns the mark of the example's device,
// or an error if there are several marks.
func unmark(e *observed) (mark uint32, err error) {
	for phase := range e.outputs {
		for i, v := range e.outputs[phase] {
			bits := math.Float32bits(v)
			if phase+i > 0 && bits&marks != mark {
				err = fmt.Errorf("example %d has samples of devices %d and %d", e.index, mark, bits&marks)
			}
			mark = bits & marks
			e.outputs[phase][i] = math.Float32frombits(bits &^ marks)
		}
	}
	return mark, err
}

// TestLanes checks that results do not depend on the number of devices. The results must also be the same if the last
// device fails. The test lets this device fail early, late or never. The other devices must redraw the unfinished
// examples of the failed device, and no example may mix samples from two devices.
func TestLanes(t *testing.T) {
	const n = 9
	for _, goals := range [][]int64{{300}, {10, 11, 37, 300}} {
		var want []string
		wantExamples, source := restartables(n, goals, &want)
		s := Sampler{Seed: 7, N0: 20, Workers: 3}
		if err := s.onDevices(newDevices(1, 64, 0)).Run(t.Context(), source); err != nil {
			t.Fatal(err)
		}
		used := map[uint32]bool{}
		for _, k := range []int{1, 2, 3, 5} {
			for _, batch := range []int{7, 64, 1000} {
				for _, failFrom := range []int64{0, 1, 2, 3, 5, 9, 20} {
					if k == 1 && failFrom > 0 {
						continue
					}
					name := fmt.Sprintf("goals %v, %d devices, batch %d, fails from call %d", goals, k, batch, failFrom)
					var log []string
					es, source := restartables(n, goals, &log)
					devices := newDevices(k, batch, failFrom)
					var mu sync.Mutex
					var drawn int64
					var lost []Classifier
					s := Sampler{Seed: 7, N0: 20, Workers: 3, Progress: func(n int64) {
						mu.Lock()
						defer mu.Unlock()
						drawn += n
					}}
					s.Lost = func(d Classifier, examples int, err error) {
						if !errors.Is(err, errDevice) || examples < 1 || examples > n {
							t.Errorf("%s: %d examples are lost with %v", name, examples, err)
						}
						lost = append(lost, d)
					}
					if err := s.onDevices(devices).Run(t.Context(), source); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					if !reflect.DeepEqual(log, want) {
						t.Errorf("%s: emitted\n%s\nwant\n%s", name, strings.Join(log, "\n"), strings.Join(want, "\n"))
					}
					if drawn != n*320 {
						t.Errorf("%s: %d samples are counted, want %d", name, drawn, n*320)
					}
					if last := devices[k-1]; failFrom > 0 && last.calls.Load() >= failFrom != (len(lost) == 1 && lost[0] == last) || failFrom == 0 && lost != nil {
						t.Errorf("%s: %d devices are lost, after %d calls of the last", name, len(lost), last.calls.Load())
					}
					for i, e := range es {
						mark, err := unmark(e.observed)
						if err != nil {
							t.Errorf("%s: %v", name, err)
						}
						used[mark] = true
						if !reflect.DeepEqual(e.asked, wantExamples[i].asked) || !reflect.DeepEqual(e.outputs, wantExamples[i].outputs) {
							t.Errorf("%s: example %d, begun %d times, has other samples", name, i, 1+e.begun)
						}
					}
				}
			}
		}
		if len(used) < 2 {
			t.Errorf("the devices of samples are %v", used)
		}
	}
}

// TestFailuresEndTheRun checks that the run ends with an error in three cases. In the first case, every device fails on
// the same input. In the second case, every device fails on all inputs. In the third case, one device fails, and its
// examples cannot start again.
func TestFailuresEndTheRun(t *testing.T) {
	everywhere := func(devices []*device, fails func(x float32) bool) {
		for _, d := range devices {
			d.bad = fails
		}
	}
	for _, c := range []struct {
		name   string
		damage func(devices []*device)
		plain  bool // experiments cannot start again
		want   string
		lost   int // maximum number of devices that fail before the run ends
	}{
		// Only the input of es[5] has a value above 500, so all devices fail on this example. Its index is 15.
		{"an input that no device takes", func(devices []*device) { everywhere(devices, func(x float32) bool { return x > 500 }) }, false,
			"15: the device fails", 1},
		{"all devices", func(devices []*device) { everywhere(devices, func(float32) bool { return true }) }, false, "the device fails", 3},
		{"an example that cannot be begun again", func(devices []*device) {
			devices[1].bad = func(float32) bool { return true }
		}, true, "the device fails", 1},
	} {
		for range 20 {
			var log []string
			es, source := restartables(9, []int64{300}, &log)
			es[5].clean = []float32{1000, 0}
			if c.plain {
				inner := source
				source = func() (Experiment, error) {
					e, err := inner()
					if r, ok := e.(*restartable); ok {
						return r.observed, err
					}
					return nil, err
				}
			}
			devices := newDevices(4, 16, 0)
			c.damage(devices)
			s := Sampler{Seed: 7, N0: 20, Workers: 4}.onDevices(devices)
			lost := 0
			s.Lost = func(Classifier, int, error) { lost++ }
			err := s.Run(t.Context(), source)
			if c.plain && devices[1].calls.Load() == 0 { // devices[1] got no batch, so it could not fail
				continue
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, errDevice) {
				t.Fatalf("%s: error %v, want %q", c.name, err, c.want)
			}
			if lost > c.lost {
				t.Errorf("%s: %d devices were lost", c.name, lost)
			}
			for i, line := range log { // the log must be in order and end before the failed example
				if !strings.HasPrefix(line, fmt.Sprint(3*i, " ")) || i >= 5 && !c.plain {
					t.Errorf("%s: emitted %q in place %d", c.name, line, i)
				}
			}
		}
	}
}

// jointFailure is a device that fails in its first call, but only after every device has begun its first call.
type jointFailure struct {
	*device
	in *sync.WaitGroup
}

func (d jointFailure) Run(ctx context.Context, _, _ []float32) error {
	if d.calls.Add(1) == 1 {
		d.in.Done()
		d.in.Wait()
		return errDevice
	}
	<-ctx.Done() // the call lasts until the sampler stops it
	return ctx.Err()
}

// TestAllFailAtOnce makes all devices fail at the same time, while each device runs a different example. The run must
// end with an error of a device, although each example has failed on only one device.
func TestAllFailAtOnce(t *testing.T) {
	for range 20 {
		var log []string
		_, source := restartables(9, []int64{300}, &log)
		var in sync.WaitGroup
		in.Add(3)
		s := Sampler{Seed: 7, N0: 20, Workers: 3}
		for i, d := range newDevices(3, 16, 0) {
			if i == 0 {
				s.Classifier = jointFailure{d, &in}
			} else {
				s.Replicas = append(s.Replicas, jointFailure{d, &in})
			}
		}
		lost := 0
		s.Lost = func(_ Classifier, examples int, err error) {
			if lost++; examples != 1 {
				t.Errorf("%d examples of a device are not done", examples)
			}
		}
		if err := s.Run(t.Context(), source); !errors.Is(err, errDevice) || strings.Contains(err.Error(), "two devices") {
			t.Errorf("error %v", err)
		}
		if lost != 2 || len(log) > 0 {
			t.Errorf("%d devices were lost before the last; emitted %v", lost, log)
		}
	}
}

// stuckDevice is a device whose first call fails while its second call is running. The second call ends only if the
// sampler stops it.
type stuckDevice struct {
	*device
	second chan struct{}
}

func (d stuckDevice) Run(ctx context.Context, _, _ []float32) error {
	if d.calls.Add(1) == 1 {
		<-d.second
		return errDevice
	}
	close(d.second)
	<-ctx.Done()
	return ctx.Err()
}

// When a device fails, the sampler must stop the device's running calls. Otherwise, the other devices could not redraw
// the examples of these calls until the calls ended.
func TestFailureStopsCalls(t *testing.T) {
	var log []string
	_, source := restartables(9, []int64{300}, &log)
	second := make(chan struct{})
	devices := newDevices(2, 16, 0)
	// devices[1] waits until the second call of devices[0] has begun.
	devices[1].fail = func(int64) error { <-second; return nil }
	lost := 0
	s := Sampler{Classifier: stuckDevice{devices[0], second}, Replicas: []Classifier{devices[1]}, N0: 20, Workers: 4, Lost: func(Classifier, int, error) { lost++ }}
	if err := s.Run(t.Context(), source); err != nil || lost != 1 || len(log) != 9 {
		t.Errorf("error %v, %d devices were lost, %d examples emitted", err, lost, len(log))
	}
}

// TestRedo redraws the examples of a failed device. The four examples are in different states: incomplete on the failed
// device, complete on the failed device, incomplete on the other device, and not begun.
func TestRedo(t *testing.T) {
	var log []string
	all, source := restartables(4, []int64{10, 20}, &log)
	c := newScheduler(t.Context(), Sampler{N0: 5, Workers: 1}.onDevices(newDevices(2, 4, 0)))
	for {
		e, err := source()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			break
		}
		a, err := c.admit(e)
		if err != nil {
			t.Fatal(err)
		}
		c.active = append(c.active, a)
	}
	failed, other := c.lanes[0], c.lanes[1]
	// An example is complete when 16 results are counted: 5 + 10 samples and the clean input.
	c.active[0].lane, c.active[0].counted = failed, 15 // one is missing
	// the example is complete; the sampler must still decide whether it needs more samples
	c.active[1].lane, c.active[1].counted = failed, 16
	c.active[2].lane, c.active[2].counted = other, 3
	before := slices.Clone(c.active)
	check := func(when string, redone ...int) {
		t.Helper()
		for i, a := range c.active {
			want := slices.Contains(redone, i)
			if (a != before[i]) != want || (all[i].begun == 1) != want {
				t.Errorf("%s: example %d is begun again %d times", when, i, all[i].begun)
			}
			if want && (a.lane != nil || a.counted != 0 || a.goal != 10 || a.index != before[i].index) {
				t.Errorf("%s: example %d begins as %+v", when, i, a)
			}
		}
	}
	failed.err = errDevice
	for failed.workers > 1 {
		if err := c.leave(failed); err != nil {
			t.Fatal(err)
		}
		check("a worker is left")
	}
	if err := c.leave(failed); err != nil {
		t.Fatal(err)
	}
	check("no worker is left", 0)
	// The complete example now asks for more samples. The failed device cannot draw them, so this example must start
	// again.
	if err := c.account(t.Context(), outcome{task: task{decide: before[1]}, goal: 20}); err != nil {
		t.Fatal(err)
	}
	check("more is asked for", 0, 1)

	// In the following case, a device fails, and the sampler therefore stops another batch of this device. The sampler
	// must not conclude that the examples of the stopped batch made the device fail.
	c.active[2].failed = failed
	other.err = errDevice
	stopped := task{batch: []segment{{active: c.active[2]}, {active: c.active[3]}}}
	if err := c.fail(t.Context(), other, stopped, &deviceError{context.Canceled}); err != nil || c.active[3].failed != nil {
		t.Errorf("error %v", err)
	}
}

// An error of an experiment must not count as a failure of a device. The run must end with the experiment's error, also
// with several devices.
func TestExperimentErrorsOnDevices(t *testing.T) {
	for _, call := range []string{"goal", "finish", "emit"} {
		var log []string
		f := failing{call: call, from: 40, recorded: examples(1, []int64{40, 80}, &log)[0].recorded}
		left := 1
		s := Sampler{N0: 5, Workers: 2, Lost: func(Classifier, int, error) { t.Error("a device is lost") }}.onDevices(newDevices(3, 8, 0))
		err := s.Run(t.Context(), func() (Experiment, error) {
			if left--; left < 0 {
				return nil, nil
			}
			return &f, nil
		})
		if !errors.Is(err, errExperiment) {
			t.Errorf("%s: error %v", call, err)
		}
	}
}

// Replicas of another model must be refused before any sample is drawn.
func TestReplicasFit(t *testing.T) {
	s := Sampler{Classifier: &linear{batch: 4}, Replicas: []Classifier{&wide{}}}
	err := s.Run(t.Context(), func() (Experiment, error) { t.Error("an example is read"); return nil, nil })
	if err == nil || !strings.Contains(err.Error(), "takes 3 values and gives 3 scores, the first 2 and 3") {
		t.Errorf("error %v", err)
	}
}

type wide struct{ linear }

func (*wide) InputLen() int { return 3 }
