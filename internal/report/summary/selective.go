package summary

import (
	"context"
	"fmt"
	"math/big"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/decimal"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
)

// Selective bounds the error of the smoothed classifier under any attack within the radius. The error is the share of
// wrong answers among the inputs that the classifier answers. The classifier is silent at an input if the number of
// samples without an answer is larger than the number of votes for each class. An attack may silence any answer that is
// not certified.
type Selective struct {
	Radius float64 `json:"radius"`
	// Unsafe is the number of examples that may get a wrong answer under an attack. For such an example, it is not
	// certified that the classifier answers the label or is silent at all inputs within Radius.
	Unsafe int `json:"unsafe"`
	// Answered is the number of examples for which a certificate says that the classifier answers the label within this
	// radius.
	Answered int `json:"answered"`
	Of       int `json:"of"`
	// Error is Unsafe/(Unsafe + Answered), the largest error if every certificate holds. Error is rounded up.
	Error float64 `json:"error"`
	// With probability 1 − Dataset.Delta, Certified is an upper bound on the error for the summarised examples. It
	// assumes the worst case: every wrong certificate belongs to an example counted in Answered, and this example gets
	// a wrong answer. The number of wrong certificates is then Dataset.Failures. Certified is nil without Dataset.
	Certified *float64 `json:"certified,omitempty"`
	// With probability 1 − Dataset.Delta, Population is an upper bound on the error in the population from which the
	// examples were drawn. Population is nil without Dataset, and for an unfinished run.
	Population *float64 `json:"population,omitempty"`
}

// Selection holds two radii for each example. Within the radius in 'answered', the classifier is certified to answer
// the label. Within the radius in 'safe', it is certified to answer the label or to be silent. A radius of −1 means
// that nothing is certified. With probability at least 1 − α, both certificates of an example hold. Here α is the run's
// parameter alpha.
type Selection struct{ answered, safe []float64 }

// ReadSelection reads the votes of the run at path and certifies them twice: once for the radii in 'answered', and once
// for the radii in 'safe'. Each time, the failure probability is half of the run's alpha.
func ReadSelection(ctx context.Context, path string) (*Selection, error) {
	e, err := runfolder.Find(path)
	if err != nil {
		return nil, err
	}
	if e.Run == nil {
		return nil, fmt.Errorf("%s: the error among answers needs the votes of a run", path)
	}
	e = e.Whole()
	p := e.Run.Parameters
	if p.None == certify.NoneIgnore {
		return nil, fmt.Errorf("%s: the error among answers is of a classifier that may be silent, and this run's classifier ignores silence (%s %s)",
			path, param.None, certify.NoneIgnore)
	}
	method, byVotes := p.Method.Votes()
	if !byVotes || !method.Ranks() {
		return nil, hint.Add(fmt.Errorf("%s: the error among answers needs a run by the method %s or %s", path, certify.ExactMargin, certify.Bonferroni),
			"certify again with 'rscert certify %s %s'", param.Method, certify.ExactMargin)
	}
	if p.Margin != certify.SecondMargin {
		return nil, fmt.Errorf("%s: the error among answers needs a run of the second margin", path)
	}
	votes, err := e.Votes(func(v certify.Votes) error { return v.Certifiable(p.Class) })
	if err != nil {
		return nil, err
	}
	target := e.Run.Target(p.Alpha / 2)
	if len(p.ConfidenceRadii) > 0 {
		target = target.ClassOnly()
	}
	s := &Selection{}
	for none, to := range map[certify.NoneMode]*[]float64{certify.NoneAnswer: &s.answered, certify.NoneSafe: &s.safe} {
		target.Claim = certify.Claim{None: none, RejectBelow: p.RejectBelow}
		if *to, err = correctOnly(ctx, certify.VoteParams{Target: target, Method: method}, votes); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
	}
	return s, nil
}

// correctOnly certifies votes, on all cores. It returns the radius of each correct certificate, and −1 for any other
// certificate.
func correctOnly(ctx context.Context, p certify.VoteParams, votes []certify.Votes) ([]float64, error) {
	certifier, err := certify.NewVoteCertifier(p)
	if err != nil {
		return nil, err
	}
	radii := make([]float64, len(votes))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, v := range votes {
		g.Go(func() error {
			c, err := certifier.Certify(v)
			if radii[i] = -1; c.Correct {
				radii[i] = c.Radius
			}
			if err == nil {
				err = ctx.Err()
			}
			return err
		})
	}
	return radii, g.Wait()
}

// counts returns the numbers of unsafe and of answered examples at a radius.
func (s Selection) counts(radius float64) (unsafe, answered int) {
	for i, a := range s.answered {
		switch {
		case a >= radius:
			answered++
		case s.safe[i] < radius:
			unsafe++
		}
	}
	return unsafe, answered
}

// SelectiveAt bounds the share of wrong answers among the inputs that the classifier answers, under any attack within
// the radius. The second result is false if the summary has no Selection.
func (s Summary) SelectiveAt(radius float64) (Selective, bool) {
	if s.selection == nil {
		return Selective{}, false
	}
	e, c := s.selection.counts(radius)
	out := Selective{Radius: radius, Unsafe: e, Answered: c, Of: len(s.selection.answered)}
	out.Error = decimal.Up(out.Rat(0))
	d := s.Dataset
	if d == nil {
		return out, true
	}
	certified := decimal.Up(out.Rat(d.Failures))
	out.Certified = &certified
	if s.Selected == s.Examples {
		population := out.inPopulation(d.Alpha, d.Delta)
		out.Population = &population
	}
	return out, true
}

// Rat returns the largest error as an exact fraction. The argument 'failures' is the number of examples with a wrong
// certificate. At worst, each of these examples is counted in Answered but gets a wrong answer. Then the error is
// (Unsafe + failures)/(Unsafe + Answered), at most 1. If there are no answers and no failures, Rat returns 0.
func (s Selective) Rat(failures int64) *big.Rat {
	wrong, all := int64(s.Unsafe)+failures, int64(s.Unsafe+s.Answered)
	if wrong >= all {
		return big.NewRat(min(wrong, 1), 1)
	}
	return big.NewRat(wrong, all)
}

// inPopulation bounds the error over the population. With probability 1−δ, the share of unsafe examples in the
// population is at most U, and the share of answered examples is at least L. U and L are Clopper–Pearson bounds at δ/2.
// If an attack can make the answer at an input wrong, the input is unsafe with probability at least 1−α. If an attack
// can make the answer at an input wrong, or can silence the answer, the input counts as answered with probability at
// most α. So an attack can make the answer wrong for at most the share u = U/(1−α) of the population. For at least the
// share c = (L−α)/(1−α) of the population, the answer is right under every attack. The error is at most u/(u+c).
func (s Selective) inPopulation(alpha, delta float64) float64 {
	n := int64(s.Of)
	u := binomial.UpperBound(int64(s.Unsafe), n, delta/2) / (1 - alpha)
	c := (binomial.LowerBound(int64(s.Answered), n, delta/2) - alpha) / (1 - alpha)
	if !(c > 0) {
		return 1
	}
	return certify.RoundUp(min(1, u/(u+c)*(1+1e-12)))
}

// describeSelection sets s.Selective, the errors among answers. If these errors were not requested, the selection is
// nil, and describeSelection does nothing.
func (s *Summary) describeSelection(selection *Selection) error {
	if selection == nil {
		return nil
	}
	if s.Labelled < s.Examples || len(selection.safe) != s.Examples {
		return fmt.Errorf("%s: the error among answers needs a label and votes of every example", s.Path)
	}
	s.selection = selection
	s.Selective = s.selectives()
	return nil
}

// selectives returns the error among answers at each radius of s.Curve.
func (s Summary) selectives() []Selective {
	var all []Selective
	for _, p := range s.Curve {
		if x, ok := s.SelectiveAt(p.Radius); ok {
			all = append(all, x)
		}
	}
	return slices.Clip(all)
}
