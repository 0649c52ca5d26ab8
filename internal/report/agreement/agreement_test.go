package agreement

import (
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/report/summary"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// The test invents the vote of every sample. The run 'b' begins with the samples of the run 'a', but some of their
// votes are changed. Further samples may follow. The result of votesMoved must be at most the number of different
// votes. It must be equal to this number if the votes of 'b' are reordered to agree with the votes of 'a' as much as
// possible.
func TestApart(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	count := func(votes []int) (counts []int64, none int64) {
		counts = make([]int64, 3)
		for _, v := range votes {
			if v < 0 {
				none++
			} else {
				counts[v]++
			}
		}
		return counts, none
	}
	for range 2000 {
		n, m := 1+random.IntN(12), 0
		m = n + random.IntN(3)*random.IntN(5)
		a, b := make([]int, n), make([]int, m)
		for i := range b {
			b[i] = random.IntN(4) - 1
			if i < n {
				if a[i] = b[i]; random.IntN(3) == 0 {
					a[i] = random.IntN(4) - 1
				}
			}
		}
		differ := int64(0)
		for i := range a {
			if a[i] != b[i] {
				differ++
			}
		}
		ca, na := count(a)
		cb, nb := count(b)
		got := votesMoved(int64(n), ca, na, int64(m), cb, nb)
		if back := votesMoved(int64(m), cb, nb, int64(n), ca, na); n < m && back != got {
			t.Fatalf("%v and %v: %d, the other way round %d", a, b, got, back)
		}
		// To agree as much as possible, each vote of 'a' is paired with an equal vote of 'b' that has no pair yet, if
		// there is one.
		left := slices.Clone(b)
		fewest := int64(0)
		for _, v := range a {
			if i := slices.Index(left, v); i >= 0 {
				left = slices.Delete(left, i, i+1)
			} else {
				fewest++
			}
		}
		if got != fewest || got > differ {
			t.Fatalf("%v and %v: at least %d, of the %d that do; arranged best %d", a, b, got, differ, fewest)
		}
	}
}

// The type 'drawn' holds the results of a run for an example. Its scores have the shape [samples][classes], and the
// first two samples are selection samples.
type drawn struct {
	index, label, prediction int
	radius                   float64
	scores                   [][]float32
	votes                    []int // nil if each sample votes for the class with its largest score
}

const classes, selection = 3, 2

// The function 'write' writes a run folder with the results in 'examples'.
func write(t *testing.T, examples []drawn, change func(*runfolder.Run)) summary.Source {
	t.Helper()
	var kind runfolder.Method
	if err := kind.UnmarshalText([]byte("margin")); err != nil {
		t.Fatal(err)
	}
	n := int64(len(examples[0].scores) - selection)
	run := runfolder.Run{
		Schema: runfolder.Schema, Version: "test",
		Model: runfolder.Model{File: "m.onnx", SHA256: "aa", Classes: classes},
		Data:  runfolder.Data{File: "d", SHA256: "bb", Shape: []int{2}, Examples: 20, Selected: len(examples)},
		Parameters: runfolder.Parameters{
			Smoothing:     spec.Smoothing{Sigma: 0.5},
			Certification: runfolder.Certification{N: n, N0: selection, Alpha: 0.001, Method: kind, SaveScores: true},
			Conditions:    spec.Conditions{Skip: 1, Max: len(examples), Shard: spec.Whole, Noise: spec.Lattice},
		},
		Runtime: runfolder.Runtime{Device: "cpu", Provider: "P", Library: "1"},
		Noise:   runfolder.Noise{Table: "ee", Entries: 8},
	}
	change(&run)
	dir := filepath.Join(t.TempDir(), "run")
	f, err := runfolder.Create(dir, run)
	if err != nil {
		t.Fatal(err)
	}
	for place, e := range examples {
		v := certify.Votes{Index: e.index, Label: e.label, N0: selection, N: n, Counts0: make([]int64, classes), Counts: make([]int64, classes)}
		for i, probs := range e.scores {
			counts, none := v.Counts, &v.None
			if i < selection {
				counts, none = v.Counts0, &v.None0
			}
			switch k := e.vote(i); {
			case k < 0:
				*none++
			default:
				counts[k]++
			}
			if w := f.Scores(); w == nil {
				continue
			} else if i < selection {
				err = errors.Join(err, w.WriteSelection(place, int64(i), probs))
			} else {
				err = errors.Join(err, w.WriteEstimation(place, int64(i-selection), probs))
			}
		}
		r := runfolder.Record{Votes: v, Certificate: certify.Certificate{Index: e.index, Label: e.label, Prediction: e.prediction,
			Correct: e.prediction == e.label, Radius: e.radius, Method: "margin", Alpha: run.Parameters.Alpha, Sigma: run.Parameters.Sigma, N: n, Sound: true}}
		if w := f.Scores(); w != nil {
			err = errors.Join(err, w.WriteExample(place, e.index, e.label))
			sum, digestErr := w.Digest(place)
			r.Scores, err = sum, errors.Join(err, digestErr)
		}
		if err := errors.Join(err, f.Append(r)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(f.Finish(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return read(t, dir)
}

func (e drawn) vote(i int) int {
	if e.votes != nil {
		return e.votes[i]
	}
	best := 0
	for k, p := range e.scores[i] {
		if p > e.scores[i][best] {
			best = k
		}
	}
	if e.scores[i][best] == 0 {
		return -1
	}
	return best
}

func read(t *testing.T, dir string) summary.Source {
	t.Helper()
	e, err := runfolder.Find(dir)
	if err != nil {
		t.Fatal(err)
	}
	// The test does not call summary.Read, because this function refuses invented certificates.
	s := summary.Source{Path: dir, Kind: summary.RunKind, Run: e.Run}
	s.Certificates, err = e.Certificates()
	if err != nil {
		t.Fatal(err)
	}
	if s.Votes, err = e.Votes(func(certify.Votes) error { return nil }); err != nil {
		t.Fatal(err)
	}
	return s
}

// The function 'of' returns the scores of several samples, one sample for each given class. The largest score of a
// sample is at its class. The class −1 stands for a vote for no class, and the class 3 stands for a tie of the classes
// 0 and 1.
func of(classes ...int) (scores [][]float32) {
	for _, k := range classes {
		row := []float32{0.2, 0.2, 0.2}
		switch k {
		case -1:
			row = make([]float32, 3)
		case 3:
			row[0], row[1] = 0.4, 0.4
		default:
			row[k] = 0.6
		}
		scores = append(scores, row)
	}
	return scores
}

func unchanged(*runfolder.Run) {}

func onGPU(r *runfolder.Run) {
	r.Runtime.Device, r.Runtime.Provider, r.Runtime.GPUs = "cuda:0,1", "CUDA", []string{"H100", "H100"}
	r.Runtime.Resumed = []runfolder.Resumption{{Examples: 2, Runtime: runfolder.Runtime{GPUs: []string{"A100"}}}}
	r.Parameters.Precision = onnx.Precision(1)
}

// The test compares two runs of five examples each. Example 0 is the same in both runs, and one of its samples votes
// for no class. Example 1 has two votes that differ between the runs. These differences cancel in the counts. Example 2
// is certified for another class in the second run. The second run abstains from example 3. In both runs, one sample of
// this example has a tie. In the first run, another sample votes for no class. Example 4 has a tie, and the counts of
// its votes prove that the tied sample's vote differs between the runs.
var (
	here = []drawn{
		{0, 0, 0, 0.5, of(0, 0, 0, 0, -1, 1), nil},
		{1, 1, 1, 0.25, of(1, 1, 1, 1, 0, 2), nil},
		{2, 2, 2, 0.125, of(2, 2, 2, 2, 2, 1), nil},
		{3, 0, 0, 0.125, of(0, 0, 0, 0, -1, 3), []int{0, 0, 0, 0, -1, 0}},
		{4, 0, 0, 0.5, of(0, 0, 0, 0, 0, 3), nil},
	}
	there = []drawn{
		{0, 0, 0, 0.5, of(0, 0, 0, 0, -1, 1), nil},
		{1, 1, 1, 0.3125, of(1, 1, 1, 1, 2, 0), nil},
		{2, 2, 1, 0.0625, of(1, 1, 2, 2, 1, 1), nil},
		{3, 0, -1, 0, of(0, 0, 0, 0, 0, 3), []int{0, 0, 0, 0, 0, 1}},
		{4, 0, 0, 0.46875, of(0, 0, 0, 0, 0, 3), []int{0, 0, 0, 0, 0, 1}},
	}
)

func TestCompare(t *testing.T) {
	a, b := write(t, here, unchanged), write(t, there, onGPU)
	examples := 0
	got, err := Compare(t.Context(), a, b, func() { examples++ })
	if err != nil {
		t.Fatal(err)
	}
	// Sample by sample, example 1 differs in 2 votes, example 2 in 3, and example 3 in 1. The last vote of example 3 is
	// a tie and may differ too. The counts do not prove that the tied vote differs: the first run has 3 votes for class
	// 0 and one vote for no class, and the second run has 3 votes for class 0 and one for class 1. The counts of
	// example 4 prove that its tied vote differs.
	if v := got.Votes; v.Source != FromScores || v.AtLeast != 7 || *v.AtMost != 8 || v.Rate != 1e5*7/30. || v.Low >= v.Rate || *v.High <= 1e5*8/30 {
		t.Errorf("%+v", v)
	}
	if examples != 5 || got.Examples != 5 || got.Samples != 30 || got.OtherCounts != 3 || got.OtherTop != 1 || got.OtherClass != 1 ||
		got.AbstainedFirst != 0 || got.AbstainedSecond != 1 || got.OtherRadius != 2 || *got.Largest != (Radii{1, 0.25, 0.3125}) {
		t.Errorf("%d examples, %+v", examples, got)
	}
	if want := []Class{{2, 2, 2, 1, 2, 1}, {3, 0, 0, -1, 0, 0}}; !slices.Equal(got.Changed, want) {
		t.Errorf("changed: %+v, want %+v", got.Changed, want)
	}
	if len(got.Differences) != 2 || got.Differences[0].What != "--precision" || got.Differences[1].What != "the provider" {
		t.Errorf("%+v", got.Differences)
	}

	if got.First.GPUs != nil || !slices.Equal(got.Second.GPUs, []string{"A100", "H100"}) {
		t.Errorf("the GPUs are %q and %q", got.First.GPUs, got.Second.GPUs)
	}

	// Without scores, the counts hide the two different votes of example 1.
	without := func(r *runfolder.Run) { r.Parameters.SaveScores = false }
	votesOnly := write(t, here, without)
	for i, sources := range [][2]summary.Source{{b, votesOnly}, {votesOnly, b}} {
		got, err = Compare(t.Context(), sources[0], sources[1], func() { t.Error("there are scores on one side only") })
		if err != nil {
			t.Fatal(err)
		}
		if v := got.Votes; v.Source != FromCounts || v.AtLeast != 5 || v.AtMost != nil || v.High != nil || got.AbstainedFirst != 1-i {
			t.Errorf("%+v", got)
		}
	}
}

// If 0 of n votes differ, Clopper–Pearson's upper bound on the rate is 1 − (α/2)^(1/n).
func TestNothingDiffers(t *testing.T) {
	a := write(t, here[:3], unchanged)
	got, err := Compare(t.Context(), a, a, func() {})
	if err != nil {
		t.Fatal(err)
	}
	want := 1e5 * (1 - math.Pow(0.025, 1./18))
	if v := got.Votes; v.AtLeast != 0 || *v.AtMost != 0 || v.Low != 0 || math.Abs(*v.High/want-1) > 1e-9 || got.Largest != nil || len(got.Changed) > 0 {
		t.Errorf("%+v, want %v", got, want)
	}
}

// TestExamplesInCommon checks that Compare uses only the examples that are in both runs.
func TestExamplesInCommon(t *testing.T) {
	some := func(r *runfolder.Run) { r.Parameters.Max = 5; r.Parameters.Shard = spec.Shard{I: 1, K: 2} }
	a, b := write(t, here, unchanged), write(t, []drawn{there[1], there[3]}, some)
	got, err := Compare(t.Context(), b, a, func() {})
	if err != nil {
		t.Fatal(err)
	}
	if got.Examples != 2 || got.First.Only != 0 || got.Second.Only != 3 || got.Second.Examples != 5 || got.Votes.AtLeast != 3 || *got.Votes.AtMost != 4 {
		t.Errorf("%+v", got)
	}
	if _, err := Compare(t.Context(), b, write(t, here[:1], unchanged), func() {}); err == nil || !strings.Contains(err.Error(), "no example in common") {
		t.Errorf("%v", err)
	}
}

// The votes of a run may come in another order than its certificates. A certificate without votes must be an error.
func TestVotesOfCertificates(t *testing.T) {
	a, b := write(t, here, unchanged), write(t, here, unchanged)
	slices.Reverse(b.Votes)
	if got, err := Compare(t.Context(), a, b, func() {}); err != nil || got.Votes.AtLeast != 0 || got.OtherCounts != 0 || len(got.Changed) != 0 {
		t.Errorf("votes in another order: %+v, %v", got, err)
	}
	b.Votes = b.Votes[:3]
	for _, pair := range [][2]summary.Source{{a, b}, {b, a}} {
		if _, err := Compare(t.Context(), pair[0], pair[1], func() {}); err == nil || !strings.Contains(err.Error(), "has a certificate without its votes") {
			t.Errorf("fewer votes than certificates: %v", err)
		}
	}
}

// Compare must reject runs of different experiments and give the reason.
func TestRefused(t *testing.T) {
	a := write(t, here, unchanged)
	other := slices.Clone(here)
	other[1].label = 0
	for want, b := range map[string]summary.Source{
		"the model is":          write(t, here, func(r *runfolder.Run) { r.Model.SHA256 = "cc" }),
		"the data set is":       write(t, here, func(r *runfolder.Run) { r.Data.SHA256 = "cc" }),
		"--seed is 0 and 7":     write(t, here, func(r *runfolder.Run) { r.Parameters.Seed = 7 }),
		"--sigma is 0.5 and 1":  write(t, here, func(r *runfolder.Run) { r.Parameters.Sigma = 1 }),
		"--alpha is":            write(t, here, func(r *runfolder.Run) { r.Parameters.Alpha = 0.01 }),
		"the table of the nois": write(t, here, func(r *runfolder.Run) { r.Noise.Table = "cc"; r.Version = "other" }),
		"the data are read":     write(t, here, func(r *runfolder.Run) { r.Data.Options.FirstLabel = 1 }),
		"has the labels 1 and ": write(t, other, unchanged),
	} {
		_, err := Compare(t.Context(), a, b, func() {})
		var incomparable *IncomparableError
		if !errors.As(err, &incomparable) || !strings.Contains(err.Error(), want) || len(incomparable.Differences) != 1 {
			t.Errorf("%v, want %q", err, want)
		}
	}
	elsewhere := write(t, here, func(r *runfolder.Run) { r.Data.Options.ClassNames, r.Data.Options.Labels = "x", "y" })
	if _, err := Compare(t.Context(), a, elsewhere, func() {}); err != nil {
		t.Error(err)
	}
	if _, err := Compare(t.Context(), a, summary.Source{Path: "x"}, func() {}); err == nil {
		t.Error("a file of certificates is taken for a run")
	}
}

// If two runs draw different numbers of samples for an example, Compare must use only the samples that both runs drew.
func TestStoppedElsewhere(t *testing.T) {
	votes := func(n int64, counts ...int64) example {
		return example{certify.Votes{N0: 2, Counts0: []int64{2, 0}, N: n, Counts: counts}, certify.Certificate{}}
	}
	var a Agreement
	p := pair{votes(10, 9, 1), votes(15, 7, 8)}
	a.add(p)
	if a.Samples != 12 || a.OtherSamples != 1 || a.OtherCounts != 1 || a.OtherTop != 0 || sumCounts([]pair{p}) != 2 {
		t.Errorf("%+v, at least %d", a, sumCounts([]pair{p}))
	}
	nobody := pair{votes(10, 9, 1), votes(11, 9, 1)}
	nobody.second.None = 1
	a.add(nobody)
	if a.OtherCounts != 2 || a.Samples != 24 || a.OtherSamples != 2 {
		t.Errorf("%+v", a)
	}
	without := pair{votes(10, 9, 1), votes(10, 1, 9)}
	without.first.Counts0, without.second.Counts0 = nil, nil
	without.first.N0, without.second.N0 = 0, 0
	a.add(without)
	if a.OtherTop != 1 || a.Samples != 34 || a.OtherSamples != 2 {
		t.Errorf("%+v", a)
	}
}
