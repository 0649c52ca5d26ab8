package certify

import (
	"fmt"
	"slices"

	"github.com/rscert/rscert/internal/binomial"
)

// A contest is the comparison that proves a claim. It involves the mean p_1 of one event and the mean p_2 of a second
// event that excludes the first. The claim holds within ρ while t·F(Q(p_1)−ρ) > F(Q(p_2)+ρ).
type contest struct {
	winner, rival int64   // estimation votes of both events; for the rival, an upper bound
	t             float64 // 1: the usual margin; otherwise see ranks
	test          string  // names the contest in certificates; empty for the only possible one
}

// A ballot holds one phase of an example's votes.
type ballot struct {
	counts  []int64
	none, n int64
}

func (v Votes) selected() ballot  { return ballot{v.Counts0, v.None0, v.N0} }
func (v Votes) estimated() ballot { return ballot{v.Counts, v.None, v.N} }

// rivals returns the votes of all outcomes other than a.
func (b ballot) rivals(a int, none NoneMode) []int64 {
	var all []int64
	for class, c := range b.counts {
		if class != a {
			all = append(all, c)
		}
	}
	if none == NoneAnswer {
		all = append(all, b.none)
	}
	return all
}

// contest returns the contest that certifies class a. The selection samples alone choose among possible contests, so
// the choice is fixed before the estimation samples.
func (c Claim) contest(v Votes, a int) (contest, error) {
	switch {
	case c.Ranked():
		if len(v.Counts) <= c.TopK {
			return contest{}, fmt.Errorf("every class is among the first %d of %d", c.TopK, len(v.Counts))
		}
		return c.rankContest(v, a), nil
	case c.None == NoneSafe:
		return safeContest(v, a), nil
	}
	rival := slices.Max(v.estimated().rivals(a, c.None))
	return contest{winner: v.Counts[a], rival: rival, t: 1}, nil
}

// The names of the contests that can certify "A or silence". A system that answers the outcome with the most votes is
// wrong only if another class j has at least the votes of A and of silence.
const (
	classTest   = "class"   // p_A > p_j for all j
	silenceTest = "silence" // p_none > p_j for all j
	groupTest   = "group"   // ½(p_A + p_none) > p_j for all j; the larger of both is at least half of their sum
)

// safeContest returns the contest that the selection samples favour. Without selection samples it is the classTest.
func safeContest(v Votes, a int) contest {
	tests := func(b ballot) []contest {
		rival := slices.Max(b.rivals(a, NoneSafe))
		return []contest{
			{b.counts[a], rival, 1, classTest},
			{b.none, rival, 1, silenceTest},
			{b.counts[a] + b.none, rival, 0.5, groupTest},
		}
	}
	return favourite(v, tests)
}

// rankContest returns the contest that the selection samples favour for "A stays among the first k". It leaves out a
// set U of u ≤ k−1 rivals, the favourites of the selection samples, and takes t = k−u. If A drops out of the first k,
// then t rivals outside U have at least A's probability each. So the t most probable rivals outside U, a fixed set S,
// have together at least t times A's probability. The t largest counts outside U are at least the votes of S. Without
// selection samples, U is empty.
func (c Claim) rankContest(v Votes, a int) contest {
	var order []int // rivals by their selection votes, the most first
	first := v.selected()
	if first.n > 0 {
		votes := first.rivals(a, c.None)
		for i := range votes {
			order = append(order, i)
		}
		slices.SortStableFunc(order, func(i, j int) int { return int(votes[j] - votes[i]) })
	}
	tests := func(b ballot) []contest {
		var all []contest
		votes := b.rivals(a, c.None)
		for u := range c.TopK {
			left := slices.Clone(votes)
			for _, i := range order[:min(u, len(order))] {
				left[i] = 0 // does not change the sum of the largest
			}
			slices.Sort(left)
			t := c.TopK - u
			var sum int64
			for _, x := range left[len(left)-t:] {
				sum += x
			}
			all = append(all, contest{b.counts[a], sum, float64(t), fmt.Sprintf("t=%d", t)})
		}
		return all
	}
	return favourite(v, tests)
}

// favourite returns the contest with the largest margin that the selection samples suggest, in terms of the estimation
// samples. Of equal ones it takes the first.
func favourite(v Votes, tests func(ballot) []contest) contest {
	best := 0
	if v.N0 > 0 {
		most := 0.0
		for i, x := range tests(v.selected()) {
			if m := x.suggested(v.N0); i == 0 || m > most {
				best, most = i, m
			}
		}
	}
	return tests(v.estimated())[best]
}

// suggested estimates the margin of a contest from n selection samples. Bounds at level ¼ in place of shares keep it
// finite where a share is 0 or 1. It must not depend on the estimation samples, and so not on their number.
func (x contest) suggested(n int64) float64 {
	const level = 0.25
	s := ranks{quantiles: quantiles{gaussianScale}, t: x.t}
	return s.margin(binomial.LowerBound(x.winner, n, level), binomial.LowerBound(n-x.rival, n, level))
}

// clearest returns the factor of the contest with the largest margin if all votes are for the class.
func (c Claim) clearest() float64 { return float64(max(1, c.TopK)) }
