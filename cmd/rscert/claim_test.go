package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/predict"
)

// The test makes one run for each of five claims. A claim is a combination of --top-k and --none. All runs have the
// same votes, and samples with a low confidence are rejected. From the run "answer", the command 'radius' must compute
// the certificates of every claim. Other commands must use the claim of the run, or refuse the run and name the claim.
func TestClaimsThroughTheModel(t *testing.T) {
	dir := t.TempDir()
	rscert := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if got := execute(args, streams{in: strings.NewReader(""), out: &out, err: &errs}); got != want {
			t.Fatalf("%v: exit %d, want %d\n%s%s", args, got, want, &out, &errs)
		}
		return out.String() + errs.String()
	}
	sample := func(want int, name string, args ...string) string {
		t.Helper()
		return rscert(want, append([]string{"certify", "--model", cnn, "--data", "../../testdata/mnist", "--sigma", "1", "--n", "400",
			"--max", "5", "--seed", "1", "--class", "label", "--quiet", "--out", filepath.Join(dir, name)}, args...)...)
	}
	reject := []string{"--reject-below", "0.7"}
	run := func(name string) string { return filepath.Join(dir, name) }
	claims := map[string][]string{
		"answer": nil, "ignore": {"--none", "ignore"}, "safe": {"--none", "safe"}, "top2": {"--top-k", "2"},
		"top3": {"--top-k", "3", "--none", "ignore"},
	}
	radii := map[string]float64{}
	for name, args := range claims {
		sample(exitDone, name, append(args, reject...)...)
		made := decodeLines[certify.Certificate](t, filepath.Join(run(name), "certificates.jsonl"))
		for _, c := range made {
			radii[name] += c.Radius
			if c.RejectBelow != 0.7 || (c.TopK > 1) != strings.HasPrefix(name, "top") || (c.None == certify.NoneSafe) != (name == "safe") {
				t.Errorf("%s: %+v", name, c.Claim)
			}
		}
	}
	votes := decodeLines[certify.Votes](t, filepath.Join(run("answer"), "votes.jsonl"))
	if !slices.ContainsFunc(votes, func(v certify.Votes) bool { return v.None > 100 }) {
		t.Fatal("no sample is rejected")
	}
	for name, args := range claims {
		again := run(name + ".jsonl")
		rscert(exitDone, append([]string{"radius", run("answer"), "--quiet", "--out", again}, args...)...)
		first := decodeLines[certify.Certificate](t, filepath.Join(run(name), "certificates.jsonl"))
		second := decodeLines[certify.Certificate](t, again)
		for i := range first {
			second[i].Sampled = 0
			a, _ := json.Marshal(first[i])
			b, _ := json.Marshal(second[i])
			if string(a) != string(b) {
				t.Errorf("%s: certify gives %s, radius %s", name, a, b)
			}
		}
		if got := rscert(exitDone, "verify", run(name)); !strings.Contains(got, "VALID") {
			t.Errorf("verify %s:\n%s", name, got)
		}
	}
	if radii["answer"] > radii["ignore"] || radii["answer"] > radii["safe"] || radii["ignore"] > radii["top3"] {
		t.Errorf("sums of radii: %v", radii)
	}

	// Resuming must refuse a claim that differs from the run's claim.
	if got := sample(exitUsage, "safe", append([]string{"--resume"}, reject...)...); !strings.Contains(got, "--none") {
		t.Errorf("resume says\n%s", got)
	}
	sample(exitDone, "safe", append([]string{"--resume", "--none", "safe"}, reject...)...)
	if got := sample(exitUsage, "safe", "--resume", "--none", "safe", "--reject-below", "0.8"); !strings.Contains(got, "--reject-below") {
		t.Errorf("resume says\n%s", got)
	}

	// The output of report and the text of a requirement must name the claims.
	for args, want := range map[string]string{
		"top2":         "certified top-2 accuracy in %",
		"safe":         "certified share right or silent in %",
		"ignore":       "certified accuracy, silence ignored, in %",
		"answer top2":  "certified top-k accuracy in %",
		"answer safe":  "the claims of the runs differ",
		"ignore top3":  "top 3, silence ignored",
		"safe ignore ": "right or silent",
	} {
		var paths []string
		for _, name := range strings.Fields(args) {
			paths = append(paths, run(name))
		}
		if got := rscert(exitDone, append([]string{"report"}, paths...)...); !strings.Contains(got, want) || strings.Contains(got, "upper envelope") {
			t.Errorf("report %s does not say %q:\n%s", args, want, got)
		}
	}
	rscert(exitDone, "report", run("top2"), "--require", "certified-accuracy.top2@0>=0")
	rscert(exitDone, "report", run("safe"), "--require", "certified:certified-accuracy.safe.l2@0>=0", "--require", "selective-error@0.25<=1")
	for _, wrong := range []string{"certified-accuracy@0>=0", "certified-accuracy.top2@0>=0", "acr>=0"} {
		if got := rscert(exitUsage, "report", run("safe"), "--require", wrong); !strings.Contains(got, ".safe") {
			t.Errorf("%s of a run that certifies \"right or silent\": %s", wrong, got)
		}
	}
	if got := rscert(exitDone, "report", run("top2"), "--selective", "--json"); !strings.Contains(got, `"selective_error"`) || !strings.Contains(got, `"top_k": 2`) {
		t.Errorf("report --selective prints\n%s", got)
	}

	if got := rscert(exitUsage, "report", run("ignore"), "--selective"); !strings.Contains(got, "ignores silence") {
		t.Errorf("report --selective of a run that ignores silence: %s", got)
	}

	// predict must use the claim of the run. With the run "answer", predict abstains on some inputs. With the run
	// "ignore", predict must answer the labels of these inputs.
	answers := func(name string) []predict.Answer {
		rscert(exitDone, "predict", "--run", run(name), "--data", "../../testdata/mnist", "--max", "5", "--quiet", "--seed", "3", "--out", run(name+"-answers.jsonl"))
		return decodeLines[predict.Answer](t, run(name+"-answers.jsonl"))
	}
	silent := 0
	ignoring := answers("ignore")
	for i, a := range answers("answer") {
		if a.Class != predict.Abstained {
			continue
		}
		silent++
		if b := ignoring[i]; b.Class != votes[i].Label || b.None == 0 || b.Samples < b.None {
			t.Errorf("example %d: %+v where silence is ignored", i, b)
		}
	}
	if silent == 0 {
		t.Error("no answer is silent")
	}
	for command, want := range map[string]string{
		"predict --data ../../testdata/mnist --run " + run("top2"): "first 2 classes",
		"serve --run " + run("top2"):                               "first 2 classes",
		"audit " + run("safe"):                                     "--reject-below",
	} {
		if got := rscert(exitUsage, strings.Fields(command)...); !strings.Contains(got, want) {
			t.Errorf("%s says\n%s", command, got)
		}
	}
	for _, wrong := range [][]string{
		{"--top-k", "10"}, {"--top-k", "2", "--scores"}, {"--reject-below", "0.5", "--confidence-radii", "0.1"}, {"--reject-below", "2"},
		{"--none", "safe", "--method", "clopper-pearson"}, {"--none", "safe", "--top-k", "2"}, {"--top-k", "2", "--margin", "first"},
	} {
		sample(exitUsage, "refused", wrong...)
	}
}
