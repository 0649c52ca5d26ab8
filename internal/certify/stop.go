package certify

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/binomial"
)

// A StopRule says when an example has enough samples. With the zero rule, whose text is "", sampling draws all samples.
type StopRule struct {
	kind  stopKind
	value float64
}

// stopKind is the kind of a rule: the part of its text that precedes the value.
type stopKind string

func (k stopKind) String() string { return string(k) }

const (
	// stopAtRadius stops once the samples show that the radius is at least the value of the rule, or that the radius
	// cannot reach this value.
	stopAtRadius stopKind = "radius>="
	// stopAtPrecision stops once the certified radius is large enough: at least 1−F times the largest radius that more
	// samples could give, where F is the value of the rule.
	stopAtPrecision stopKind = "precision="
)

// stopRules holds the kinds of rules. The name of each kind is the part of the rule's text that precedes the value. The
// function 'do' reports whether a value is allowed.
var stopRules = table[stopKind, func(float64) bool]{"stop", []entry[stopKind, func(float64) bool]{
	{stopAtRadius, true, "want a radius above 0, as in radius>=0.5", "", func(v float64) bool { return v > 0 }},
	{stopAtPrecision, true, "want a fraction in (0, 1), as in precision=0.1", "", func(v float64) bool { return v > 0 && v < 1 }},
}}

// ParseStop parses radius>=R or precision=F. R > 0 is in the units of the data, and 0 < F < 1.
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

// Given reports whether r may end the sampling before all samples are drawn.
func (r StopRule) Given() bool { return r != StopRule{} }

// AtRadius reports whether r has the form radius>=R.
func (r StopRule) AtRadius() bool { return r.kind == stopAtRadius }

// String returns the text that ParseStop accepts, or empty text for the zero rule.
func (r StopRule) String() string {
	if !r.Given() {
		return ""
	}
	return string(r.kind) + strconv.FormatFloat(r.value, 'g', -1, 64)
}

// MarshalText returns the text of String.
func (r StopRule) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText parses a rule as ParseStop does. Empty text is the zero rule.
func (r *StopRule) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*r = StopRule{}
		return nil
	}
	*r, err = ParseStop(string(text))
	return err
}

// A Checkpoint allows sampling to end after N samples. Share is the checkpoint's share of the failure probability.
type Checkpoint struct {
	N     int64
	Share float64
}

// Stopping decides when sampling of an example ends. It decides from the votes alone, and only at certain numbers of
// samples. So batches and parallelism do not affect which samples are drawn. For the method Splitting, nextSplitting
// computes the next number from the votes so far. For all other methods, the numbers are fixed before sampling and are
// called checkpoints.
//
// At a checkpoint whose share of α is w, the method runs at level 1−wα. The shares add up to 1. So with probability 1−α
// the bounds of all checkpoints hold simultaneously. The bound at the checkpoint where sampling ended is one of these
// bounds. (A bound from a mixture martingale holds at every n, but it is √(2 ln(1/α) + ln n) standard deviations wide.
// docs/votes.md compares this bound with checkpoints. Unlike this bound, checkpoints work for every method.)
type Stopping struct {
	certifier   *VoteCertifier
	rule        StopRule
	checkpoints []Checkpoint // nil for the method Splitting
	steps       int64        // for the method Splitting: the radius of the rule in steps
}

const (
	// endShare is the share of α for each of two checkpoints: the first checkpoint that can certify, and the checkpoint
	// at the budget. If there are no checkpoints between these two, their shares are larger. The first checkpoint that
	// can certify ends the sampling of the clearest inputs. Because the share at the budget is large, a certificate
	// from the whole budget is nearly as good as a certificate with a fixed n.
	endShare = 0.25
	// scoutShare is the share of α for all scouts together. Scouts are the checkpoints before the first checkpoint that
	// can certify. They end the sampling of hopeless inputs.
	scoutShare = 0.05
	// checkpointRatio is the ratio ρ of successive checkpoints. On average, sampling draws (ρ−1)/ln ρ times the least
	// number of samples that would be enough. About ln(budget/n)/ln ρ checkpoints share α, where n is the first
	// checkpoint that can certify.
	checkpointRatio = 1.5
	// scoutStart is the number of samples at the very first checkpoint.
	scoutStart = 100
	// The constant 'hopeless' is the failure probability of each of two bounds: an upper bound on p_A and a lower bound
	// on p_B. With these bounds, Stopping decides whether more samples are useless. If one of the bounds fails,
	// sampling may end too early, but every certificate stays valid.
	hopeless = 0.001
)

// ErrOutOfReach means that the budget cannot certify the rule's radius even if every vote is for the class.
var ErrOutOfReach = errors.New("out of reach")

// NewStopping returns a Stopping that applies the given rule to certificates with the parameters p. The argument
// 'budget' is the maximum number of samples.
func NewStopping(p VoteParams, rule StopRule, budget int64) (*Stopping, error) {
	if rule == (StopRule{}) {
		return nil, errors.New("no rule to stop by")
	}
	if p.Method == Splitting || p.Law.Deterministic() {
		return newSplittingStop(p, rule)
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
	// Scouts are the checkpoints that cannot certify. The last scout comes well before the first checkpoint that can
	// certify.
	scouts := geometric(scoutStart, int64(float64(first)/checkpointRatio))
	between := geometric(first, budget)
	spread := 1.0
	if len(scouts) > 0 {
		spread -= scoutShare
		s.add(scouts, scoutShare)
	}
	switch len(between) {
	case 0: // the first checkpoint that can certify is at the budget
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

// The method 'add' appends checkpoints that divide a share of α equally.
func (s *Stopping) add(counts []int64, share float64) {
	for _, n := range counts {
		s.checkpoints = append(s.checkpoints, Checkpoint{n, share / float64(len(counts))})
	}
}

// The function 'geometric' returns the numbers a, a·ρ, a·ρ², … below the argument 'end'. Here a is the argument 'from',
// and ρ is the checkpointRatio.
func geometric(from, end int64) (counts []int64) {
	for n := float64(from); int64(n) < end; n *= checkpointRatio {
		counts = append(counts, int64(n))
	}
	return counts
}

// leastSamples returns the least n at which a checkpoint with the share endShare of α would certify the rule's radius.
// For this, it assumes that every vote is for the class. If no n up to the budget is enough, leastSamples gives the
// checkpoint at the budget a larger share of α and tries again. It returns the budget if this share is enough, and
// otherwise the budget plus 1.
func (s *Stopping) leastSamples(budget int64) int64 {
	share := endShare
	enough := func(n int64) bool {
		p := s.certifier.params
		return p.Radius(s.certifier.bound(observation{n: n, a: n, alpha: share * p.level(), t: p.clearest()}).margin) >= s.rule.value
	}
	if !enough(budget) {
		share = 1 - scoutShare // share of α that the checkpoint at the budget gets if no earlier checkpoint can certify
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

// Checkpoints returns the checkpoints in ascending order. The last checkpoint is at the budget.
func (s *Stopping) Checkpoints() []Checkpoint { return s.checkpoints }

// Next returns the total number of samples to draw for an example with the votes v, or v.N if these votes are enough.
// Before sampling, call Next with v.N = 0. Then draw samples up to the returned number and call Next again, until it
// returns v.N.
func (s *Stopping) Next(v Votes) (int64, error) {
	if s.certifier.width > 0 {
		return s.nextSplitting(v)
	}
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
	o, _, err := s.certifier.observe(v, class)
	if err != nil {
		return 0, err
	}
	if s.enough(cert, o) {
		return v.N, nil
	}
	return s.checkpoints[i+1].N, nil
}

// Mark records in v that the rule ended the sampling of the example after v.N samples. It also records the share of α
// that belongs to v.N.
func (s *Stopping) Mark(v *Votes) error {
	if s.certifier.width > 0 {
		v.Stop, v.AlphaShare = s.rule, 1
		return nil
	}
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

// The method 'enough' reports whether sampling ends with this certificate. A wrong decision makes no certificate
// invalid: with probability 1−α, the bounds of all checkpoints hold simultaneously (see Stopping).
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

// The method 'largest' approximates the largest radius that sampling up to the budget could certify. It returns the
// smaller of two radii. The first is an upper confidence bound on the radius. The second is the radius that would be
// certified if all remaining votes were for the class.
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
		if o.t != 0 {
			return s.certifier.ranksOf(o).margin(a, 1-b)
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
