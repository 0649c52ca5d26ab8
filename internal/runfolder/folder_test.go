package runfolder

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
)

var testRun = Run{
	Schema:  Schema,
	Version: "1.2.3",
	Model:   Model{File: "m.onnx", SHA256: strings.Repeat("ab", 32), Classes: 2},
	Data:    Data{File: "d.csv", SHA256: strings.Repeat("cd", 32)},
	Parameters: Parameters{
		Sigma: 0.25, N: 10, N0: 5, Alpha: 0.001, Method: "margin", Seed: 1, Skip: 1, Shard: "0/1",
		ConfidenceRadii: []float64{0, 1, 2, 3},
	},
	Runtime: Runtime{Library: "1.29.0", Provider: "cpu", Batch: 64, Threads: 2},
}

func record(i int) Record {
	r := Record{Votes: certify.Votes{Index: i, Label: i % 2, N0: 5, Counts0: []int64{4, 1}, N: 10, Counts: []int64{int64(i % 11), int64(10 - i%11)}},
		Certificate: certify.Certificate{Index: i, Label: i % 2, Prediction: 0, Radius: float64(i) - 0.5, Method: "margin", N: 10, Sound: true},
	}
	for k := range i { // from none to several
		r.Bounds = append(r.Bounds, certify.ConfidenceBound{
			Index: i, Correct: i%2 == 0, Radius: float64(k), Lower: 0.1, Confidence: 0.75, Upper: 1 - 1/float64(3+k),
		})
	}
	return r
}

// fill appends lines from..to to a folder.
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

// TestResumeEverywhere cuts the files of a run at many combinations of byte
// offsets that a killed process can leave (the bounds are written first, the
// certificate last) and checks that the resumed run ends with the same bytes.
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
			// The bounds are somewhere in the next example's rows.
			bounds := want[BoundsFile]
			least := strings.Index(bounds, fmt.Sprintf("\n%d,", lines(votes[:cutVotes])))
			if least < 0 {
				least = 0
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
			done := len(f.Done())
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
		want   string // in the error; empty = no error
	}{
		{"the same", func(*Run) {}, ""},
		{"batch and threads", func(r *Run) { r.Runtime.Batch, r.Runtime.Threads = 1, 1 }, ""},
		{"the model's name only", func(r *Run) { r.Model.File = "other.onnx" }, ""},
		{"no mean and an empty mean", func(r *Run) { r.Parameters.Mean = []float64{} }, ""},
		{"sigma", func(r *Run) { r.Parameters.Sigma = 0.5 }, "--sigma was 0.25, now 0.5"},
		{"n and seed", func(r *Run) { r.Parameters.N = 20; r.Parameters.Seed = 2 }, "--n was 10, now 20; --seed was 1, now 2"},
		{"stop", func(r *Run) { r.Parameters.Stop = "radius>=0.5" }, "--stop was not given, now radius>=0.5"},
		{"mean", func(r *Run) { r.Parameters.Mean = []float64{0.5} }, "--mean was [], now [0.5]"},
		{"model", func(r *Run) { r.Model.SHA256 = strings.Repeat("0", 64) }, "the model is another"},
		{"data", func(r *Run) { r.Data.SHA256 = strings.Repeat("0", 64) }, "the data are others"},
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
		{`{"schema": 2, "rscert": "9.9"}`, "written in format 2 by rscert 9.9"},
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

func TestReadVotesErrors(t *testing.T) {
	good := `{"index":0,"label":0,"n":3,"counts":[2,1]}`
	for _, tt := range []struct{ name, data, want string }{
		{"not JSON", good + "\nhello\n", "votes.jsonl:2: "},
		{"blank lines count", good + "\n\n\n{]\n", "votes.jsonl:4: "},
		{"wrong sum", good + "\n" + `{"index":1,"label":0,"n":4,"counts":[2,1]}` + "\n", "votes.jsonl:2: "},
		{"torn elsewhere", good + "\n" + good[:20], "votes.jsonl:2: "},
	} {
		path := filepath.Join(t.TempDir(), VotesFile)
		if err := os.WriteFile(path, []byte(tt.data), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadVotes(path); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want one with %q", tt.name, err, tt.want)
		}
	}
	// In its own run folder a torn last line is a killed run's, and left out;
	// a last line that merely lacks its newline elsewhere counts.
	dir := t.TempDir()
	path := filepath.Join(dir, VotesFile)
	for _, tt := range []struct {
		data string
		own  bool
		want int
	}{{good, false, 1}, {good + "\n" + good[:20], true, 1}} {
		if tt.own {
			if err := testRun.write(dir); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(path, []byte(tt.data), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{path, dir} {
			if votes, err := ReadVotes(p); err != nil || len(votes) != tt.want {
				t.Errorf("%q: %d votes, error %v; want %d", tt.data, len(votes), err, tt.want)
			}
		}
	}
}

// FuzzDecodeLines checks that what is accepted is whole lines whose ends are
// where they are said to be.
func FuzzDecodeLines(f *testing.F) {
	f.Add([]byte(`{"index":3,"label":1,"n":1,"counts":[1,0]}`+"\n"), true)
	f.Add([]byte("{}\n\n{}\n{"), true)
	f.Add([]byte("{}\n{}"), false)
	f.Add([]byte(`{"index":1e400}`), false)
	f.Add([]byte(`{"counts":[-1],"n":-1}`+"\n"), true)
	f.Fuzz(func(t *testing.T, data []byte, torn bool) {
		votes, ends, err := decodeLines(bytes.NewReader(data), "fuzz", torn, func(v certify.Votes) error { return v.Validate() })
		if err != nil {
			return
		}
		if len(votes) != len(ends) {
			t.Fatalf("%d values, %d ends", len(votes), len(ends))
		}
		for i, end := range ends {
			if last := i == len(ends)-1; data[end-1] != '\n' && (!last || torn) {
				t.Errorf("value %d ends at %d, in the middle of a line", i, end)
			}
			if votes[i].Validate() != nil {
				t.Errorf("value %d is not valid", i)
			}
		}
	})
}
