package certify

import (
	"errors"
	"fmt"
	"math"
	"sync"
)

// UnknownLabel is the label of an example whose true class is unknown. Only the predicted class of such an example can
// be certified.
const UnknownLabel = -1

// MaxVotes is the largest number of samples of an example. Up to this number, float64 represents counts exactly. It
// represents products of two counts with enough precision.
const MaxVotes = 1 << 40

// Validate returns an error if v is invalid. The error names the invalid key of votes.jsonl.
func (v Votes) Validate() error {
	m := len(v.Counts)
	switch {
	case m < 2:
		return fmt.Errorf("counts has %d classes, want at least 2", m)
	case v.N < 1:
		return fmt.Errorf("n is %d, want at least 1", v.N)
	case v.N > MaxVotes:
		return fmt.Errorf("n is %d, above %d", v.N, int64(MaxVotes))
	case !(v.Quantisation >= 0) || math.IsInf(v.Quantisation, 1):
		return fmt.Errorf("quantisation is %v, want a number from 0", v.Quantisation)
	case !(v.RejectBelow >= 0 && v.RejectBelow <= 1):
		return fmt.Errorf("reject_below is %v, want a confidence from 0 to 1", v.RejectBelow)
	case v.Clean != nil && (*v.Clean < -1 || *v.Clean >= m):
		return fmt.Errorf("clean is %d, not one of the %d classes", *v.Clean, m)
	case v.Label < UnknownLabel || v.Label >= m:
		return fmt.Errorf("label %d is not one of the %d classes", v.Label, m)
	}
	if err := checkCounts("counts", "n", v.Counts, "none", v.None, v.N); err != nil {
		return err
	}
	if err := v.validateStop(); err != nil {
		return err
	}
	return v.validateSelection()
}

func (v Votes) validateStop() error {
	switch {
	case v.Stop != (StopRule{}) && !(v.AlphaShare > 0 && v.AlphaShare <= 1):
		return fmt.Errorf("stop is %q, but alpha_share %v is outside (0, 1]", v.Stop, v.AlphaShare)
	case v.Stop == (StopRule{}) && v.AlphaShare != 0:
		return errors.New("alpha_share without stop")
	}
	return nil
}

func (v Votes) validateSelection() error {
	switch {
	case v.Counts0 == nil && v.N0 == 0 && v.None0 == 0:
		return nil
	case len(v.Counts0) != len(v.Counts):
		return fmt.Errorf("counts0 has %d classes and counts %d", len(v.Counts0), len(v.Counts))
	case v.N0 < 1:
		return fmt.Errorf("n0 is %d, want at least 1", v.N0)
	}
	return checkCounts("counts0", "n0", v.Counts0, "none0", v.None0, v.N0)
}

func checkCounts(name, total string, counts []int64, noneName string, none, n int64) error {
	if none < 0 || none > n {
		return fmt.Errorf("%s is %d of %s = %d", noneName, none, total, n)
	}
	sum := none
	for class, c := range counts {
		if c < 0 {
			return fmt.Errorf("%s: class %d has %d votes", name, class, c)
		}
		if c > n {
			return fmt.Errorf("%s: class %d has %d votes of %s = %d", name, class, c, total, n)
		}
		sum += c
		if sum > MaxVotes {
			break
		}
	}
	switch {
	case sum != n && none > 0:
		return fmt.Errorf("%s and %s sum to %d and %s is %d", name, noneName, sum, total, n)
	case sum != n:
		return fmt.Errorf("%s sum to %d and %s is %d", name, sum, total, n)
	}
	return nil
}

// ErrNoSelection means that the predicted class was requested, but there are no selection samples.
var ErrNoSelection = errors.New("n0 and counts0 are missing: the predicted class needs selection samples; only the label can be certified")

// ErrNoLabel means that a certificate for the label was requested, but the label is unknown.
var ErrNoLabel = errors.New("label is missing: only the predicted class can be certified")

// Certifiable returns an error if v lacks the samples or the label to certify the class c.
func (v Votes) Certifiable(c Class) error {
	_, err := v.Elected(c)
	return err
}

// Elected returns the class A to certify: the label, or the class with the most selection votes.
func (v Votes) Elected(c Class) (int, error) {
	if c == Label {
		if v.Label == UnknownLabel {
			return 0, ErrNoLabel
		}
		return v.Label, nil
	}
	if v.Counts0 == nil {
		return 0, ErrNoSelection
	}
	return argMax(v.Counts0), nil
}

// argMax returns the class with the most votes, or the lowest such class in a tie. Any rule for ties that is fixed
// beforehand is sound.
func argMax(counts []int64) int {
	best := 0
	for class, c := range counts {
		if c > counts[best] {
			best = class
		}
	}
	return best
}

// A VoteCertifier turns votes into certificates. Several goroutines may use it at once. Examples with equal counts
// share a cached bound.
type VoteCertifier struct {
	params VoteParams
	method method
	do     boundVotes
	scale  scale // scale of the margin
	width  int64 // number of evaluations W of the method Splitting; otherwise 0

	mu     sync.Mutex
	known  map[observation]*once
	claims map[claim]bool // results of CertifyAtLeast: whether the observation proves the claim's margin
	orders map[ranking]*order
}

// An observation holds everything that a bound depends on, except the method and the kind of margin.
type observation struct {
	n, a, b int64 // samples, votes for the class, votes for the runner-up
	two     bool  // the model has two classes, and the claim is just that the classifier answers A
	alpha   float64
	t       float64 // factor of the comparison that proves the claim (see contest); 0 stands for the factor 1
	// number of classes for the method BonferroniClasses; 0 if this number is unknown, and for all other methods
	classes int
}

// A ranking is the key of a cached order of outcomes. The order depends only on these fields, on the method and on the
// kind of margin.
type ranking struct {
	n     int64
	alpha float64
}

// The type 'once' holds a result that one goroutine computes while other goroutines wait for it.
type once struct {
	sync.Once
	bound marginBound
}

// NewVoteCertifier returns a certifier for p.
func NewVoteCertifier(p VoteParams) (*VoteCertifier, error) {
	if err := p.complete(); err != nil {
		return nil, err
	}
	if p.Method == Splitting {
		return newSplitting(p)
	}
	return &VoteCertifier{
		params: p, method: method{p.Method.String(), p.Method.Sound()}, do: voteMethods.do(p.Method), scale: p.scale(),
		known: make(map[observation]*once), claims: make(map[claim]bool), orders: make(map[ranking]*order),
	}, nil
}

// Certify returns the certificate of v. Its prediction is the class A if the margin is above 0; otherwise the
// prediction is Abstained, and margin and radius are 0. With the method Splitting, the prediction is also A if the
// margin is 0 and A wins the tie.
func (c *VoteCertifier) Certify(v Votes) (Certificate, error) { return c.certify(v, c.bound) }

// certify returns the certificate of v, with the margin that the function 'bound' computes.
func (c *VoteCertifier) certify(v Votes, bound func(observation) marginBound) (Certificate, error) {
	if err := v.Validate(); err != nil {
		return Certificate{}, err
	}
	if err := c.params.accepts(v); err != nil {
		return Certificate{}, err
	}
	if c.width > 0 {
		return c.split(v)
	}
	a, err := v.Elected(c.params.Class)
	if err != nil {
		return Certificate{}, err
	}
	o, test, err := c.observe(v, a)
	if err != nil {
		return Certificate{}, err
	}
	cert := c.params.certificate(c.method, v.Index, v.Label, a, v.N, v.Quantisation, bound(o))
	cert.Stop, cert.Contest = v.Stop, test
	return cert, nil
}

// observe returns the observation for class a, and the name of its contest.
func (c *VoteCertifier) observe(v Votes, a int) (observation, string, error) {
	x, err := c.params.contest(v, a)
	if err != nil {
		return observation{}, "", err
	}
	usual := c.params.None == NoneAnswer && !c.params.Ranked()
	o := observation{n: v.N, a: x.winner, b: x.rival, two: usual && len(v.Counts) == 2, alpha: c.params.level()}
	if x.t != 1 {
		o.t = x.t
	}
	if v.Stop != (StopRule{}) {
		o.alpha *= v.AlphaShare
	}
	if c.params.Method == BonferroniClasses {
		o.classes = len(v.Counts)
		if v.None > 0 {
			o.classes++ // samples without an answer are one more class
		}
	}
	return o, x.test, nil
}

// scaleOf returns the function Q (see the type 'scale') for the observation's contest.
func (c *VoteCertifier) scaleOf(o observation) scale {
	if o.t == 0 {
		return c.scale
	}
	return c.ranksOf(o)
}

// ranksOf returns the scale of a contest with the factor o.t. Each call makes a new scale. Goroutines must not share a
// scale, because it caches ends of frontiers without a lock.
func (c *VoteCertifier) ranksOf(o observation) *ranks {
	return &ranks{quantiles: quantiles{c.params.additive()}, t: o.t, ends: make(map[float64][2]float64)}
}

// The method 'beaten' reports whether the rival has at least t times as many votes as the winner, where t is the
// contest's factor.
func (o observation) beaten() bool {
	if o.t == 0 {
		return o.a <= o.b
	}
	return o.t*float64(o.a) <= float64(o.b)
}

// newSearch returns the search for the margin of an observation.
func (c *VoteCertifier) newSearch(o observation) search {
	order := c.order(ranking{o.n, o.alpha}, func() *order { return bonferroniOrder(c.scale, o.n, o.alpha) })
	if o.t == 0 {
		return newSearch(newEvent(order, o.a, o.b), c.scale, o.alpha)
	}
	s := c.ranksOf(o)
	return newSearch(rankEvent(s, order, o.a, o.b), s, o.alpha)
}

func (c *VoteCertifier) bound(o observation) marginBound {
	c.mu.Lock()
	r := c.known[o]
	if r == nil {
		r = new(once)
		c.known[o] = r
	}
	c.mu.Unlock()
	r.Do(func() { r.bound = c.do(c, o) })
	return r.bound
}
