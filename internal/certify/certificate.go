// Package certify turns votes and scores sampled under noise into statements that hold with a stated
// probability: margins, certified radii and bounds on the confidence under attack.
//
// It is pure: slices in, values out. Bounds err on the safe side: rounding is outward and ties count against the
// certificate. A method that can fail more often than it says is kept to reproduce its paper, and its certificates have
// Sound = false.
//
// # From votes
//
// Votes are the counts of the classes of one example. A VoteCertifier, made by NewVoteCertifier for a Target (class,
// margin, α, σ) and a VoteMethod, returns its Certificate: the class, a lower bound on its margin, the radius.
// VoteMethods lists the methods. Stopping, made by NewStopping for a StopRule, says after how many votes sampling may
// end, without a loss of α.
//
// # From scores
//
// Softmax turns logits into scores. A ScoreCertifier starts a ScoreAccumulator for each example, which takes the scores
// sample by sample and returns the Certificate and, by Confidence, a ConfidenceBound at each radius. MeanBounds lists
// the bounds on a mean (LowerMean computes one), Combines the ways to bound a margin from them, ConfidenceMethods the
// bounds under attack, Bands the confidence bands for a distribution of scores.
//
// # Radii and summaries
//
// Target.Radius turns a margin into a radius in the norm of the noise. RoundDown and RoundUp round what is reported. Summarize
// computes certified accuracy, average radius and how many certificates may be wrong; SummarizeClasses does so for each
// label; Accuracy counts right answers with and without noise.
//
// docs/what-is-certified.md says what a certificate means; docs/votes.md and docs/scores.md compare the methods.
package certify

import "github.com/rscert/rscert/internal/law"

// Abstained is the prediction of a certificate that certifies nothing.
const Abstained = -1

// Votes are the class votes of one example under noise, a line of votes.jsonl.
type Votes struct {
	Index int `json:"index"`
	Label int `json:"label"` // true class
	// N0 and Counts0 [m] are the selection samples; absent in files from
	// elsewhere, where only Class = Label can be certified.
	N0      int64   `json:"n0,omitempty"`
	Counts0 []int64 `json:"counts0,omitempty"`
	// N and Counts [m] are the estimation samples, independent of the selection.
	N      int64   `json:"n"`
	Counts []int64 `json:"counts"`
	// None0 and None are those of N0 and N whose output was no answer (NaN or
	// infinite), a vote for nobody. It is one more class, which is never certified but
	// can be the rival: N0 and N are the sums of the counts and of these.
	None0 int64 `json:"none0,omitempty"`
	None  int64 `json:"none,omitempty"`
	// Stop is the rule by which sampling ended at N; none for an N fixed
	// beforehand. AlphaShare is then the part of α that belongs to this N: the
	// parts of all N at which it could have ended add up to at most 1.
	Stop       StopRule `json:"stop,omitzero"`
	AlphaShare float64  `json:"alpha_share,omitempty"`
	// Quantisation is what rounding the input to a lattice takes off every radius.
	Quantisation float64 `json:"quantisation,omitempty"`
	// Clean is the class that the model gives the input without noise, −1 for none; nil
	// where nobody asked. Nothing is certified from it.
	Clean *int `json:"clean,omitempty"`
}

// Certificate is what is known of one example, a line of certificates.jsonl.
type Certificate struct {
	Index      int     `json:"index"`
	Label      int     `json:"label"`
	Prediction int     `json:"prediction"` // Abstained if nothing is certified
	Correct    bool    `json:"correct"`
	Radius     float64 `json:"radius"` // in the units of the data; rounded down
	// Norm is that of the radius.
	Norm   law.Norm `json:"norm"`
	Margin float64  `json:"margin"` // certified lower bound, rounded down
	Method string   `json:"method"`
	// MarginKind is what Margin is in.
	MarginKind MarginKind `json:"margin_kind"`
	// Lipschitz is the constant of the smoothed classifier that the radius may rest on;
	// 0 if none was given.
	Lipschitz float64 `json:"lipschitz,omitempty"`
	Alpha     float64 `json:"alpha"`
	// Law is that of the noise, and Sigma its scale.
	Law   law.Name `json:"law,omitempty"`
	Sigma float64  `json:"sigma"`
	N     int64    `json:"n"` // estimation samples used
	// Stop is the rule by which sampling ended at N. The bound then holds at every
	// N at which it could have ended, all at once.
	Stop StopRule `json:"stop,omitzero"`
	// Sound is false for methods kept only to reproduce a paper: their failure
	// probability can exceed Alpha.
	Sound bool `json:"sound"`
	// Arithmetic says for which noise it holds.
	Arithmetic Arithmetic `json:"arithmetic"`
	// Precision names the numbers that the model was computed in: the certificate is about
	// the model as computed so.
	Precision string `json:"precision,omitempty"`
	// Unbounded says that margin and radius stand for +∞, which JSON cannot hold.
	// Only an unsound method produces it.
	Unbounded bool `json:"unbounded,omitempty"`
	// Quantisation has been taken off the radius: inputs of this dataset are on no
	// lattice, and rounding them to one is part of the classifier.
	Quantisation float64 `json:"quantisation,omitempty"`
	// Sampled is how many examples were sampled, at least: those here and those left out, which may have been seen. A
	// statement about all certificates of a file is of so many. 0: not known, or in the run's run.json.
	Sampled int `json:"sampled,omitempty"`
	// Bounds are the confidence bounds the margin was computed from, by name.
	Bounds map[string]float64 `json:"bounds,omitempty"`
}
