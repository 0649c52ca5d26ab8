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

// A provider is one of ONNX Runtime's execution providers, together with rscert's settings for it. A new provider needs
// a file with a value of this type, and a line in the function providers.
type provider struct {
	device  string       // name of the device in --device
	name    string       // ONNX Runtime's name
	library ortlib.Build // the build of ONNX Runtime that contains it
	auto    bool         // --device auto may choose the provider if it works
	units   []string     // texts allowed after the device's name and ':', the default first
	// The function names returns the names of the provider's devices on this machine, if devices are counted from 0. A
	// run uses all these devices, or those whose indices follow the provider's name.
	names      func() []string
	precisions []Precision // supported precisions
	hint       param.Text  // advice on how to get a library that works
	// The function options adds the provider to a session's options and returns the settings for the record.
	options func(*ort.SessionOptions, settings) (map[string]string, error)
	// The field reference is the batch size that defines a model's results. A Run of any other size gives the same
	// bits, or it is cut into pieces of this size. The size is small on the CPU, so that a piece is never much larger
	// than the request. On CUDA it is large enough to fill a GPU.
	reference int
	// The fields batchValues and batchSamples limit the size of a batch; see chooseBatch.
	batchValues, batchSamples int
	ownMemory                 bool // the device has memory of its own
	// If fixSizes is set, each batch size has its own session, in which the size is fixed. Shapes computed inside the
	// graph then fold into constants.
	fixSizes bool
	// If measured is set, the batch is chosen by measurement.
	measured bool
	// If strict is set, a model is refused if the provider hands nodes back to ONNX Runtime's CPU provider. So the
	// results have no second precision, and the CPU takes no part silently.
	strict bool
	// If oneThread is set, sessions are opened and closed on one system thread; see runOnThread.
	oneThread bool
	// This number is a limit for the concurrent calls of ONNX Runtime on a device. The value 0 means that the number of
	// workers is the limit. Each call holds the values of all layers.
	calls int
	// If tunable is set, the provider has the settings of Tuning.
	tunable bool
}

// systemThread returns a channel of functions. One system thread runs these functions in turn.
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

// runOnThread calls f. If the provider asks for it, the call is made on one dedicated system thread.
//
// OpenVINO's CPU plugin gives a larger signal stack to the thread that loads the plugin (AMX needs it). When any thread
// unloads the plugin, that stack is unmapped. Go moves goroutines between threads. So a thread may keep an unmapped
// stack and die at the next signal of Go's scheduler.
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

// settings says how a provider runs the sessions of one model.
type settings struct {
	unit      string // of the device
	precision Precision
	workers   int // number of goroutines that call concurrently
	tuning    Tuning
}

// providers returns all providers. Candidates for --device auto come in order of preference.
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

// works returns nil if the library can run models on the device, or the reason why it cannot. The library's
// list of providers does not answer this question. CUDA and OpenVINO are separate libraries, which need other libraries
// and a driver. They are loaded only when the provider is added to options.
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
