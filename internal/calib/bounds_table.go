package calib

import (
	"errors"

	"github.com/rscert/rscert/internal/choice"
)

// Assumption is what an upper bound on the calibration error assumes. Without an assumption, finite data give no upper
// bound.
type Assumption int

// Each assumption is about P(y=1|s) or about the scores.
const (
	BoundedVariation         Assumption = iota // P(y=1|s) has a total variation of at most BoundParams.Variation
	PerturbedScores                            // the scores were perturbed with the sech kernel of BoundParams.Bandwidth
	BoundedWeightedVariation                   // BoundedVariation, but in the population that the weights describe
)

// BoundParams holds the parameters of the bounds, except the sample. Each bound uses some of these fields.
type BoundParams struct {
	CrossFit
	Variation float64 // assumed total variation of P(y=1|s)
	Bandwidth float64 // bandwidth of the kernel that perturbed the scores
	// Weighted holds all rows with their weights. It is nil without weights. With weights, the sample that is passed to
	// Compute holds the rows that KeepByWeight keeps.
	Weighted *WeightedSample
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
	fit        func(*Sample, BoundParams, Bound) []FitPoint
}

// BoundMethods lists every method.
var BoundMethods = []BoundMethod{
	{"binned-tv", true, "compares the scores with the mean labels of bins; its proof uses a single concentration inequality", "ciosek2025 hoeffding1963", BoundedVariation, true,
		func(s *Sample, p BoundParams) (Bound, error) { return BinnedVariation(s, p.Delta, p.Variation) }, fitMeans},
	{"binned-lipschitz", true, "compares the scores with the mean labels of bins, or with lines fitted to the labels of bins; its proof uses a single concentration inequality", "ciosek2025 hoeffding1963", PerturbedScores, true,
		func(s *Sample, p BoundParams) (Bound, error) { return BinnedLipschitz(s, p.Delta, p.Bandwidth) }, fitSmooth},
	{"binned-best", true, "combines binned-quadratic (for small errors) with binned-bentkus (for large errors); the recommended method under the assumption of bounded variation", "ciosek2025 bentkus2004", BoundedVariation, false,
		func(s *Sample, p BoundParams) (Bound, error) { return BinnedBest(s, p.Delta, p.Variation) }, fitMeans},
	{"binned-bentkus", true, "works like binned-tv, but with a sharper concentration inequality", "bentkus2004", BoundedVariation, false,
		func(s *Sample, p BoundParams) (Bound, error) { return BinnedBentkus(s, p.Delta, p.Variation) }, fitMeans},
	{"binned-quadratic", true, "tests the squared gaps of all bins together; sharp if the classifier is nearly calibrated and the file has at least about 10,000 scores", "lee2023", BoundedVariation, false,
		func(s *Sample, p BoundParams) (Bound, error) { return BinnedQuadratic(s, p.Delta, p.Variation) }, fitMeans},
	{"binned-tv-weighted", true, "works like binned-tv, but uses all rows of a file with weights, each row with its weight; for such a file, the other methods use only a random part of the rows", "ciosek2025 hoeffding1963", BoundedWeightedVariation, false,
		weightedVariation, fitWeighted},
	{"tv", true, "uses total variation denoising", "ciosek2025 davies2001", BoundedVariation, false,
		func(s *Sample, p BoundParams) (Bound, error) { return TotalVariation(s, p.CrossFit, p.Variation) }, fitDenoised},
	{"nw", true, "uses Nadaraya–Watson smoothing", "ciosek2025", PerturbedScores, false, nadarayaWatson(Repaired), fitSmoother(Repaired)},
	{"nw-second-order", true, "works like nw, but with a smaller bound on the smoother's bias", "ciosek2025", PerturbedScores, false,
		nadarayaWatson(SecondOrder), fitSmoother(SecondOrder)},
	{"lipschitz", true, "sums the differences between scores and labels in each bin of neighbouring scores, and adds up the absolute values of these sums", "ciosek2025 hoeffding1963", PerturbedScores, false,
		func(s *Sample, p BoundParams) (Bound, error) { return Lipschitz(s, p.Delta, p.Bandwidth) }, fitBuckets},
	{"ciosek-nw", false, "applies nw as printed in Ciosek et al. 2025; the proof there is wrong, and the bound can fail with a probability far above delta", "ciosek2025", PerturbedScores, false,
		nadarayaWatson(Printed), fitSmoother(Printed)},
}

func weightedVariation(_ *Sample, p BoundParams) (Bound, error) {
	if p.Weighted == nil {
		return Bound{}, errors.New("the rows have no weights")
	}
	return WeightedVariation(p.Weighted, p.Delta, p.Variation)
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
