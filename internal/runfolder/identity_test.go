package runfolder

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/law/lawtest"
	"github.com/rscert/rscert/internal/spec"
)

// TestIdentity changes each condition of a run. The seed of the run's checksums must change with every condition that
// determines results.
func TestIdentity(t *testing.T) {
	lawtest.Use(t, lawtest.Logistic)
	p := func(change func(*Parameters)) func(*Run) { return func(r *Run) { change(&r.Parameters) } }
	parameters := map[string]func(*Run){
		"law":                p(func(p *Parameters) { p.Law = law.Of(lawtest.Logistic) }),
		"sigma":              p(func(p *Parameters) { p.Sigma = 0.5 }),
		"sigma-columns":      p(func(p *Parameters) { p.SigmaColumns = []spec.SigmaColumn{{Name: "age", Sigma: 2}} }),
		"n":                  p(func(p *Parameters) { p.N = 11 }),
		"n0":                 p(func(p *Parameters) { p.N0 = 6 }),
		"alpha":              p(func(p *Parameters) { p.Alpha = 0.01 }),
		"method":             p(func(p *Parameters) { p.Method = ByVotes(certify.ClopperPearson) }),
		"class":              p(func(p *Parameters) { p.Class = certify.Label }),
		"margin":             p(func(p *Parameters) { p.Margin = certify.FirstMargin }),
		"lipschitz":          p(func(p *Parameters) { p.Lipschitz = 2 }),
		"stop":               p(func(p *Parameters) { _ = p.Stop.UnmarshalText([]byte("radius>=0.25")) }),
		"scores":             p(func(p *Parameters) { p.Scores = true }),
		"save-scores":        p(func(p *Parameters) { p.SaveScores = true }),
		"combine":            p(func(p *Parameters) { p.Combine = certify.Projected }),
		"confidence-radii":   p(func(p *Parameters) { p.ConfidenceRadii = []float64{0, 1, 2, 4} }),
		"confidence":         p(func(p *Parameters) { p.Confidence = certify.ConfidenceTangent }),
		"confidence-bound":   p(func(p *Parameters) { p.ConfidenceBound = certify.Betting }),
		"band":               p(func(p *Parameters) { p.Band = certify.BandBinomial }),
		"temperature":        p(func(p *Parameters) { p.Temperature = 2 }),
		"top-k":              p(func(p *Parameters) { p.TopK = 3 }),
		"none":               p(func(p *Parameters) { p.None = certify.NoneSafe }),
		"reject-below":       p(func(p *Parameters) { p.RejectBelow = 0.5 }),
		"average":            p(func(p *Parameters) { p.Average = graph.AverageProbabilities }),
		"outputs":            p(func(p *Parameters) { p.Outputs = graph.Probabilities }),
		"scores-output":      p(func(p *Parameters) { p.ScoresOutput = "y" }),
		"precision":          p(func(p *Parameters) { _ = p.Precision.UnmarshalText([]byte("bf16")) }),
		"prefer-nhwc":        p(func(p *Parameters) { p.PreferNHWC = true }),
		"conv-search":        p(func(p *Parameters) { _ = p.ConvSearch.UnmarshalText([]byte("exhaustive")) }),
		"layout":             p(func(p *Parameters) { _ = p.Layout.UnmarshalText([]byte("hwc")) }),
		"mean":               p(func(p *Parameters) { p.Mean = []float64{0.5} }),
		"std":                p(func(p *Parameters) { p.Std = []float64{0.5} }),
		"noise":              p(func(p *Parameters) { p.Noise = spec.Float }),
		"seed":               p(func(p *Parameters) { p.Seed = 1<<63 + 1 }),
		"skip":               p(func(p *Parameters) { p.Skip = 2 }),
		"max":                p(func(p *Parameters) { p.Max = 3 }),
		"select":             p(func(p *Parameters) { p.Select = spec.Spread }),
		"denoiser-kind":      p(func(p *Parameters) { p.DenoiserKind = graph.DenoisedImage }),
		"denoiser-range":     p(func(p *Parameters) { p.DenoiserRange = []float64{-1, 1} }),
		"diffusion-schedule": p(func(p *Parameters) { p.DiffusionSchedule = "cosine" }),
		"only": p(func(p *Parameters) {
			p.Only = spec.Only{Choice: spec.Failed, Run: "a", Seeds: []uint64{1}, Of: 3, Examples: spec.Indices{1}}
		}),
		"shard": nil,
	}
	for _, f := range fieldsOf("", Parameters{}) {
		if _, named := parameters[f.name]; !named {
			t.Errorf("no change of %s is tested", f.name)
		}
	}
	delete(parameters, "shard")
	others := map[string]func(*Run){
		"a seed that differs in its last bit": p(func(p *Parameters) { p.Seed = 1 << 63 }),
		"only of another run": p(func(p *Parameters) {
			p.Only = spec.Only{Choice: spec.Failed, Run: "b", Seeds: []uint64{1}, Of: 3, Examples: spec.Indices{1}}
		}),
		"only with other examples": p(func(p *Parameters) {
			p.Only = spec.Only{Choice: spec.Failed, Run: "a", Seeds: []uint64{1}, Of: 3, Examples: spec.Indices{2}}
		}),
		"model":               func(r *Run) { r.Model.SHA256 = strings.Repeat("ef", 32) },
		"changes":             func(r *Run) { r.Model.Changes = []string{"a", "b"} },
		"changes in one line": func(r *Run) { r.Model.Changes = []string{"a; b"} },
		"classes":             func(r *Run) { r.Model.Classes = 3 },
		"denoiser":            func(r *Run) { r.Model.Denoiser = &Denoiser{SHA256: "12"} },
		"timestep":            func(r *Run) { r.Model.Denoiser = &Denoiser{SHA256: "12", Timestep: 3, Timesteps: 9} },
		"data":                func(r *Run) { r.Data.SHA256 = strings.Repeat("ef", 32) },
		"reading":             func(r *Run) { r.Data.Options.LabelColumn = "last" },
		"shape":               func(r *Run) { r.Data.Shape = []int{1, 2} },
		"examples":            func(r *Run) { r.Data.Examples = 5 },
		"noise table":         func(r *Run) { r.Noise.Table = "ab" },
		"noise inputs":        func(r *Run) { r.Noise.Inputs = "k/255" },
		"noise range":         func(r *Run) { r.Noise.High = 1 },
	}
	same := map[string]func(*Run){
		"names":    func(r *Run) { r.Model.File, r.Data.File, r.Data.Note = "x", "y", "z" },
		"paths":    func(r *Run) { r.Data.Options = dataset.Options{Labels: "l", ClassNames: "c"} },
		"shard":    func(r *Run) { r.Parameters.Shard, r.Data.Selected = spec.Shard{I: 1, K: 2}, 2 },
		"merged":   func(r *Run) { r.Data.Shards = []spec.Shard{{I: 1, K: 2}} },
		"software": func(r *Run) { r.Version, r.Runtime = "2", Runtime{Library: "2", Provider: "cuda"} },
		"no mean":  p(func(p *Parameters) { p.Mean = []float64{} }),
	}
	seen := map[checksum.Seed]string{testRun.Seed(): "the run"}
	for _, changes := range []map[string]func(*Run){parameters, others} {
		for name, change := range changes {
			r := testRun
			change(&r)
			if other, there := seen[r.Seed()]; there {
				t.Errorf("%s: the seed is that of %s", name, other)
			}
			seen[r.Seed()] = name
		}
	}
	for name, change := range same {
		r := testRun
		if change(&r); r.Seed() != testRun.Seed() {
			t.Errorf("%s: another seed", name)
		}
	}
}

// The identity of a run must never change, even if later versions add fields. The seed of the checksums of all lines is
// computed from the identity.
func TestIdentityStays(t *testing.T) {
	want := []string{
		`alpha 0.001`, `confidence-radii [0,1,2,3]`, `data "` + strings.Repeat("cd", 32) + `"`, `data.examples 4`,
		`data.reading "{}"`, `denoiser.step "none"`, `method "margin"`, `model "` + strings.Repeat("ab", 32) + `"`,
		`model.classes 2`, `n 10`, `n0 5`, `noise "lattice"`, `noise.entries 8`, `noise.table "` + strings.Repeat("ef", 32) + `"`, `seed 1`, `sigma 0.25`, `skip 1`,
	}
	if got := testRun.identity(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := testRun.Seed(); got != 0x1793ca95 {
		t.Errorf("the seed is %08x", uint32(got))
	}
}

// ofFormat2 writes the folder of a complete run in format 2.
func ofFormat2(t *testing.T) (dir string, run Run) {
	t.Helper()
	run = testRun
	run.Schema = 2
	dir = filepath.Join(t.TempDir(), "run")
	f, err := Create(dir, run)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, f, 0, 4)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, run
}

// Resume must continue a run of format 2 in format 2. In this format, the checksums of the lines do not identify the
// run.
func TestResumeFormat2(t *testing.T) {
	dir, run := ofFormat2(t)
	want := contents(t, dir)
	for _, line := range strings.Split(strings.TrimSpace(want[VotesFile]), "\n") {
		if _, state := checksum.Seed(0).VerifyJSON([]byte(line)); state != checksum.Good {
			t.Errorf("%s: %v", line, state)
		}
	}
	lines := strings.SplitAfter(want[VotesFile], "\n")
	if err := os.WriteFile(filepath.Join(dir, VotesFile), []byte(lines[0]+lines[1]), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := Resume(dir, testRun)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, f, f.Done(), 4)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range contents(t, dir) {
		if text != want[name] {
			t.Errorf("%s is\n%s\nwant\n%s", name, text, want[name])
		}
	}
	if again, err := Read(dir); err != nil || again.Bound() || again.Schema != run.Schema {
		t.Errorf("format %d, bound %v, %v", again.Schema, again.Bound(), err)
	}
}

// Every function that reads the files of a run must refuse a file of another run. The error must name the file.
// Resuming must not change the file.
func TestExchangedFiles(t *testing.T) {
	other := testRun
	other.Model.SHA256 = strings.Repeat("ef", 32)
	dirs := map[string]string{"another model": filepath.Join(t.TempDir(), "run")}
	f, err := Create(dirs["another model"], other)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, f, 0, 4)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	dirs["format 2"], _ = ofFormat2(t)
	for name, from := range dirs {
		for _, file := range []string{VotesFile, CertificatesFile, BoundsFile} {
			dir := wholeRun(t)
			text := contents(t, from)[file]
			overwrite(t, dir, file, func(string) string { return text })
			e, err := Find(dir)
			if err != nil {
				t.Fatal(err)
			}
			read := map[string]func() error{
				VotesFile:        func() error { _, err := e.Votes(anyVotes); return err },
				CertificatesFile: func() error { _, err := e.Certificates(); return err },
				BoundsFile:       func() error { _, err := e.Bounds(); return err },
			}[file]
			if err := read(); !errors.Is(err, errForeign) || !strings.Contains(err.Error(), file) {
				t.Errorf("%s of %s: %v", file, name, err)
			}
			var damage *DamageError
			if f, err := Resume(dir, testRun); !errors.As(err, &damage) || !strings.Contains(err.Error(), "of another run") {
				if err == nil {
					f.Close()
				}
				t.Errorf("%s of %s: resumed: %v", file, name, err)
			}
			if contents(t, dir)[file] != text {
				t.Errorf("%s of %s: resuming changed it", file, name)
			}
		}
	}
}

// Commands can read a file of votes that is not in a run folder. They must refuse the file if its lines belong to
// different runs, or if only some of the lines belong to a run.
func TestLinesWithoutTheirRun(t *testing.T) {
	seal := func(seed checksum.Seed, lines ...string) (text string) {
		for _, line := range lines {
			text += string(seed.AppendJSON([]byte(line))) + "\n"
		}
		return text
	}
	const a, b, c = `{"index":0,"label":0,"n":3,"counts":[2,1]}`, `{"index":1,"label":0,"n":3,"counts":[2,1]}`, `{"index":2,"label":0,"n":3,"counts":[2,1]}`
	one, two := checksum.NewSeed([]byte("one")), checksum.NewSeed([]byte("two"))
	for _, tt := range []struct{ name, text, want string }{
		{"of a run", seal(one, a, b, c), ""},
		{"one line of a run", seal(one, a), ""},
		{"of no run", seal(0, a, b, c), ""},
		{"of two runs", seal(one, a, b) + seal(two, c), ":3: the line is of another run than the lines before it"},
		{"of a run, and of none", seal(one, a) + seal(0, b), ":2: the line is of another run than the lines before it"},
		{"of no run, and of one", seal(0, a) + seal(one, b), ":2: the line is of another run than the lines before it"},
		{"the only line changed", strings.Replace(seal(one, a), "[2,1]", "[1,2]", 1), ":1: the line has changed"},
		{"the first line changed", strings.Replace(seal(one, a, b), "[2,1]", "[1,2]", 1), ":1: the line has changed"},
		{"every line changed alike", strings.ReplaceAll(seal(one, a, b), "[2,1]", "[1,2]"), ":1: the line has changed"},
		{"the last line changed", strings.Replace(seal(one, a, b, c), `2,"label"`, `3,"label"`, 1), ":3: the line has changed"},
		{"a line without its checksum", seal(one, a) + b + "\n", ":2: the line has no checksum"},
	} {
		path := filepath.Join(t.TempDir(), "votes.jsonl")
		if err := os.WriteFile(path, []byte(tt.text), 0o644); err != nil {
			t.Fatal(err)
		}
		e, err := Find(path)
		if err != nil {
			t.Fatal(err)
		}
		switch votes, err := e.Votes(anyVotes); {
		case tt.want == "" && (err != nil || len(votes) == 0):
			t.Errorf("%s: %v", tt.name, err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: %v, want an error with %q", tt.name, err, tt.want)
		}
	}
}

// Shards of different formats must not merge.
func TestMergeFormats(t *testing.T) {
	old := splitRun
	old.Schema = 2
	dirs := shardsOf(t, splitRun, 2)
	_, err := merge(t, []string{dirs[0], sampleShard(t, old, spec.Shard{I: 1, K: 2}, 0)})
	if err == nil || !strings.Contains(err.Error(), "format 3") || !strings.Contains(err.Error(), "format 2") {
		t.Errorf("error %v", err)
	}
	out, err := merge(t, shardsOf(t, old, 2))
	if err != nil {
		t.Fatal(err)
	}
	checkWhole(t, out, sampleShard(t, old, spec.Whole, 0), old)
}

// Readers must refuse rows of bounds.csv that contradict their certificates. A resumed run must sample the examples of
// these rows again.
func TestRowsContradictCertificates(t *testing.T) {
	for name, change := range map[string]func(fields []string){
		"label":      func(f []string) { f[labelField], f[correctField] = "0", "1" },
		"prediction": func(f []string) { f[predictionField], f[correctField] = "1", "1" },
		"correct":    func(f []string) { f[correctField] = "1" },
		"alpha":      func(f []string) { f[alphaField] = "0.01" },
		"lower":      func(f []string) { f[lowerField] = "0.99" },
		"upper":      func(f []string) { f[upperField] = "1.5" },
		"negative":   func(f []string) { f[lowerField] = "-0.1" },
		"NaN":        func(f []string) { f[upperField] = "NaN" },
	} {
		dir := wholeRun(t)
		overwrite(t, dir, BoundsFile, func(text string) string {
			lines := strings.SplitAfter(text, "\n")
			body, _ := testRun.Seed().VerifyCSV([]byte(boundsHeader), []byte(strings.TrimSpace(lines[1])))
			fields := strings.Split(string(body), ",")
			change(fields)
			lines[1] = string(testRun.Seed().AppendCSV([]byte(boundsHeader), []byte(strings.Join(fields, ",")))) + "\n"
			return strings.Join(lines, "")
		})
		e, err := Find(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := e.CheckBounds(); err == nil || !strings.Contains(err.Error(), "the rows of example 1 are not those of its certificate") {
			t.Errorf("%s: %v", name, err)
		}
		f, err := Resume(dir, testRun)
		if err != nil {
			t.Fatal(err)
		}
		if f.Done() != 1 || f.Dropped() != 3 {
			t.Errorf("%s: %d examples are done, %d dropped, want 1 and 3", name, f.Done(), f.Dropped())
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
