package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/law/lawtest"
)

// TestLawOfATest uses logistic noise, a law that only tests have, and checks that certify, radius, confidence and
// report work with it. It checks the flag --law, the noise, and the radii in the norm of the law. It also checks that
// the output names the law, its scale and its norm.
func TestLawOfATest(t *testing.T) {
	lawtest.Use(t, lawtest.Logistic)
	run, again := filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "certificates.jsonl")
	rscert := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if got := execute(args, streams{in: strings.NewReader(""), out: &out, err: &errs}); got != want {
			t.Fatalf("%v: exit %d, want %d\n%s%s", args, got, want, &out, &errs)
		}
		return out.String()
	}
	const s = 0.25
	sample := []string{"certify", "--model", cnn, "--data", "../../testdata/mnist", "--law", "test-logistic", "--sigma", "0.25",
		"--n", "400", "--max", "5", "--seed", "1", "--confidence-radii", "0.1", "--save-scores", "--quiet", "--out", run}
	printed := rscert(exitDone, sample...)
	if !strings.Contains(printed, "by L1 radius (5 examples, s = 0.25, α = ") {
		t.Errorf("certify prints\n%s", printed)
	}

	var described struct {
		Parameters struct{ Law string }
		Noise      struct{ Distribution, Step string }
	}
	data, err := os.ReadFile(filepath.Join(run, "run.json"))
	if err == nil {
		err = json.Unmarshal(data, &described)
	}
	if err != nil || described.Parameters.Law != "test-logistic" || described.Noise.Distribution != "test-logistic 255/4" {
		t.Errorf("run.json: %+v, %v", described, err)
	}

	rscert(exitDone, "radius", run, "--method", "clopper-pearson", "--alpha", "0.01", "--out", again)
	votes := decodeLines[certify.Votes](t, filepath.Join(run, "votes.jsonl"))
	certified := 0
	for i, cert := range decodeLines[certify.Certificate](t, again) {
		v, radius := votes[i], 0.0
		// R = s·Q(p) = s·ln(p/(1−p)), where s is the scale of the noise and p is Clopper and Pearson's lower bound.
		if x := float64(v.Counts[cert.Label]); cert.Prediction == cert.Label && x > 0 {
			p := distuv.Beta{Alpha: x, Beta: float64(v.N) - x + 1}.Quantile(0.01)
			radius = max(0, s*math.Log(p/(1-p)))
			certified++
			if math.Abs(cert.Radius-radius) > 1e-5 {
				t.Errorf("example %d, %v of %d votes: radius %v, want %v", i, x, v.N, cert.Radius, radius)
			}
		}
		if cert.Norm != law.L1 || cert.Law != law.Of(lawtest.Logistic) {
			t.Errorf("example %d: %s noise, norm %s", i, cert.Law, cert.Norm)
		}
	}
	if certified < 3 {
		t.Fatalf("%d of 5 examples are certified", certified)
	}

	for _, command := range [][]string{{"radius", run}, {"confidence", run, "--radii", "0.1"}, {"report", run}, {"report", again}} {
		if got := rscert(exitDone, append(command, "--json")...); !hasMembers(got, `"norm":"l1"`, `"law":"test-logistic"`) {
			t.Errorf("%v prints\n%s", command, got)
		}
	}
	if got := rscert(exitDone, "report", run); !strings.Contains(got, "by L1 radius") {
		t.Errorf("report prints\n%s", got)
	}
	if got := rscert(exitDone, "acce", run, "--json"); !hasMembers(got, `"norm":"l1"`) {
		t.Errorf("acce prints\n%s", got)
	}
	if got := rscert(exitDone, "certify", "--help"); !strings.Contains(got, "logistic noise of scale s; radii in L1") {
		t.Errorf("help says\n%s", got)
	}
	for _, wrong := range [][]string{
		{"radius", run, "--law", "gaussian"},
		{"radius", run, "--method", "moutaouakil"},
		{"radius", run, "--law", "cauchy"},
		append(sample[:len(sample)-1:len(sample)-1], run+"2", "--noise", "float"),
	} {
		rscert(exitUsage, wrong...)
	}
}

// hasMembers reports whether a JSON document contains all the given object members. The indentation of the document
// does not matter.
func hasMembers(doc string, members ...string) bool {
	var b bytes.Buffer
	if json.Compact(&b, []byte(doc)) != nil {
		return false
	}
	for _, m := range members {
		if !strings.Contains(b.String(), m) {
			return false
		}
	}
	return true
}

// decodeLines reads a file of JSON lines.
func decodeLines[T any](t *testing.T, path string) []T {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []T
	for line := range bytes.Lines(data) {
		var v T
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}
