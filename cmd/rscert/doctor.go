package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/report"
)

type doctorOptions struct {
	library string
	json    bool
}

func newDoctor(s streams) *cobra.Command {
	var opts doctorOptions
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show the ONNX Runtime library, its providers, the GPU and versions",
		Long: `Show what rscert would run a model with: the ONNX Runtime library and how it
was found, its version and execution providers, the GPU, cores and memory.
Exits 1 and says where it looked if there is no library that works.

The library is the file that --onnxruntime names, else the one that
$` + onnx.LibraryEnv + ` names, else the one that 'make onnxruntime' put into the
user's cache, else one in a system folder.`,
		Example: `  rscert doctor
  rscert doctor --json --onnxruntime /opt/onnxruntime-gpu/lib/libonnxruntime.so`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return doctor(cmd.Context(), s, opts)
		},
	}
	libraryFlag(cmd, &opts.library)
	cmd.Flags().BoolVar(&opts.json, "json", false, "print one JSON document")
	return cmd
}

// libraryFlag adds --onnxruntime, which every command that loads a model has.
func libraryFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "onnxruntime", "", "`path` of the ONNX Runtime library (default: $"+onnx.LibraryEnv+", the cache, system folders)")
}

// openLibrary finds and opens the ONNX Runtime library. A file that the flag
// names but that is no such library is wrong input.
func openLibrary(flag string) (*onnx.Runtime, error) {
	path, err := onnx.FindLibrary(flag)
	var library *onnx.Runtime
	if err == nil {
		library, err = onnx.Open(path)
	}
	if flag != "" {
		err = badInput(err)
	}
	return library, err
}

// examination is what doctor finds, in the words of its JSON document.
type examination struct {
	Version string         `json:"rscert"`
	Go      string         `json:"go"`
	OS      string         `json:"os"`
	Arch    string         `json:"arch"`
	Cores   int            `json:"cores"`
	Memory  uint64         `json:"memory_available_bytes,omitempty"`
	GPUs    []string       `json:"gpus"`
	Library *libraryReport `json:"library"` // null: none that works
	Looked  []placeReport  `json:"looked"`
}

type libraryReport struct {
	Path      string   `json:"path"`
	Source    string   `json:"source"`
	Version   string   `json:"version"`
	Providers []string `json:"providers"`
	CUDA      bool     `json:"cuda"`
	CUDAError string   `json:"cuda_error,omitempty"`
}

type placeReport struct {
	Source string `json:"source"`
	Path   string `json:"path"`
	Error  string `json:"error,omitempty"`
}

func doctor(ctx context.Context, s streams, opts doctorOptions) error {
	memory, _ := onnx.AvailableMemory()
	e := examination{
		Version: version(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		Cores: runtime.GOMAXPROCS(0), Memory: memory, GPUs: gpus(ctx), Looked: []placeReport{},
	}
	for _, p := range onnx.LibraryPlaces(opts.library) {
		report := placeReport{Source: p.Source, Path: p.Path}
		if p.Err != nil {
			report.Error = p.Err.Error()
		}
		e.Looked = append(e.Looked, report)
	}
	library, failed := openLibrary(opts.library)
	if failed == nil {
		defer library.Close()
		e.Library = &libraryReport{Path: library.Path(), Source: e.Looked[len(e.Looked)-1].Source, Version: library.Version(), Providers: library.Providers()}
		err := library.CUDA()
		e.Library.CUDA = err == nil
		if err != nil {
			e.Library.CUDAError = err.Error()
		}
	}
	err := e.write(s.out, opts.json)
	if failed != nil {
		return failed
	}
	return err
}

func (e examination) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return report.WriteJSON(w, e)
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
	if len(e.GPUs) == 0 {
		add("gpu", "no NVIDIA GPU, or no driver for it")
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
	return t.WriteText(w)
}

func (l *libraryReport) describe(add func(name, format string, args ...any)) {
	add("library", "%s (%s)", l.Path, l.Source)
	add("onnxruntime", "%s", l.Version)
	add("providers", "%s", strings.Join(l.Providers, ", "))
	if l.CUDA {
		add("cuda", "works")
	} else {
		add("cuda", "does not work: %s", l.CUDAError)
	}
}

// version is the version of this program: of its module, or of the commit that
// it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "unknown"
	}
	return info.Main.Version
}

// gpus names the NVIDIA GPUs, with driver and memory where nvidia-smi says so.
func gpus(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // it hangs where a driver does
	defer cancel()
	names := []string{}
	out, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader").Output()
	if err == nil {
		for line := range strings.Lines(string(out)) {
			names = append(names, strings.TrimSpace(line))
		}
		return names
	}
	files, _ := filepath.Glob("/proc/driver/nvidia/gpus/*/information")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for line := range strings.Lines(string(text)) {
			if model, found := strings.CutPrefix(line, "Model:"); found {
				names = append(names, strings.TrimSpace(model))
			}
		}
	}
	return names
}
