package experiment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

// The small models of internal/onnx take images of 3·4·4 values and have four classes.
const (
	models    = "../onnx/testdata/"
	imageSize = 48
)

// writeImages writes a CSV file of images. The labels are 0, 1, 2, 3, 0, 1, …
func writeImages(t *testing.T, images ...[]float64) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("label")
	for d := range images[0] {
		fmt.Fprintf(&b, ",v%d", d)
	}
	for label, image := range images {
		fmt.Fprintf(&b, "\n%d", label%4)
		for _, v := range image {
			fmt.Fprintf(&b, ",%v", v)
		}
	}
	path := filepath.Join(t.TempDir(), "images.csv")
	if err := os.WriteFile(path, []byte(b.String()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// manyImages writes 12 images. Their values are multiples of 1/255.
func manyImages(t *testing.T) string {
	images := make([][]float64, 12)
	for k := range images {
		for d := range imageSize {
			images[k] = append(images[k], float64(float32((k*31+d*17)%256)/255))
		}
	}
	return writeImages(t, images...)
}

// The function 'quick' returns the spec of an experiment that opens quickly.
func quick(data string, changes ...func(*spec.Spec)) spec.Spec {
	seed := uint64(5)
	s := spec.Spec{
		Model: models + "nchw.onnx", Data: data, Threads: 2, FixedSeed: &seed,
		Smoothing: spec.Smoothing{Sigma: 0.1}, Conditions: spec.Conditions{Noise: spec.Lattice, Skip: 1, Shard: spec.Whole},
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

// The type 'said' records the messages to the user.
type said struct{ warnings, notes []string }

func (s *said) console() Console {
	return Console{
		Warn:     func(w warning.Warning) { s.warnings = append(s.warnings, w.Text.Spell(param.Plain)) },
		Note:     func(t param.Text) { s.notes = append(s.notes, t.Spell(param.Plain)) },
		Progress: progress.Options{Quiet: true},
	}
}

// An open experiment must have the examples of its shard with their labels and noise, and it must record its spec.
func TestOpen(t *testing.T) {
	e, err := Open(t.Context(), quick(manyImages(t), func(s *spec.Spec) { s.Skip, s.Shard = 2, spec.Shard{I: 1, K: 2} }), new(said).console())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if got := e.Positions(); !slices.Equal(got, []int{2, 6, 10}) {
		t.Errorf("positions %v", got)
	}
	example, err := e.Example(6)
	if err != nil || example.Index != 6 || example.Label != 2 || e.Label(6) != 2 || example.Quantisation != 0 {
		t.Errorf("example %+v, %v", example, err)
	}
	clean, noisy := make([]float32, imageSize), make([]float32, imageSize)
	example.Input.Clean(clean)
	if want := float32(186) / 255; clean[0] != want {
		t.Errorf("the first value is %v, want %v", clean[0], want)
	}
	example.Input.Perturb(noisy, smoothing.NewStream(e.Spec.Seed, 6, smoothing.Estimation), 0)
	if slices.Equal(clean, noisy) {
		t.Error("the noise is 0")
	}
	r := e.Record()
	if r.Data.Examples != 12 || r.Data.Selected != 3 || r.Model.Classes != 4 || r.Parameters.Sigma != 0.1 || r.Parameters.Seed != 5 ||
		r.Parameters.Outputs != graph.Logits || r.Parameters.N != 0 || r.Noise.Distribution == "" || r.Runtime.Threads != 2 {
		t.Errorf("recorded as %+v", r)
	}
	l, err := e.Look(t.Context())
	if err != nil || l.Examples != 3 || l.SamplesPerSecond <= 0 {
		t.Errorf("look %+v, %v", l, err)
	}
}

// If the user's input prevents an experiment from opening, the error must be an InputError. If the context is
// cancelled, the error must not be an InputError.
func TestOpenRefuses(t *testing.T) {
	data := manyImages(t)
	for want, change := range map[string]func(*spec.Spec){
		"model is missing":                        func(s *spec.Spec) { s.Model = "" },
		"sigma 0: want a number above 0":          func(s *spec.Spec) { s.Sigma = 0 },
		"shard 0/0: want i/k":                     func(s *spec.Spec) { s.Shard = spec.Shard{} },
		"shard 12/13: has none of the 12":         func(s *spec.Spec) { s.Shard = spec.Shard{I: 12, K: 13} },
		"no-such.onnx":                            func(s *spec.Spec) { s.Model = "no-such.onnx" },
		"no-such.csv":                             func(s *spec.Spec) { s.Data = "no-such.csv" },
		"mean has 2 values; the model's input ha": func(s *spec.Spec) { s.Mean = []float64{0, 0} },
		"denoiser-range [1 0]: want two numbers":  func(s *spec.Spec) { s.Denoiser, s.DenoiserRange = "d.onnx", []float64{1, 0} },
	} {
		_, err := Open(t.Context(), quick(data, change), new(said).console())
		var bad spec.InputError
		if err == nil || !strings.Contains(err.Error(), want) || !errors.As(err, &bad) {
			t.Errorf("error %v, want an InputError with %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var bad spec.InputError
	if _, err := Open(ctx, quick(data), new(said).console()); !errors.Is(err, context.Canceled) || errors.As(err, &bad) {
		t.Errorf("cancelled: %v", err)
	}
}

// Every experiment must draw its own seed, unless its spec fixes the seed.
func TestSeeds(t *testing.T) {
	choose := func(s spec.Spec) (uint64, []string) {
		var said said
		e := &Experiment{Spec: s, console: said.console()}
		if err := e.chooseSeed(); err != nil {
			t.Fatal(err)
		}
		return e.Spec.Seed, said.warnings
	}
	var drawn []uint64
	for range 3 {
		seed, warnings := choose(quick("d.csv", func(s *spec.Spec) { s.FixedSeed = nil }))
		drawn = append(drawn, seed)
		if len(warnings) != 0 {
			t.Errorf("seed %d: warnings %q", seed, warnings)
		}
		if seed >= 1<<53 || seed < 1<<20 { // a seed is below 2²⁰ with probability 2⁻³³
			t.Errorf("seed %d does not have 53 bits", seed)
		}
	}
	if drawn[0] == drawn[1] || drawn[1] == drawn[2] || drawn[0] == drawn[2] {
		t.Errorf("seeds %v", drawn)
	}
	_, warnings := choose(quick("d.csv", func(s *spec.Spec) { s.FixedSeed, s.Shard = nil, spec.Shard{I: 1, K: 2} }))
	if len(warnings) != 1 || !strings.Contains(warnings[0], "shard 1/2 without seed") {
		t.Errorf("warnings %q", warnings)
	}
	zero := uint64(0)
	if seed, _ := choose(quick("d.csv", func(s *spec.Spec) { s.FixedSeed, s.Seed = &zero, 9 })); seed != 0 {
		t.Errorf("seed 0 is %d", seed)
	}
}
