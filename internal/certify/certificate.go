// Package certify turns votes and scores sampled under noise into
// statements that hold with a stated probability: margins, certified radii and
// bounds on the confidence under attack.
//
// It is pure: slices in, values out. Bounds err on the safe side: rounding is
// outward and ties count against the certificate.
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
	// Bounds are the confidence bounds the margin was computed from, by name.
	Bounds map[string]float64 `json:"bounds,omitempty"`
}
