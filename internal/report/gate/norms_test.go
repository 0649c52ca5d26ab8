package gate

import (
	"errors"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/report/summary"
	"github.com/rscert/rscert/internal/runfolder"
)

// inNorms returns the summary of a run on inputs of four bytes: 59 of 100 examples are certified at 0.5 in L2, so they
// are also certified at 0.5 in L1 and at 0.25 in L∞.
func inNorms(t *testing.T, norms ...law.Norm) summary.Summary {
	t.Helper()
	s := source("run", 100, 59, 0.5)
	s.Run.Data.Shape = []int{1, 2, 2}
	s.Run.Noise = runfolder.Noise{Inputs: "values are bytes k/255"}
	o := summary.Default()
	o.Radii, o.Norms = []float64{0, 0.5}, norms
	out, err := summary.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestCheckNorms(t *testing.T) {
	s := inNorms(t, law.L1, law.LInf, law.L0)
	for _, test := range []struct {
		requirement string
		met         bool
		says        string
	}{
		{"certified-accuracy.l2@0.5>=0.59", true, "0.59 (59 of 100)"},
		{"certified-accuracy.l1@0.5>=0.59", true, "0.59 (59 of 100)"},
		{"certified-accuracy.l1@0.51>=0.59", false, "0 (0 of 100), 0.59 too little"},
		{"certified-accuracy.linf@0.24>=0.59", true, "0.59 (59 of 100)"},
		{"certified-accuracy.linf@0.26>=0.59", false, "0 (0 of 100), 0.59 too little"},
		{"certified-accuracy.l0@1>=0.1", false, "0 (0 of 100), 0.1 too little"},
		{"certified:certified-accuracy.linf@0.24>=0.58", true, "0.58 (59 of 100, 1 of which may be wrong)"},
		{"acr.l1>=0.295", true, "0.295 (over 100 examples)"},
		{"acr.linf>=0.148", false, ""},
		{"acr.linf>=0.147", true, ""},
		{"certified:acr.l1>=0.295", false, "0.29 (over 100 examples, 1 of which may be wrong), 0.005 too little"},
	} {
		out, err := Check([]Requirement{parse(t, test.requirement)}, s)
		if err != nil || len(out) != 1 || out[0].Met != test.met || test.says != "" && out[0].Says != test.says {
			t.Errorf("%s: %+v, %v; want met %v, %q", test.requirement, out, err, test.met, test.says)
		}
	}
}

// Check must return an error for a requirement in a norm for which the summary has no radii.
func TestMissingNorms(t *testing.T) {
	for text, s := range map[string]summary.Summary{
		"certified-accuracy.l1@0.5>=0.1": inNorms(t),
		"acr.linf>=0.1":                  inNorms(t, law.L1),
		"cbs.l1@0.25<=0.5":               inNorms(t, law.L1), // the bounds' radii are in the norm of the noise
	} {
		out, err := Check([]Requirement{parse(t, text)}, s)
		var unknown *NotKnownError
		if !errors.As(err, &unknown) || out != nil {
			t.Errorf("%s: %+v, %v", text, out, err)
		}
	}
}

func TestParseNorms(t *testing.T) {
	for text, want := range map[string]law.Norm{
		"certified-accuracy.l1@0.5>=0.6": law.L1, "certified:acr.linf>=0.1": law.LInf, "certified-accuracy.l0@3>=0.6": law.L0, "cbs.l2@0.5<=0.1": law.L2,
	} {
		r := parse(t, text)
		if norm, ok := r.Norm(); !ok || norm != want || r.String() != text {
			t.Errorf("%s: norm %v, %v; it reads %s", text, norm, ok, r)
		}
	}
	if _, ok := parse(t, "acr>=0.1").Norm(); ok {
		t.Error("acr without a norm has one")
	}
	for text, want := range map[string]string{
		"certified-accuracy.l3@0.5>=0.6": "l3", "certified-accuracy.@0.5>=0.6": `""`, "clean-accuracy.l1>=0.9": "has no radius, so no norm",
		"certified-accuracy.l1>=0.9": "needs a radius",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
