package run

import (
	"slices"
	"testing"

	"github.com/rscert/rscert/internal/certify"
)

// A sample votes for its largest probability, the first of equals; a row of zeros for nobody.
// What a run has counted is left as it is.
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
