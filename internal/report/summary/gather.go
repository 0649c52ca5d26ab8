package summary

import (
	"errors"
	"fmt"
	"math"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/certify"
)

// gathered collects the examples of a source, which are read one at a time.
type gathered struct {
	rows         []Row
	first        certify.Certificate
	n, samples   int64 // estimation samples: the largest number for one example, and the sum over all examples
	quantisation float64
	stop         string

	seen map[int]bool // indices of the rows; nil as long as they ascend

	classes  int   // number of classes in the votes; 0 without votes
	answers  bool  // every example has a label and votes, the votes decide its answer, and every vote is for a class
	unusable error // reason why the votes cannot be used as predictions
}

// gather collects the examples that the source holds, unless Read has already collected them. Its errors do not name
// the path.
func (s Source) gather() (*gathered, error) {
	if s.gathered != nil {
		return s.gathered, nil
	}
	if n := len(s.Certificates); n > 0 && s.Votes != nil && len(s.Votes) != n {
		return nil, fmt.Errorf("votes of %d examples, certificates of %d", len(s.Votes), len(s.Certificates))
	}
	g := newGathered(len(s.Certificates))
	for i, c := range s.Certificates {
		var v *certify.Votes
		if s.Votes != nil {
			v = &s.Votes[i]
		}
		if err := g.add(c, v); err != nil {
			return nil, err
		}
	}
	return g, g.check()
}

// newGathered returns an empty value of type gathered. It reserves memory for the given number of examples, but for at
// most 2²⁰, because a damaged file may overstate this number.
func newGathered(examples int) *gathered {
	return &gathered{rows: make([]Row, 0, min(examples, 1<<20)), answers: true}
}

// add adds an example. If the example has no votes, v is nil.
func (g *gathered) add(c certify.Certificate, v *certify.Votes) error {
	if len(g.rows) == 0 {
		g.first = c
		g.first.Bounds = nil
	}
	if err := g.checkIndex(c.Index); err != nil {
		return err
	}
	if err := checkCertificate(g.first, c); err != nil {
		return err
	}
	if v != nil && (v.Index != c.Index || v.Label != c.Label) {
		return fmt.Errorf("votes of example %d stand beside the certificate of example %d", v.Index, c.Index)
	}
	g.n = max(g.n, c.N)
	g.samples += c.N
	g.quantisation = max(g.quantisation, c.Quantisation)
	if c.Stop.Given() {
		g.stop = c.Stop.String()
	}
	r := Row{Index: c.Index, Label: c.Label, Prediction: c.Prediction, Correct: c.Correct,
		Radius: c.Radius, Unbounded: c.Unbounded, N: c.N, PA: math.NaN(), Clean: Unknown, Smoothed: Unknown}
	if p, ok := c.Bounds["p_a"]; ok {
		r.PA = p
	}
	g.answers = g.answers && v != nil
	if v != nil {
		g.addVotes(&r, *v)
	}
	g.rows = append(g.rows, r)
	return nil
}

// checkIndex returns an error if an example with this index has appeared before.
func (g *gathered) checkIndex(index int) error {
	if n := len(g.rows); g.seen == nil && n > 0 && index <= g.rows[n-1].Index {
		g.seen = make(map[int]bool, n)
		for _, r := range g.rows {
			g.seen[r.Index] = true
		}
	}
	switch {
	case g.seen == nil:
		return nil
	case g.seen[index]:
		return fmt.Errorf("index %d appears twice: its noise is one draw, not two independent ones", index)
	}
	g.seen[index] = true
	return nil
}

// addVotes sets Clean, Smoothed and Confidence of the row r from the example's votes. It also updates the fields of g
// that describe the votes.
func (g *gathered) addVotes(r *Row, v certify.Votes) {
	if v.Clean != nil {
		r.Clean = *v.Clean
	}
	rule := certify.VoteRule{None: g.first.None, Deterministic: g.first.Deterministic}
	g.answers = g.answers && v.Label != certify.UnknownLabel && v.None == 0
	if rule.Decides(v) {
		r.Smoothed = rule.Answer(v)
		if r.Smoothed >= 0 {
			r.Confidence = float64(v.Counts[r.Smoothed]) / float64(v.N)
		}
	} else {
		g.answers = false
	}
	if g.classes == 0 {
		g.classes = len(v.Counts)
	}
	switch {
	case g.unusable != nil:
	case len(v.Counts) != g.classes:
		g.unusable = errors.New("the number of classes changes")
	case v.Label >= g.classes:
		g.unusable = fmt.Errorf("example %d: label %d is outside 0 to %d", v.Index, v.Label, g.classes-1)
	}
}

// check returns an error unless the examples can be summarised together.
func (g *gathered) check() error {
	if len(g.rows) == 0 {
		return errors.New("no certificates")
	}
	if n := g.first.Sampled; n != 0 && n < len(g.rows) {
		return fmt.Errorf("certificates of %d examples, which say that %d were sampled", len(g.rows), n)
	}
	return nil
}

// Largest returns the largest radius of a correct certificate, or 0 if there is none. It ignores unbounded radii, which
// stand for +∞.
func (s Source) Largest() (float64, error) {
	g, err := s.gather()
	if err != nil {
		return 0, fmt.Errorf("%s: %w", s.Path, err)
	}
	return largest(g.rows), nil
}

func largest(rows []Row) float64 {
	most := 0.0
	for _, r := range rows {
		if r.Correct && !r.Unbounded {
			most = max(most, r.Radius)
		}
	}
	return most
}

// reliability returns the bins of a reliability diagram with the vote shares as confidences. It returns nil if an
// example has no label or no answer.
func (g *gathered) reliability(o Options) (*Reliability, error) {
	if !g.answers {
		return nil, nil
	}
	if g.unusable != nil {
		return nil, g.unusable
	}
	p := &calib.Predictions{Confidence: make([]float64, len(g.rows)), Correct: make([]bool, len(g.rows))}
	for i, r := range g.rows {
		p.Confidence[i], p.Correct[i] = r.Confidence, r.Smoothed == r.Label
	}
	bins, err := calib.EqualWidth(p, o.Bins, calib.UpperClosed)
	if err != nil {
		return nil, err
	}
	return &Reliability{Level: o.Level, ECE: calib.ECE(bins), Bins: bins, Bands: calib.Bands(p, bins, o.Level)}, nil
}
