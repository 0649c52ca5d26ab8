package conformal

import "github.com/rscert/rscert/internal/choice"

// Guarantee is the kind of a coverage guarantee. Each kind bounds another probability of a miss by the level a. In a
// miss, the prediction set does not contain the true class.
type Guarantee string

const (
	// Marginal means that P(Y ∉ C(X′)) is at most the level a. In this probability, the calibration examples and the
	// query are both random.
	Marginal Guarantee = "marginal"
	// Training is about the probability P(Y ∉ C(X′) | calibration examples). For all but a share δ of the possible sets
	// of calibration examples, this conditional probability is at most a.
	Training Guarantee = "training"
	// Label means that P(Y ∉ C(X′) | Y = y) is at most the level a for every class y. It uses one threshold per class.
	Label Guarantee = "label"
	// Group means that P(Y ∉ C(X′) | group) is at most the level a for every group of queries. It uses one threshold
	// per group. The group must be known for each query, and an attack must not change it.
	Group Guarantee = "group"
)

// Guarantees lists all guarantees, the default first.
var Guarantees = choice.Of("guarantee", Marginal, Training, Label, Group).Describe(func(g Guarantee) string {
	return map[Guarantee]string{
		Marginal: "holds on average over the calibration examples and the queries",
		Training: "holds on average over the queries, for the calibration examples at hand; fails with probability at most delta over the choice of these examples",
		Label:    "holds for every class separately",
		Group:    "holds for every group of queries separately",
	}[g]
})

func (g Guarantee) String() string { return string(g) }

// MarshalText returns the name.
func (g Guarantee) MarshalText() ([]byte, error) { return []byte(g), nil }

// UnmarshalText parses the name of a Guarantee.
func (g *Guarantee) UnmarshalText(text []byte) error { return Guarantees.Unmarshal(text, g) }
