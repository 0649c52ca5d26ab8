package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/law"
)

// splitting holds the flags for noise of the law 'splitting'. If the data are bytes, a run with these flags evaluates
// the model 128 times for each example (W = 128).
var splitting = []string{"--law", "splitting", "--sigma", "0.25098039215686274", "--seed", "3", "--quiet"}

// rscertFor returns a function that runs the program and returns what it prints.
func rscertFor(t *testing.T) func(want int, args ...string) string {
	return func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if got := execute(args, streams{in: strings.NewReader(""), out: &out, err: &errs}); got != want {
			t.Fatalf("%v: exit %d, want %d\n%s%s", args, got, want, &out, &errs)
		}
		if want != exitDone {
			return errs.String()
		}
		return out.String()
	}
}

// The test runs certify with the law 'splitting', including --resume, --shard and --stop, and then the commands that
// read a run.
func TestSplittingRun(t *testing.T) {
	rscert, dir := rscertFor(t), t.TempDir()
	folder := func(name string) string { return filepath.Join(dir, name) }
	sample := func(out string, more ...string) []string {
		args := append([]string{"certify", "--model", cnn, "--data", "../../testdata/mnist", "--max", "5", "--out", folder(out)}, splitting...)
		return append(args, more...)
	}
	printed := rscert(exitDone, sample("run", "--require", "certified:certified-accuracy@0.1>=1")...)
	for _, want := range []string{"by L1 radius (5 examples, λ = 0.25098039215686274, deterministic)", "none of these 5 certificates is wrong"} {
		if !strings.Contains(printed, want) {
			t.Errorf("certify prints\n%s", printed)
		}
	}
	read := func(run, file string) string {
		data, err := os.ReadFile(filepath.Join(folder(run), file))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	run := read("run", "run.json")
	if !hasMembers(run, `"law":"splitting"`, `"n":128`, `"n0":0`, `"alpha":0`, `"method":"splitting"`, `"margin":"first"`, `"distribution":"splitting 128"`, `"entries":128`) {
		t.Errorf("run.json: %s", run)
	}
	for i, v := range decodeLines[certify.Votes](t, filepath.Join(folder("run"), "votes.jsonl")) {
		cert := decodeLines[certify.Certificate](t, filepath.Join(folder("run"), "certificates.jsonl"))[i]
		class := slices.Index(v.Counts, slices.Max(v.Counts))
		steps := int64(1 << 40)
		for j, n := range v.Counts {
			lead := v.Counts[class] - n
			if j < class {
				lead--
			}
			if j != class {
				steps = min(steps, lead/2)
			}
		}
		if cert.Prediction != class || cert.Steps == nil || *cert.Steps != steps || !cert.Deterministic || !cert.Sound || cert.Alpha != 0 ||
			cert.N != 128 || cert.Norm != law.L1 || cert.Radius > float64(steps)/255 || cert.Radius < float64(steps)/255-1e-8 {
			t.Errorf("votes %v, certificate %+v", v.Counts, cert)
		}
	}

	rscert(exitDone, sample("run", "--resume")...)
	rscert(exitDone, sample("s0", "--shard", "0/2", "--batch", "16")...)
	rscert(exitDone, sample("s1", "--shard", "1/2")...)
	rscert(exitDone, "merge", folder("s0"), folder("s1"), "--out", folder("merged"))
	for _, file := range []string{"votes.jsonl", "certificates.jsonl"} {
		if read("merged", file) != read("run", file) {
			t.Errorf("%s of the shards differs", file)
		}
	}
	if got := rscert(exitDone, "verify", folder("merged"), "--model", cnn, "--data", "../../testdata/mnist", "--examples", "2"); !strings.Contains(got, "\nVALID") {
		t.Errorf("verify prints\n%s", got)
	}
	again := folder("certificates.jsonl")
	rscert(exitDone, "radius", folder("run"), "--out", again)
	for _, source := range []string{folder("run"), again} {
		got := rscert(exitDone, "report", source, "--json", "--require", "certified:certified-accuracy@0.1>=1")
		if !hasMembers(got, `"law":"splitting"`, `"deterministic":true`, `"alpha":0`, `"delta":0`, `"failures":0`, `"norm":"l1"`) {
			t.Errorf("report prints\n%s", got)
		}
	}
	if got := rscert(exitDone, "report", folder("run")); !strings.Contains(got, "The certificates are deterministic: none of these 5 certificates is wrong.") {
		t.Errorf("report prints\n%s", got)
	}
	page := folder("page.html")
	rscert(exitDone, "report", folder("run"), "--html", page, "--data", "../../testdata/mnist")
	if data, err := os.ReadFile(page); err != nil || !strings.Contains(string(data), "are deterministic: none of") {
		t.Errorf("the page has no word on deterministic certificates: %v", err)
	}

	rscert(exitDone, sample("stopped", "--stop", "radius>=0.1")...)
	for _, cert := range decodeLines[certify.Certificate](t, filepath.Join(folder("stopped"), "certificates.jsonl")) {
		if cert.N >= 128 || cert.Radius < 0.1 {
			t.Errorf("example %d: radius %v after %d evaluations", cert.Index, cert.Radius, cert.N)
		}
	}
	rscert(exitDone, "verify", folder("stopped"))
	rscert(exitDone, "metrics", folder("run"))
	if got := rscert(exitUsage, "metrics", folder("stopped")); !strings.Contains(got, "stopped early (radius>=0.1)") {
		t.Errorf("metrics of a stopped run: %s", got)
	}
	if got := rscert(exitDone, "report", folder("stopped"), "--json"); strings.Contains(got, "smoothed_accuracy") {
		t.Errorf("report has a smoothed accuracy of a stopped run\n%s", got)
	}
	rscert(exitDone, sample("stopped", "--stop", "radius>=0.1", "--resume")...)
	// Another seed gives the noise other offsets, so the run must not resume.
	rscert(exitUsage, sample("stopped", "--stop", "radius>=0.1", "--resume", "--seed", "4")...)
}

// Commands and options that need random noise must refuse the law 'splitting'. The error must name this law.
func TestSplittingIsRefusedElsewhere(t *testing.T) {
	rscert, run := rscertFor(t), filepath.Join(t.TempDir(), "run")
	experiment := append([]string{"--model", cnn, "--data", "../../testdata/mnist", "--max", "1"}, splitting...)
	rscert(exitDone, append([]string{"certify", "--out", run}, experiment...)...)
	for _, c := range []struct {
		want string
		args []string
	}{
		{"λ = 0.24901960784313726 (W = 127) and 0.25098039215686274 (W = 128)", append([]string{"certify", "--out", run + "2"}, append(experiment, "--sigma", "0.25")...)},
		{"splitting certifies by votes", append([]string{"certify", "--out", run + "2", "--scores"}, experiment...)},
		{"splitting certifies by votes", append([]string{"certify", "--out", run + "2", "--confidence-radii", "0.1"}, experiment...)},
		{"only at a radius", append([]string{"certify", "--out", run + "2", "--stop", "precision=0.1"}, experiment...)},
		{"out of reach", append([]string{"certify", "--out", run + "2", "--stop", "radius>=0.3"}, experiment...)},
		{"its method is splitting", append([]string{"certify", "--out", run + "2", "--method", "margin"}, experiment...)},
		{"law splitting", append([]string{"certify", "--out", run + "2", "--noise-on", "device"}, experiment...)},
		{"law splitting", append([]string{"certify", "--out", run + "2", "--noise", "float"}, experiment...)},
		{"has none", append([]string{"predict"}, experiment...)},
		{"has none", []string{"predict", "--run", run, "--data", "../../testdata/mnist"}},
		{"has none", []string{"serve", "--run", run}},
		{"has none", []string{"audit", run, "--model", cnn, "--data", "../../testdata/mnist"}},
		{"has none", append([]string{"attack", "--smoothed", "--eps", "0.1"}, experiment...)},
		{"its method is splitting", []string{"radius", run, "--method", "margin,bonferroni"}},
		{"has no alpha", []string{"radius", run, "--alpha", "0.01"}},
		{"the run's noise is splitting", []string{"radius", run, "--law", "uniform"}},
		{"law splitting", []string{"confidence", run, "--radii", "0.1"}},
	} {
		if got := rscert(exitUsage, c.args...); !strings.Contains(got, c.want) {
			t.Errorf("%v: %s", c.args, got)
		}
	}
}

// The test perturbs each digit. The L1 norm of the perturbation is as many lattice steps as the certificate of the
// digit allows. The smoothed bundled CNN must keep its answers.
func TestSplittingHoldsOnPerturbedDigits(t *testing.T) {
	rscert, dir := rscertFor(t), t.TempDir()
	images, labels := unzip(t, "../../testdata/mnist/t10k-images-idx3-ubyte.gz"), unzip(t, "../../testdata/mnist/t10k-labels-idx1-ubyte.gz")
	certified := func(name string, images []byte) []certify.Certificate {
		data, run := filepath.Join(dir, name), filepath.Join(dir, name+"-run")
		write := func(file string, content []byte) {
			if err := os.WriteFile(filepath.Join(data, file), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		const digits, size = 5, 28 * 28
		images, labels := slices.Clone(images[:16+digits*size]), slices.Clone(labels[:8+digits])
		binary.BigEndian.PutUint32(images[4:], digits)
		binary.BigEndian.PutUint32(labels[4:], digits)
		write("t10k-images-idx3-ubyte", images)
		write("t10k-labels-idx1-ubyte", labels)
		rscert(exitDone, append([]string{"certify", "--model", cnn, "--data", data, "--out", run}, splitting...)...)
		return decodeLines[certify.Certificate](t, filepath.Join(run, "certificates.jsonl"))
	}
	before := certified("before", images)
	random := rand.New(rand.NewPCG(1, 1))
	moved := slices.Clone(images)
	for i, cert := range before {
		digit := moved[16+784*i : 16+784*(i+1)]
		for left := *cert.Steps; left > 0; left-- {
			p := random.IntN(len(digit))
			for digit[p] == 255 {
				p = random.IntN(len(digit))
			}
			digit[p]++
		}
	}
	for i, cert := range certified("after", moved) {
		if cert.Prediction != before[i].Prediction {
			t.Errorf("digit %d: class %d within %d steps, and class %d there", i, before[i].Prediction, *before[i].Steps, cert.Prediction)
		}
	}
}

func unzip(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
