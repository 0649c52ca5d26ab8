package runfolder

import (
	"fmt"
	"strings"

	"github.com/rscert/rscert/internal/certify"
)

// Method is the way a run certifies the class of an example: from its votes or from
// its scores. The zero value leaves the choice to the evidence there is.
type Method struct {
	votes  certify.VoteMethod
	scores certify.MeanBound
}

// ByVotes certifies from votes.
func ByVotes(m certify.VoteMethod) Method { return Method{votes: m} }

// ByScores certifies from scores.
func ByScores(b certify.MeanBound) Method { return Method{scores: b} }

// Given reports whether m is a method at all.
func (m Method) Given() bool { return m != Method{} }

// Votes is the method for votes, if m is one.
func (m Method) Votes() (certify.VoteMethod, bool) { return m.votes, m.votes != "" }

// Scores is the bound of scores, if m is one.
func (m Method) Scores() (certify.MeanBound, bool) { return m.scores, m.scores != "" }

func (m Method) String() string { return string(m.votes) + string(m.scores) }

// MarshalText writes the method's name, nothing for the zero value.
func (m Method) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText reads the name of a method for votes or for scores.
func (m *Method) UnmarshalText(text []byte) error {
	*m = Method{}
	if m.votes.UnmarshalText(text) == nil || m.scores.UnmarshalText(text) == nil {
		return nil
	}
	return fmt.Errorf("unknown method %.40q (from votes: %s; from scores: %s)", text, names(certify.VoteMethods()), names(certify.MeanBounds()))
}

// names lists the names of methods.
func names[M ~string](rows []certify.Row[M]) string {
	var all []string
	for _, r := range rows {
		all = append(all, string(r.Name))
	}
	return strings.Join(all, ", ")
}
