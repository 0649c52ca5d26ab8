// Package predict decides which class a smoothed classifier G(x) = arg max_c P(f(M(x)) = c) answers, from votes of f
// under noise. A rule either names a class or abstains. The probability that a rule names a class other than G(x) is at
// most its alpha, for every x and every f.
//
// Outcomes are numbered from 0. A caller whose votes may have no answer counts "no answer" as one more outcome.
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

// The rules.
const (
	// BySequence looks at each vote in turn, and stops when one class is left (Leader).
	BySequence Rule = "sequential"
	// ByFixed takes a fixed number of votes (Fixed).
	ByFixed Rule = "fixed"
)

// Rules lists all rules.
var Rules = choice.Of("rule", BySequence, ByFixed).Describe(func(r Rule) string {
	return map[Rule]string{
		BySequence: "stops when the votes decide, or after the maximum number of votes",
		ByFixed:    "makes a single test after a fixed number of votes (Cohen et al. 2019, PREDICT)",
	}[r]
})

func (r Rule) String() string { return string(r) }

// MarshalText writes the rule.
func (r Rule) MarshalText() ([]byte, error) { return []byte(r), nil }

// UnmarshalText reads a rule.
func (r *Rule) UnmarshalText(text []byte) error { return Rules.Unmarshal(text, r) }

// CheckAlpha returns an error if alpha is no error probability.
func CheckAlpha(alpha float64) error {
	if !(alpha > 0 && alpha < 1) {
		return fmt.Errorf("%v: want a number between 0 and 1", alpha)
	}
	return nil
}

// Fixed returns the most frequent outcome j of a fixed number of votes if 2·P(Bin(X_j+X_k, ½) ≥ X_j) ≤ τ, where k is the
// runner-up, and Abstained otherwise. With τ = alpha·m/(m−1) for m outcomes, the answer is wrong with probability at
// most alpha: given that a wrong j leads, the test rejects with probability at most τ, and a wrong one leads with
// probability at most (m−1)/m (Hung & Fithian 2019, "Rank verification for exponential families"; Cohen et al. 2019,
// PREDICT, have τ = alpha). A tie has no leader. The tail is rounded up, τ down.
func Fixed(counts []int64, alpha float64) int {
	first, second := leaders(counts)
	total := counts[first] + counts[second]
	if counts[first] == counts[second] {
		return Abstained // also where an alpha near 1 would accept any leader
	}
	m := float64(len(counts))
	tau := alpha * m / (m - 1) * (1 - 0x1p-50)
	if 2*binomial.Tail(total, counts[first], .5).Upper > tau {
		return Abstained
	}
	return first
}

// leaders returns the two most frequent outcomes; the lower number wins a tie.
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

// Leader is the sequential rule. For each outcome i it runs an e-process against "p_i is the largest probability":
// before each vote, J is the leader among the other outcomes, a = X_J, b = X_i, and λ = (a−b)₊/(a+b+1); the process is
// multiplied by 1+λ at a vote for J and by 1−λ at a vote for i. Under p_i ≥ p_J that is a supermartingale, so it reaches
// 1/alpha with probability at most alpha (Ville). There Leader strikes i. The last outcome left is the answer. A wrong
// answer means that the true one was struck, so no union over the outcomes is needed, and a tie counts as right for
// either class. Outcomes without a vote share one e-process.
//
// The logarithms are rounded so that no process reaches its threshold early.
type Leader struct {
	counts    []int64
	wealth    []wealth // of outcomes with votes
	struck    []bool   // of outcomes with votes
	unseen    wealth   // of each outcome without votes
	newcomers bool     // outcomes without votes are struck
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

// wealth is the logarithm of an e-process, with a bound on its rounding.
type wealth struct{ log, slack float64 }

// times multiplies by 1+x.
func (w *wealth) times(x float64) {
	step := math.Log1p(x)
	w.log += step
	w.slack += 0x1p-51 * (math.Abs(step) + math.Abs(w.log))
}

func (w wealth) least() float64 { return w.log - w.slack }

// Vote counts the next vote and reports whether the rule has decided. Later votes change nothing.
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

// bet multiplies all processes for a vote for k.
func (l *Leader) bet(k int) {
	if len(l.seen) == 0 {
		return // all counts are 0, and so is every λ
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
	if l.counts[k] == 0 { // the newcomer leaves the others with the process that they shared
		l.wealth[k], l.struck[k] = l.unseen, l.newcomers
		l.wealth[k].times(stake(l.counts[first], 0, false, true))
	}
	l.unseen.times(stake(l.counts[first], 0, k == first, false))
}

// stake returns what a vote adds to 1: +λ for the rival, −λ for the outcome itself.
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

// top returns the two most frequent outcomes with votes; second is −1 if there is one alone.
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

// strike strikes outcomes and decides if at most one is left.
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
		l.answer = last // −1 if the one left has no votes, which no caller can wait for
	}
}

// Decided reports whether the rule needs no more votes. It may have struck every outcome, and then has no answer.
func (l *Leader) Decided() bool { return l.decided }

// Answer returns the answer so far: a class, or Abstained while the votes do not decide.
func (l *Leader) Answer() int { return l.answer }

// Counts returns the votes that the rule has used [outcomes].
func (l *Leader) Counts() []int64 { return l.counts }

// Votes is the number of votes that the rule has used.
func (l *Leader) Votes() int64 { return l.votes }
