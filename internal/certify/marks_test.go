package certify

import (
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/law"
)

// Votes that are evaluations at fixed inputs must not be certified as votes of random samples. Votes with a
// 'reject_below' other than the target's must not be certified either. Votes of an older file, which has no
// 'reject_below', are accepted.
func TestVotesMarks(t *testing.T) {
	uniform := VoteParams{Target: Target{Alpha: .001, Sigma: 1, Class: Label, Law: law.Of(law.Uniform)}, Method: ExactMargin}
	rejecting := uniform
	rejecting.RejectBelow = .7
	plain := Votes{N: 100, Counts: []int64{100, 0}}
	split, seven, nine := plain, plain, plain
	split.Deterministic, seven.RejectBelow, nine.RejectBelow = true, .7, .9
	for name, c := range map[string]struct {
		params VoteParams
		votes  Votes
		want   string // part of the error, or empty if there is none
	}{
		"plain":             {uniform, plain, ""},
		"deterministic":     {uniform, split, "give the run folder"},
		"reject below .7":   {rejecting, seven, ""},
		"older file":        {rejecting, plain, ""},
		"another threshold": {rejecting, nine, "reject_below is 0.9"},
		"no threshold":      {uniform, seven, "reject_below is 0.7"},
	} {
		certifier := mustVotes(t, c.params)
		cert, err := certifier.Certify(c.votes)
		_, err2 := certifier.CertifyAtLeast(c.votes, .1)
		for _, err := range []error{err, err2} {
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		}
		if err == nil && cert.RejectBelow != c.params.RejectBelow {
			t.Errorf("%s: the certificate claims %+v", name, cert.Claim)
		}
	}
	nine.RejectBelow = 1.5
	if nine.Validate() == nil {
		t.Error("reject_below 1.5 is valid")
	}
}
