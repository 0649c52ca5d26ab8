package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/ortlib"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/run"
)

// doctorOptions are the flags of doctor.
type doctorOptions struct {
	library string
	json    bool
}

func newDoctor(s streams) *cobra.Command {
	var o doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show the ONNX Runtime library, its version and providers, and the GPUs",
		Long: `This command shows the path of the ONNX Runtime library, how rscert found the library,
and the library's version and execution providers. It also shows the NVIDIA GPUs, the
number of cores and the memory.

The command times a small convolutional network in each precision on the CPU, on every
NVIDIA GPU, and with OpenVINO if the OpenVINO library is present. For each precision
below f32, the command says whether to use the precision or f32. To decide, it compares
the speed in this precision with the f32 speed on the same hardware. The devices 'cpu'
and 'openvino:CPU' both run on the processor. For each of these two devices, the f32
speed in this comparison is the higher of their two f32 speeds. The advice depends only
on the measured speeds. So run the command on an idle machine.

If a GPU does not work, the command names the missing library and the remedy. If no ONNX
Runtime library works, the command lists the places that it searched, and the exit code
is 1.

rscert takes the library from --onnxruntime, else from $` + ortlib.Env + `, else from
the user's cache (where 'rscert setup' puts it), else from a system folder.`,
		Example: `  rscert doctor
  rscert doctor --json --onnxruntime /opt/onnxruntime-gpu/lib/libonnxruntime.so`,
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runDoctor(cmd.Context(), s, o)
		},
	}
	libraryFlag(cmd, &o.library)
	cmd.Flags().BoolVar(&o.json, "json", false, "print the result as one JSON document")
	return cmd
}

// libraryFlag adds --onnxruntime, for every command that loads a model.
func libraryFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "onnxruntime", "", "`path` of the ONNX Runtime library; default: $"+ortlib.Env+", or else the library in the cache or in a system folder")
}

// examination is the JSON document of doctor.
type examination struct {
	Version string                `json:"rscert"`
	Go      string                `json:"go"`
	OS      string                `json:"os"`
	Arch    string                `json:"arch"`
	Cores   int                   `json:"cores"`
	Memory  uint64                `json:"memory_available_bytes,omitempty"`
	GPUs    []string              `json:"gpus"`
	Vector  []string              `json:"processor"` // processor instructions that speed up lower precisions
	Speeds  []speedReport         `json:"speeds"`
	Advice  []run.PrecisionAdvice `json:"advice,omitempty"`
	Library *libraryReport        `json:"library"` // null if no library works
	Looked  []placeReport         `json:"looked"`

	measured []onnx.Speed
}

type libraryReport struct {
	Path      string   `json:"path"`
	Source    string   `json:"source"`
	Version   string   `json:"version"`
	SHA256    string   `json:"sha256"`
	Published bool     `json:"published"` // whether the library is in rscert's list of published libraries
	Providers []string `json:"providers"`
	CUDA      bool     `json:"cuda"`
	CUDAError string   `json:"cuda_error,omitempty"`
}

// speedReport gives the speed of a small convolutional network.
type speedReport struct {
	Device    string         `json:"device"`
	Precision onnx.Precision `json:"precision"`
	Rate      float64        `json:"samples_per_second,omitempty"`
	Error     string         `json:"error,omitempty"`
	Hint      string         `json:"hint,omitempty"` // how to repair the problem
}

type placeReport struct {
	Source string `json:"source"`
	Path   string `json:"path"`
	Error  string `json:"error,omitempty"`
}

// sourceName returns a name for a place where rscert looks for ONNX Runtime. The name is "--onnxruntime" if the user
// gave the place with this flag, and the field Source otherwise.
func sourceName(p ortlib.Place) string {
	if p.Source == string(param.ONNXRuntime) {
		return asFlag(param.ONNXRuntime)
	}
	return p.Source
}

func runDoctor(ctx context.Context, s streams, o doctorOptions) error {
	available, _ := memory.Available()
	e := examination{
		Version: version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Cores: runtime.GOMAXPROCS(0), Memory: available, GPUs: onnx.DescribeGPUs(ctx), Looked: []placeReport{},
		Vector: onnx.ProcessorFeatures(), Speeds: []speedReport{},
	}
	for _, p := range ortlib.Places(o.library) {
		report := placeReport{Source: sourceName(p), Path: p.Path}
		if p.Err != nil {
			report.Error = errorText(p.Err)
		}
		e.Looked = append(e.Looked, report)
	}
	library, failed := experiment.OpenLibrary(onnx.Device{}, o.library)
	if failed == nil {
		e.Library = &libraryReport{Path: library.Path(), Source: e.Looked[len(e.Looked)-1].Source, Version: library.Version(), SHA256: library.SHA256(), Published: ortlib.Known(library.SHA256()), Providers: library.Providers()}
		err := library.CUDA()
		e.Library.CUDA = err == nil
		if err != nil {
			e.Library.CUDAError = errorText(err)
		}
		e.measure(ctx, library, onnx.CPU)
		failed = library.Close()
	}
	if len(e.GPUs) > 0 || e.Library != nil && e.Library.CUDA {
		e.measureOther(ctx, "cuda", o.library)
	}
	e.measureOther(ctx, "openvino", o.library)
	err := e.write(s.out, o.json)
	if failed != nil {
		return failed
	}
	return err
}

// measure finds the speed of the device in each of its precisions.
func (e *examination) measure(ctx context.Context, library *onnx.Runtime, device onnx.Device) {
	speeds, err := library.MeasureSpeeds(ctx, device, e.Cores)
	if err != nil {
		e.addSpeed(onnx.Speed{Device: device, Err: err})
	}
	for _, speed := range speeds {
		e.addSpeed(speed)
	}
}

func (e *examination) addSpeed(s onnx.Speed) {
	report := speedReport{Device: s.Device.String(), Precision: s.Precision, Rate: s.Rate}
	if s.Err != nil {
		report.Error = errorText(s.Err)
		report.Hint, _ = hint.Spelled(s.Err, asFlag)
	}
	e.Speeds, e.measured = append(e.Speeds, report), append(e.measured, s)
	e.Advice = run.AdvisePrecisions(e.measured, asFlag)
}

// measureOther measures the speed of a device that may need another library. If this library cannot be opened, the
// examination records the error in place of a speed.
func (e *examination) measureOther(ctx context.Context, name, flag string) {
	device, err := onnx.ParseDevice(name)
	if err != nil {
		panic(err)
	}
	library, err := experiment.OpenLibrary(device, flag)
	if err != nil {
		e.addSpeed(onnx.Speed{Device: device, Err: err})
		return
	}
	defer library.Close()
	e.measure(ctx, library, device)
}

func (e examination) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return report.WriteJSON(w, "doctor", e)
	}
	t := report.Table{Columns: []report.Column{report.TextColumn(""), report.TextColumn("")}, Flush: true}
	add := func(name, format string, args ...any) {
		t.AddRow(report.Text(name), report.Text(fmt.Sprintf(format, args...)))
	}
	add("rscert", "%s", e.Version)
	add("go", "%s %s/%s", e.Go, e.OS, e.Arch)
	add("cores", "%d", e.Cores)
	if e.Memory > 0 {
		add("memory", "%.1f GiB available", float64(e.Memory)/(1<<30))
	}
	add("processor", "%s", strings.Join(e.Vector, ", "))
	if len(e.GPUs) == 0 {
		add("gpu", "no NVIDIA GPU, or no driver")
	}
	for _, gpu := range e.GPUs {
		add("gpu", "%s", gpu)
	}
	if l := e.Library; l != nil {
		l.describe(add)
	} else {
		add("library", "none")
		for _, p := range e.Looked {
			problem := p.Error
			if problem == "" {
				problem = p.Path + ": does not work"
			}
			add("", "%s: %s", p.Source, problem)
		}
	}
	for _, s := range e.Speeds {
		if s.Error != "" {
			add(fmt.Sprintf("%s %s", s.Device, s.Precision), "not measured: %s", s.Error)
			if s.Hint != "" {
				add("", "%s", s.Hint)
			}
		} else {
			add(fmt.Sprintf("%s %s", s.Device, s.Precision), "%.0f samples/s of a small convolutional net", s.Rate)
		}
	}
	for _, a := range e.Advice {
		add("advice", "%s", a.Text)
	}
	return t.WriteText(w)
}

func (l *libraryReport) describe(add func(name, format string, args ...any)) {
	add("library", "%s (%s)", l.Path, l.Source)
	add("onnxruntime", "%s", l.Version)
	if !l.Published {
		add("sha-256", "%s, of no published library that this rscert knows", l.SHA256)
	}
	add("providers", "%s", strings.Join(l.Providers, ", "))
	if l.CUDA {
		add("cuda", "works")
	} else {
		add("cuda", "does not work: %s", l.CUDAError)
	}
}
