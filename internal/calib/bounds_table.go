package calib

import "github.com/rscert/rscert/internal/choice"

// Assumption names what an upper bound on the calibration error assumes. Without an assumption, finite data give no
// upper bound.
type Assumption int

// These assumptions concern P(y=1|s) or the scores.
const (
	BoundedVariation Assumption = iota // P(y=1|s) has a total variation of at most BoundParams.Variation
	PerturbedScores                    // the scores were perturbed with the sech kernel of BoundParams.Bandwidth
)

// BoundParams holds the parameters of the bounds, except the sample. Each bound uses some of these fields.
type BoundParams struct {
	CrossFit
	Variation float64 // assumed total variation of P(y=1|s)
	Bandwidth float64 // bandwidth of the kernel that perturbed the scores
}

// BoundMethod is a named upper bound on the calibration error.
type BoundMethod struct {
	Name       string
	Sound      bool
	What       string // one line about the bound
	Papers     string // keys of docs/references.md, separated by spaces
	Assumption Assumption
	Default    bool // used if the user chooses no method
	Compute    func(*Sample, BoundParams) (Bound, error)
}

// BoundMethods lists every method.
var BoundMethods = []BoundMethod{
	{"binned-tv", true, "compares the scores with the mean labels of bins; needs a single concentration inequality", "ciosek2025 hoeffding1963", BoundedVariation, true,
		func(s *Sample, p BoundParams) (Bound, error) { return BinnedVariation(s, p.Delta, p.Variation) }},
	{"binned-lipschitz", true, "compares the scores with means or lines fitted in bins; needs a single concentration inequality", "ciosek2025 hoeffding1963", PerturbedScores, true,
		func(s *Sample, p BoundParams) (Bound, error) { return BinnedLipschitz(s, p.Delta, p.Bandwidth) }},
	{"tv", true, "uses total variation denoising", "ciosek2025 davies2001", BoundedVariation, false,
		func(s *Sample, p BoundParams) (Bound, error) { return TotalVariation(s, p.CrossFit, p.Variation) }},
	{"nw", true, "uses Nadaraya–Watson smoothing", "ciosek2025", PerturbedScores, false, nadarayaWatson(Repaired)},
	{"nw-second-order", true, "like nw, but with a smaller bound on the smoother's bias", "ciosek2025", PerturbedScores, false,
		nadarayaWatson(SecondOrder)},
	{"lipschitz", true, "sums the differences between scores and labels over bins of neighbouring scores", "ciosek2025 hoeffding1963", PerturbedScores, false,
		func(s *Sample, p BoundParams) (Bound, error) { return Lipschitz(s, p.Delta, p.Bandwidth) }},
	{"ciosek-nw", false, "is nw as printed in the paper; this bound fails with a probability far above delta", "ciosek2025", PerturbedScores, false,
		nadarayaWatson(Printed)},
}

func nadarayaWatson(kind NadarayaWatsonKind) func(*Sample, BoundParams) (Bound, error) {
	return func(s *Sample, p BoundParams) (Bound, error) { return NadarayaWatson(s, p.CrossFit, p.Bandwidth, kind) }
}

func (m BoundMethod) String() string { return m.Name }

// MarshalText returns the name.
func (m BoundMethod) MarshalText() ([]byte, error) { return []byte(m.Name), nil }

// BoundChoices lists BoundMethods under the names that a user types.
func BoundChoices() choice.List[BoundMethod] {
	return choice.Of("bound", BoundMethods...).Describe(func(m BoundMethod) string { return m.What })
}
