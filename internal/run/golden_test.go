package run

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

var update = flag.Bool("update", false, "write what the runs find to testdata/golden")

// goldenPlan returns a small run of the bundled model on bundled digits.
func goldenPlan(change func(*Plan)) Plan {
	p := Plan{
		Spec: spec.Spec{
			Model: "../../testdata/mnist-cnn.onnx", Data: "../../testdata/mnist", Threads: 2, Batch: 64,
			Smoothing:  spec.Smoothing{Sigma: 1},
			Conditions: spec.Conditions{Noise: spec.Lattice, Skip: 1, Max: 4, Shard: spec.Whole},
		},
		Version: "golden",
		Certification: runfolder.Certification{
			N: 300, N0: 50, Alpha: 0.001, Class: certify.Predicted, Margin: certify.SecondMargin, Combine: certify.Directed,
			Confidence: certify.ConfidenceTangent, ConfidenceBound: certify.Betting, Band: certify.BandBinomial,
			Temperature: 1,
		},
	}
	seed := uint64(1)
	p.FixedSeed = &seed
	change(&p)
	return p
}

// TestGolden compares small runs of several kinds with recorded results: votes, certificates and bounds byte for byte,
// and scores.npz by its SHA-256. A new version of rscert may change the results only if a seed gives different noise in
// the new version. 'go test ./internal/run -update' records the results again. The test skips the comparison if the
// model rounds differently on this machine, for example on another processor.
func TestGolden(t *testing.T) {
	const probe = "testdata/golden/model.txt"
	is := modelRounds(t)
	if *update {
		writeGolden(t, probe, is)
	}
	if was, err := os.ReadFile(probe); err != nil {
		t.Fatal(err)
	} else if !bytes.Equal(is, was) {
		t.Skipf("the model's outputs here are\n%sand were\n%swhere the golden files were written", is, was)
	}
	for name, change := range map[string]func(*Plan){
		"votes":  func(*Plan) {},
		"label":  func(p *Plan) { p.Class, p.Margin = certify.Label, certify.FirstMargin },
		"stop":   func(p *Plan) { p.Stop = stopRule(t, "radius>=0.25") },
		"scores": func(p *Plan) { p.Scores = true },
		"confidence": func(p *Plan) {
			p.SaveScores, p.ConfidenceRadii, p.Method = true, []float64{0.1, 0.25}, runfolder.ByScores(certify.Betting)
		},
		"class-by-votes": func(p *Plan) { p.ConfidenceRadii = []float64{0.1, 0.25, 0.5} },
		"shard": func(p *Plan) { // with normalised inputs
			p.Mean, p.Std, p.Max, p.Skip, p.Shard = []float64{0.1307}, []float64{0.3081}, 8, 3, spec.Shard{I: 1, K: 2}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := goldenPlan(change)
			p.Out = filepath.Join(t.TempDir(), "run")
			quiet := experiment.Console{Warn: func(warning.Warning) {}, Note: func(param.Text) {}, Progress: progress.Options{Quiet: true}}
			if _, err := Certify(t.Context(), p, quiet); err != nil {
				t.Fatal(err)
			}
			for _, file := range []string{runfolder.VotesFile, runfolder.CertificatesFile, runfolder.BoundsFile, runfolder.ScoresFile} {
				compareGolden(t, filepath.Join(p.Out, file), filepath.Join("testdata/golden", name, file))
			}
		})
	}
}

// modelRounds returns a text that identifies how this machine rounds. The text holds the machine's architecture and the
// SHA-256 of the model's outputs for digits without noise.
func modelRounds(t *testing.T) []byte {
	t.Helper()
	e, err := experiment.Open(t.Context(), goldenPlan(func(*Plan) {}).Spec, new(said).console())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	model, examples := e.Model(), e.Record().Data.Examples
	batch := make([]float32, 0, model.Batch()*model.InputLen())
	for i := range model.Batch() {
		example, err := e.Example(i % examples)
		if err != nil {
			t.Fatal(err)
		}
		values := make([]float32, example.Input.Len())
		example.Input.Clean(values)
		batch = append(batch, values...)
	}
	out := make([]float32, model.Batch()*model.Classes())
	if err := model.Run(t.Context(), batch, out); err != nil {
		t.Fatal(err)
	}
	return fmt.Appendf(nil, "%s %x\n", runtime.GOARCH, sha256.Sum256(fmt.Append(nil, out)))
}

func writeGolden(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func stopRule(t *testing.T, text string) (r certify.StopRule) {
	t.Helper()
	if err := r.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return r
}

// compareGolden compares a file with its golden file. Either both files must exist, or neither.
func compareGolden(t *testing.T, path, golden string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if filepath.Ext(path) == ".npz" {
		if err == nil {
			got = fmt.Appendf(nil, "%x\n", sha256.Sum256(got))
		}
		golden += ".sha256"
	}
	if *update && got != nil {
		writeGolden(t, golden, got)
	}
	want, err := os.ReadFile(golden)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not as it was:\n%s\nwas\n%s", filepath.Base(path), got, want)
	}
}
