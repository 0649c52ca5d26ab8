package run

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/runfolder"
)

// gridOf returns a grid over a run with one method and the given sizes.
func gridOf(t *testing.T, e *runfolder.Evidence, m runfolder.Method, sizes ...int64) RecertificationGrid {
	t.Helper()
	target, err := e.ClassTarget(runfolder.Given{})
	if err != nil {
		t.Fatal(err)
	}
	return RecertificationGrid{Evidence: e, Targets: []certify.Target{target}, Methods: []runfolder.Method{m}, Combines: []certify.Combine{certify.Directed},
		Temperatures: []float64{1}, Sizes: sizes, Repeats: 1, Seed: 5}
}

// collect returns the certificates of each point and repeat.
func collect(t *testing.T, s RecertificationGrid) (sets [][]certify.Certificate, points []int) {
	t.Helper()
	err := s.Certify(t.Context(), quiet, func(point int, certs []certify.Certificate) error {
		sets, points = append(sets, certs), append(points, point)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return sets, points
}

// For scores, a point of size n must use the first n samples. Its certificates must agree with those of a run that
// draws n samples with the same seed, except that margins may differ by up to 1e-6. The reason is that the longer run
// draws more random words, so its level is slightly different.
func TestGridTakesTheFirstScores(t *testing.T) {
	data := writeImages(t, byteImage(0), byteImage(1), byteImage(2))
	plan := func(n int64) Plan {
		p := quick(t, data, func(p *Plan) { p.SaveScores, p.Method, p.N = true, runfolder.ByScores(certify.Hoeffding), n })
		mustCertify(t, p)
		return p
	}
	long, short := plan(300), plan(120)
	sets, _ := collect(t, gridOf(t, find(t, long.Out), runfolder.ByScores(certify.Hoeffding), 120, 300))
	for k, want := range [][]certify.Certificate{readResults(t, short.Out).certs, readResults(t, long.Out).certs} {
		for i, c := range sets[k] {
			if c.N != want[i].N || c.Prediction != want[i].Prediction || math.Abs(c.Margin-want[i].Margin) > 1e-6 || want[i].Margin == 0 {
				t.Errorf("size %d: %+v, want %+v", want[i].N, c, want[i])
			}
		}
	}
	if sets[0][0].Margin >= sets[1][0].Margin {
		t.Errorf("margins %v from 120 samples, %v from 300", sets[0][0].Margin, sets[1][0].Margin)
	}
	s := gridOf(t, find(t, long.Out), runfolder.ByScores(certify.Hoeffding), 301)
	if err := s.Certify(t.Context(), quiet, nil); err == nil || !strings.Contains(err.Error(), "300 estimation samples") {
		t.Errorf("too many: %v", err)
	}
	s.Sizes, s.Repeats = []int64{120}, 2
	if err := s.Certify(t.Context(), quiet, nil); err == nil || !strings.Contains(err.Error(), "the same each time") {
		t.Errorf("repeats: %v", err)
	}
}

// For votes, repeat number k must certify the subsample that certify.Votes.Subsample draws for the turn k. All methods
// must get the same subsamples.
func TestGridSubsamplesVotes(t *testing.T) {
	p := quick(t, writeImages(t, byteImage(0), byteImage(1)), func(p *Plan) { p.N = 500 })
	mustCertify(t, p)
	e := find(t, p.Out)
	s := gridOf(t, e, runfolder.ByVotes(certify.Bonferroni), 50, 500)
	s.Methods = append(s.Methods, runfolder.ByVotes(certify.ClopperPearson))
	s.Repeats = 3
	sets, points := collect(t, s)
	if !slices.Equal(points, []int{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}) {
		t.Fatalf("points %v", points)
	}
	votes, err := e.OwnVotes()
	if err != nil {
		t.Fatal(err)
	}
	for k, point := range s.Points() {
		var method certify.VoteMethod
		if err := method.UnmarshalText([]byte(point.Method)); err != nil {
			t.Fatal(err)
		}
		certifier, err := certify.NewVoteCertifier(certify.VoteParams{Target: point.Target, Method: method})
		if err != nil {
			t.Fatal(err)
		}
		for turn := range 3 {
			for i, v := range votes {
				drawn, err := v.Subsample(point.Size, 5, turn)
				if err != nil {
					t.Fatal(err)
				}
				want, err := certifier.Certify(drawn)
				if err != nil {
					t.Fatal(err)
				}
				sameJSON(t, point.Method, sets[3*k+turn][i], want)
			}
		}
	}
}

// The points must be ordered by target, then by size, method, value of Combines and temperature. A point of a method
// for votes must have no temperature. No point may have both 'taylor' and the first margin.
func TestGridPoints(t *testing.T) {
	p := quick(t, writeImages(t, byteImage(0)), func(p *Plan) { p.SaveScores, p.N = true, 20 })
	mustCertify(t, p)
	s := gridOf(t, find(t, p.Out), runfolder.ByVotes(certify.Bonferroni), 10, 20)
	s.Methods = append(s.Methods, runfolder.ByScores(certify.Betting))
	s.Combines, s.Temperatures = []certify.Combine{certify.Projected, certify.Taylor}, []float64{0.5, 1}
	first := s.Targets[0]
	first.Margin = certify.FirstMargin
	s.Targets = append(s.Targets, first)
	var got []string
	for _, p := range s.Points() {
		got = append(got, strings.Join([]string{p.Target.Margin.String(), p.Method, map[int64]string{10: "10", 20: "20"}[p.Size],
			map[float64]string{0: "-", 0.5: "0.5", 1: "1"}[p.Temperature]}, " "))
	}
	want := []string{
		"second bonferroni 10 -", "second betting+projected 10 0.5", "second betting+projected 10 1", "second betting+taylor 10 0.5", "second betting+taylor 10 1",
		"second bonferroni 20 -", "second betting+projected 20 0.5", "second betting+projected 20 1", "second betting+taylor 20 0.5", "second betting+taylor 20 1",
		"first bonferroni 10 -", "first betting+projected 10 0.5", "first betting+projected 10 1",
		"first bonferroni 20 -", "first betting+projected 20 0.5", "first betting+projected 20 1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	sets, points := collect(t, s)
	for k, point := range points {
		if c := sets[k][0]; c.Method != s.Points()[point].Method || c.MarginKind != s.Points()[point].Target.Margin || c.N != s.Points()[point].Size {
			t.Errorf("point %+v: %+v", s.Points()[point], c)
		}
	}
}

// In a run with --stop, the number of samples depends on the votes. So the grid must refuse given sample sizes, even if
// no example stopped early.
func TestGridRefusesStoppedRuns(t *testing.T) {
	rule, err := certify.ParseStop("radius>=0.05")
	if err != nil {
		t.Fatal(err)
	}
	p := quick(t, writeImages(t, byteImage(0)), func(p *Plan) { p.Stop, p.N = rule, 500 })
	mustCertify(t, p)
	for _, path := range []string{p.Out, filepath.Join(p.Out, runfolder.VotesFile)} {
		s := gridOf(t, find(t, path), runfolder.ByVotes(certify.Bonferroni), 20)
		if err := s.Certify(t.Context(), quiet, nil); err == nil || !strings.Contains(err.Error(), "depends on its votes") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
