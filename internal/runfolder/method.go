package runfolder

import (
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/choice"
)

// Method is a method for certifying classes, from votes or from scores. The zero value means that no method is given;
// then the evidence determines the method.
type Method struct {
	votes  certify.VoteMethod
	scores certify.MeanBound
}

// ByVotes returns a method that certifies from votes.
func ByVotes(m certify.VoteMethod) Method { return Method{votes: m} }

// ByScores returns a method that certifies from scores.
func ByScores(b certify.MeanBound) Method { return Method{scores: b} }

// Given reports whether m is not the zero value.
func (m Method) Given() bool { return m != Method{} }

// Votes returns the vote method that m names. It returns false if m is not a vote method.
func (m Method) Votes() (certify.VoteMethod, bool) { return m.votes, m.votes != "" }

// Scores returns the bound on mean scores, and false if m does not certify from scores.
func (m Method) Scores() (certify.MeanBound, bool) { return m.scores, m.scores != "" }

func (m Method) String() string { return string(m.votes) + string(m.scores) }

// MarshalText returns the method's name. The name is empty for the zero value.
func (m Method) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// Methods lists all methods: first the methods for votes, then the methods for scores.
func Methods() choice.List[Method] {
	var all []Method
	what := map[Method]string{}
	for _, r := range certify.VoteMethods() {
		all = append(all, ByVotes(r.Name))
		what[ByVotes(r.Name)] = r.What
	}
	all = append(all, ByVotes(certify.Splitting))
	what[ByVotes(certify.Splitting)] = "for law splitting: counts the evaluations that a perturbation can change"
	for _, r := range certify.MeanBounds() {
		all = append(all, ByScores(r.Name))
		what[ByScores(r.Name)] = r.What
	}
	return choice.Of("method", all...).Optional().Describe(func(m Method) string { return what[m] })
}

// UnmarshalText parses the name of a method for votes or for scores.
func (m *Method) UnmarshalText(text []byte) error { return Methods().Unmarshal(text, m) }
