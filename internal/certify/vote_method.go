package certify

import "github.com/rscert/rscert/internal/law"

// VoteMethod is a way to bound the margin of an example from its votes.
type VoteMethod string

const (
	// ExactMargin is the exact margin search: Buehler's bound, with the outcomes ordered by the margin that the method
	// Bonferroni gives (margin.go).
	ExactMargin VoteMethod = "margin"
	// Bonferroni uses Clopper–Pearson bounds for the class and for the runner-up, at α/2 each (bonferroni.go).
	Bonferroni VoteMethod = "bonferroni"
	// ClopperPearson uses a bound on the class alone, as in Cohen et al. 2019 (clopper_pearson.go).
	ClopperPearson VoteMethod = "clopper-pearson"
	// BonferroniClasses uses Clopper–Pearson bounds for all m classes, at α/m each (bonferroni_classes.go).
	BonferroniClasses VoteMethod = "bonferroni-classes"
	// Moutaouakil is the method of Moutaouakil 2024 as printed; it is not sound (moutaouakil.go).
	Moutaouakil VoteMethod = "moutaouakil"
)

// boundVotes bounds the margin of an observation.
type boundVotes func(*VoteCertifier, observation) marginBound

var voteMethods = table[VoteMethod, boundVotes]{"method", []entry[VoteMethod, boundVotes]{
	{ExactMargin, true, "takes Buehler's bound: ranks all possible vote counts by the bound of 'bonferroni', and takes the largest of the valid lower bounds on the margin that never decrease along this ranking", "moutaouakil2024 buehler1957", (*VoteCertifier).exactMargin},
	{Bonferroni, true, "takes Clopper–Pearson bounds for the class and for the runner-up, each at level alpha/2", "clopper1934 cohen2019", (*VoteCertifier).bonferroni},
	{ClopperPearson, true, "bounds only the probability of the class, and abstains if the bound is below ½ (Cohen et al. 2019)", "cohen2019 clopper1934", (*VoteCertifier).clopperPearson},
	{BonferroniClasses, true, "takes Clopper–Pearson bounds for all m classes, each at level alpha/m (Algorithm 3 of Moutaouakil 2024); looser than 'bonferroni'", "clopper1934 moutaouakil2024", (*VoteCertifier).bonferroniClasses},
	{Moutaouakil, false, "takes the bound as printed in Moutaouakil 2024; not sound; it only reproduces the tables of the paper", "moutaouakil2024", (*VoteCertifier).moutaouakil},
}}

// VoteMethods describes all methods for votes, the default first.
func VoteMethods() []Row[VoteMethod] { return voteMethods.rows() }

func (m VoteMethod) String() string { return string(m) }

// Sound reports whether the failure probability of m is at most α for every classifier.
func (m VoteMethod) Sound() bool { return m == Splitting || voteMethods.sound(m) }

// Ranks reports whether m supports certificates that the class is among the first k classes (Claim.TopK). The same
// methods support the modes NoneIgnore and NoneSafe.
func (m VoteMethod) Ranks() bool { return m == ExactMargin || m == Bonferroni }

// MarshalText returns the name, or empty text if no name is set.
func (m VoteMethod) MarshalText() ([]byte, error) { return []byte(m), nil }

// UnmarshalText parses the name of a VoteMethod.
func (m *VoteMethod) UnmarshalText(text []byte) error {
	if string(text) == Splitting.String() {
		*m = Splitting
		return nil
	}
	return voteMethods.parse(text, m)
}

// VoteParams selects the target and the method for certificates from votes.
type VoteParams struct {
	Target
	Method VoteMethod
}

func (p *VoteParams) complete() error {
	if _, err := law.Choices().Parse(string(p.Law)); err != nil {
		return err
	}
	if p.Method == Splitting || p.Law.Deterministic() {
		return p.completeSplitting()
	}
	if err := p.Target.complete(); err != nil {
		return err
	}
	if err := voteMethods.complete(&p.Method); err != nil {
		return err
	}
	if p.Method == Moutaouakil {
		if err := p.needGaussian("method", p.Method); err != nil {
			return err
		}
	}
	return p.Claim.check(p.Method, p.Margin)
}
