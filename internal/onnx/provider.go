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

// provider is one of ONNX Runtime's execution providers, with rscert's settings for it. A new one needs a file with a
// value of this type, and a line in providers.
type provider struct {
	device  string       // its name in --device
	name    string       // ONNX Runtime's name
	library ortlib.Build // the build of ONNX Runtime that contains it
	auto    bool         // --device auto chooses it if it works
	units   []string     // allowed after the device's name and ':', the default first
	// names returns the names of the provider's devices here, if devices are counted from 0. A run uses all of them, or
	// those whose indices follow the provider's name.
	names      func() []string
	precisions []Precision // supported
	hint       param.Text  // how to get a library that works
	// options adds the provider to a session's options and returns the settings for the record.
	options func(*ort.SessionOptions, settings) (map[string]string, error)
	// reference is the batch size that defines a model's results: a Run of any other size gives the same bits or is cut
	// into pieces of this size. It is small on the CPU, so that a piece is never much larger than the request, and
	// large enough on CUDA to fill a GPU.
	reference int
	// batchValues and batchSamples bound a batch; see chooseBatch.
	batchValues, batchSamples int
	ownMemory                 bool // the device has memory of its own
	// fixSizes gives each batch size a session of its own with the size fixed, so that shapes computed inside the graph
	// fold into constants.
	fixSizes bool
	// measured chooses the batch by measurement.
	measured bool
	// strict refuses a model with nodes that the provider hands back to ONNX Runtime's CPU provider: no silent detour,
	// no second precision.
	strict bool
	// oneThread opens and closes sessions on one system thread; see runOnThread.
	oneThread bool
	// calls bounds the concurrent calls of ONNX Runtime on a device; 0: the workers do. Each call holds all layers'
	// values.
	calls int
	// tunable: the provider has the settings of Tuning.
	tunable bool
}

// systemThread takes functions that one system thread runs in turn.
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

// runOnThread calls f, on one dedicated thread if the provider asks for it.
//
// OpenVINO's CPU plugin gives the thread that loads it a larger signal stack (AMX needs it). Unloading the plugin on
// any thread unmaps that stack. Go moves goroutines between threads, so a thread may keep an unmapped stack and die at
// the next signal of Go's scheduler.
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
	workers   int // goroutines that call at the same time
	tuning    Tuning
}

// providers returns all providers; candidates for --device auto come in order of preference.
func providers() []*provider {
	return []*provider{&cudaProvider, &cpuProvider, &openvinoProvider}
}

// DeviceNames lists values of --device, without the indices of counted devices.
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

// checkPrecision refuses precisions that the provider does not support.
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

// works returns nil if the library can run models on the device, or the reason why it cannot. The library's list of
// providers does not tell: CUDA and OpenVINO are separate libraries, which need others and a driver and are loaded only
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
