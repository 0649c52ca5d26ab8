package certify

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"sort"

	"github.com/rscert/rscert/internal/law"
)

// Splitting is the method of the law Splitting (Levine & Feizi 2021). VoteMethods does not list it, because it is not a
// statistical bound: its votes come from all W evaluations that define the smoothed classifier.
//
// Let N_k be the number of evaluations with answer k. The smoothed classifier answers the class with the largest N_k,
// or the lowest such class in a tie. A perturbation of s lattice steps in the L1 norm changes at most s evaluations. So
// it lowers N_A by at most s, and raises N_j by at most s. Hence A stays the answer within
//
//	S = min over j ≠ A of ⌊(N_A − N_j − [j < A])/2⌋
//
// steps, where [j < A] is 1 if j wins a tie against A, otherwise 0. This holds with certainty for every model that
// gives the same answer to the same input. Evaluations without an answer count as one more class, which loses every
// tie. If this class has the most evaluations, the smoothed classifier has no answer, and nothing is certified.
//
// If only n of the W evaluations are known, the remaining W − n may all be for j. Let D be the difference of the known
// counts for A and j. Then N_A − N_j is at least D − (W − n).
const Splitting VoteMethod = "splitting"

// completeSplitting checks the parameters of the vote method Splitting and fills in their defaults.
func (p *VoteParams) completeSplitting() error {
	name := law.Splitting.Name()
	switch {
	case !p.Law.Deterministic():
		return fmt.Errorf("method %s is for law %s, not for %s", Splitting, name, p.Law)
	case p.Method != "" && p.Method != Splitting:
		return fmt.Errorf("method %s is for random noise, and law %s has none: its method is %s", p.Method, name, Splitting)
	case p.Margin != "" && p.Margin != FirstMargin:
		return fmt.Errorf("margin %s is for random noise: law %s has the first margin", p.Margin, name)
	case p.Alpha != 0 || p.Level != 0:
		return fmt.Errorf("alpha %v: a certificate of law %s holds with certainty and has no alpha", p.Alpha, name)
	case !p.Claim.Usual():
		return fmt.Errorf("law %s certifies only the answer, and counts every evaluation as a vote; it cannot certify that %s", name, p.Claim.Says())
	case p.Scaled:
		return fmt.Errorf("law %s has one scale for all columns", name)
	case p.Lipschitz != 0:
		return fmt.Errorf("a lipschitz constant is of no use for law %s", name)
	case p.Step == nil:
		return fmt.Errorf("law %s needs the step of the lattice, which only a run records", name)
	}
	p.Method, p.Margin = Splitting, FirstMargin
	_, err := law.Width(p.Sigma, p.Step)
	return errors.Join(err, classes.complete(&p.Class))
}

func newSplitting(p VoteParams) (*VoteCertifier, error) {
	width, err := law.Width(p.Sigma, p.Step)
	return &VoteCertifier{params: p, method: method{Splitting.String(), true}, width: int64(width)}, err
}

// Certifiable returns an error if v lacks the samples or the label that determine the target's class.
func (t Target) Certifiable(v Votes) error {
	if t.Law.Deterministic() && t.Class == Predicted {
		return nil
	}
	return v.Certifiable(t.Class)
}

// The method 'split' certifies v with the vote method Splitting.
func (c *VoteCertifier) split(v Votes) (Certificate, error) {
	p, left := c.params, c.width-v.N
	switch {
	case left < 0 || left > 0 && !v.Stop.Given():
		return Certificate{}, fmt.Errorf("n is %d, and law %s has %d evaluations", v.N, p.Law, c.width)
	case v.N0 > 0:
		return Certificate{}, fmt.Errorf("n0 is %d, and law %s has no selection samples", v.N0, p.Law)
	case v.Quantisation != 0:
		return Certificate{}, fmt.Errorf("quantisation is %v: law %s needs inputs on the lattice", v.Quantisation, p.Law)
	}
	a, err := p.splitClass(v)
	if err != nil {
		return Certificate{}, err
	}
	cert := Certificate{
		Index: v.Index, Label: v.Label, Prediction: Abstained, Law: p.Law, Norm: p.Law.Law().Norm(), Method: c.method.name,
		Sound: c.method.sound, MarginKind: p.Margin, Sigma: p.Sigma, N: v.N, Stop: v.Stop, Arithmetic: p.Arithmetic,
		Precision: p.Precision, Deterministic: true,
	}
	lead := leadOf(v, a) - left
	if lead < 0 {
		return cert, nil
	}
	steps := lead / 2
	cert.Prediction, cert.Correct, cert.Steps = a, a == v.Label, &steps
	cert.Radius = p.stepRadius(steps)
	cert.Margin = floorRat(big.NewRat(v.Counts[a]-slices.Max(v.estimated().rivals(a, NoneAnswer))-left, c.width))
	return cert, nil
}

// splitClass returns the class A to certify. If p.Class is Label, A is the label. Otherwise A is the class that the
// known evaluations answer most often. If the known evaluations already prove the answer of the smoothed classifier,
// this class is that answer.
func (p VoteParams) splitClass(v Votes) (int, error) {
	if p.Class == Label {
		return v.Elected(Label)
	}
	return argMax(v.Counts), nil
}

// leadOf returns the minimum over all j ≠ a of N_a − N_j − [j < a]. Evaluations without an answer count as one more
// class j > a.
func leadOf(v Votes, a int) int64 {
	lead := v.Counts[a] - v.None
	for j, votes := range v.Counts {
		if j == a {
			continue
		}
		by := v.Counts[a] - votes
		if j < a {
			by--
		}
		lead = min(lead, by)
	}
	return lead
}

// stepRadius converts a number of steps to a radius, rounded down. The certificate includes the perturbations whose
// norm equals the radius.
func (t Target) stepRadius(steps int64) float64 {
	return floorRat(new(big.Rat).Mul(t.Step, big.NewRat(steps, 1)))
}

// floorRat rounds x ≥ 0 down to nine significant digits.
func floorRat(x *big.Rat) float64 {
	f, exact := x.Float64()
	if !exact && new(big.Rat).SetFloat64(f).Cmp(x) > 0 {
		f = math.Nextafter(f, 0)
	}
	return RoundDown(f)
}

// newSplittingStop does the work of NewStopping for the method Splitting. Sampling may end after any number of
// evaluations. The certificate is still valid, because it counts each unknown evaluation (one not made yet) as a vote
// against the class.
func newSplittingStop(p VoteParams, rule StopRule) (*Stopping, error) {
	c, err := NewVoteCertifier(p)
	if err != nil {
		return nil, err
	}
	if !rule.AtRadius() {
		return nil, fmt.Errorf("stop %s: law %s can stop only at a radius, by radius>=R", rule, p.Law)
	}
	most := c.width / 2
	steps := int64(sort.Search(int(most)+1, func(s int) bool { return p.stepRadius(int64(s)) >= rule.value }))
	if steps > most {
		return nil, fmt.Errorf("%s is %w of %d evaluations, which certify at most %v", rule, ErrOutOfReach, c.width, p.stepRadius(most))
	}
	return &Stopping{certifier: c, rule: rule, steps: steps}, nil
}

// nextSplitting does the work of Next for the method Splitting. Let 'lead' be the result of leadOf for the known
// evaluations. Let 'left' be the number of unknown evaluations, and let S be the rule's radius in steps. The certified
// radius is at least S if lead − left ≥ 2S. The certified radius cannot reach S if lead + left < 2S. Each further
// evaluation changes lead − left and lead + left by at most 2. From this limit, nextSplitting computes the least number
// of further evaluations that can decide whether the radius reaches S. It returns this number plus v.N.
func (s *Stopping) nextSplitting(v Votes) (int64, error) {
	left := s.certifier.width - v.N
	lead := int64(0)
	if v.N > 0 {
		a, err := s.certifier.params.splitClass(v)
		if err != nil {
			return 0, err
		}
		lead = leadOf(v, a)
	}
	yes, no := 2*s.steps-(lead-left), lead+left-2*s.steps
	if left <= 0 || yes <= 0 || no < 0 {
		return v.N, nil
	}
	return v.N + min(left, (yes+1)/2, no/2+1), nil
}
