package onnx

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
)

// units returns a provider for tests. It is ONNX Runtime's CPU provider, but it pretends to have several devices with
// the given names. A device fails if the function 'open' returns an error for it.
func units(names []string, open func(unit string) error) *provider {
	p := cpuProvider
	p.device, p.names = "units", func() []string { return names }
	p.reference, p.fixSizes, p.ownMemory, p.calls = 16, true, true, 2
	p.options = func(_ *ort.SessionOptions, s settings) (map[string]string, error) {
		return map[string]string{"unit": s.unit}, open(s.unit)
	}
	p.hint = param.Textf("buy another one")
	return &p
}

// failOn returns a function that fails with an error on the given devices.
func failOn(err error, failing ...string) func(string) error {
	return func(unit string) error {
		if slices.Contains(failing, unit) {
			return err
		}
		return nil
	}
}

// loadEach loads a test model on every device and closes all models when the test ends.
func loadEach(t *testing.T, name string, opt LoadOptions) ([]*Model, error) {
	t.Helper()
	file, err := graph.Parse(testModel(t, name), "", "")
	if err != nil {
		t.Fatal(err)
	}
	models, err := openRuntime(t).LoadEach(t.Context(), file, opt)
	t.Cleanup(func() {
		for _, m := range models {
			_ = m.Close()
		}
	})
	return models, err
}

// TestLoadEach uses working and failing devices. If --device gives no indices of devices, LoadEach must use the devices
// that work. With a list of indices, each listed device must work.
func TestLoadEach(t *testing.T) {
	broken := errors.New("CUDA failure 100: no CUDA-capable device is detected")
	names := []string{"A", "A", "B", "A"}
	for _, c := range []struct {
		unit    string // indices of the requested devices; "" if --device gives no indices
		failing []string
		want    string // expected devices
		err     string
		warning string
	}{
		{"", nil, "units:0,1,2,3", "", ""},
		{"", []string{"2"}, "units:0,1,3", "", "units:2 (B) is left out: device units:2: CUDA failure 100"},
		{"", []string{"0", "3"}, "units:1,2", "", "the model runs on units:1 (A), not on units:0 (A): "},
		{"", []string{"0", "1", "2", "3"}, "", "CUDA failure 100", ""},
		{"2,0", nil, "units:2,0", "", ""},
		{"3", nil, "units:3", "", ""},
		{"2,0", []string{"0"}, "", "CUDA failure 100", ""},
		{"2,0", []string{"2"}, "", "CUDA failure 100", ""},
		{"2,0,1", []string{"0", "1"}, "", "device units:0: CUDA failure 100", ""},
		{"4", nil, "", "there is no device units:4: 4 are here, from units:0 (A) on", ""},
		{"1,9", nil, "", "there is no device units:9", ""},
	} {
		t.Run(fmt.Sprintf("units:%s without %v", c.unit, c.failing), func(t *testing.T) {
			var works atomic.Bool // false at first; the check before loading sets it to true
			p := units(names, func(unit string) error {
				if !works.Swap(true) {
					return nil
				}
				return failOn(broken, c.failing...)(unit)
			})
			models, err := loadEach(t, "nchw", LoadOptions{Device: Device{p, c.unit}, Batch: 20})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "\n") || models != nil {
					t.Errorf("error %v, %d models", err, len(models))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := DeviceOf(models...).String(); got != c.want {
				t.Errorf("runs on %s, want %s", got, c.want)
			}
			if warnings := strings.Join(warningsOf(models[0]), "\n"); !strings.Contains(warnings, c.warning) || (warnings == "") != (c.warning == "") {
				t.Errorf("warnings %q, want %q", warnings, c.warning)
			}
			want := scores(t, models[0], images(20))
			for i, m := range models {
				if index := m.Settings().Options["unit"]; m.Hardware() != names[int(index[0]-'0')] || m.Device().unit != index {
					t.Errorf("model %d is on %v, %q, %q", i, m.Device(), m.Hardware(), index)
				}
				for k, row := range scores(t, m, images(20)) {
					if !sameBits(row, want[k]) {
						t.Errorf("%v: image %d scores %v, %v on the first", m.Device(), k, row, want[k])
					}
				}
			}
		})
	}
}

// A model that no device can run must be tried on only one device. If the library lacks the provider, the error must
// say so.
func TestLoadEachRefuses(t *testing.T) {
	var opened sync.Map
	p := units([]string{"A", "A", "A"}, func(unit string) error { opened.Store(unit, true); return nil })
	if _, err := loadEach(t, "batch_of_8_mean", LoadOptions{Device: Device{provider: p}}); err == nil || !strings.Contains(err.Error(), "only 8 samples at a time") {
		t.Errorf("error %v", err)
	}
	if n := len(maps.Collect(opened.Range)); n != 1 {
		t.Errorf("%d devices are tried", n)
	}
	without := &Runtime{providers: []string{"SomethingExecutionProvider"}}
	_, err := without.devices(LoadOptions{Device: Device{p, "1,2"}})
	if advice, _ := hint.Of(err); err == nil || !strings.Contains(err.Error(), "device units:1,2: the ONNX Runtime library has no CPU provider") || advice != p.hint.Spell(param.Plain) {
		t.Errorf("error %v, hint %q", err, advice)
	}
}

// If the scores of devices differ in any bit, the warning must name the devices.
func TestCheckAgreement(t *testing.T) {
	p := units([]string{"A", "B"}, failOn(nil))
	models, err := loadEach(t, "nchw", LoadOptions{Device: Device{provider: p}, Batch: 20})
	if err != nil {
		t.Fatal(err)
	}
	changed := testModels["nchw"]()
	for _, w := range changed.Graph.Initializer {
		if w.GetName() == "b_gemm" {
			// this changes a bias by at most 2⁻¹⁵ of its value, and only the first score depends on this bias
			w.RawData[1] ^= 1
		}
	}
	other := load(t, changed.bytes(t), LoadOptions{Device: Device{p, "1"}, Batch: 7})
	if err := checkAgreement(t.Context(), []*Model{models[0], models[1], other}); err != nil {
		t.Fatal(err)
	}
	if w := strings.Join(warningsOf(models[0]), "\n"); !strings.Contains(w, "on units:1 (B) are not those on units:0 (A): votes near ties may differ") || strings.Count(w, "units:1") != 1 {
		t.Errorf("warnings %q", w)
	}
}

// Warnings about one device must name the device. A warning that applies to all devices must appear only once.
func TestWarningsOfDevices(t *testing.T) {
	memory := errors.New("BFCArena: Failed to allocate memory for requested buffer of size 4294967296")
	// number of attempts to open a session on the second device; the attempt that brings this number to 4 fails
	var opened atomic.Int64
	p := units([]string{"A", "B"}, func(unit string) error {
		if unit == "1" && opened.Add(1) == 4 {
			return memory
		}
		return nil
	})
	small := Device{p, ""}
	models, err := loadEach(t, "stuck_8", LoadOptions{Device: small, Batch: 64})
	if err != nil {
		t.Fatal(err)
	}
	if w := strings.Join(warningsOf(models[0]), "\n"); strings.Count(w, "it runs 1 at a time") != 1 {
		t.Errorf("warnings %q", w)
	}
	// the opening with the number 'at' fails: the count starts at 4 − at, and the opening that raises it to 4 fails
	for _, at := range []int64{1, 2, 3, 4, 5, 6} {
		opened.Store(4 - at)
		models, err := loadEach(t, "nchw", LoadOptions{Device: small, Batch: 64})
		if err != nil {
			t.Fatal(err)
		}
		if w := warningsOf(models[0]); len(models) == 2 && len(warningsOf(models[1])) == 1 &&
			slices.Equal(w, []string{"units:1 (B): " + warningsOf(models[1])[0]}) {
			return
		}
	}
	t.Error("no shortage of the second device was said")
}

// If a device's memory is too small for the reference size, the device must run the model in smaller calls, with the
// same scores. If the memory suffices for the reference size but not for the whole batch, the device must run the batch
// in calls of the reference size.
func TestShortage(t *testing.T) {
	xs := images(40)
	want := scores(t, load(t, testModel(t, "nchw"), LoadOptions{Device: CPU, Batch: 16}), xs)
	memory := errors.New("BFCArena: Failed to allocate memory for requested buffer of size 4294967296")
	for _, c := range []struct {
		// the openings that fail, by number: opening 1 is for the unedited model, and opening 2 is for the reference
		// size
		failing []int
		batch   int
		tile    int
		warning string
	}{
		{nil, 64, 64, ""},
		{[]int{2}, 64, 64, "has too little memory for 16 samples a call: the model runs in calls of 8"},
		{[]int{2, 3}, 0, 256, "has too little memory for 8 samples a call: the model runs in calls of 4"},
		{[]int{3}, 64, 16, ""},
		{[]int{2, 4}, 64, 8, "the model runs in calls of 8"},
	} {
		opening := -1 // number of the latest opening of a session; opening 0 is for the check before loading
		p := units([]string{"A"}, func(string) error {
			if opening++; slices.Contains(c.failing, opening) {
				return memory
			}
			return nil
		})
		m := load(t, testModel(t, "nchw"), LoadOptions{Device: Device{provider: p}, Batch: c.batch})
		if m.tile != c.tile {
			t.Errorf("%+v: calls of %d", c, m.tile)
		}
		if w := strings.Join(warningsOf(m), "\n"); !strings.Contains(w, c.warning) || (w == "") != (c.warning == "") {
			t.Errorf("%+v: warnings %q", c, w)
		}
		for i, row := range scores(t, m, xs) {
			if !sameBits(row, want[i]) {
				t.Errorf("%+v: image %d scores %v, want %v", c, i, row, want[i])
			}
		}
	}
	p := units([]string{"A"}, failOn(memory, "0"))
	_, err := (&Runtime{providers: []string{p.name}}).devices(LoadOptions{Device: Device{provider: p}})
	if !isShortage(err) {
		t.Errorf("error %v", err)
	}
	m := &Model{device: Device{p, "0"}, sizes: sizes{batch: 1024, tile: 512}}
	advice, _ := hint.Of(m.explainRun(memory))
	if err := m.explainRun(memory); !errors.Is(err, memory) || !strings.Contains(err.Error(), "units:0 (A) has too little memory for 512 samples a call: ") ||
		!strings.Contains(advice, "batch, now 1024") || strings.Contains(advice, "noise-on") {
		t.Errorf("error %v, hint %q", err, advice)
	}
	m.noisy = &noisy{}
	if advice, _ := hint.Of(m.explainRun(memory)); !strings.HasSuffix(advice, "; noise-on host takes less memory, too") {
		t.Errorf("hint %q", advice)
	}
	if other := errors.New("input is out of bounds"); m.explainRun(other) != other || m.explainRun(nil) != nil {
		t.Error("another error is explained")
	}
}

// TestShortageText checks which error messages mean that a device has too little memory, and which messages mean that
// the error is due to the device.
func TestShortageText(t *testing.T) {
	for text, want := range map[string][2]bool{ // expected results of isShortage and isDeviceTrouble
		"CUDA failure 2: out of memory ; GPU=0 ; hostname=x":                                             {true, true},
		"Failed to allocate memory for requested buffer of size 822083584":                               {true, true},
		"Available memory of 3 is smaller than requested bytes of 100":                                   {true, true},
		"CUBLAS failure 3: CUBLAS_STATUS_ALLOC_FAILED":                                                   {true, true},
		"CUDA failure 700: an illegal memory access was encountered ; GPU=1":                             {false, true},
		"CUDA failure 100: no CUDA-capable device is detected":                                           {false, true},
		"CUDNN failure 5000: CUDNN_STATUS_EXECUTION_FAILED":                                              {false, true},
		"This session contains graph nodes that are assigned to the default CPU EP, but fallback to CPU": {false, false},
		"score 1 in a batch, 2 alone":                                                                    {false, false},
	} {
		err := fmt.Errorf("wrapped: %w", errors.New(text))
		if isShortage(err) != want[0] || isDeviceTrouble(err) != want[1] {
			t.Errorf("%q: %v, %v", text, isShortage(err), isDeviceTrouble(err))
		}
	}
	if isShortage(nil) || isDeviceTrouble(nil) {
		t.Error("no error is one")
	}
}

// A device must never run more concurrent calls than the provider allows, for any number of callers.
func TestCallsAtATime(t *testing.T) {
	p := units([]string{"A"}, failOn(nil))
	if n := cap(load(t, testModel(t, "nchw"), LoadOptions{Device: Device{provider: p}, Batch: 16}).session.slots); n != p.calls {
		t.Errorf("%d calls at a time, the provider says %d", n, p.calls)
	}
	s := &session{slots: make(chan struct{}, 2)}
	var now, most atomic.Int64
	var wg sync.WaitGroup
	openRuntime(t) // run options need an open runtime
	release := make(chan struct{})
	for range 6 {
		wg.Go(func() {
			err := s.call(t.Context(), func(*ort.RunOptions) error {
				n := now.Add(1)
				for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
				}
				<-release
				now.Add(-1)
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range 6 {
		release <- struct{}{}
	}
	wg.Wait()
	if most.Load() > 2 || len(s.slots) != 0 {
		t.Errorf("%d calls at a time; %d slots are taken in the end", most.Load(), len(s.slots))
	}
}
