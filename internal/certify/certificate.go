// Package certify turns votes and scores sampled under noise into statements that hold with a given probability:
// margins, certified radii and bounds on the confidence under attack.
//
// The functions take slices and return values. They have no side effects. Bounds err on the safe side: they are rounded
// outward, and ties count against the certificate. A method that can fail with a probability above α is kept only to
// reproduce its paper. Its certificates have Sound = false.
//
// # From votes
//
// Votes are the class counts of one example. NewVoteCertifier makes a VoteCertifier for a Target (class, margin, α, σ)
// and a VoteMethod. A VoteCertifier returns Certificates, which hold the class, a lower bound on the margin, and the
// radius. VoteMethods lists the methods. NewStopping makes a Stopping for a StopRule. The Stopping decides when enough
// votes are sampled, and keeps the total failure probability at most α.
//
// # From scores
//
// Softmax turns logits into scores. A ScoreCertifier starts a ScoreAccumulator for each example. The accumulator takes
// scores one sample at a time. Then the accumulator's method Certificate returns the certificate, and its method
// Confidence returns a ConfidenceBound for each radius. MeanBounds lists the bounds on a mean. The function Combines
// lists the ways to bound a margin from bounds on means. ConfidenceMethods lists the methods that bound a mean score
// under attack, and Bands lists the confidence bands for a distribution of scores.
//
// # Radii and summaries
//
// Target.Radius turns a margin into a radius in the norm of the noise. RoundDown and RoundUp round reported figures.
// Tally.Summary computes certified accuracy, average radius and a bound on the number of wrong certificates.
// Tally.Classes computes certified accuracy and average radius for each label. Accuracy counts correct answers with and
// without noise.
//
// docs/what-is-certified.md explains certificates; docs/votes.md and docs/scores.md compare the methods.
package certify

import "github.com/rscert/rscert/internal/law"

// Abstained is the prediction of a certificate that certifies nothing.
const Abstained = -1

// Votes holds the votes of one example under noise. It is a line of votes.jsonl.
type Votes struct {
	Index int `json:"index"`
	Label int `json:"label"` // true class
	// N0 is the number of selection samples. Counts0 has length m and holds the votes of these samples for each class.
	// Without selection samples, only the true label can be certified (Target.Class = Label). The method Splitting is
	// an exception: it needs no selection samples.
	N0      int64   `json:"n0,omitempty"`
	Counts0 []int64 `json:"counts0,omitempty"`
	// N is the number of estimation samples, which are independent of the selection samples. Counts has length m and
	// holds the votes of these samples for each class.
	N      int64   `json:"n"`
	Counts []int64 `json:"counts"`
	// None0 and None count the samples without an answer, which vote for no class. A sample has no answer if its output
	// is NaN or infinite, or if its confidence is below RejectBelow. The certificate treats these samples as votes for
	// one more class, unless its Claim says otherwise. This class is never certified, but it may be the runner-up. N0
	// and N include these samples.
	None0 int64 `json:"none0,omitempty"`
	None  int64 `json:"none,omitempty"`
	// Stop is the rule that ended sampling at N. It is empty if N was fixed beforehand. AlphaShare is the share of α
	// assigned to this N. The shares of all N at which sampling could have ended add up to at most 1.
	Stop       StopRule `json:"stop,omitzero"`
	AlphaShare float64  `json:"alpha_share,omitempty"`
	// Quantisation is the part of the radius that is lost because the input is rounded to a lattice.
	Quantisation float64 `json:"quantisation,omitempty"`
	// Scaled means that each column had noise of its own scale (Target.Scaled).
	Scaled bool `json:"scaled,omitempty"`
	// Deterministic means that the votes are evaluations at fixed inputs (the method Splitting), not random samples.
	Deterministic bool `json:"deterministic,omitempty"`
	// RejectBelow is a threshold: a sample whose confidence is below it counts as a sample without an answer
	// (Claim.RejectBelow). 0 means that the classifier has no such threshold, or that the file is from an older
	// version, which did not write this key.
	RejectBelow float64 `json:"reject_below,omitempty"`
	// Clean is the class that the model predicts without noise. It is −1 if there was no answer, and nil if the class
	// is unknown. Certificates do not depend on Clean.
	Clean *int `json:"clean,omitempty"`
}

// Certificate is the certified result for one example. It is a line of certificates.jsonl.
type Certificate struct {
	Index      int     `json:"index"`
	Label      int     `json:"label"`
	Prediction int     `json:"prediction"` // Abstained if nothing is certified
	Correct    bool    `json:"correct"`
	Radius     float64 `json:"radius"` // in the units of the data; rounded down
	// Norm is the norm of the radius.
	Norm   law.Norm `json:"norm"`
	Margin float64  `json:"margin"` // certified lower bound on the margin, rounded down
	Method string   `json:"method"`
	// MarginKind is the scale of Margin.
	MarginKind MarginKind `json:"margin_kind"`
	// Lipschitz is a known Lipschitz constant of the smoothed classifier; 0 if none was given. The radius may depend on
	// this constant.
	Lipschitz float64 `json:"lipschitz,omitempty"`
	Alpha     float64 `json:"alpha"`
	// Law is the law of the noise, and Sigma is its scale.
	Law   law.Name `json:"law,omitempty"`
	Sigma float64  `json:"sigma"`
	// Scaled means that the radius is in units of the scales of the columns (Target.Scaled).
	Scaled bool  `json:"scaled,omitempty"`
	N      int64 `json:"n"` // estimation samples used
	// Stop is the rule that ended sampling at N. If Stop is not empty, the bound holds simultaneously for every N at
	// which sampling could have ended.
	Stop StopRule `json:"stop,omitzero"`
	// Sound is false for methods that are kept only to reproduce a paper. They can fail with a probability above Alpha.
	Sound bool `json:"sound"`
	// Arithmetic says whether the certificate holds for the noise as computed or for idealised noise.
	Arithmetic Arithmetic `json:"arithmetic"`
	// Precision is the number format in which the model was computed. The certificate holds for the model computed in
	// this format.
	Precision string `json:"precision,omitempty"`
	// Unbounded means that Margin and Radius stand for +∞ and hold math.MaxFloat64, because JSON cannot hold +∞. Only
	// an unsound method sets it.
	Unbounded bool `json:"unbounded,omitempty"`
	// Quantisation is the part of the radius that was subtracted because the input is rounded to a lattice. Radius is
	// what remains. Quantisation is 0 if the inputs of the dataset already lie on the lattice. If it is positive, the
	// certified classifier is one that first rounds its input to the lattice.
	Quantisation float64 `json:"quantisation,omitempty"`
	// Sampled is a lower bound on the number of examples that were sampled. The number includes examples that are not
	// in this file, because somebody may have seen their results before omitting them. A statement about all
	// certificates must count all sampled examples. 0 means that the number is unknown, or that run.json records it.
	Sampled int `json:"sampled,omitempty"`
	// Deterministic means that the certificate holds with certainty: it rests on evaluations of the model at fixed
	// inputs, not on random samples. Alpha is then 0, and N counts the evaluations.
	Deterministic bool `json:"deterministic,omitempty"`
	// Steps is the radius in steps of the lattice of the inputs, rounded down. It is nil if nothing is certified, if
	// the radius is not in L1, or if the inputs do not lie on a lattice.
	Steps *int64 `json:"steps,omitempty"`
	// Bounds holds the confidence bounds from which the margin follows; the key is the bound's name.
	Bounds map[string]float64 `json:"bounds,omitempty"`
	Claim
	// Contest is the name of the comparison that proves the claim, if several comparisons can prove it. The names are
	// t=1, t=2, … for a claim with TopK ≥ 2, and class, silence or group for the mode NoneSafe (see contest.go). The
	// field Bounds then holds bounds on the two sides of this comparison.
	Contest string `json:"contest,omitempty"`
	// Composition says how the certificates of several runs were composed, and Members lists the certificates on which
	// the claim rests. Both fields are empty for a certificate of one run.
	Composition string              `json:"composition,omitempty"`
	Members     []MemberCertificate `json:"members,omitempty"`
}

// AsStated prepares c for a comparison with the argument 'stated', a certificate from a file. Files of earlier versions
// do not record Steps. If 'stated' has no Steps, the result has none.
func (c Certificate) AsStated(stated Certificate) Certificate {
	if stated.Steps == nil {
		c.Steps = nil
	}
	return c
}

// NormTitle returns the name of the norm of radii, for example "L2". For radii in units of each column's scale, the
// name is "scaled L2".
func NormTitle(n law.Norm, scaled bool) string {
	if scaled {
		return "scaled " + n.Title()
	}
	return n.Title()
}
