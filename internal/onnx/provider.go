package onnx

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/ortlib"
	"github.com/rscert/rscert/internal/param"
)

// provider is one of ONNX Runtime's execution providers, as rscert runs it. A
// further one is a file with a value of this type, and a line in providers.
type provider struct {
	device  string       // its name in --device
	name    string       // ONNX Runtime's
	library ortlib.Build // the build of ONNX Runtime that has it
	auto    bool         // --device auto takes it where it works
	units   []string     // that may follow the device's name and ':', the default first
	// names returns the names of the provider's devices here, of one whose devices are counted from 0. A run takes all of
	// them, or those whose indices follow the provider's name.
	names      func() []string
	precisions []Precision // that it computes in
	hint       param.Text  // how to get a library that works
	// options adds the provider to a session's options and returns what it
	// set, for the record.
	options func(*ort.SessionOptions, settings) (map[string]string, error)
	// reference is the batch size at which a model's results are what they are:
	// a Run of any other size gives the same bits or is cut into pieces of this
	// size. On the CPU small, so that a piece is never much more than was asked
	// for; on CUDA large enough to fill a GPU.
	reference int
	// batchValues and batchSamples bound a batch; see chooseBatch.
	batchValues, batchSamples int
	ownMemory                 bool // the device has memory of its own
	// fixSizes gives each batch size a session of its own, with the size fixed:
	// shapes computed inside the graph then fold into constants.
	fixSizes bool
	// measured chooses the batch by measurement.
	measured bool
	// strict refuses a model with nodes that the provider hands back to ONNX
	// Runtime's CPU provider: no silent detour, no second precision.
	strict bool
	// oneThread opens and closes sessions on one thread of the system; see
	// runOnThread.
	oneThread bool
	// calls bounds the calls of ONNX Runtime at a time on a device; 0: the workers do. Each holds all layers' values.
	calls int
	// tunable: it has the settings of Tuning.
	tunable bool
}

// systemThread takes functions that a thread of the system runs in turn.
var systemThread = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// runOnThread calls f, on the one thread that the provider asks for, if it does.
//
// OpenVINO's CPU plugin gives the thread that loads it a larger stack for
// signals (AMX needs it), and unmaps that stack when the plugin is unloaded, by
// whatever thread. Go moves goroutines between threads: a thread is then left
// with a stack that is gone, and dies at the next signal of Go's scheduler.
func (p *provider) runOnThread(f func()) {
	if !p.oneThread {
		f()
		return
	}
	done := make(chan struct{})
	systemThread() <- func() {
		defer close(done)
		f()
	}
	<-done
}

// settings say how a provider runs the sessions of one model.
type settings struct {
	unit      string // of the device
	precision Precision
	workers   int // goroutines that call at once
	tuning    Tuning
}

// providers returns all there are; of those for --device auto the best first.
func providers() []*provider {
	return []*provider{&cudaProvider, &cpuProvider, &openvinoProvider}
}

// DeviceNames are values of --device, those of devices that are counted without their indices.
func DeviceNames() []string {
	names := []string{"auto"}
	for _, p := range providers() {
		names = append(names, p.device)
		if len(p.units) > 1 {
			for _, unit := range p.units {
				names = append(names, p.device+":"+unit)
			}
		}
	}
	return names
}

// Devices describes the values of --device.
func Devices() string {
	names := []string{"auto"}
	for _, p := range providers() {
		name := p.device
		if p.names != nil {
			name += "[:INDEX,…]"
		}
		if len(p.units) > 1 {
			name += "[:" + strings.Join(p.units, "|") + "]"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// checkPrecision refuses what the provider does not compute in.
func (p *provider) checkPrecision(precision Precision) error {
	if slices.Contains(p.precisions, precision) {
		return nil
	}
	advice := param.Textf("use %s openvino for %s on a CPU that has it, or %s %s", param.Device, precision, param.Precision, p.precisions[0])
	if precision == TF32 {
		advice = param.Textf("only NVIDIA's GPUs have TF32: use %s cuda, or leave %s away", param.Device, param.AllowTF32)
	}
	return hint.Add(fmt.Errorf("device %s computes in %s, not in %s", p.device, graph.List(p.precisions), precision), "%s", advice)
}

// works returns nil if the library can run models on the device, or why it
// cannot. That the provider is in its list does not say so: CUDA and OpenVINO
// are libraries of their own, which need others and a driver. They are loaded
// when the provider is added to options.
func (r *Runtime) works(d Device) error {
	if !slices.Contains(r.providers, d.provider.name) {
		return fmt.Errorf("the ONNX Runtime library has no %s provider", strings.TrimSuffix(d.provider.name, "ExecutionProvider"))
	}
	var err error
	d.provider.runOnThread(func() {
		var o *ort.SessionOptions
		if o, err = ort.NewSessionOptions(); err == nil {
			defer o.Destroy()
			all, _ := d.each()
			_, err = d.provider.options(o, settings{unit: all[0].unit, workers: 1})
		}
	})
	return plain(err)
}
