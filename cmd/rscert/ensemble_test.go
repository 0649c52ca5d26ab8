package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/runfolder"
)

const torchCNN = "../../testdata/mnist-torch.onnx"

// inProcess returns a function that runs rscert in this process. The exit code of rscert must equal the argument
// 'want'. The result is the standard output if 'want' is exitDone, and the standard error otherwise.
func inProcess(t *testing.T) func(want int, args ...string) string {
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

// The function 'sampling' returns the arguments of a command line that certifies the first images of digits in
// testdata/mnist.
func sampling(out string, more ...string) []string {
	return append([]string{"certify", "--data", "../../testdata/mnist", "--n", "200", "--n0", "50", "--max", "4", "--quiet", "--out", out}, more...)
}

// TestEnsembleRun certifies ensembles of the bundled models, and runs radius, predict, verify, report and attack on an
// ensemble.
func TestEnsembleRun(t *testing.T) {
	rscert, dir := inProcess(t), t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	with := []string{"--sigma", "0.25", "--seed", "1"}
	votes := func(name string) (counts [][]int64) {
		for _, v := range decodeLines[certify.Votes](t, filepath.Join(path(name), "votes.jsonl")) {
			counts = append(counts, slices.Concat(v.Counts0, v.Counts))
		}
		return counts
	}
	rscert(exitDone, sampling(path("one"), append(with, "--model", cnn)...)...)
	rscert(exitDone, sampling(path("twice"), append(with, "--model", cnn, "--model", cnn)...)...)
	if !slices.EqualFunc(votes("one"), votes("twice"), slices.Equal) {
		t.Error("the ensemble of a model with itself votes otherwise than the model")
	}

	pair := append(with, "--model", cnn, "--model", torchCNN, "--average", "probabilities")
	rscert(exitDone, sampling(path("pair"), pair...)...)
	run, err := runfolder.Read(path("pair"))
	if err != nil {
		t.Fatal(err)
	}
	if m := run.Model.Members; len(m) != 2 || m[0].File != cnn || m[1].File != torchCNN || len(m[1].SHA256) != 64 || m[0].SHA256 == m[1].SHA256 {
		t.Errorf("members %+v", m)
	}

	// An interrupted run can resume, but only with the same models in the same order.
	whole, err := os.ReadFile(filepath.Join(path("pair"), "votes.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"votes.jsonl", "certificates.jsonl"} {
		file := filepath.Join(path("pair"), name)
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(file, bytes.Join(bytes.SplitAfter(text, []byte("\n"))[:2], nil), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	rscert(exitDone, append(sampling(path("pair"), pair...), "--resume")...)
	if again, err := os.ReadFile(filepath.Join(path("pair"), "votes.jsonl")); err != nil || !bytes.Equal(again, whole) {
		t.Error("the resumed run has other votes", err)
	}
	for _, other := range [][]string{
		append(with, "--model", torchCNN, "--model", cnn, "--average", "probabilities"), append(with, "--model", cnn, "--average", "probabilities"),
		append(with, "--model", cnn, "--model", torchCNN), append(with, "--model", cnn, "--model", torchCNN, "--model", cnn, "--average", "probabilities"),
	} {
		if said := rscert(exitUsage, append(sampling(path("pair"), other...), "--resume")...); !strings.Contains(said, "cannot resume") {
			t.Errorf("%v: %s", other, said)
		}
	}

	if got := rscert(exitDone, "radius", path("pair"), "--alpha", "0.01", "--json"); !hasMembers(got, `"alpha":0.01`) {
		t.Errorf("radius prints\n%s", got)
	}
	if got := rscert(exitDone, "predict", "--run", path("pair"), "--data", "../../testdata/mnist", "--max", "2", "--budget", "200", "--quiet", "--json"); !hasMembers(got, `"answered":2`) {
		t.Errorf("predict prints\n%s", got)
	}
	if said := rscert(exitUsage, "predict", "--run", path("pair"), "--model", cnn, "--data", "../../testdata/mnist", "--max", "1", "--quiet"); !strings.Contains(said, "not the classifier of the run") {
		t.Errorf("predict with one of two models: %s", said)
	}
	again := []string{"verify", path("pair"), "--data", "../../testdata/mnist", "--examples", "1", "--quiet", "--model", cnn}
	rscert(exitDone, append(again, "--model", torchCNN)...)
	if said := rscert(exitUsage, append(again, "--model", cnn)...); !strings.Contains(said, "the model was") {
		t.Errorf("verify with other models: %s", said)
	}
	if got := rscert(exitDone, "report", path("pair"), "--json"); !hasMembers(got, `"average":"probabilities"`, `"outputs":"logits"`) {
		t.Errorf("report prints\n%s", got)
	}
	if got := rscert(exitDone, "report", path("pair")); !strings.Contains(got, "it averages the probabilities of 2 models") {
		t.Errorf("report prints\n%s", got)
	}
	if line := certifyLine(run, "run"); !strings.Contains(line, "--model "+cnn+" --model "+torchCNN) || !strings.Contains(line, "--average probabilities") ||
		strings.Contains(line, "--outputs probabilities") {
		t.Errorf("the command of the run is %s", line)
	}
	attacked := []string{"attack", "--model", cnn, "--model", torchCNN, "--data", "../../testdata/mnist", "--max", "2", "--steps", "2", "--norm", "l2", "--eps", "0.5", "--quiet", "--out", path("attack")}
	rscert(exitDone, attacked...)
	rscert(exitDone, "attack", "--verify", path("attack"), "--quiet")

	// The command 'radius' must refuse a run.json in which the digest of the ensemble does not follow from the digests
	// of its members.
	file := filepath.Join(path("twice"), "run.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	doc["model"].(map[string]any)["members"].([]any)[1].(map[string]any)["sha256"] = strings.Repeat("0", 64)
	delete(doc, "check")
	if text, err = json.Marshal(doc); err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	rscert(exitUsage, "radius", path("twice"))
}
