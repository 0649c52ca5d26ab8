package summary

import (
	"math"
	"slices"
)

// Audit is the accuracy under attack that an audit of the run found. This accuracy is an upper bound on the robust
// accuracy, and the certified accuracy is a lower bound. A verified break is an input at which a test has shown that
// the answer is not the label.
type Audit struct {
	Folder         string  `json:"folder"`
	Examples       int     `json:"examples"` // number of audited examples with a label
	Gamma          float64 `json:"gamma"`    // upper bound on the probability that a given verified break is wrong
	Contradictions int     `json:"contradictions"`
	MoreThanChance bool    `json:"more_than_chance"`
	// Curve is the accuracy under attack at the radii of the summary. Curve is empty without labels.
	Curve []AuditPoint `json:"curve,omitempty"`
	// Broken holds, for each labelled example, the distance of the nearest verified break, in ascending order. The
	// distance is 0 if the answer is wrong without a perturbation, and +∞ if no break was found.
	Broken []float64 `json:"-"`
}

// AuditPoint is a point of the curve of an audit.
type AuditPoint struct {
	Radius float64 `json:"radius"`
	// Unbroken is the share of the audited examples without a verified break within the radius, with the interval of
	// this share.
	Unbroken Share `json:"unbroken"`
}

// Unbroken returns the number of examples without a verified break within the radius.
func (a Audit) Unbroken(radius float64) int {
	k, _ := slices.BinarySearch(a.Broken, math.Nextafter(radius, math.Inf(1)))
	return len(a.Broken) - k
}

// AddAudit adds the results of an audit of the run.
func (s *Summary) AddAudit(a Audit) {
	a.Broken = slices.Sorted(slices.Values(a.Broken))
	a.Examples = len(a.Broken)
	if a.Examples > 0 {
		for _, p := range s.Curve {
			a.Curve = append(a.Curve, AuditPoint{p.Radius, newShare(a.Unbroken(p.Radius), a.Examples, s.Level)})
		}
	}
	s.Audit = &a
}
