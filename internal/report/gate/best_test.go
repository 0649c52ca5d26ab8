package gate

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/report/summary"
)

// choose summarises the sources. Each summary uses 'delta' divided by the number 'choices'.
func choose(t *testing.T, choices int, delta float64, sources ...summary.Source) []summary.Summary {
	t.Helper()
	var runs []summary.Summary
	for _, s := range sources {
		o := summary.Default()
		o.Radii, o.Delta, o.Choices = []float64{0, 0.5}, delta, choices
		out, err := summary.New(s, o)
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, out)
	}
	return runs
}

// Each run has 100 certificates with α = 0.001. With δ = 0.1, the bound on the number of wrong certificates is 0,
// because P(Bin(100, 0.001) > 0) = 0.095. With δ/2, the bound is 1, because P(Bin > 1) = 0.0046.
func TestCheckBest(t *testing.T) {
	a, b := source("a", 100, 59, 0.5), source("b", 100, 60, 0.5)
	unsound := source("unsound", 100, 90, 0.5)
	for i := range unsound.Certificates {
		unsound.Certificates[i].Sound = false
	}
	for _, test := range []struct {
		requirement string
		runs        []summary.Source
		met         bool
		run, says   string
	}{
		{"best:certified:certified-accuracy@0.5>=0.59", []summary.Source{a, b}, true, "b",
			"0.59 (60 of 100, 1 of which may be wrong); the best of 2 runs, each at delta/2"},
		{"best:certified:certified-accuracy@0.5>=0.59", []summary.Source{b, a}, true, "b",
			"0.59 (60 of 100, 1 of which may be wrong); the best of 2 runs, each at delta/2"},
		{"best:certified:certified-accuracy@0.5>=0.60", []summary.Source{a, b}, false, "b",
			"0.59 (60 of 100, 1 of which may be wrong), 0.01 too little; the best of 2 runs, each at delta/2"},
		{"best:certified:acr>=0.295", []summary.Source{a, b}, true, "b",
			"0.295 (over 100 examples, 1 of which may be wrong); the best of 2 runs, each at delta/2"},
		{"best:certified:certified-accuracy@0.5>=0.59", []summary.Source{unsound, b}, true, "b",
			"0.59 (60 of 100, 1 of which may be wrong); the best of 2 runs, each at delta/2"},
		{"best:certified:certified-accuracy@0.5>=0.01", []summary.Source{unsound, unsound}, false, "unsound",
			"nothing is certified: the method margin is not sound; the best of 2 runs, each at delta/2"},
	} {
		out, err := CheckBest([]Requirement{parse(t, test.requirement)}, choose(t, len(test.runs), 0.1, test.runs...)...)
		if err != nil || len(out) != 1 {
			t.Errorf("%s: %+v, %v", test.requirement, out, err)
			continue
		}
		o := out[0]
		if o.Met != test.met || o.Run != test.run || o.Says != test.says || *o.Choice != (Choice{2, 0.05}) {
			t.Errorf("%s: %+v %+v; want met %v, %s, %q", test.requirement, o, o.Choice, test.met, test.run, test.says)
		}
	}
}

// For an upper bound, the best run has the smallest value. A run without a certified example at the radius has no value,
// and another run can be the best.
func TestCheckBestUpper(t *testing.T) {
	runs := choose(t, 3, 0.1, source("a", 100, 59, 0.5), source("b", 100, 60, 0.5), source("none", 100, 0, 0.5))
	radius := 0.25
	for k, cce := range []float64{0.2, 0.3} {
		runs[k].Calibration = []summary.Calibration{{Radius: &radius, N: 59, CCE: cce - 0.1, Certified: &summary.CertifiedCalibration{CCE: cce}}}
	}
	run := *runs[2].Run
	run.Parameters.ConfidenceRadii = []float64{radius}
	runs[2].Run = &run
	out, err := CheckBest([]Requirement{parse(t, "best:certified:cce@0.25<=0.25")}, runs...)
	if err != nil || !out[0].Met || out[0].Run != "a" || *out[0].Value != 0.2 || out[0].Choice.Runs != 3 {
		t.Errorf("%+v, %v", out, err)
	}
}

func TestCheckBestRefuses(t *testing.T) {
	a, b, fewer := source("a", 100, 59, 0.5), source("b", 100, 60, 0.5), source("c", 90, 60, 0.5)
	r := []Requirement{parse(t, "best:certified:certified-accuracy@0.5>=0.1")}
	if _, err := CheckBest(r, choose(t, 1, 0.1, a)...); !errors.Is(err, errOneRun) {
		t.Errorf("one run: %v", err)
	}
	if _, err := CheckBest(r, choose(t, 2, 0.1, a, b, b)...); err == nil || !strings.Contains(err.Error(), "pays for a choice from 2 runs, not from 3") {
		t.Errorf("three runs that pay for two: %v", err)
	}
	if _, err := CheckBest(r, choose(t, 0, 0.1, a, b)...); err == nil || !strings.Contains(err.Error(), "pays for a choice from 0 runs") {
		t.Errorf("runs that pay nothing: %v", err)
	}
	var incomparable *IncomparableRunsError
	if _, err := CheckBest(r, choose(t, 2, 0.1, a, fewer)...); !errors.As(err, &incomparable) {
		t.Errorf("different examples: %v", err)
	}
	unfinished := b
	run := *b.Run
	run.Data.Selected, unfinished.Run = 200, &run
	var e *UnfinishedError
	if _, err := CheckBest(r, choose(t, 2, 0.1, a, unfinished)...); !errors.As(err, &e) {
		t.Errorf("unfinished: %v", err)
	}
	if _, err := Check(r, choose(t, 0, 0.1, a)...); !errors.Is(err, errOneRun) {
		t.Errorf("Check: %v", err)
	}
	for _, text := range []string{"best:certified-accuracy@0.5>=0.1", "certified:best:certified-accuracy@0.5>=0.1", "best:certified:clean-accuracy>=0.1"} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
}

// coinRun certifies a model that answers by tossing a fair coin: each noisy input gets class 0 or 1 with probability ½.
// So no example has a certified radius above 0, and each certificate with a positive radius is wrong. With the
// Clopper–Pearson bound, an example gets such a wrong certificate with a probability that is at most α and close to α.
func coinRun(random *rand.Rand, name string, examples int, alpha float64, least int) summary.Source {
	const words = 16
	s := source(name, examples, examples, 0.5)
	for i := range s.Certificates {
		c, votes := &s.Certificates[i], 0
		for range words {
			votes += bits.OnesCount64(random.Uint64())
		}
		c.Alpha, c.N = alpha, 64*words
		if votes < least {
			c.Prediction, c.Correct, c.Radius = certify.Abstained, false, 0
		}
	}
	return s
}

// TestBestPays chooses the best of 20 runs in each trial. The models answer by tossing a coin, so each certificate at
// radius 0.5 is wrong, and the true certified accuracy at this radius is 0. The requirement says that the true
// certified accuracy of the best run is at least 0.01. So the requirement is false. In each trial, the probability that
// the check reports it as met must be at most δ. If each run used the full δ, some run would meet the requirement in
// many more trials.
func TestBestPays(t *testing.T) {
	const trials, freeTrials, runs, examples, n = 60, 25, 20, 100, 1024
	const alpha, delta = 0.01, 0.1
	least := n / 2
	for binomial.LowerBound(int64(least), n, alpha) <= 0.5 {
		least++
	}
	random := rand.New(rand.NewPCG(1, 31))
	best, each := []Requirement{parse(t, "best:certified:certified-accuracy@0.5>=0.01")}, []Requirement{parse(t, "certified:certified-accuracy@0.5>=0.01")}
	paying, free := 0, 0
	for trial := range trials {
		var sources []summary.Source
		for range runs {
			sources = append(sources, coinRun(random, "coin", examples, alpha, least))
		}
		out, err := CheckBest(best, choose(t, runs, delta, sources...)...)
		if err != nil {
			t.Fatal(err)
		}
		if out[0].Met {
			paying++
		}
		if trial >= freeTrials {
			continue
		}
		if out, err = Check(each, choose(t, 0, delta, sources...)...); err != nil {
			t.Fatal(err)
		}
		if Unmet(out) < runs {
			free++
		}
	}
	t.Logf("false statements: %d of %d with δ/%d, %d of %d with δ", paying, trials, runs, free, freeTrials)
	// The requirement is false, so in each trial the check reports it as met with probability at most δ. The number of
	// trials that meet it ('paying') is thus stochastically at most Bin(60, δ), which exceeds 14 with probability
	// 0.0007.
	if paying > 14 {
		t.Errorf("with δ/%d, the best run fails in %d of %d trials", runs, paying, trials)
	}
	if free <= 8 {
		t.Errorf("with δ, the best run fails in only %d of %d trials: the simulation does not show that the payment is needed", free, freeTrials)
	}
}
