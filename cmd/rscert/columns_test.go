package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
)

// The test certifies the bundled model with a separate σ for each channel, and runs radius, report, verify, predict,
// merge and compare on the result. The outputs of certify, radius, report, verify and predict must say that the radii
// are in units of σ. Commands that cannot use such a run must refuse it.
func TestScaledRun(t *testing.T) {
	dir := t.TempDir()
	run, again := filepath.Join(dir, "run"), filepath.Join(dir, "certificates.jsonl")
	rscert := func(want int, args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if got := execute(args, streams{in: strings.NewReader(""), out: &out, err: &errs}); got != want {
			t.Fatalf("%v: exit %d, want %d\n%s%s", args, got, want, &out, &errs)
		}
		return out.String() + errs.String()
	}
	const data = "../../testdata/mnist"
	sample := func(out string, more ...string) []string {
		return append([]string{"certify", "--model", cnn, "--data", data, "--sigma-channels", "0.25", "--n", "300", "--n0", "50",
			"--max", "4", "--seed", "1", "--quiet", "--out", out}, more...)
	}
	if got := rscert(exitDone, sample(run)...); !strings.Contains(got, "by scaled L2 radius (units of σ, 4 examples, α = 0.001)") {
		t.Errorf("certify prints\n%s", got)
	}
	rscert(exitDone, "radius", run, "--method", "clopper-pearson", "--out", again)
	for _, cert := range decodeLines[certify.Certificate](t, again) {
		if !cert.Scaled || cert.Sigma != 1 {
			t.Errorf("radius writes %+v", cert)
		}
	}
	for _, command := range [][]string{{"radius", run}, {"report", run}, {"report", again}, {"verify", run}, {"predict", "--run", run, "--data", data, "--max", "2", "--seed", "2"}} {
		if got := rscert(exitDone, append(command, "--json")...); !hasMembers(got[:strings.LastIndex(got, "}")+1], `"scaled":true`) {
			t.Errorf("%v prints\n%s", command, got)
		}
	}
	for _, format := range []string{"text", "markdown", "latex"} {
		got := rscert(exitDone, "report", run, "--axes-radius", "1.5", "--format", format)
		for _, want := range []string{"by scaled L2 radius (units of σ", "channel 0", "0.375000", "certifies nothing", "per column"} {
			if !strings.Contains(got, want) {
				t.Errorf("report --format %s prints\n%s\nwithout %q", format, got, want)
			}
		}
	}
	if got := rscert(exitDone, "report", run, "--format", "csv"); strings.Contains(got, ",l2\n") || !strings.Contains(got, ",scaled-l2\n") {
		t.Errorf("report --format csv prints\n%s", got)
	}
	page, picture := filepath.Join(dir, "page.html"), filepath.Join(dir, "curve.svg")
	rscert(exitDone, "report", run, "--html", page, "--plot", picture)
	for _, path := range []string{page, picture} {
		if text, err := os.ReadFile(path); err != nil || !bytes.Contains(text, []byte("scaled L2")) {
			t.Errorf("%s does not say that its radii are scaled (%v)", path, err)
		}
	}
	if got := rscert(exitDone, "report", run, "--require", "certified-accuracy@0>=0"); !strings.Contains(got, "units of each column's scale") {
		t.Errorf("the requirement prints\n%s", got)
	}

	var shards []string
	for _, i := range []string{"0", "1"} {
		out := filepath.Join(dir, "shard"+i)
		rscert(exitDone, sample(out, "--shard", i+"/2")...)
		shards = append(shards, out)
	}
	merged, whole, plain := filepath.Join(dir, "merged"), filepath.Join(dir, "whole"), filepath.Join(dir, "plain")
	rscert(exitDone, append([]string{"merge", "--out", merged}, shards...)...)
	rscert(exitDone, sample(whole)...)
	a, _ := os.ReadFile(filepath.Join(merged, "certificates.jsonl"))
	if b, _ := os.ReadFile(filepath.Join(whole, "certificates.jsonl")); !bytes.Equal(a, b) || len(a) == 0 {
		t.Error("the merged certificates differ from those of the whole run")
	}
	rscert(exitDone, "certify", "--model", cnn, "--data", data, "--sigma", "0.25", "--n", "300", "--n0", "50", "--max", "4", "--seed", "1", "--quiet", "--out", plain)
	if got := rscert(exitUsage, "compare", whole, plain); !strings.Contains(got, "sigma-columns") {
		t.Errorf("compare prints\n%s", got)
	}
	if got := rscert(exitDone, "report", whole, plain, "--json"); strings.Contains(got, `"envelope"`) {
		t.Error("report makes one envelope of radii in different units")
	}

	for _, wrong := range [][]string{
		{"radius", filepath.Join(run, "votes.jsonl"), "--lipschitz", "2", "--margin", "first"},
		{"report", run, "--norms", "linf"},
		{"report", run, "--require", "certified-accuracy.l2@0.5>=0"},
		{"report", run, "--html", page, "--data", data},
		{"confidence", run, "--radii", "0.1"},
		{"audit", run, "--model", cnn, "--data", data, "--out", filepath.Join(dir, "audit")},
		{"attack", "--run", run, "--data", data, "--smoothed", "--norm", "l2", "--eps", "0.5"},
		{"serve", "--run", run},
		{"predict", "--run", run, "--data", data, "--off-lattice", "round"},
		sample(filepath.Join(dir, "no"), "--confidence-radii", "0.5"),
		sample(filepath.Join(dir, "no"), "--norms", "l1"),
		sample(filepath.Join(dir, "no"), "--save-scores"),
		sample(filepath.Join(dir, "no"), "--sigma", "0.5"),
		sample(filepath.Join(dir, "no"), "--check", "--check-image", filepath.Join(dir, "no.png")),
		{"report", whole, "--baseline", plain},
	} {
		t.Log(strings.TrimSpace(rscert(exitUsage, wrong...)))
	}

	// A file of votes without its run does not record the σ of each channel. Commands must not certify these votes with
	// a single σ.
	votes := filepath.Join(t.TempDir(), "votes.jsonl")
	text, err := os.ReadFile(filepath.Join(run, "votes.jsonl"))
	if err == nil {
		err = os.WriteFile(votes, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if got := execute([]string{"radius", votes, "--sigma", "1"}, streams{in: strings.NewReader(""), out: &out, err: &errs}); got == exitDone || !strings.Contains(errs.String(), "give the run folder") {
		t.Errorf("exit %d: %s%s", got, &out, &errs)
	}
}
