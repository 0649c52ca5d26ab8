package summary

import (
	"slices"

	"github.com/rscert/rscert/internal/certify"
)

// OneClaim reports whether the certificates of all runs make the same claim. Only then are their accuracies comparable.
func OneClaim(runs []Summary) bool {
	return !slices.ContainsFunc(runs, func(s Summary) bool { return s.Conditions.Claim != runs[0].Conditions.Claim })
}

// SameExamples reports whether all runs certify the same examples.
func SameExamples(runs []Summary) bool {
	first := runs[0]
	return !slices.ContainsFunc(runs, func(s Summary) bool {
		a, b := first.Conditions.Data, s.Conditions.Data
		return a != nil && b != nil && a.SHA256 != b.SHA256 ||
			!slices.EqualFunc(first.Rows, s.Rows, func(a, b Row) bool { return a.Index == b.Index && a.Label == b.Label })
	})
}

// Comparable reports whether the runs can be ranked at each radius. For this, all radii must be in one norm, all
// certificates must make the same claim, and all runs must certify the same examples.
func Comparable(runs []Summary) bool { return OneNorm(runs) && OneClaim(runs) && SameExamples(runs) }

// Accuracy returns the name of the certified accuracy in captions of tables and charts. The name fits the claims of all
// runs.
func Accuracy(runs []Summary) string {
	first := runs[0].Conditions.Claim
	other := func(same func(certify.Claim) bool) bool {
		return slices.ContainsFunc(runs, func(s Summary) bool { return !same(s.Conditions.Claim) })
	}
	name := first.Accuracy()
	switch {
	case !other(func(c certify.Claim) bool { return c.Accuracy() == name }):
		return name
	case !other(func(c certify.Claim) bool { return c.None == first.None && first.None == certify.NoneAnswer }):
		return "certified top-k accuracy"
	}
	return "certified share (the claims of the runs differ)"
}

// RunName returns the name of a run in a table or chart of several runs. The name ends with the claim of this run if
// Accuracy(runs) does not state this claim.
func (s Summary) RunName(runs []Summary) string {
	if Accuracy(runs) == s.Conditions.Accuracy() {
		return s.Name
	}
	return s.Name + " (" + s.Conditions.Short() + ")"
}
