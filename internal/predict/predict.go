// Package predict infers the answer of a smoothed classifier. For the input x, this answer is the class G(x) = arg
// max_c P(f(M(x)) = c). Here f is the base classifier and M adds noise to x. The decision uses votes of f under this
// noise. A rule either names a class or abstains. For every x and every f, the probability that a rule names a class
// other than G(x) is at most the rule's parameter alpha.
//
// Outcomes are numbered from 0. If votes without a class are possible, the caller counts "no class" as one more
// outcome.
package predict

import (
	"fmt"
	"math"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/choice"
)

// Abstained is the answer of a rule that names no class.
const Abstained = -1

// Rule is the name of a rule.
type Rule string

// These are the rules that find the predicted class from votes.
const (
	// BySequence checks after each vote which classes the votes exclude. It stops when every class except one is
	// excluded; see Leader.
	BySequence Rule = "sequential"
	// ByFixed takes a fixed number of votes and decides once; see Fixed.
	ByFixed Rule = "fixed"
)

// Rules lists all rules.
var Rules = choice.Of("rule", BySequence, ByFixed).Describe(func(r Rule) string {
	return map[Rule]string{
		BySequence: "checks after every vote which classes the votes exclude; stops when one class is left, or at a maximum number of votes",
		ByFixed:    "makes a single test after a fixed number of votes (Cohen et al. 2019, PREDICT)",
	}[r]
})

func (r Rule) String() string { return string(r) }

// MarshalText writes the rule.
func (r Rule) MarshalText() ([]byte, error) { return []byte(r), nil }

// UnmarshalText reads a rule.
func (r *Rule) UnmarshalText(text []byte) error { return Rules.Unmarshal(text, r) }

// CheckAlpha returns an error if alpha is not between 0 and 1.
func CheckAlpha(alpha float64) error {
	if !(alpha > 0 && alpha < 1) {
		return fmt.Errorf("%v: want a number between 0 and 1", alpha)
	}
	return nil
}

// Fixed decides after a fixed number of votes. Let j be the most frequent outcome, k the runner-up, and X_j and X_k
// their numbers of votes. Fixed returns j if 2·P(Bin(X_j+X_k, ½) ≥ X_j) ≤ τ, and Abstained otherwise. For m outcomes, τ
// is alpha·m/(m−1). With this τ the answer is wrong with probability at most alpha, for two reasons. First, the
// probability that a wrong outcome is the most frequent one is at most (m−1)/m. Second, if a wrong outcome is the most
// frequent one, the test accepts it with probability at most τ (Hung & Fithian 2019, "Rank verification for exponential
// families"). The algorithm PREDICT of Cohen et al. 2019 has τ = alpha. In a tie Fixed abstains. Fixed rounds the tail
// probability up and τ down.
func Fixed(counts []int64, alpha float64) int {
	first, second := leaders(counts)
	total := counts[first] + counts[second]
	if counts[first] == counts[second] {
		return Abstained // a tie; if alpha is near 1, the test below might accept it
	}
	m := float64(len(counts))
	tau := alpha * m / (m - 1) * (1 - 0x1p-50)
	if 2*binomial.Tail(total, counts[first], .5).Upper > tau {
		return Abstained
	}
	return first
}

// leaders returns the two most frequent outcomes. In a tie the outcome with the lower number comes first.
func leaders(counts []int64) (first, second int) {
	first, second = 0, 1
	if counts[1] > counts[0] {
		first, second = 1, 0
	}
	for k, c := range counts[2:] {
		switch {
		case c > counts[first]:
			first, second = k+2, first
		case c > counts[second]:
			second = k + 2
		}
	}
	return first, second
}

// Leader is the sequential rule (BySequence), which may decide after any vote. For each outcome i, Leader runs an
// e-process against the hypothesis that the probability p_i of this outcome is the largest. Before each vote, let J be
// the leader among the other outcomes. Let a = X_J and b = X_i be the numbers of votes so far, and let λ = max(a−b,
// 0)/(a+b+1). A vote for J multiplies the process by 1+λ, and a vote for i multiplies it by 1−λ. If p_i ≥ p_J, the
// process is a supermartingale, so it reaches 1/alpha with probability at most alpha (Ville). When the process reaches
// 1/alpha, Leader strikes outcome i from the list of possible answers. The answer is the outcome that remains when all
// others are struck. A wrong answer means that the most probable outcome was struck. So the rule needs no union bound
// over the outcomes. If several classes have the largest probability, each of them counts as right. Outcomes without a
// vote share one e-process.
//
// The logarithms are rounded so that no process reaches its threshold early.
type Leader struct {
	counts    []int64
	wealth    []wealth // the process of each outcome with votes
	struck    []bool   // whether an outcome with votes is struck from the list of possible answers
	unseen    wealth   // the process that all outcomes without votes share
	newcomers bool     // whether the outcomes without votes are struck from the list of possible answers
	seen      []int    // outcomes with votes
	threshold float64  // ln(1/alpha), rounded up
	votes     int64
	answer    int
	decided   bool
}

// NewLeader returns the rule for a number of outcomes, at least 2.
func NewLeader(outcomes int, alpha float64) *Leader {
	return &Leader{
		counts: make([]int64, outcomes), wealth: make([]wealth, outcomes), struck: make([]bool, outcomes),
		threshold: -math.Log(alpha) * (1 + 0x1p-50), answer: Abstained,
	}
}

// wealth is the logarithm of an e-process, with a bound on the rounding error.
type wealth struct{ log, slack float64 }

// The method 'times' multiplies the e-process by 1+x.
func (w *wealth) times(x float64) {
	step := math.Log1p(x)
	w.log += step
	w.slack += 0x1p-51 * (math.Abs(step) + math.Abs(w.log))
}

func (w wealth) least() float64 { return w.log - w.slack }

// Vote counts the next vote and reports whether the rule has decided. After the decision, further votes change nothing.
func (l *Leader) Vote(k int) (decided bool) {
	if l.decided {
		return true
	}
	l.bet(k)
	if l.counts[k] == 0 {
		l.seen = append(l.seen, k)
	}
	l.counts[k]++
	l.votes++
	l.strike()
	return l.decided
}

// bet updates the e-processes of all outcomes for the next vote, which is for outcome k.
func (l *Leader) bet(k int) {
	if len(l.seen) == 0 {
		return // all counts are 0, so every λ is 0
	}
	first, second := l.top()
	for _, i := range l.seen {
		rival := first
		if i == first {
			rival = second
		}
		if rival >= 0 {
			l.wealth[i].times(stake(l.counts[rival], l.counts[i], k == rival, k == i))
		}
	}
	if l.counts[k] == 0 { // k gets its own copy of l.unseen, the process that all outcomes without votes share
		l.wealth[k], l.struck[k] = l.unseen, l.newcomers
		l.wealth[k].times(stake(l.counts[first], 0, false, true))
	}
	l.unseen.times(stake(l.counts[first], 0, k == first, false))
}

// stake returns the number x for one outcome and one vote: the vote multiplies the process of the outcome (see Leader)
// by 1+x. The rival is the leader among the other outcomes. For a vote for the rival, x is λ. For a vote for the
// outcome itself, x is −λ. Otherwise x is 0. The argument a is the number of earlier votes for the rival, and b is the
// number of earlier votes for the outcome.
func stake(a, b int64, rival, own bool) float64 {
	if a <= b || !rival && !own {
		return 0
	}
	lambda := float64(a-b) / float64(a+b+1)
	if own {
		return -lambda
	}
	return lambda
}

// top returns the two most frequent outcomes with votes. If only one outcome has votes, 'second' is −1.
func (l *Leader) top() (first, second int) {
	first, second = l.seen[0], -1
	for _, k := range l.seen[1:] {
		switch c := l.counts[k]; {
		case c > l.counts[first] || c == l.counts[first] && k < first:
			first, second = k, first
		case second < 0 || c > l.counts[second] || c == l.counts[second] && k < second:
			second = k
		}
	}
	return first, second
}

// strike removes each outcome whose process has reached the threshold. The rule has decided if at most one outcome
// remains.
func (l *Leader) strike() {
	left, last := 0, Abstained
	for _, i := range l.seen {
		l.struck[i] = l.struck[i] || l.wealth[i].least() >= l.threshold
		if !l.struck[i] {
			left, last = left+1, i
		}
	}
	l.newcomers = l.newcomers || l.unseen.least() >= l.threshold
	if !l.newcomers {
		left += len(l.counts) - len(l.seen)
	}
	if l.decided = left <= 1; l.decided && left == 1 {
		l.answer = last // 'last' is Abstained if the remaining outcome has no votes
	}
}

// Decided reports whether the rule needs no more votes. A rule that has struck out every outcome has decided, but has
// no answer.
func (l *Leader) Decided() bool { return l.decided }

// Answer returns the answer so far. It is a class, or Abstained if the votes so far do not single out one class.
func (l *Leader) Answer() int { return l.answer }

// Counts returns, for each outcome, the number of votes that the rule has used.
func (l *Leader) Counts() []int64 { return l.counts }

// Votes is the number of votes that the rule has used.
func (l *Leader) Votes() int64 { return l.votes }
