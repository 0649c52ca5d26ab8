package certify

import (
	"math"
	"slices"
	"testing"

	"github.com/rscert/rscert/internal/law"
)

// The values of R/σ come from an independent program. At t = 1 they are halves of the second margin.
func TestRanksReferenceValues(t *testing.T) {
	for _, c := range []struct {
		n, x1, x2        int64
		t                float64
		bonferroni, want float64
	}{
		{100, 90, 5, 1, .853056, .899546},
		{100, 80, 15, 2, .854916, .889381},
		{100, 60, 30, 2, .345924, .383505},
		{100, 60, 30, 3, .569294, .601799},
		{1000, 400, 500, 3, .355419, .364790},
		{1000, 250, 600, 5, .232988, .242941},
	} {
		for _, m := range []struct {
			method VoteMethod
			want   float64
		}{{Bonferroni, c.bonferroni}, {ExactMargin, c.want}} {
			v := mustVotes(t, VoteParams{Target: Target{Alpha: 0.001}, Method: m.method})
			b := v.bound(observation{n: c.n, a: c.x1, b: c.x2, alpha: 0.001, t: c.t})
			if got := b.margin / 2; got > m.want+6e-7 || got < m.want-1e-5 {
				t.Errorf("(%d; %d, %d; %v) by %s: ρ = %.6f, want %v", c.n, c.x1, c.x2, c.t, m.method, got, m.want)
			}
		}
	}
}

// runnerUp returns the largest count of another outcome than class a.
func runnerUp(v Votes, a int) int64 { return slices.Max(v.estimated().rivals(a, NoneAnswer)) }

func TestProbe(t *testing.T) {
	for _, c := range []struct {
		n, x1, x2 int64
		t         float64
	}{{1000, 300, 20, 1}, {1000, 650, 20, 1}, {1000, 950, 20, .5}, {100, 60, 5, 1}, {100, 30, 2, 1}, {1000, 600, 50, 1}} {
		for _, m := range []VoteMethod{Bonferroni, ExactMargin} {
			v := mustVotes(t, VoteParams{Target: Target{Alpha: 0.001}, Method: m})
			b := v.bound(observation{n: c.n, a: c.x1, b: c.x2, alpha: 0.001, t: c.t})
			t.Log(c, m, b.margin/2)
		}
	}
	_ = law.Gaussian
	_ = math.Pi
}
