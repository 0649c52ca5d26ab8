package certify

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"sync"
)

// UnknownLabel is the label of an example that has none; it can be certified
// for the predicted class only.
const UnknownLabel = -1

// MaxVotes is the largest number of samples of an example: counts are used as
// float64 without rounding, and products of two stay exact enough.
const MaxVotes = 1 << 40

// UnmarshalJSON reads a line of votes.jsonl. A missing label is UnknownLabel.
func (v *Votes) UnmarshalJSON(data []byte) error {
	type line Votes
	read := line{Label: UnknownLabel}
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	*v = Votes(read)
	return nil
}

// Validate reports what is wrong with v, in terms of the keys of votes.jsonl.
func (v Votes) Validate() error {
	m := len(v.Counts)
	switch {
	case m < 2:
		return fmt.Errorf("counts has %d classes, want at least 2", m)
	case v.N < 1:
		return fmt.Errorf("n is %d, want at least 1", v.N)
	case v.N > MaxVotes:
		return fmt.Errorf("n is %d, above %d", v.N, int64(MaxVotes))
	case v.Label < UnknownLabel || v.Label >= m:
		return fmt.Errorf("label %d is not one of the %d classes", v.Label, m)
	}
	if err := checkCounts("counts", "n", v.Counts, v.N); err != nil {
		return err
	}
	if v.Stop != "" && !(v.AlphaShare > 0 && v.AlphaShare <= 1) {
		return fmt.Errorf("stop is %q, but alpha_share %v is outside (0, 1]", v.Stop, v.AlphaShare)
	}
	if v.Stop == "" && v.AlphaShare != 0 {
		return errors.New("alpha_share without stop")
	}
	if v.Counts0 == nil && v.N0 == 0 {
		return nil
	}
	if len(v.Counts0) != m {
		return fmt.Errorf("counts0 has %d classes and counts %d", len(v.Counts0), m)
	}
	if v.N0 < 1 {
		return fmt.Errorf("n0 is %d, want at least 1", v.N0)
	}
	return checkCounts("counts0", "n0", v.Counts0, v.N0)
}

func checkCounts(name, total string, counts []int64, n int64) error {
	var sum int64
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
	if sum != n {
		return fmt.Errorf("%s sum to %d and %s is %d", name, sum, total, n)
	}
	return nil
}

// ErrNoSelection means that the predicted class was asked for but the votes
// hold no selection samples.
var ErrNoSelection = errors.New("n0 and counts0 are missing: the predicted class needs selection samples; only the label can be certified")

// ErrNoLabel means that the label's class was asked for but there is no label.
var ErrNoLabel = errors.New("label is missing: only the predicted class can be certified")

// Certifiable reports what v lacks for the class c to be certified.
func (v Votes) Certifiable(c Class) error {
	_, err := v.class(c)
	return err
}

// class returns the class A to certify.
func (v Votes) class(c Class) (int, error) {
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

// argMax is the class with the most votes, the lowest of equals. Any rule that
// is fixed beforehand is sound.
func argMax(counts []int64) int {
	best := 0
	for class, c := range counts {
		if c > counts[best] {
			best = class
		}
	}
	return best
}

// runnerUp is the largest count of a class other than a.
func runnerUp(counts []int64, a int) int64 {
	var most int64
	for class, c := range counts {
		if class != a && c > most {
			most = c
		}
	}
	return most
}

// bounded is a lower bound on a margin.
type bounded struct {
	margin    float64            // ≤ 0: nothing is certified
	unbounded bool               // the margin is as large as it can be, +∞
	bounds    map[string]float64 // what it was computed from
}

// A VoteCertifier turns votes into certificates. It may be used from several
// goroutines and computes the bound for equal counts once.
type VoteCertifier struct {
	params VoteParams

	mu     sync.Mutex
	known  map[tally]*once
	orders map[ranking]*order
}

// tally is what a bound depends on besides the method and the kind of margin.
type tally struct {
	n, a, b int64 // samples, votes of the class, of the runner-up
	two     bool  // there are two classes: b = n−a, and p_B = 1−p_A is known
	alpha   float64
}

// ranking is what an order depends on besides the method and the kind of margin.
type ranking struct {
	n     int64
	alpha float64
}

// once holds a result that one goroutine computes and the others wait for.
type once struct {
	sync.Once
	bounded
}

// NewVoteCertifier returns a certifier for p.
func NewVoteCertifier(p VoteParams) (*VoteCertifier, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	return &VoteCertifier{params: p, known: make(map[tally]*once), orders: make(map[ranking]*order)}, nil
}

// Certify returns the certificate of v. The prediction of the certificate is
// the certified class if its margin is above 0 and Abstained otherwise; then
// margin and radius are 0.
func (c *VoteCertifier) Certify(v Votes) (Certificate, error) {
	if err := v.Validate(); err != nil {
		return Certificate{}, err
	}
	a, err := v.class(c.params.Class)
	if err != nil {
		return Certificate{}, err
	}
	return c.params.certificate(v, a, c.bound(c.tally(v, a))), nil
}

// tally is what the bound for class a depends on.
func (c *VoteCertifier) tally(v Votes, a int) tally {
	t := tally{n: v.N, a: v.Counts[a], b: runnerUp(v.Counts, a), two: len(v.Counts) == 2, alpha: c.params.Alpha}
	if v.Stop != "" {
		t.alpha *= v.AlphaShare
	}
	return t
}

func (p VoteParams) certificate(v Votes, a int, b bounded) Certificate {
	cert := Certificate{
		Index: v.Index, Label: v.Label, Prediction: Abstained,
		Method: p.Method.String(), Alpha: p.Alpha, Sigma: p.Sigma, N: v.N, Stop: v.Stop, Sound: p.Method.Sound(),
		Bounds: maps.Clone(b.bounds),
	}
	if !(b.margin > 0) {
		return cert
	}
	cert.Prediction = a
	cert.Correct = a == v.Label
	if b.unbounded { // only ever the second margin's
		cert.Margin, cert.Radius, cert.Unbounded = math.MaxFloat64, math.MaxFloat64, true
		return cert
	}
	cert.Margin = RoundDown(b.margin)
	cert.Radius = p.radius(b.margin)
	return cert
}

func (c *VoteCertifier) bound(t tally) bounded {
	c.mu.Lock()
	r := c.known[t]
	if r == nil {
		r = new(once)
		c.known[t] = r
	}
	c.mu.Unlock()
	r.Do(func() { r.bounded = c.compute(t) })
	return r.bounded
}

func (c *VoteCertifier) compute(t tally) bounded {
	p := c.params
	switch p.Method {
	case ClopperPearson:
		return clopperPearson(p.Margin, t.a, t.n, t.alpha)
	case Bonferroni:
		return bonferroni(p.Margin, t.a, t.b, t.n, t.alpha)
	case Margin:
		return c.margin(t)
	case Moutaouakil:
		return c.moutaouakil(t)
	}
	panic(fmt.Sprintf("certify: unknown vote method %d", int(p.Method)))
}
