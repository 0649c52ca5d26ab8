package conformal

// An Outcome is the set of one query whose true class is known.
type Outcome struct {
	Index int
	Label int
	Group string
	Set   []int
	Draws int64 // draws made, after early stopping
}

// An Evaluator computes figures of the sets of a test set.
type Evaluator struct {
	predictor *Predictor
	alpha     float64
}

// Evaluator returns an empty Evaluator. Each confidence interval fails with probability at most alpha.
func (p *Predictor) Evaluator(alpha float64) *Evaluator { return &Evaluator{p, alpha} }

// Add adds a query.
func (e *Evaluator) Add(o Outcome) error { return nil }

// AddCounts adds the complete counts of a clean query for the certified size: counts[y] of Design.M scores of class y
// reached τ̂. These draws must not depend on each other, and they must not have been stopped early.
func (e *Evaluator) AddCounts(counts []int64) error { return nil }

// Evaluation returns the figures.
func (e *Evaluator) Evaluation() (*Evaluation, error) { return nil, nil }

// Coverage counts queries whose sets contain the true class.
type Coverage struct {
	N        int64   `json:"n"`
	Covered  int64   `json:"covered"`
	Coverage float64 `json:"coverage"`
	Lower    float64 `json:"lower"` // Clopper–Pearson, each side at alpha/2
	Upper    float64 `json:"upper"`
	Alpha    float64 `json:"alpha"`
}

// Stratum is the coverage of a part of the queries.
type Stratum struct {
	Name     string  `json:"name"` // class, size or group
	MeanSize float64 `json:"mean_size"`
	Coverage
}

// Exchangeability compares the number of misses of one Cell with its distribution for exchangeable examples,
// BetaBin(N; k, n+1−k) (see evaluate.go).
type Exchangeability struct {
	Label    *int    `json:"label,omitempty"`
	Group    string  `json:"group,omitempty"`
	N        int64   `json:"n"`         // queries
	Misses   int64   `json:"misses"`    // observed
	Expected float64 `json:"expected"`  // mean number of misses
	TooMany  float64 `json:"p_misses"`  // P(BetaBin ≥ misses): small means that the guarantee's assumption fails
	TooFew   float64 `json:"p_covered"` // P(BetaBin ≤ misses)
	TwoSided float64 `json:"p"`         // min(1, 2·min(TooMany, TooFew))
	Exact    bool    `json:"exact"`     // the sets are not enlarged for an attack, so TooFew has a meaning too
	Meaning  string  `json:"meaning"`
}

// CertifiedSize bounds the mean size of sets under the worst attack within the radius.
type CertifiedSize struct {
	N     int64   `json:"n"`     // queries
	Mean  float64 `json:"mean"`  // mean of ΣW(N_y)
	Upper float64 `json:"upper"` // upper confidence bound on its expectation at level alpha
	Alpha float64 `json:"alpha"`
}

// Evaluation holds figures of the sets of a test set.
type Evaluation struct {
	Coverage
	MeanSize        float64           `json:"mean_size"`
	MeanDraws       float64           `json:"mean_draws"`
	Singletons      int64             `json:"singletons"`
	Empty           int64             `json:"empty"`
	Correct         int64             `json:"correct_singletons"` // sets that hold the true class and nothing else
	Sizes           []int64           `json:"sizes"`              // sizes[k] is the number of sets of size k
	BySize          []Stratum         `json:"by_size"`
	ByClass         []Stratum         `json:"by_class"`
	ByGroup         []Stratum         `json:"by_group,omitempty"`
	Exchangeability []Exchangeability `json:"exchangeability"`
	CertifiedSize   *CertifiedSize    `json:"certified_size,omitempty"`
}
