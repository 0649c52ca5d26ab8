package certify

import (
	"fmt"
	"slices"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/law"
)

// A contest is the comparison that proves a claim. It compares two events that exclude each other. Under noise, the
// events have the probabilities p_1 and p_2. For the claim that the smoothed classifier answers A, the first event is a
// vote for A, and the second event is a vote for the runner-up. The contest has a factor t. The claim holds wherever t
// times the probability of the first event exceeds the probability of the second event. For noise of scale 1, this is
// so within the distance ρ if t·F(Q(p_1)−ρ) > F(Q(p_2)+ρ). F and Q are the distribution function and the quantile
// function of the noise (law.Additive).
type contest struct {
	winner, rival int64   // estimation votes for the first event; upper bound on the votes for the second event
	t             float64 // t in the inequality above; t = 1 gives the margin Q(p_1) − Q(p_2) (see the type 'ranks')
	test          string  // name of the contest in certificates; empty if only one contest can prove the claim
}

// A ballot holds the votes of an example in one phase, selection or estimation. The field 'none' counts the samples
// without an answer, and the field n counts all samples.
type ballot struct {
	counts  []int64
	none, n int64
}

func (v Votes) selected() ballot  { return ballot{v.Counts0, v.None0, v.N0} }
func (v Votes) estimated() ballot { return ballot{v.Counts, v.None, v.N} }

// The method 'rivals' returns the votes of all classes other than a. In the mode NoneAnswer, the samples without an
// answer count as one more rival.
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

// contest returns the contest that certifies class a. A contest is a comparison of two events that proves a claim. If
// several contests can certify class a, the selection samples alone decide which contest is used. So the contest is
// fixed before the estimation samples.
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

// These are the names of the comparisons (see contest) that can certify the claim "A or silence". A classifier that
// answers the most probable outcome violates this claim only if another class j is at least as probable as A and at
// least as probable as silence.
const (
	classTest   = "class"   // p_A > p_j for all j
	silenceTest = "silence" // p_none > p_j for all j
	groupTest   = "group"   // ½(p_A + p_none) > p_j for all j; then the larger of p_A and p_none exceeds all p_j
)

// safeContest returns the contest for "A or silence" that the selection samples favour. Without selection samples it
// returns the contest classTest.
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

// rankContest returns a contest for the claim "A stays among the first k". Here k is TopK. There are several possible
// contests, and the selection samples choose one of them. For each u from 0 to k−1, there is one contest. It leaves out
// the set U of the u rivals with the most selection votes. Its factor is t = k−u. Let S be the set of the t most
// probable rivals outside U. Suppose that A is not among the first k. Then at least k rivals are at least as probable
// as A. At least t of these rivals are outside U, because U has only u members. Therefore, each rival in S is at least
// as probable as A. So the probability of S is at least t times the probability of A. The estimation samples do not
// affect S. The votes for S are at most the sum of the t largest counts outside U. Without selection samples, U is
// empty.
func (c Claim) rankContest(v Votes, a int) contest {
	var order []int // indices of the rivals; those with the most selection votes come first
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
				left[i] = 0 // this removes the rival from the sum of the largest counts
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

// The function 'favourite' estimates the margin of each contest from the selection samples (see the method
// 'suggested'). It chooses the contest with the largest estimate, or the first of several such contests. It returns
// this contest with the counts of the estimation samples. The argument 'tests' is a function that lists the possible
// contests for a ballot.
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

// The method 'suggested' estimates the margin of a contest from n selection samples. It uses confidence bounds with the
// failure probability ¼ instead of frequencies. So the estimate is never +∞, even if the first event has the frequency
// 1 or the second event has the frequency 0. The estimate must not depend on the estimation samples, not even on their
// number.
func (x contest) suggested(n int64) float64 {
	const level = 0.25
	s := ranks{quantiles: quantiles{law.Gaussian}, t: x.t}
	return s.margin(binomial.LowerBound(x.winner, n, level), binomial.LowerBound(n-x.rival, n, level))
}

// The method 'clearest' assumes that all votes are for A. It returns the factor t of the contest that then has the
// largest margin. The result is 0 for a claim without ranks, where the margin is Q(p_1) − Q(p_2).
func (c Claim) clearest() float64 {
	if !c.Ranked() {
		return 0
	}
	return float64(c.TopK)
}
