package run

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/conformal"
	"github.com/rscert/rscert/internal/conformalfile"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// Logits must have the same scores as their softmax. An output without an answer must have the lowest score. In a file
// of scores, such an output is a row of zeros.
func TestScorerRows(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, tt := range []struct {
		outputs     graph.OutputKind
		temperature float64
		rows        []float32
		want        []float64 // −1 stands for the score −∞
	}{
		{graph.Logits, 1, []float32{0, float32(math.Log(3)), nan, 1, inf, 0}, []float64{.25, .75, -1, -1, -1, -1}},
		{graph.Logits, .5, []float32{0, float32(math.Log(3))}, []float64{.1, .9}},
		{graph.Probabilities, 1, []float32{.25, .75, 0, 0, nan, 1, 0, 1}, []float64{.25, .75, -1, -1, -1, -1, 0, 1}},
	} {
		s := scorer{Scorer: conformal.NewScorer(conformal.THR), outputs: tt.outputs, classes: 2, temperature: tt.temperature}
		var got []float64
		s.eachRow(tt.rows, func(p []float64) { got = append(got, s.Scores(nil, p, 0)...) })
		if !slices.EqualFunc(got, tt.want, func(a, b float64) bool {
			return b == -1 && math.IsInf(a, -1) || math.Abs(a-b) < 1e-6
		}) {
			t.Errorf("%v of %v: %v, want %v", tt.outputs, tt.rows, got, tt.want)
		}
	}
}

// The random number of an example must depend on the seed and on the example, and must be uniformly distributed.
func TestUniform(t *testing.T) {
	sum, squares := 0., 0.
	const n = 10000
	for i := range n {
		u := uniform(7, i)
		if u < 0 || u >= 1 || u != uniform(7, i) || u == uniform(8, i) {
			t.Fatalf("u = %v", u)
		}
		sum, squares = sum+u, squares+u*u
	}
	if mean, second := sum/n, squares/n; math.Abs(mean-.5) > .012 || math.Abs(second-1./3) > .012 { // 4 standard deviations
		t.Errorf("mean %v, second moment %v", mean, second)
	}
}

// countPredictor is a predictor for three classes. Its set contains a class if at least 2 of 5 scores of the class
// reach the threshold ½.
func countPredictor() *conformal.Predictor {
	return &conformal.Predictor{
		Design: conformal.Design{Rule: conformal.Count, Scorer: conformal.NewScorer(conformal.THR), M: 6, T: 4, QueryM: 5, QueryT: 2, Guarantee: conformal.Marginal},
		Labels: 3, N: 9, Cells: []conformal.Cell{{N: 9, K: 1, Tau: .5}},
	}
}

// A tally that stops early must give the same set as a tally of all draws. It must ask for more samples until every
// class is decided, and must stop with the draw that decides the last undecided class. Samples after this draw must
// count only for the certified size of the set, and must not change the set.
func TestTally(t *testing.T) {
	hit, miss := []float32{1, 0, 0}, []float32{0, 0, 1}
	for _, tt := range []struct {
		draws  [][]float32
		counts []int64
		drawn  int64
		set    []int
	}{
		// after 4 misses, the set can contain neither class 1 nor class 2
		{[][]float32{hit, hit, hit, hit, hit, hit}, []int64{4, 0, 0}, 4, []int{0}},
		{[][]float32{hit, miss, hit, miss, hit, hit}, []int64{2, 0, 2}, 4, []int{0, 2}},
		{[][]float32{hit, miss, miss, miss, miss, miss}, []int64{1, 0, 4}, 5, []int{2}},
		{[][]float32{hit, miss, miss, miss, hit, miss}, []int64{2, 0, 3}, 5, []int{0, 2}},
	} {
		for _, certify := range []bool{false, true} {
			for batch := 1; batch <= 6; batch++ {
				q := newTally(countPredictor(), scorer{outputs: graph.Probabilities}, "", certify)
				given := int64(0)
				for goal := q.goal(0); goal > given; goal = q.goal(given) {
					for given < goal { // the sampler must not exceed a goal, but may split its samples into several calls
						var rows []float32
						for ; given < goal && len(rows) < 3*batch; given++ {
							rows = append(rows, tt.draws[given]...)
						}
						q.observe(rows)
					}
				}
				s, err := q.set()
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(s.Counts, tt.counts) || s.Draws != tt.drawn || !slices.Equal(s.Set, tt.set) || s.Size != len(tt.set) {
					t.Errorf("%v: counts %v of %d draws, set %v; want %v of %d, %v", tt.draws, s.Counts, s.Draws, s.Set, tt.counts, tt.drawn, tt.set)
				}
				total := int64(0)
				for _, c := range s.CertifiedCounts {
					total += c
				}
				if want := int64(0); certify && total != 6 || !certify && total != want {
					t.Errorf("certified counts %v", s.CertifiedCounts)
				}
			}
		}
	}
}

// sameScores must list every difference between two runs that may change the last bits of scores. With such a
// difference, the sets have no guarantee.
func TestSameScores(t *testing.T) {
	base := runfolder.Run{Schema: runfolder.Schema, Runtime: runfolder.Runtime{
		Library: "1.29.0", LibrarySHA256: "aa", Provider: "p", Call: 64, NoiseOn: "host", GPUs: []string{"g"},
	}}
	for name, tt := range map[string]struct {
		change func(then, now *runfolder.Run)
		differ int // −1: an error
	}{
		"nothing":           {func(_, _ *runfolder.Run) {}, 0},
		"batch and threads": {func(_, now *runfolder.Run) { now.Runtime.Batch, now.Runtime.Threads = 3, 5 }, 0},
		"call":              {func(_, now *runfolder.Run) { now.Runtime.Call = 32 }, 1},
		"call of a shard": {func(then, _ *runfolder.Run) {
			then.Runtime.Shards = []runfolder.ShardRuntime{{Runtime: runfolder.Runtime{Call: 1}}}
		}, 1},
		"call after resume": {func(then, _ *runfolder.Run) {
			then.Runtime.Resumed = []runfolder.Resumption{{Runtime: runfolder.Runtime{Call: 1}}}
		}, 1},
		"place of the noise": {func(_, now *runfolder.Run) { now.Runtime.NoiseOn = "device" }, 1},
		"library":            {func(_, now *runfolder.Run) { now.Runtime.LibrarySHA256 = "bb" }, 1},
		"version":            {func(_, now *runfolder.Run) { now.Runtime.Library = "1.30.0" }, 1},
		"GPU":                {func(_, now *runfolder.Run) { now.Runtime.GPUs = []string{"h"} }, 1},
		"provider":           {func(_, now *runfolder.Run) { now.Runtime.Provider = "q" }, -1},
		"model":              {func(_, now *runfolder.Run) { now.Model.SHA256 = "cc" }, -1},
		"sigma":              {func(_, now *runfolder.Run) { now.Parameters.Sigma = 1 }, -1},
		"table":              {func(_, now *runfolder.Run) { now.Noise.Table = "dd" }, -1},
		"data":               {func(_, now *runfolder.Run) { now.Data.SHA256 = "ee" }, 0},
	} {
		then, now := base, base
		tt.change(&then, &now)
		different, err := sameScores(then, now)
		if (err != nil) != (tt.differ < 0) || err == nil && len(different) != tt.differ {
			t.Errorf("%s: %v, %v", name, different, err)
		}
	}
}

// If the run of the calibration was merged from shards, its calibration examples are the examples of all these shards.
func TestDisjoint(t *testing.T) {
	then := runfolder.Run{Data: runfolder.Data{SHA256: "aa", Examples: 12}}
	then.Parameters.Skip, then.Parameters.Shard = 1, spec.Whole
	then.Data.Shards = []spec.Shard{{I: 0, K: 4}, {I: 1, K: 4}}
	p := quick(t, writeImages(t, byteImage(0), byteImage(1), byteImage(2), byteImage(3), byteImage(4), byteImage(5)))
	for i, want := range []bool{false, false, true, true} {
		p.Shard = spec.Shard{I: i, K: 4}
		a := &applying{plan: ConformalApply{Path: "c.json"}, experiment: mustOpen(t, p.Spec)}
		if err := a.disjoint(then, runfolder.Run{Data: runfolder.Data{SHA256: "aa"}}); (err == nil) != want {
			t.Errorf("shard %d: %v", i, err)
		}
		if err := a.disjoint(then, runfolder.Run{Data: runfolder.Data{SHA256: "bb"}}); err != nil {
			t.Errorf("other data: %v", err)
		}
	}
}

// shortenBy must subtract the distance from the radius and round the result down. If the distance is larger than the
// radius, it must remove the guarantee.
func TestShortenBy(t *testing.T) {
	c := conformalfile.Conditions{Radius: .5, Sound: true}
	if shortenBy(&c, 0); c.Radius != .5 || !c.Sound {
		t.Errorf("%+v", c)
	}
	if shortenBy(&c, .1); !(c.Radius < .4) || c.Radius < .4-1e-15 || !c.Sound {
		t.Errorf("%+v", c)
	}
	if shortenBy(&c, .41); c.Radius != 0 || c.Sound {
		t.Errorf("%+v", c)
	}
}

// If inputs are rounded to the lattice of the calibration examples, the probability of a miss must rise by
// dataset.LatticeChanges/(n+1), where n is the number of calibration examples. With such rounding, chargeLattice must
// refuse three things: the certified size, the guarantee Training, and poisoned calibration data.
func TestChargeLattice(t *testing.T) {
	a := func() *applying {
		f := &conformalfile.File{Classifier: &conformalfile.Classifier{Noise: runfolder.Noise{Distribution: "normal"}}}
		f.Predictor = conformal.Predictor{Cells: []conformal.Cell{{N: 499, K: 25, Tau: .5}}}
		f.Predictor.Miss = .05
		return &applying{plan: ConformalApply{Round: true}, file: f, conditions: conformalfile.Conditions{Miss: .05}}
	}
	plain := a()
	if err := plain.chargeLattice(); err != nil || math.Abs(plain.conditions.Miss-.058) > 1e-15 || plain.conditions.Miss < .058 {
		t.Errorf("miss %v, %v", plain.conditions.Miss, err)
	}
	for name, change := range map[string]func(*applying){
		"certified size": func(a *applying) { a.plan.CertifiedSize = true },
		"poisoned":       func(a *applying) { a.file.Predictor.Poisoned = 1 },
		"training":       func(a *applying) { a.file.Predictor.Guarantee = conformal.Training },
	} {
		one := a()
		if change(one); one.chargeLattice() == nil {
			t.Errorf("%s: not refused", name)
		}
		if one.plan.Round = false; one.chargeLattice() != nil || one.conditions.Miss != .05 {
			t.Errorf("%s: refused without rounding", name)
		}
	}
}

// allowanceOf must return the Allowance of the run's experiment. The data of this test are read as float64. For
// float32, allowanceOf may return more.
func TestAllowanceOfRun(t *testing.T) {
	values := make([]float64, 48)
	for i := range values {
		values[i] = .1 + float64(i)*.017
	}
	p := quick(t, writeImages(t, values, values))
	e := mustOpen(t, p.Spec)
	run := e.Record()
	if !run.Noise.Quantised {
		t.Fatal("the values are on a lattice")
	}
	if got, want := allowanceOf(run), e.Allowance(); !(want > 0) || math.Abs(got-want) > 1e-9*want {
		t.Errorf("%v, want %v", got, want)
	}
	run.Noise.Quantised = false
	if got := allowanceOf(run); got != 0 {
		t.Errorf("%v on a lattice", got)
	}
}

// mustOpen opens an experiment, and closes it at the end of the test.
func mustOpen(t *testing.T, s spec.Spec) *experiment.Experiment {
	t.Helper()
	s.KeepOutputs = true
	e, err := experiment.Open(t.Context(), s, new(said).console())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// The test uses the bundled digits under noise of σ = 0.5. Each half of the digits calibrates a predictor for the other
// half, for the radius ρ = 1 and the miscoverage 0.05. The mean set sizes and the coverages must agree with the results
// in docs/conformal.md within four standard deviations. These results are for random divisions of the digits. Without
// noise, the sets of split conformal prediction must contain 95.1 % of the labels, within the same tolerance.
func TestConformalDigits(t *testing.T) {
	const folder = "../../testdata/"
	for _, tt := range []struct {
		rule           conformal.Rule
		sigma, radius  float64
		size, coverage float64
		draws          float64 // expected mean number of samples (draws) per input
	}{
		{conformal.Count, .5, .5, .984, .979, 15.1},
		{conformal.Weights, .5, .5, 1.018, .993, 1},
		{conformal.Auto, 0, 0, .955, .951, 1},
	} {
		size, covered, draws := 0., 0., 0.
		for half := range 2 {
			seed := uint64(100 + half)
			s := spec.Spec{
				Model: folder + "mnist-cnn.onnx", Data: folder + "mnist", Threads: 2, FixedSeed: &seed, Smoothing: spec.Smoothing{Sigma: tt.sigma},
				Conditions: spec.Conditions{Skip: 1, Shard: spec.Shard{I: half, K: 2}},
			}
			fit := ConformalFit{Spec: s, Temperature: 1, Version: "test", Params: conformal.Params{
				Rule: tt.rule, Scorer: conformal.NewScorer(conformal.THR), Miss: .05, Guarantee: conformal.Marginal,
				Attack: conformal.Attack{Radius: tt.radius},
			}}
			f, err := FitConformal(t.Context(), fit, new(said).console())
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "c.json")
			if err := f.Write(path); err != nil {
				t.Fatal(err)
			}
			s.Shard.I, s.Smoothing = 1-half, spec.Smoothing{}
			other := uint64(200 + half)
			s.FixedSeed = &other
			r, err := ApplyConformal(t.Context(), ConformalApply{Spec: s, Path: path}, new(said).console())
			if err != nil {
				t.Fatal(err)
			}
			if r.Inputs != 500 || r.Sound != (tt.sigma == 0) || r.Predictor != f.ID() {
				t.Errorf("%s: %d inputs, sound %v, predictor %s, want %s", tt.rule, r.Inputs, r.Sound, r.Predictor, f.ID())
			}
			size, covered, draws = size+float64(r.Classes)/1000, covered+float64(r.Covered)/1000, draws+float64(r.Draws)/1000
		}
		if math.Abs(size-tt.size) > .04 || math.Abs(covered-tt.coverage) > .04 || math.Abs(draws-tt.draws) > .3 {
			t.Errorf("%s: mean size %v, coverage %v, %v draws; want %v, %v, %v", tt.rule, size, covered, draws, tt.size, tt.coverage, tt.draws)
		}
	}
}

// The saved scores of a run must give the same thresholds as new samples of the model, for every kind of conformal
// score.
func TestConformalOfRun(t *testing.T) {
	p := quick(t, writeImages(t, byteImage(0), byteImage(1), byteImage(2), byteImage(3), byteImage(4), byteImage(5)), func(p *Plan) {
		p.SaveScores, p.N, p.N0, p.Class, p.Temperature = true, 9, 0, certify.Label, 2
	})
	mustCertify(t, p)
	for _, score := range []conformal.ScoreKind{conformal.THR, conformal.APS, conformal.RAPS} {
		params := conformal.Params{
			Rule: conformal.Count, Scorer: conformal.NewScorer(score), Miss: .3, Guarantee: conformal.Marginal, Draws: 9, CalibrationDraws: 9,
			Attack: conformal.Attack{Radius: .05},
		}
		if !score.Random() {
			params.Attack.Queries = 2
		}
		saved, err := FitConformal(t.Context(), ConformalFit{Saved: p.Out, Temperature: 1, Params: params}, new(said).console())
		if err != nil {
			t.Fatal(err)
		}
		sampled, err := FitConformal(t.Context(), ConformalFit{Spec: p.Spec, Temperature: 2, Params: params}, new(said).console())
		if err != nil {
			t.Fatal(err)
		}
		if a, b := saved.Predictor.Cells[0], sampled.Predictor.Cells[0]; a.Tau != b.Tau || a.K != 2 || b.K != 2 || math.IsInf(float64(a.Tau), 0) {
			t.Errorf("%s: thresholds %v of the run and %v of the model", score, a, b)
		}
		if saved.Temperature != 2 || saved.Predictor.Words != sampled.Predictor.Words || saved.Predictor.Words.Eta == 0 {
			t.Errorf("%s: temperature %v, words %v and %v", score, saved.Temperature, saved.Predictor.Words, sampled.Predictor.Words)
		}
	}
}
