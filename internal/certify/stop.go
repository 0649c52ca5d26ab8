package certify

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/binomial"
)

// A StopRule says when enough samples of an example have been drawn. The zero rule asks
// for all of them; it is "" as text.
type StopRule struct {
	kind  stopKind
	value float64
}

// stopKind is the text before a rule's value.
type stopKind string

func (k stopKind) String() string { return string(k) }

const (
	// stopAtRadius: it is decided whether the radius is at least value.
	stopAtRadius stopKind = "radius>="
	// stopAtPrecision: the certified radius is at least 1−value times the largest
	// that more samples could give.
	stopAtPrecision stopKind = "precision="
)

// stopRules are the kinds of rules, by how they are written; do says which values are
// allowed.
var stopRules = table[stopKind, func(float64) bool]{"stop", []entry[stopKind, func(float64) bool]{
	{stopAtRadius, true, "want a radius above 0, as in radius>=0.5", "", func(v float64) bool { return v > 0 }},
	{stopAtPrecision, true, "want a fraction in (0, 1), as in precision=0.1", "", func(v float64) bool { return v > 0 && v < 1 }},
}}

// ParseStop reads radius>=R, R > 0 in the units of the data, or precision=F,
// 0 < F < 1.
func ParseStop(s string) (StopRule, error) {
	for _, e := range stopRules.entries {
		text, ok := strings.CutPrefix(s, string(e.name))
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(v, 0) || !e.do(v) {
			return StopRule{}, fmt.Errorf("stop %q: %s", s, e.what)
		}
		return StopRule{e.name, v}, nil
	}
	return StopRule{}, fmt.Errorf("stop %q: want radius>=R or precision=F", s)
}

// Given reports whether r asks for less than all samples.
func (r StopRule) Given() bool { return r != StopRule{} }

// String is what ParseStop reads; empty for the zero rule.
func (r StopRule) String() string {
	if !r.Given() {
		return ""
	}
	return string(r.kind) + strconv.FormatFloat(r.value, 'g', -1, 64)
}

// MarshalText returns String.
func (r StopRule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText reads what ParseStop reads, and nothing as the zero rule.
func (r *StopRule) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*r = StopRule{}
		return nil
	}
	*r, err = ParseStop(string(text))
	return err
}

// A Checkpoint is a number of samples at which sampling may end, and its share of
// the failure probability.
type Checkpoint struct {
	N     int64
	Share float64
}

// Stopping decides when the sampling of an example ends. It depends on the votes
// alone and only at fixed numbers of samples, the checkpoints, so what is drawn
// does not depend on how the sampling is organised.
//
// At the checkpoint with share w the bound is that of the method at level 1−wα.
// The shares add up to 1: with probability 1−α the bounds of all checkpoints hold
// at once, thus also the one at which sampling ended, however that was chosen.
// (A mixture martingale, the other way, holds at every n, not only
// at checkpoints, and pays √(2 ln(1/α) + ln n) standard deviations for it;
// docs/votes.md compares them. Checkpoints work for every method.)
type Stopping struct {
	certifier   *VoteCertifier
	rule        StopRule
	checkpoints []Checkpoint
}

const (
	// Half of α goes to the ends: the budget, so that what it can certify is near to
	// what a fixed n would, and the first checkpoint that can certify the rule's
	// radius, where the clearest inputs end.
	endShare = 0.25
	// scoutShare goes to the checkpoints before that, where hopeless inputs end.
	scoutShare = 0.05
	// checkpointRatio: a ratio ρ overshoots the least sufficient n by a factor
	// (ρ−1)/ln ρ on average, and has ln(budget/first)/ln ρ checkpoints to share α.
	checkpointRatio = 1.5
	// scoutStart is the first checkpoint of all.
	scoutStart = 100
	// hopeless is the level of the upper bounds that say that more samples would not
	// help. They cost samples or certificates where they err, not validity.
	hopeless = 0.001
)

// ErrOutOfReach means that the budget cannot certify the radius of the rule even
// if every vote is for the class.
var ErrOutOfReach = errors.New("out of reach")

// NewStopping returns the decisions of rule for certificates with p from at most
// budget samples.
func NewStopping(p VoteParams, rule StopRule, budget int64) (*Stopping, error) {
	if rule == (StopRule{}) {
		return nil, errors.New("no rule to stop by")
	}
	if !p.Method.Sound() {
		return nil, fmt.Errorf("method %s is not sound: it cannot be stopped early", p.Method)
	}
	if budget < 1 || budget > MaxVotes {
		return nil, fmt.Errorf("budget of %d samples is outside 1…%d", budget, int64(MaxVotes))
	}
	c, err := NewVoteCertifier(p)
	if err != nil {
		return nil, err
	}
	s := &Stopping{certifier: c, rule: rule}
	first := min(scoutStart, budget)
	if rule.kind == stopAtRadius {
		if first = s.leastSamples(budget); first > budget {
			return nil, fmt.Errorf("%s is %w of %d samples", rule, ErrOutOfReach, budget)
		}
	}
	// The last scout is well before the first checkpoint that can certify.
	scouts := geometric(scoutStart, int64(float64(first)/checkpointRatio))
	between := geometric(first, budget)
	spread := 1.0
	if len(scouts) > 0 {
		spread -= scoutShare
		s.add(scouts, scoutShare)
	}
	switch len(between) {
	case 0: // the first is the budget
		s.add([]int64{budget}, spread)
	case 1:
		s.add(append(between, budget), spread)
	default:
		s.add(between[:1], endShare)
		s.add(between[1:], spread-2*endShare)
		s.add([]int64{budget}, endShare)
	}
	return s, nil
}

// add appends checkpoints that have a share of α in equal parts.
func (s *Stopping) add(counts []int64, share float64) {
	for _, n := range counts {
		s.checkpoints = append(s.checkpoints, Checkpoint{n, share / float64(len(counts))})
	}
}

// geometric returns from, from·ρ, from·ρ², … below end, ρ the checkpointRatio.
func geometric(from, end int64) (counts []int64) {
	for n := float64(from); int64(n) < end; n *= checkpointRatio {
		counts = append(counts, int64(n))
	}
	return counts
}

// leastSamples is the least n with which the first checkpoint certifies the
// rule's radius if every vote is for the class, or more than budget.
func (s *Stopping) leastSamples(budget int64) int64 {
	share := endShare
	enough := func(n int64) bool {
		p := s.certifier.params
		return p.Radius(s.certifier.bound(observation{n: n, a: n, alpha: share * p.level()}).margin) >= s.rule.value
	}
	if !enough(budget) {
		share = 1 - scoutShare // all there is for one checkpoint, with scouts before it
		if enough(budget) {
			return budget
		}
		return budget + 1
	}
	lo, hi := int64(0), budget
	for lo+1 < hi {
		mid := lo + (hi-lo)/2
		if enough(mid) {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// Checkpoints are the numbers of samples at which sampling may end, rising; the
// last is the budget.
func (s *Stopping) Checkpoints() []Checkpoint { return s.checkpoints }

// Next returns the number of samples to draw next of an example with the votes v,
// or v.N if there are enough. It is called first with v.N = 0, then whenever the
// number it returned is reached.
func (s *Stopping) Next(v Votes) (int64, error) {
	if v.N == 0 {
		return s.checkpoints[0].N, nil
	}
	i, err := s.checkpoint(v.N)
	if err != nil {
		return 0, err
	}
	if i == len(s.checkpoints)-1 {
		return v.N, nil
	}
	s.mark(&v, i)
	cert, err := s.certifier.Certify(v)
	if err != nil {
		return 0, err
	}
	class, err := v.Elected(s.certifier.params.Class)
	if err != nil {
		return 0, err
	}
	if s.enough(cert, s.certifier.observe(v, class)) {
		return v.N, nil
	}
	return s.checkpoints[i+1].N, nil
}

// Mark writes into v, whose sampling has ended, by which rule it did.
func (s *Stopping) Mark(v *Votes) error {
	i, err := s.checkpoint(v.N)
	if err == nil {
		s.mark(v, i)
	}
	return err
}

func (s *Stopping) mark(v *Votes, i int) {
	v.Stop, v.AlphaShare = s.rule, s.checkpoints[i].Share
}

func (s *Stopping) checkpoint(n int64) (int, error) {
	for i, c := range s.checkpoints {
		if c.N == n {
			return i, nil
		}
	}
	return 0, fmt.Errorf("sampling ended at n = %d, which is no checkpoint of %s", n, s.rule)
}

// enough reports whether sampling ends with the certified radius lower. That it
// ends is no claim: the certificate holds wherever it ends.
func (s *Stopping) enough(cert Certificate, o observation) bool {
	lower := cert.Radius
	if s.rule.kind == stopAtRadius && lower >= s.rule.value {
		return true
	}
	upper := s.largest(o) - cert.Quantisation
	if s.rule.kind == stopAtRadius {
		return upper < s.rule.value
	}
	return lower >= (1-s.rule.value)*upper
}

// largest is about the largest radius that drawing on to the budget could
// certify: the smaller of an upper confidence bound on the radius and of what the
// budget certifies if all remaining votes are for the class.
func (s *Stopping) largest(o observation) float64 {
	p, q := s.certifier.params, s.certifier.scale
	last := s.checkpoints[len(s.checkpoints)-1]
	margin := func(a, b float64) float64 { // p_A, p_B
		switch {
		case p.Method == ClopperPearson && p.Margin == FirstMargin:
			return 2*a - 1
		case p.Method == ClopperPearson:
			return 2 * q.near(a)
		}
		return q.near(a) - q.near(b)
	}
	level := p.level() * last.Share
	best := binomial.LowerBound(o.a+last.N-o.n, last.N, level)
	most := margin(best, math.Min(1-best, binomial.UpperBound(o.b, last.N, level)))
	if a, b := binomial.UpperBound(o.a, o.n, hopeless), binomial.LowerBound(o.b, o.n, hopeless); a < 1 && b > 0 {
		most = math.Min(most, margin(a, b))
	}
	return p.Radius(most)
}
