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
// a file with a value of this type, and a line in the function 'providers'.
type provider struct {
	device  string       // name of the device in --device
	name    string       // ONNX Runtime's name of the provider
	library ortlib.Build // the build of ONNX Runtime that contains the provider
	auto    bool         // --device auto may choose the provider if it works
	units   []string     // texts that may follow the device's name and ':'; the default comes first
	// The function 'names' returns the names of the provider's devices on this machine. It is nil if the provider does
	// not number its devices. If --device gives indices, a run uses the devices with these indices. Otherwise a run
	// uses all working devices of the provider.
	names      func() []string
	precisions []Precision // supported precisions
	hint       param.Text  // advice on how to get a library that works
	// The function 'options' adds the provider to a session's options. It returns the provider's options for run.json.
	options func(*ort.SessionOptions, settings) (map[string]string, error)
	// The field 'reference' is the batch size that defines a model's results. Another batch size is used only if it
	// gives the same bits. Otherwise a Run is cut into calls of the reference size. A Run consists of whole calls, so
	// it may have more samples than the user requests. On the CPU the reference size is small, so that a Run has only a
	// few additional samples. On CUDA the reference size is large enough to keep a GPU busy.
	reference int
	// The fields batchValues and batchSamples limit the size of a batch; see chooseBatch.
	batchValues, batchSamples int
	ownMemory                 bool // the device has its own memory
	// If fixSizes is set, each batch size has its own session, in which the size is fixed. ONNX Runtime then puts
	// constants in place of the shapes that the graph computes.
	fixSizes bool
	// If measured is set, rscert chooses the batch size by measuring speeds.
	measured bool
	// If strict is set, rscert refuses a model if the provider cannot run all nodes of the model. If strict were not
	// set, ONNX Runtime would silently run unsupported nodes on the CPU in float32, even if another precision was
	// requested.
	strict bool
	// If oneThread is set, sessions are opened and closed on one system thread; see runOnThread.
	oneThread bool
	// The field 'calls' limits the number of concurrent calls of ONNX Runtime on a device, because each call holds the
	// values of all layers in memory. If calls is 0, the number of workers is the limit.
	calls int
	// If tunable is set, the provider supports the settings in the type Tuning.
	tunable bool
}

// systemThread returns a channel for functions. One dedicated system thread runs the functions that are sent to it, one
// after another.
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

// runOnThread calls f. If oneThread is set, it calls f on a dedicated system thread.
//
// When a thread loads OpenVINO's CPU plugin, the plugin replaces the thread's signal stack by a larger one, which AMX
// needs. When any thread unloads the plugin, this larger stack is unmapped. Go moves goroutines between threads. So a
// thread could keep an unmapped signal stack, and the next signal of Go's scheduler would then crash the process.
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
	unit      string // index or name of the device
	precision Precision
	workers   int // number of goroutines that call the session concurrently
	tuning    Tuning
}

// providers returns all providers. With --device auto, rscert uses the first provider that works and has the field
// 'auto' set.
func providers() []*provider {
	return []*provider{&cudaProvider, &cpuProvider, &openvinoProvider}
}

// DeviceNames lists the values that --device accepts. It omits values with an index, such as "cuda:0".
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

// Devices describes the values of --device in one text.
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
		advice = param.Textf("only NVIDIA's GPUs have TF32: use %s cuda, or omit %s", param.Device, param.AllowTF32)
	}
	return hint.Add(fmt.Errorf("device %s computes in %s, not in %s", p.device, graph.List(p.precisions), precision), "%s", advice)
}

// The method 'works' returns nil if the library can run models on the device, or the reason why it cannot. It is not
// enough that the library lists the provider. CUDA and OpenVINO are in separate libraries, which need other libraries
// and a driver. ONNX Runtime loads a provider's library only when the provider is added to a session's options.
func (r *Runtime) works(d Device) error {
	if !slices.Contains(r.providers, d.provider.name) {
		return fmt.Errorf("the ONNX Runtime library has no %s provider", strings.TrimSuffix(d.provider.name, "ExecutionProvider"))
	}
	var err error
	d.provider.runOnThread(func() {
		var o *ort.SessionOptions
		if o, err = ort.NewSessionOptions(); err == nil {
			defer o.Destroy()
			all, _ := d.singles()
			_, err = d.provider.options(o, settings{unit: all[0].unit, workers: 1})
		}
	})
	return plain(err)
}
