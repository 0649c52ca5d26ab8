package run

import (
	"slices"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/runfolder"
)

// A sample must vote for its most probable class. If several classes share the largest probability, it must vote for
// the first of them. A row of zeros must vote for no class. Votes that a run counted must stay unchanged.
func TestPollCounts(t *testing.T) {
	rows := []float32{0.2, 0.5, 0.3, 0.4, 0.4, 0.2, 0, 0, 0, 0, 0, 1}
	p := &poll{votes: certify.Votes{Counts: make([]int64, 3), Counts0: make([]int64, 3)}}
	p.count(rows, false)
	p.count(rows[:6], true)
	p.count(rows[6:9], true)
	v := p.votes
	if !slices.Equal(v.Counts, []int64{1, 1, 1}) || v.None != 1 || !slices.Equal(v.Counts0, []int64{1, 1, 0}) || v.None0 != 1 {
		t.Errorf("%+v", v)
	}
	p.given = true
	p.count(rows, false)
	if !slices.Equal(p.votes.Counts, []int64{1, 1, 1}) {
		t.Errorf("a run's votes are counted again: %+v", p.votes)
	}
}

// If the softmax rounds probabilities to equal values, only the run's votes tell which class a sample voted for. So the
// certificate of an example in a run must come from these votes. If the user changes the number of selection samples,
// the run's votes no longer fit. Each sample must then vote for the first of the equally probable classes.
func TestRunVotesDecideTies(t *testing.T) {
	p := quick(t, writeImages(t, byteImage(0), byteImage(1), byteImage(2)), func(p *Plan) {
		p.SaveScores, p.N, p.N0, p.Class, p.Temperature = true, 60, 0, certify.Label, 1e12 // all probabilities are ¼
	})
	mustCertify(t, p)
	ran := readResults(t, p.Out)
	e := find(t, p.Out)
	target, err := e.Target(runfolder.Given{})
	if err != nil {
		t.Fatal(err)
	}
	q := SavedScores{Evidence: e, Temperature: 1, Votes: certify.ExactMargin, Params: certify.ScoreParams{
		Target: target, Bound: certify.Betting,
		Confidence: certify.ConfidenceParams{Radii: []float64{0}, Method: certify.ConfidenceStandard, Bound: certify.Betting},
	}}
	found := func(q SavedScores) (certs []certify.Certificate) {
		t.Helper()
		take := func(c certify.Certificate, _ []certify.ConfidenceBound) { certs = append(certs, c) }
		if err := CertifyScores(t.Context(), q, quiet, take); err != nil {
			t.Fatal(err)
		}
		return certs
	}
	certified := func(params certify.ScoreParams, v certify.Votes) certify.Certificate {
		t.Helper()
		c, err := certify.NewVoteCertifier(certify.VoteParams{Target: params.ClassTarget(), Method: certify.ExactMargin})
		if err != nil {
			t.Fatal(err)
		}
		cert, err := c.Certify(v)
		if err != nil {
			t.Fatal(err)
		}
		return cert
	}
	params := q.Params
	params.ClassByVotes = true
	others := 0
	for i, got := range found(q) {
		v := ran.votes[i]
		if want := certified(params, v); got.Prediction != want.Prediction || got.Radius != want.Radius || got.Margin != want.Margin {
			t.Errorf("%+v\nwant %+v, by the votes of the run", got, want)
		}
		if v.Counts[0] < v.N {
			others++
		}
	}
	if others == 0 {
		t.Error("every sample voted for the first class: the ties decide nothing")
	}
	params.Target.Class, q.Params.Target.Class, q.N0 = certify.Predicted, certify.Predicted, 20
	for i, got := range found(q) {
		v := certify.Votes{Index: i, Label: ran.votes[i].Label, N0: 20, N: 40, Counts0: []int64{20, 0, 0, 0}, Counts: []int64{40, 0, 0, 0}}
		if want := certified(params, v); got.Prediction != want.Prediction || got.Radius != want.Radius || got.Margin != want.Margin {
			t.Errorf("%+v\nwant %+v, by the first of equals", got, want)
		}
	}
}
