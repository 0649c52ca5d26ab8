package conformal

import "errors"

// FiniteWords describes noise whose probabilities come from words of finitely many bits: each coordinate of a draw has
// at most 1 + Eta times its ideal probability. The level a becomes a·e^{−Nη} with N = (n·m + Q·m′)·Coordinates. The zero
// value is ideal noise.
type FiniteWords struct {
	Eta         float64 `json:"eta,omitempty"`
	Coordinates int64   `json:"coordinates,omitempty"` // noisy coordinates of an input
}

// Params says what sets are wanted. All of it must be fixed before the calibration data are seen.
type Params struct {
	Rule      Rule
	Scorer    Scorer
	Attack    Attack
	Miss      float64 // a: allowed probability of a miss, in (0, 1), taken as the decimal that it prints as
	Guarantee Guarantee
	Delta     float64 // for Training only: probability that the calibration examples mislead
	Poisoned  int     // number of calibration examples that an adversary may have replaced by any others

	Draws            int64 // m′: draws per query; 0 means 20 (Count, BinCP) or 1
	CalibrationDraws int64 // m: draws per calibration example; 0 chooses
	Need             int64 // t; 0 chooses the best
	QueryNeed        int64 // t′; 0 chooses the best
	Degree           int   // for Weights: degree of the polynomial, at most MaxDegree; 0 means DefaultDegree
	Words            FiniteWords
}

// Degrees of the polynomial of Weights.
const (
	DefaultDegree = 32
	MaxDegree     = 64
)

// DefaultDraws is the number of draws per query of Count and BinCP.
const DefaultDraws = 20

// A Design is a rule with all its numbers: everything that is fixed before the data. Its JSON is a part of the JSON of
// a Predictor.
type Design struct {
	Rule Rule `json:"rule"` // never Auto
	Scorer
	Attack    Attack      `json:"attack"`
	Shift     float64     `json:"rho"`
	Miss      float64     `json:"miss"`
	Guarantee Guarantee   `json:"guarantee"`
	Delta     float64     `json:"delta,omitempty"`
	Poisoned  int         `json:"poisoned,omitempty"`
	M         int64       `json:"m"`                 // draws per calibration example
	T         int64       `json:"t"`                 // Count: an example counts as covered if t of its m scores reach τ̂; 0 with weights
	QueryM    int64       `json:"query_m"`           // m′: draws per query
	QueryT    int64       `json:"query_t"`           // t′: scores that must reach τ̂
	Weights   []float64   `json:"weights,omitempty"` // w(0), …, w(m), with the slack subtracted; none for counts
	Degree    int         `json:"degree,omitempty"`
	Slack     float64     `json:"slack"`           // subtracted from the weights, so that B_w ≤ H∘g is proved
	Spent     float64     `json:"spent,omitempty"` // part of Miss that BinCP spends on its confidence intervals
	Words     FiniteWords `json:"words"`
	Sound     bool        `json:"sound"`
}

// NewDesign chooses the numbers of a rule and proves them. It uses no data.
func NewDesign(p Params) (*Design, error) {
	return nil, errors.New("not written yet")
}

// Check proves again that the weights, or the pair of counts, satisfy the theorem's condition for the attack, and that
// all fields are consistent. Call it for a Design from a file.
func (d *Design) Check() error {
	return errors.New("not written yet")
}

// Claim says in one sentence what is guaranteed.
func (d *Design) Claim() string { return "" }
