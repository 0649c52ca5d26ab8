package runfolder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/spec"
)

var testRun = Run{
	Schema:  Schema,
	Version: "1.2.3",
	Model:   Model{File: "m.onnx", SHA256: strings.Repeat("ab", 32), Classes: 2},
	Data:    Data{File: "d.csv", SHA256: strings.Repeat("cd", 32), Examples: 4, Selected: 4},
	Parameters: Parameters{
		Smoothing:     spec.Smoothing{Sigma: 0.25},
		Certification: Certification{N: 10, N0: 5, Alpha: 0.001, Method: ByVotes(certify.ExactMargin), ConfidenceRadii: []float64{0, 1, 2, 3}},
		Conditions:    spec.Conditions{Noise: spec.Lattice, Seed: 1, Skip: 1, Shard: spec.Whole},
	},
	Runtime: Runtime{Library: "1.29.0", Provider: "cpu", Batch: 64, Threads: 2},
	Noise:   Noise{Table: strings.Repeat("ef", 32), Entries: 8},
}

func record(i int) Record {
	r := Record{Votes: certify.Votes{Index: i, Label: i % 2, N0: 5, Counts0: []int64{4, 1}, N: 10, Counts: []int64{int64(i % 11), int64(10 - i%11)}},
		Certificate: certify.Certificate{Index: i, Label: i % 2, Prediction: 0, Radius: float64(i) - 0.5, Method: "margin", Alpha: 0.001, Sigma: 0.25, N: 10, Sound: true},
	}
	if i == 0 { // example 0 has no label and a negative radius, so it has no rows
		r.Votes.Label, r.Certificate.Label = certify.UnknownLabel, certify.UnknownLabel
	}
	for k := range 4 {
		if certified := k < i; certified || i != 0 {
			r.Bounds = append(r.Bounds, certify.ConfidenceBound{
				Index: i, Label: r.Votes.Label, Correct: i%2 == 0, Certified: certified, Alpha: 0.001,
				Radius: float64(k), Lower: 0.1, Confidence: 0.75, Upper: 1 - 1/float64(3+k),
			})
		}
	}
	return r
}

// fill appends the examples with indices in [from, to) to a folder.
func fill(t *testing.T, f *Folder, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		if err := f.Append(record(i)); err != nil {
			t.Fatal(err)
		}
	}
}

func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	for _, name := range []string{RunFile, VotesFile, CertificatesFile, BoundsFile} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(data)
	}
	return files
}

// TestResumeEverywhere cuts the files of a run at many combinations of offsets, as a kill could cut them. A run writes
// the bounds of an example first and the certificate last. After the resumed run, the files must have the same bytes as
// before the cut.
func TestResumeEverywhere(t *testing.T) {
	const n = 4
	whole := filepath.Join(t.TempDir(), "run")
	f, err := Create(whole, testRun)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, f, 0, n)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	want := contents(t, whole)

	dir := filepath.Join(t.TempDir(), "cut")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	votes, certs := want[VotesFile], want[CertificatesFile]
	lines := func(s string) int { return strings.Count(s, "\n") }
	for cutVotes := 0; cutVotes <= len(votes); cutVotes += 11 {
		for cutCerts := 0; cutCerts <= len(certs); cutCerts += 29 {
			if lines(certs[:cutCerts]) > lines(votes[:cutVotes]) {
				continue
			}
			// All rows of the examples with complete votes stay in bounds.csv. After these rows, a varying number of
			// bytes stays.
			bounds := want[BoundsFile]
			least := 0 // example 0 has no rows
			switch k := lines(votes[:cutVotes]); k {
			case 0:
			case n:
				least = len(bounds) - 1
			default:
				least = strings.Index(bounds, fmt.Sprintf("\n%d,", k))
			}
			cutBounds := least + 1 + (cutVotes+cutCerts)%(len(bounds)-least)
			for name, data := range map[string]string{RunFile: want[RunFile], VotesFile: votes[:cutVotes], CertificatesFile: certs[:cutCerts], BoundsFile: bounds[:cutBounds]} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			f, err := Resume(dir, testRun)
			if err != nil {
				t.Fatalf("cut at %d and %d: %v", cutVotes, cutCerts, err)
			}
			done := f.Done()
			if wantDone := min(lines(votes[:cutVotes]), lines(certs[:cutCerts])); done != wantDone {
				t.Fatalf("cut at %d and %d: %d examples done, want %d", cutVotes, cutCerts, done, wantDone)
			}
			fill(t, f, done, n)
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			for name, data := range contents(t, dir) {
				if data != want[name] {
					t.Fatalf("cut at %d and %d: %s is\n%s\nwant\n%s", cutVotes, cutCerts, name, data, want[name])
				}
			}
		}
	}
}

func TestResumeRefusals(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Run)
		want   string // text that the error must contain; empty if no error is expected
	}{
		{"the same", func(*Run) {}, ""},
		{"batch and threads", func(r *Run) { r.Runtime.Batch, r.Runtime.Threads = 1, 1 }, ""},
		{"the model's name only", func(r *Run) { r.Model.File = "other.onnx" }, ""},
		{"no mean and an empty mean", func(r *Run) { r.Parameters.Mean = []float64{} }, ""},
		{"sigma", func(r *Run) { r.Parameters.Sigma = 0.5 }, "--sigma was 0.25, now 0.5"},
		{"n and seed", func(r *Run) { r.Parameters.N = 20; r.Parameters.Seed = 2 }, "--n was 10, now 20; --seed was 1, now 2"},
		{"TF32", func(r *Run) { r.Parameters.Precision = onnx.TF32 }, "--precision was f32, now tf32"},
		{"NHWC", func(r *Run) { r.Parameters.PreferNHWC = true }, "--prefer-nhwc was false, now true"},
		{"search", func(r *Run) { r.Parameters.ConvSearch = onnx.ExhaustiveSearch }, "--conv-search was heuristic, now exhaustive"},
		{"devices", func(r *Run) { r.Runtime.Device = "cuda:0,1" }, ""},
		{"stop", func(r *Run) { r.Parameters.Stop, _ = certify.ParseStop("radius>=0.5") }, "--stop was not given, now radius>=0.5"},
		{"mean", func(r *Run) { r.Parameters.Mean = []float64{0.5} }, "--mean was [], now [0.5]"},
		{"model", func(r *Run) { r.Model.SHA256 = strings.Repeat("0", 64) }, "the model was m.onnx with SHA-256 abababababab…, now m.onnx with SHA-256 000000000000…"},
		{"a denoiser", func(r *Run) { r.Model.Denoiser = &Denoiser{File: "e.onnx", SHA256: strings.Repeat("ef", 32)} },
			"the denoiser was none, now e.onnx with SHA-256 efefefefefef…"},
		{"timestep", func(r *Run) { r.Model.Denoiser = &Denoiser{Timestep: 7, Timesteps: 9, AlphaBar: 0.5} },
			"the denoiser's timestep was none, now 7 of 9, ᾱ = 0.5"},
		{"kind", func(r *Run) { r.Parameters.DenoiserKind = graph.PredictedNoise }, "--denoiser-kind was not given, now epsilon"},
		{"data", func(r *Run) { r.Data.SHA256 = strings.Repeat("0", 64) }, "the data set was d.csv with SHA-256 cdcdcdcdcdcd…, now"},
		{"library", func(r *Run) { r.Runtime.Library = "1.30.0" }, "ONNX Runtime was 1.29.0, now 1.30.0"},
		{"version", func(r *Run) { r.Version = "2.0.0" }, "rscert was 1.2.3, now 2.0.0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			f, err := Create(dir, testRun)
			if err != nil {
				t.Fatal(err)
			}
			fill(t, f, 0, 2)
			f.Close()
			before := contents(t, dir)
			run := testRun
			tt.change(&run)
			f, err = Resume(dir, run)
			if err == nil {
				f.Close()
			}
			var mismatch *MismatchError
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("error %v", err)
			case tt.want != "" && (!errors.As(err, &mismatch) || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			for name, data := range contents(t, dir) {
				if data != before[name] {
					t.Errorf("%s was changed", name)
				}
			}
		})
	}
}

// TestOtherLibrary resumes a run with a different library file of the same version of ONNX Runtime. The run must record
// the change and report it once.
func TestOtherLibrary(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	with := func(sum string) Run {
		r := testRun
		r.Runtime.LibrarySHA256 = sum
		return r
	}
	f, err := Create(dir, with("a"))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, f, 0, 1)
	f.Close()
	for i, step := range []struct {
		sum, before string
		libraries   []string
	}{{"a", "", []string{"a"}}, {"b", "a", []string{"a", "b"}}, {"b", "", []string{"a", "b"}}, {"a", "b", []string{"a", "b"}}} {
		f, err := Resume(dir, with(step.sum))
		if err != nil {
			t.Fatal(err)
		}
		if f.OtherLibrary() != step.before || f.Moved() != nil {
			t.Errorf("step %d: from library %q and GPUs %v", i, f.OtherLibrary(), f.Moved())
		}
		f.Close()
		run, err := Read(dir)
		if err != nil || !slices.Equal(run.Runtime.Libraries(), step.libraries) || run.Runtime.LibrarySHA256 != "a" {
			t.Errorf("step %d: libraries %v, %v", i, run.Runtime.Libraries(), err)
		}
	}
	old := filepath.Join(t.TempDir(), "old") // from a version that did not record the library
	f, err = Create(old, testRun)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if f, err = Resume(old, with("a")); err != nil || f.OtherLibrary() != "" {
		t.Fatalf("%v: from library %q", err, f.OtherLibrary())
	}
	f.Close()
}

// TestMoved resumes a run on other GPUs. The run must record and report a change to another kind of GPU. If only the
// number of GPUs changes, it must record and report nothing.
func TestMoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	on := func(gpus ...string) Run {
		r := testRun
		r.Runtime.GPUs = gpus
		return r
	}
	f, err := Create(dir, on("A", "A"))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, f, 0, 1)
	f.Close()
	moves := 0
	for i, step := range []struct {
		gpus  []string
		moved []string
	}{
		{[]string{"A"}, nil},
		{[]string{"A", "A", "A"}, nil},
		{[]string{"B", "A"}, []string{"A"}},
		{[]string{"A", "B"}, nil},
		{[]string{"C"}, []string{"A", "B"}},
	} {
		before := contents(t, dir)
		f, err := Resume(dir, on(step.gpus...))
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Moved(); !slices.Equal(got, step.moved) || (got == nil) != (step.moved == nil) {
			t.Errorf("step %d: moved from %v, want %v", i, got, step.moved)
		}
		f.Close()
		run, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if step.moved == nil {
			if contents(t, dir)[RunFile] != before[RunFile] {
				t.Errorf("step %d: run.json is written again", i)
			}
		} else if moves++; len(run.Runtime.Resumed) != moves || !slices.Equal(run.Runtime.Resumed[moves-1].GPUs, step.gpus) || run.Runtime.Resumed[moves-1].Examples != 1 {
			t.Errorf("step %d: %+v", i, run.Runtime.Resumed)
		}
		if !slices.Equal(run.Runtime.GPUs, []string{"A", "A"}) {
			t.Errorf("step %d: the run was begun on %v", i, run.Runtime.GPUs)
		}
	}
}

func TestCreateRefuses(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.tex"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(dir, testRun); !errors.Is(err, ErrExists) {
		t.Errorf("error %v, want %v", err, ErrExists)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("a refused folder now holds %v", entries)
	}
}

func TestOneWriter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	f, err := Create(dir, testRun)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Resume(dir, testRun); err == nil || !strings.Contains(err.Error(), "another rscert") {
		t.Errorf("a second writer: error %v", err)
	}
	f.Close()
	f, err = Resume(dir, testRun)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

func TestReadRefusals(t *testing.T) {
	for _, tt := range []struct{ json, want string }{
		{`{"schema": 4, "rscert": "9.9"}`, `written in format 4 by rscert "9.9"`},
		{`{"rscert": "1.0"}`, "no schema version"},
		{`{"schema"`, "unexpected end of JSON"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, RunFile), []byte(tt.json), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.json, err, tt.want)
		}
	}
}

func anyVotes(certify.Votes) error { return nil }

func TestVotesFromElsewhere(t *testing.T) {
	good := `{"index":0,"label":0,"n":3,"counts":[2,1]}`
	sealed, err := encodeLine(0, json.RawMessage(good))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, data, want string // 'want' is a part of the error, or "" if reading the votes must succeed
	}{
		{"one line", good + "\n", ""},
		{"no newline at the end", good, ""},
		{"a checksum", string(sealed), ""},
		{"a checksum and none", string(sealed) + strings.Replace(good, `"index":0`, `"index":1`, 1), "votes.jsonl:2: the line has no checksum"},
		{"no label known", strings.Replace(good, `"label":0`, `"label":-1`, 1), ""},
		{"not JSON", good + "\nhello\n", "votes.jsonl:2: "},
		{"blank lines count", good + "\n\n\n{]\n", "votes.jsonl:4: "},
		{"wrong sum", good + "\n" + `{"index":1,"label":0,"n":4,"counts":[2,1]}` + "\n", "votes.jsonl:2: counts sum to 3"},
		{"torn", good + "\n" + good[:20], "votes.jsonl:2: "},
		{"no label", `{"index":0,"n":3,"counts":[2,1]}`, "votes.jsonl:1: label is missing"},
		{"no index", `{"label":0,"n":3,"counts":[2,1]}`, "votes.jsonl:1: index is missing"},
		{"a key twice", `{"index":0,"label":0,"label":1,"n":3,"counts":[2,1]}`, `votes.jsonl:1: "label" appears twice`},
		{"a key twice but for case", `{"index":0,"label":0,"Label":1,"n":3,"counts":[2,1]}`, `votes.jsonl:1: "Label" appears twice`},
		{"null", `{"index":0,"label":null,"n":3,"counts":[2,1]}`, `votes.jsonl:1: "label": is null`},
		{"null in counts", `{"index":0,"label":0,"n":2,"counts":[2,null]}`, `votes.jsonl:1: "counts": is null`},
		{"an index twice", good + "\n" + good + "\n", "votes.jsonl:2: index 0 appears twice"},
		{"other classes", good + "\n" + `{"index":1,"label":0,"n":3,"counts":[2,1,0]}`, "votes.jsonl:2: counts has 3 classes, the lines before have 2"},
		{"changed", strings.Replace(string(sealed), "[2,1]", "[1,2]", 1), "votes.jsonl:1: the line has changed"},
		{"two objects", good + good, "votes.jsonl:1: text behind"},
		{"deep", `{"index":` + strings.Repeat("[", 1<<22), `votes.jsonl:1: "index": is nested more than 100 deep`},
		{"a line of noise", strings.Repeat("x", 1<<20), "votes.jsonl:1: "},
	} {
		path := filepath.Join(t.TempDir(), VotesFile)
		if err := os.WriteFile(path, []byte(tt.data), 0o644); err != nil {
			t.Fatal(err)
		}
		e, err := Find(path)
		if err != nil {
			t.Fatal(err)
		}
		votes, err := e.Votes(anyVotes)
		switch {
		case tt.want == "" && (err != nil || len(votes) != 1):
			t.Errorf("%s: %d votes, error %v", tt.name, len(votes), err)
		case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > len(path)+200):
			t.Errorf("%s: error %v, want a short one with %q", tt.name, err, tt.want)
		}
	}
}

// wholeRun writes a run with all records and returns the run's folder.
func wholeRun(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	f, err := Create(dir, testRun)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, f, 0, testRun.Data.Selected)
	if err := errors.Join(f.Finish(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return dir
}

// overwrite changes a file of a run folder.
func overwrite(t *testing.T, dir, name string, change func(string) string) {
	t.Helper()
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	after := change(string(data))
	if after == string(data) {
		t.Fatalf("%s was not changed", name)
	}
	if err := os.WriteFile(path, []byte(after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// reseal returns a function that changes the second line of a file and corrects the line's checksum.
func reseal(t *testing.T, change func(string) string) func(string) string {
	return func(data string) string {
		lines := strings.SplitAfter(data, "\n")
		body, state := testRun.Seed().VerifyJSON([]byte(strings.TrimSpace(lines[1])))
		if state != checksum.Good {
			t.Fatalf("the line's checksum is %v", state)
		}
		lines[1] = string(testRun.Seed().AppendJSON([]byte(change(string(body))))) + "\n"
		return strings.Join(lines, "")
	}
}

func substitute(old, new string) func(string) string {
	return func(s string) string { return strings.Replace(s, old, new, 1) }
}

// TestMixedLines changes a line of a run folder so that it contradicts the run, and corrects the line's checksum.
// Resuming and reading the run must both fail. The error must name the contradiction.
func TestMixedLines(t *testing.T) {
	for _, tt := range []struct {
		name, file string
		change     func(string) string
		want       string
	}{
		{"an index", VotesFile, substitute(`"index":1`, `"index":3`), "index is 3, and this line of the run is of example 1"},
		{"another n", VotesFile, func(s string) string {
			return substitute(`"n":10,"counts":[1,9]`, `"n":9,"counts":[1,8]`)(s)
		}, "n is 9, the run's 10"},
		{"another n0", VotesFile, substitute(`"n0":5,"counts0":[4,1]`, `"n0":4,"counts0":[4,0]`), "n0 is 4, the run's 5"},
		{"more classes", VotesFile, func(s string) string {
			return substitute(`[4,1]`, `[4,1,0]`)(substitute(`[1,9]`, `[1,9,0]`)(s))
		}, "counts has 3 classes, the run's model 2"},
		{"stopped", VotesFile, substitute(`"counts":[1,9]`, `"counts":[1,9],"stop":"radius>=1","alpha_share":0.5`), `stop is "radius>=1"`},
		{"norm", CertificatesFile, substitute(`"norm":"l2"`, `"norm":"l1"`), "it is of gaussian noise in the l1 norm, the run of gaussian noise in the l2 norm"},
		{"sigma", CertificatesFile, substitute(`"sigma":0.25`, `"sigma":2.5`), "sigma is 2.5, the run's 0.25"},
		{"a certificate's label", CertificatesFile, substitute(`"label":1`, `"label":0`), "certificates.jsonl:2: is of example 1 with label 0"},
		{"a line of nothing", CertificatesFile, func(string) string { return `{"index":1}` }, "label is missing"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := wholeRun(t)
			overwrite(t, dir, tt.file, reseal(t, tt.change))
			f, err := Resume(dir, testRun)
			if err == nil {
				f.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("resume: error %v, want one with %q", err, tt.want)
			}
			if tt.name == "a certificate's label" { // only Resume compares the certificates with the votes
				return
			}
			e, err := Find(dir)
			if err != nil {
				t.Fatal(err)
			}
			if tt.file == VotesFile {
				_, err = e.Votes(anyVotes)
			} else {
				_, err = e.Certificates()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("read: error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestRepairs damages a finished run as a kill or a power cut can damage it. Resume must keep the intact examples.
// After the resumed run, the files must have the same bytes as before the damage.
func TestRepairs(t *testing.T) {
	lastLine := func(s string) string { return s[:strings.LastIndex(strings.TrimSuffix(s, "\n"), "\n")+1] }
	zeros := func(from, to int) func(string) string {
		return func(s string) string { return s[:from] + strings.Repeat("\x00", to-from) + s[to:] }
	}
	for _, tt := range []struct {
		name, file string
		change     func(string) string
		done       int
	}{
		{"the last certificate is gone", CertificatesFile, lastLine, 3},
		{"the last votes are gone", VotesFile, lastLine, 3},
		{"the last bounds are gone", BoundsFile, lastLine, 3},
		{"all bounds are gone", BoundsFile, func(string) string { return "" }, 1}, // example 0 has no rows
		{"all votes are gone", VotesFile, func(string) string { return "" }, 0},
		{"a torn end", CertificatesFile, func(s string) string { return s[:len(s)-7] }, 3},
		{"an end without its newline", VotesFile, func(s string) string { return s[:len(s)-1] }, 3},
		{"zeros at the end", VotesFile, func(s string) string { return lastLine(s) + strings.Repeat("\x00", 50) }, 3},
		{"zeros in the middle", CertificatesFile, zeros(300, 310), 1},
		{"zeros in the bounds", BoundsFile, zeros(len(boundsHeader)+5, len(boundsHeader)+9), 1},
		{"another last line", VotesFile, func(s string) string { return lastLine(s) + "hello\n" }, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := wholeRun(t)
			want := contents(t, dir)
			overwrite(t, dir, tt.file, tt.change)
			f, err := Resume(dir, testRun)
			if err != nil {
				t.Fatal(err)
			}
			if f.Done() != tt.done || f.Dropped() != 4-tt.done {
				t.Errorf("%d examples are done and %d dropped, want %d and %d", f.Done(), f.Dropped(), tt.done, 4-tt.done)
			}
			fill(t, f, f.Done(), 4)
			if err := errors.Join(f.Finish(), f.Close()); err != nil {
				t.Fatal(err)
			}
			for name, data := range contents(t, dir) {
				if data != want[name] {
					t.Errorf("%s differs", name)
				}
			}
		})
	}
}

// TestStrippedChecksums rewrites lines without their checksums, as another program might. Resume must reject such
// lines. It must not cut them off, although it cuts off lines that a power cut damaged.
func TestStrippedChecksums(t *testing.T) {
	dir := wholeRun(t)
	strip := regexp.MustCompile(`,"check":"crc32c:[0-9a-f]{8}"`)
	overwrite(t, dir, VotesFile, func(s string) string { return strip.ReplaceAllString(s, "") })
	before := contents(t, dir)
	if f, err := Resume(dir, testRun); err == nil || !strings.Contains(err.Error(), "votes.jsonl:1: the line has no checksum") {
		if err == nil {
			f.Close()
		}
		t.Errorf("error %v", err)
	}
	if contents(t, dir)[VotesFile] != before[VotesFile] {
		t.Error("the votes were changed")
	}
}

// TestOldFormat checks that Resume rejects a run of format 1 and leaves its files unchanged. Lines of format 1 have no
// checksums, but Resume must not cut them off.
func TestOldFormat(t *testing.T) {
	dir := wholeRun(t)
	before := contents(t, dir)
	old := testRun
	old.Schema = 1
	doc, err := encode(old, "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, RunFile), doc, 0o644); err != nil {
		t.Fatal(err)
	}
	var mismatch *MismatchError
	if f, err := Resume(dir, testRun); !errors.As(err, &mismatch) || !strings.Contains(err.Error(), "the folder's format was 1, now 3") {
		if err == nil {
			f.Close()
		}
		t.Errorf("error %v", err)
	}
	for _, name := range []string{VotesFile, CertificatesFile, BoundsFile} {
		if contents(t, dir)[name] != before[name] {
			t.Errorf("%s was changed", name)
		}
	}
}

// TestDamageInTheMiddle damages a run in ways that no power cut can cause. Resume must return an error with a hint.
func TestDamageInTheMiddle(t *testing.T) {
	for _, file := range []string{VotesFile, CertificatesFile, BoundsFile} {
		dir := wholeRun(t)
		overwrite(t, dir, file, substitute("\n", "\n9")) // in the second line
		f, err := Resume(dir, testRun)
		if err == nil {
			f.Close()
		}
		advice, _ := hint.Of(err)
		var damage *DamageError
		if !errors.As(err, &damage) || !strings.Contains(err.Error(), file+":2: ") || !strings.Contains(advice, "delete this line") {
			t.Errorf("%s: error %v", file, err)
		}
	}
}

// TestBitFlips flips one bit of every byte. With the build tag 'audit', another test flips all eight bits.
func TestBitFlips(t *testing.T) {
	flipBits(t, func(i int) []int { return []int{i % 8} })
}

// flipBits flips one bit at a time in the files of a finished run. Every reader of the file must notice the change.
func flipBits(t *testing.T, bits func(i int) []int) {
	dir := wholeRun(t)
	readers := map[string]func(*Evidence) error{
		RunFile:          func(*Evidence) error { return nil }, // Find has already read this file
		VotesFile:        func(e *Evidence) error { _, err := e.Votes(anyVotes); return err },
		CertificatesFile: func(e *Evidence) error { _, err := e.Certificates(); return err },
		BoundsFile:       func(e *Evidence) error { _, err := e.Bounds(); return err },
	}
	for name, read := range readers {
		path := filepath.Join(dir, name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		flips, missed := 0, 0
		for i := range whole {
			for _, bit := range bits(i) {
				data := bytes.Clone(whole)
				data[i] ^= 1 << bit
				if err := os.WriteFile(path, data, 0o644); err != nil {
					t.Fatal(err)
				}
				e, err := Find(dir)
				if err == nil {
					err = read(e)
				}
				if flips++; err == nil {
					missed++
					t.Errorf("%s: bit %d of byte %d, in %q, is not noticed", name, bit, i, data[max(0, i-20):min(len(data), i+20)])
				}
			}
		}
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d of %d flips noticed", name, flips-missed, flips)
	}
}

// TestInterruptedStart checks that a run can start in a folder in which an earlier start was interrupted before it
// wrote run.json.
func TestInterruptedStart(t *testing.T) {
	for _, begin := range []func(string, Run) (*Folder, error){Create, Resume} {
		dir := t.TempDir()
		for name, data := range map[string]string{lockFile: "", ".rscert-123": `{"schema"`, VotesFile: "", CertificatesFile: "", BoundsFile: ""} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		f, err := begin(dir, testRun)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := filepath.Glob(filepath.Join(dir, ".rscert-*")); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	}
}

// TestVanished checks that a run ends with an error if its results disappear.
func TestVanished(t *testing.T) {
	for name, vanish := range map[string]func(dir string) error{
		"folder deleted":      os.RemoveAll,
		"folder moved":        func(dir string) error { return os.Rename(dir, dir+"-moved") },
		"certificates gone":   func(dir string) error { return os.Remove(filepath.Join(dir, CertificatesFile)) },
		"run.json gone":       func(dir string) error { return os.Remove(filepath.Join(dir, RunFile)) },
		"votes replaced":      func(dir string) error { return WriteCertificates(filepath.Join(dir, VotesFile), nil) },
		"certificates cut":    func(dir string) error { return os.Truncate(filepath.Join(dir, CertificatesFile), 3) },
		"certificates longer": func(dir string) error { return appendTo(filepath.Join(dir, CertificatesFile), "{}\n") },
	} {
		dir := filepath.Join(t.TempDir(), "run")
		f, err := Create(dir, testRun)
		if err != nil {
			t.Fatal(err)
		}
		fill(t, f, 0, 2)
		if err := vanish(dir); err != nil {
			t.Fatal(err)
		}
		if err := f.Finish(); err == nil {
			t.Errorf("%s: the run finishes", name)
		}
		f.Close()
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// FuzzLines reads arbitrary files. The part that the reader accepts must consist of whole lines, and the reader must
// return their correct end offsets.
func FuzzLines(f *testing.F) {
	f.Add([]byte(`{"index":3,"label":1,"n":1,"counts":[1,0]}`+"\n"), true)
	f.Add([]byte("{}\n\n{}\n{"), true)
	f.Add([]byte("{}\n{}"), false)
	f.Add([]byte(`{"index":1e400}`), false)
	f.Add([]byte(`{"counts":[-1],"n":-1}`+"\n"), true)
	f.Add([]byte("{\"index\":0,\"label\":0,\"n\":1,\"counts\":[1,0]}\n\x00\x00\n"), true)
	f.Fuzz(func(t *testing.T, data []byte, own bool) {
		format := fileFormat[certify.Votes]{keys: votesKeys, own: own, valid: func(v certify.Votes) error { return v.Validate() }}
		c, err := newValueReader(bytes.NewReader(data), format.decoder()).collect()
		if err != nil {
			t.Fatal(err) // damage must be in the result, not in the error
		}
		if len(c.values) != len(c.ends) || len(c.values) != len(c.lines) {
			t.Fatalf("%d values, %d ends, %d lines", len(c.values), len(c.ends), len(c.lines))
		}
		for i, end := range c.ends {
			if last := i == len(c.ends)-1; data[end-1] != '\n' && (!last || own) {
				t.Errorf("value %d ends at %d, in the middle of a line", i, end)
			}
			if c.values[i].Validate() != nil {
				t.Errorf("value %d is not valid", i)
			}
		}
	})
}

// FuzzRun checks that decodeRun does not panic, and that Positions does not panic for a run.json that decodeRun
// accepts.
func FuzzRun(f *testing.F) {
	doc, err := encode(testRun, "  ")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(checksum.Seal(doc))
	f.Add(doc)
	f.Add([]byte(`{"schema": 1, "parameters": {"method": "", "shard": "0/1"}}`))
	f.Add([]byte(`{"schema": 3}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeRun(data)
		if err == nil && r.sealed() && r.Data.Examples < 1e6 {
			r.Parameters.Positions(r.Data.Examples)
		}
	})
}

// FuzzBounds reads arbitrary bytes as bounds.csv. The reader must accept only whole rows, and only if the file starts
// with a valid header.
func FuzzBounds(f *testing.F) {
	rows := appendBounds([]byte(boundsHeader+"\n"), 0, record(3).Bounds, 4, law.L2)
	f.Add(rows)
	f.Add(rows[:len(rows)-5])
	f.Add([]byte("index,radius\n0,1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), BoundsFile)
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		c, err := Run{}.readBounds(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, end := range c.ends {
			if data[end-1] != '\n' {
				t.Errorf("row %d ends at %d, in the middle of a line", i, end)
			}
		}
		if len(c.values) > 0 && !bytes.HasPrefix(data, []byte(boundsHeader+"\n")) && !bytes.HasPrefix(data, []byte(boundsHeader+"\r\n")) {
			t.Errorf("rows without the header")
		}
	})
}

// TestSelectionRecorded checks that run.json omits the parameter 'select' if it has the default value, and records any
// other value. The default is to take the first examples. Versions without this parameter always took the first
// examples, so rscert can resume their run folders.
func TestSelectionRecorded(t *testing.T) {
	for selection, want := range map[spec.Selection]bool{spec.First: false, spec.Spread: true} {
		doc, err := encode(spec.Conditions{Select: selection}, "")
		if err != nil || bytes.Contains(doc, []byte(`"select":"spread"`)) != want || bytes.Contains(doc, []byte(`"select"`)) != want {
			t.Errorf("%v: %s, %v", selection, doc, err)
		}
	}
}

// TestAddedBytes adds bytes to the files of a finished run. Readers skip these bytes. Resume must remove them or return
// an error.
func TestAddedBytes(t *testing.T) {
	// The function 'line' returns a function that replaces the n-th occurrence of 'old' by 'with'.
	line := func(old, with string, n int) func(string) string {
		return func(s string) string {
			parts := strings.Split(s, old)
			return strings.Join(parts[:n], old) + with + strings.Join(parts[n:], old)
		}
	}
	for _, tt := range []struct {
		what, file string
		add        func(string) string
		want       string // part of the error; "" means that Resume removes the bytes
	}{
		{"a blank line", VotesFile, line("\n", "\n\n", 2), VotesFile + ":4: blanks"},
		{"a blank first line", VotesFile, func(s string) string { return "\n" + s }, VotesFile + ":2: blanks"},
		{"a blank line", CertificatesFile, line("\n", "\n \n", 1), CertificatesFile + ":3: blanks"},
		{"a blank line", BoundsFile, line("\n", "\n\n", 1), BoundsFile + ":3: blanks"},
		{"a blank at the end of a line", VotesFile, line("\n", " \n", 3), VotesFile + ":3: blanks"},
		{"a carriage return", CertificatesFile, line("\n", "\r\n", 1), CertificatesFile + ":1: blanks"},
		{"a carriage return", BoundsFile, line("\n", "\r\n", 1), BoundsFile + ":1: blanks"},
		{"a blank at the start of a line", CertificatesFile, line("\n", "\n\t", 1), CertificatesFile + ":2: blanks"},
		{"blank lines at the end", VotesFile, func(s string) string { return s + "\n \n" }, ""},
		{"blank lines at the end", BoundsFile, func(s string) string { return s + "\n" }, ""},
		{"bytes at the end", ScoresFile, func(s string) string { return s + "more" }, "bytes; scores of 23 examples"},
		{"a comment's length", ScoresFile, func(s string) string { return s + "\x00" }, "bytes; scores of 23 examples"},
	} {
		dir := sampleShard(t, splitRun, spec.Whole, 0)
		was := allFiles(t, dir)
		overwrite(t, dir, tt.file, tt.add)
		changed := allFiles(t, dir)
		f, err := Resume(dir, splitRun)
		if err == nil {
			err = f.Close()
		}
		now := allFiles(t, dir)
		if tt.want == "" && (err != nil || !reflect.DeepEqual(now, was)) {
			t.Errorf("%s of %s: error %v, the bytes are as before: %v", tt.what, tt.file, err, reflect.DeepEqual(now, was))
		}
		if tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want) || !reflect.DeepEqual(now, changed)) {
			t.Errorf("%s of %s: error %v, want %q; left alone: %v", tt.what, tt.file, err, tt.want, reflect.DeepEqual(now, changed))
		}
		var damage *DamageError
		if err != nil && !errors.As(err, &damage) {
			t.Errorf("%s of %s: %v is no DamageError", tt.what, tt.file, err)
		}
	}
}
