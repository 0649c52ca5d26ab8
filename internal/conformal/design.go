package conformal

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/rscert/rscert/internal/decimal"
	"github.com/rscert/rscert/internal/hint"
)

// FiniteWords describes noise that is computed from random words of finitely many bits. The probability of each value
// of a noisy coordinate is at most (1 + η) times its ideal probability, where η is Eta. Calibration and the Q
// submissions of a query use N = (n·m + Q·m′)·Coordinates noisy coordinates. So the probability of an event that
// depends on these coordinates is at most e^{Nη} times its ideal probability. To make up for this factor, the level a
// becomes a·(1−Nη) ≤ a·e^{−Nη}. The zero value is ideal noise.
type FiniteWords struct {
	Eta         float64 `json:"eta,omitempty"`
	Coordinates int64   `json:"coordinates,omitempty"` // number of noisy coordinates of an input
}

// Params describes the prediction sets that the caller wants. The caller must fix all fields before seeing the
// calibration data.
type Params struct {
	Rule   Rule
	Scorer Scorer
	Attack Attack
	// a: allowed probability of a miss, in (0, 1). The code reads it as decimal.Of(Miss), so 0.1 is exactly 1/10.
	Miss      float64
	Guarantee Guarantee
	// for Training only: δ in (0, 1), the allowed probability that the calibration examples are a set for which the
	// guarantee fails
	Delta    float64
	Poisoned int // number of calibration examples that an adversary may have replaced by arbitrary examples

	Draws            int64 // m′: draws per query; 0 means DefaultDraws for BinCP and for Count with noise, else 1
	CalibrationDraws int64 // m: draws per calibration example; 0 means m′, or max(m′, DefaultDegree) for Weights
	Need             int64 // t: an example is covered if t of the m scores reach the threshold; 0 chooses the best t
	QueryNeed        int64 // t′; 0 chooses the best
	Degree           int   // for Weights: degree of the polynomial, at most MaxDegree and m; 0 means DefaultDegree
	// for BinCP: the fixed probability p of the rule (see chooseBinCP); 0 means F(ρ/2), where F is the distribution
	// function of the noise's law
	Probability float64
	Words       FiniteWords
	// OwnRange means that the classifier clamps inputs to the range of the calibration data (see Design.OwnRange).
	OwnRange bool
}

// These are the default and the maximum of the field Degree.
const (
	DefaultDegree = 32
	MaxDegree     = 64
)

// DefaultDraws is the default number of draws per query for the rules Count and BinCP.
const DefaultDraws = 20

// maxDraws limits m and m′, so that products of counts stay far below the range of int64.
const maxDraws = 1_000_000

// maxQueries limits Q, so that products of counts stay far below the range of int64.
const maxQueries = 1_000_000

// A Design holds a rule, and all numbers of the rule that are fixed before the data are seen. Its JSON is a part of the
// JSON of a Predictor.
type Design struct {
	Rule Rule `json:"rule"` // never Auto
	Scorer
	Attack    Attack    `json:"attack"`
	Shift     float64   `json:"rho"`
	Miss      float64   `json:"miss"`
	Guarantee Guarantee `json:"guarantee"`
	Delta     float64   `json:"delta,omitempty"`
	Poisoned  int       `json:"poisoned,omitempty"`
	M         int64     `json:"m"`       // draws per calibration example
	T         int64     `json:"t"`       // t: an example is covered if t of m scores reach τ̂; 0 if Weights is set
	QueryM    int64     `json:"query_m"` // m′: draws per query
	QueryT    int64     `json:"query_t"` // t′: number of scores that must reach τ̂
	// the weights w(0), …, w(d), with d ≤ m, after the subtraction of Slack; empty if T is set
	Weights     []float64   `json:"weights,omitempty"`
	Degree      int         `json:"degree,omitempty"`      // d
	Slack       float64     `json:"slack"`                 // subtracted from the weights, to prove B_w ≤ (H∘g)^Q
	Probability float64     `json:"probability,omitempty"` // BinCP
	Spent       float64     `json:"spent,omitempty"`       // part of Miss that BinCP spends on its confidence intervals
	Words       FiniteWords `json:"words"`
	// OwnRange means that the classifier clamps the values of inputs to the range of the calibration data. Then the
	// examples and a query are not exchangeable, because only a query can lie outside the range. They would be
	// exchangeable if the classifier used the range of all n+1 inputs. The two ranges differ only if the query extends
	// the range of the calibration data. The probability of this event is at most 2/(n+1), because the range has two
	// ends. So the level is a − 2/(n+1), and the threshold moves by two ranks.
	OwnRange bool `json:"own_range,omitempty"`
	Sound    bool `json:"sound"` // the guarantee holds under the attack
}

// RangeRanks is the number of ranks that are lost if Design.OwnRange is set: one for each end of the range.
const RangeRanks = 2

// lost returns the number of ranks that are lost because of replaced examples and because of OwnRange.
func (d *Design) lost() int64 {
	lost := int64(d.Poisoned)
	if d.OwnRange {
		lost += RangeRanks
	}
	return lost
}

// maxElevated is the maximum number of draws per calibration example for the rules Weights, RCP1 and BinCP. Their
// tables grow with the number of draws.
const maxElevated = 10_000

// NewDesign chooses the numbers that the rule needs (see Design). It uses no data for this. For the rules Count,
// Weights and RCP1, it proves that the numbers satisfy the theorem's condition.
func NewDesign(p Params) (*Design, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	d := &Design{
		Rule: p.Rule, Scorer: p.Scorer, Attack: p.Attack, Shift: p.Attack.Shift(), Miss: p.Miss, Guarantee: p.Guarantee,
		Delta: p.Delta, Poisoned: p.Poisoned, Words: p.Words, OwnRange: p.OwnRange, Sound: true,
	}
	d.Attack.Norm = d.Attack.law().Norm()
	choose := map[Rule]func(*Design, Params) error{
		Auto: (*Design).chooseAuto, Count: (*Design).chooseCount, Weights: (*Design).chooseWeights,
		RCP1: (*Design).chooseRCP1, BinCP: (*Design).chooseBinCP, Clean: (*Design).chooseClean,
	}[p.Rule]
	if err := choose(d, p); err != nil {
		return nil, err
	}
	return d, d.check()
}

// check returns an error if the params are out of range.
func (p Params) check() error {
	if _, err := Rules.Parse(string(p.Rule)); err != nil {
		return fmt.Errorf("rule %w", err)
	}
	if _, err := Guarantees.Parse(string(p.Guarantee)); err != nil {
		return fmt.Errorf("guarantee %w", err)
	}
	if err := p.Scorer.Validate(); err != nil {
		return err
	}
	if err := p.Attack.check(); err != nil {
		return err
	}
	if err := p.checkSymmetry(); err != nil {
		return err
	}
	for _, c := range []struct {
		name      string
		value     int64
		from, top int64
	}{
		{"draws per query", p.Draws, 0, maxDraws},
		{"draws per calibration example", p.CalibrationDraws, 0, maxDraws},
		{"count t", p.Need, 0, maxDraws},
		{"count t′", p.QueryNeed, 0, maxDraws},
		{"degree", int64(p.Degree), 0, MaxDegree},
		{"poisoned examples", int64(p.Poisoned), 0, 1 << 40},
		{"coordinates", p.Words.Coordinates, 0, 1 << 40},
	} {
		if c.value < c.from || c.value > c.top {
			return fmt.Errorf("%s %d: want %d to %d", c.name, c.value, c.from, c.top)
		}
	}
	return p.checkLevels()
}

// checkSymmetry refuses combinations of parameters for which the theorem does not hold.
func (p Params) checkSymmetry() error {
	switch {
	case p.Scorer.Kind.Random() && p.Attack.Queries > 1:
		// Every submission has its own random number u. So the sets of all Q submissions contain the class with
		// probability (E_u[H(g(p_u))])^Q. But the rule proves a lower bound on E_u[H(g(p_u))^Q]. This expectation is at
		// least as large as the probability. So the probability may be below the proved bound.
		return hint.New(fmt.Sprintf("score %s: each of %d submissions has a random number of its own, so nothing is known about all of them together",
			p.Scorer.Kind, p.Attack.Queries), "use the score thr")
	case p.OwnRange && p.Guarantee == Training:
		return hint.New(fmt.Sprintf("guarantee %s: the range of the values comes from the calibration data", Training),
			"use data on a lattice, such as bytes, or another guarantee")
	case p.OwnRange && (p.Poisoned > 0 || p.Attack.PoisonRadius > 0):
		return errors.New("poisoned calibration data would also choose the range of the values")
	}
	return nil
}

func (p Params) checkLevels() error {
	switch {
	case !(p.Miss > 0 && p.Miss < 1):
		return fmt.Errorf("miss probability %v is outside (0, 1)", p.Miss)
	case p.Guarantee == Training && !(p.Delta > 0 && p.Delta < 1):
		return fmt.Errorf("delta %v is outside (0, 1)", p.Delta)
	case p.Guarantee != Training && p.Delta != 0:
		return fmt.Errorf("delta %v: only the guarantee %s uses delta", p.Delta, Training)
	case p.Probability < 0 || p.Probability >= 1 || math.IsNaN(p.Probability):
		return fmt.Errorf("probability %v is outside (0, 1)", p.Probability)
	case !(p.Words.Eta >= 0 && p.Words.Eta < 1):
		return fmt.Errorf("eta %v is outside [0, 1)", p.Words.Eta)
	}
	return nil
}

func (d *Design) chooseAuto(p Params) error {
	if d.Attack.Scale == 0 {
		return d.chooseClean(p)
	}
	// The constant 'fewest' is the smallest number of draws per query with which Auto tries the rule Count. With fewer
	// draws, the sets of Count are larger than the sets of the rule Weights. If the caller gives the number of
	// calibration draws, Auto tries Count only if this number is max(draws per query, DefaultDraws). If calibration
	// takes far more draws than a query, the counts of an example and of a query have very different tails. The pairs
	// of counts for which the theorem's condition can be proved are then far from ideal.
	const fewest = 5
	if enough := p.Draws == 0 || p.Draws >= fewest; enough && (p.CalibrationDraws == 0 || p.CalibrationDraws == max(p.Draws, DefaultDraws)) {
		if err := d.chooseCount(p); err == nil {
			return nil
		}
	}
	return d.chooseWeights(p)
}

// target returns the right side of the theorem's condition (see the type 'target').
func (d *Design) target() target {
	return newTarget(d.Attack.law(), d.Shift, d.QueryM, d.QueryT, d.Attack.queries())
}

// polynomial returns the polynomial with the weights w(0), …, w(d). If the rule uses a pair of counts, it returns the
// polynomial of degree m with the weights w(N) = 1{N ≥ t}.
func (d *Design) polynomial() (polynomial, error) {
	if len(d.Weights) == 0 {
		return step(d.T, d.M), nil
	}
	b := make(polynomial, len(d.Weights))
	for k, w := range d.Weights {
		x := w * unitWeight
		if !(math.Abs(w) <= leastWeight) || x != math.Trunc(x) {
			return nil, fmt.Errorf("weight %d is %v, not a multiple of 2⁻³² of at most 1", k, w)
		}
		b[k] = int64(x)
		if b[k] > unitWeight || k > 0 && b[k] < b[k-1] {
			return nil, fmt.Errorf("weight %d is %v: weights must not decrease, and must be at most 1", k, w)
		}
	}
	return b, nil
}

// Check proves again that the weights or the pair of counts satisfy the theorem's condition for the attack. It also
// checks that the fields are consistent. Call Check for a Design from a file. (For the rule BinCP, Predictor.Validate
// checks the counts, because they depend on the number of examples.)
func (d *Design) Check() error {
	p := Params{
		Rule: d.Rule, Scorer: d.Scorer, Attack: d.Attack, Miss: d.Miss, Guarantee: d.Guarantee, Delta: d.Delta,
		Poisoned: d.Poisoned, Draws: d.QueryM, CalibrationDraws: d.M, Need: d.T, QueryNeed: d.QueryT,
		Degree: d.Degree, Probability: d.Probability, Words: d.Words, OwnRange: d.OwnRange,
	}
	if err := p.check(); err != nil {
		return err
	}
	if d.Rule == Auto {
		return errors.New("rule auto: a design names the rule that was chosen")
	}
	if d.Shift != d.Attack.Shift() {
		return fmt.Errorf("rho %v is not the %v of the radius and the scale", d.Shift, d.Attack.Shift())
	}
	if err := d.check(); err != nil {
		return err
	}
	return d.prove()
}

// check returns an error if the draws, the weights and the counts do not fit together.
func (d *Design) check() error {
	switch {
	case d.M < 1 || d.QueryM < 1:
		return fmt.Errorf("draws %d and %d: want 1 or more", d.M, d.QueryM)
	case d.M > maxElevated && (len(d.Weights) > 0 || d.Rule == BinCP):
		return fmt.Errorf("rule %s: %d draws per calibration example, want at most %d", d.Rule, d.M, maxElevated)
	case len(d.Weights) > 0 != (d.Rule == Weights || d.Rule == RCP1):
		return fmt.Errorf("rule %s with %d weights", d.Rule, len(d.Weights))
	case len(d.Weights) > 0 && (d.Degree < 1 || d.Degree != len(d.Weights)-1 || int64(d.Degree) > d.M):
		return fmt.Errorf("%d weights of degree %d for %d draws", len(d.Weights), d.Degree, d.M)
	case d.Guarantee == Training && len(d.Weights) > 0:
		return hint.New(fmt.Sprintf("rule %s: no guarantee %s is known for weights", d.Rule, Training), "use the rule count")
	case d.Rule == BinCP:
		return d.checkBinCP()
	case d.QueryT < 1 || d.QueryT > d.QueryM:
		return fmt.Errorf("count t′ = %d of %d draws", d.QueryT, d.QueryM)
	case len(d.Weights) == 0 && (d.T < 1 || d.T > d.M):
		return fmt.Errorf("count t = %d of %d draws", d.T, d.M)
	case d.Sound != (d.Rule != Clean || d.Shift == 0):
		return fmt.Errorf("rule %s with rho = %v: sound cannot be %v", d.Rule, d.Shift, d.Sound)
	}
	return nil
}

// prove tries to prove that the weights or the pair of counts satisfy the condition of the theorem in the package
// comment. For the rule Clean it sets ρ = 0, so it proves the condition for clean queries only. For the rule BinCP it
// proves nothing (see Check).
func (d *Design) prove() error {
	g := d.target()
	switch d.Rule {
	case BinCP:
		return nil
	case Clean:
		g.shift = 0
	}
	if len(d.Weights) == 0 {
		if (pairClaim{g, d.M, d.T}).prove() != proved {
			return fmt.Errorf("counts %d of %d and %d of %d: not proved for rho = %v", d.T, d.M, d.QueryT, d.QueryM, d.Shift)
		}
		return nil
	}
	b, err := d.polynomial()
	if err != nil {
		return err
	}
	if !b.valid(g) {
		return fmt.Errorf("weights: not proved for rho = %v", d.Shift)
	}
	return nil
}

// level returns a·(1−Nη) and δ·(1−Nη) for n calibration examples. The comment on FiniteWords defines N and η. The
// method reads a and δ as decimals, and computes both results without rounding.
func (d *Design) level(n int64) (miss, delta *big.Rat) {
	coordinates := new(big.Int).Mul(big.NewInt(n), big.NewInt(d.M))
	coordinates.Add(coordinates, new(big.Int).Mul(big.NewInt(d.Attack.queries()), big.NewInt(d.QueryM)))
	coordinates.Mul(coordinates, big.NewInt(d.Words.Coordinates))
	loss := new(big.Rat).SetFloat64(d.Words.Eta)
	loss.Mul(loss, new(big.Rat).SetInt(coordinates))
	rest := new(big.Rat).Sub(big.NewRat(1, 1), loss)
	if rest.Sign() < 0 {
		rest.SetInt64(0)
	}
	return new(big.Rat).Mul(decimal.Of(d.Miss), rest), new(big.Rat).Mul(decimal.Of(d.Delta), rest)
}

// Claim returns one sentence that says what is guaranteed.
func (d *Design) Claim() string {
	covered := strconv.FormatFloat(decimal.Float(new(big.Rat).Sub(big.NewRat(1, 1), decimal.Of(d.Miss))), 'g', -1, 64)
	if !d.Sound {
		return fmt.Sprintf("rule %s: no guarantee under this attack", d.Rule)
	}
	claim := fmt.Sprintf("the set of a query contains the true class with probability at least %s, %s", covered, map[Guarantee]string{
		Marginal: "over calibration examples and queries together",
		Training: fmt.Sprintf("for all but a share %v of the possible sets of calibration examples", d.Delta),
		Label:    "for every true class",
		Group:    "for every group, which an attack must not change",
	}[d.Guarantee])
	if q := d.Attack.queries(); q > 1 {
		claim += fmt.Sprintf(", in all of %d adaptive submissions at once", q)
	}
	claim += d.Attack.claim()
	if d.Poisoned > 0 {
		claim += fmt.Sprintf(", even if any %d calibration examples were replaced", d.Poisoned)
	}
	kind := "exchangeable"
	if d.Guarantee == Training {
		kind = "independent and identically distributed"
	}
	return claim + ", if examples and queries are " + kind + " before any attack, and the noise of a query is fresh and secret"
}
