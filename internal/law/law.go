// Package law holds the laws of noise: what a distribution certifies, in which norm, and the masses that noise on a
// lattice is drawn from.
//
// A new law is one file with a type that is a Law, and an entry of Laws. Parsing, help, the words of reports and the
// lists of tests come from there.
package law

import (
	"math"
	"math/big"
	"strings"

	"github.com/rscert/rscert/internal/choice"
)

// A Law is a distribution of noise: independent in every coordinate, with one density f there that is symmetric about
// 0 and log-concave. All of its functions of z are at scale 1. F is the distribution function and Q = F⁻¹.
//
// What all certificates rest on: the law's norm is one in which no event's probability p changes faster than f(Q(p))
// along a unit direction. Then Q(p) changes by at most ρ within the distance ρ, and so does Q of the mean of any
// statistic in [0,1]. Log-concavity makes q ↦ F(Q(q) + ρ) concave for ρ ≥ 0, which margins and tangents need.
type Law interface {
	// Name is the law's name in flags and files.
	Name() string
	// Words are how help and reports speak of it.
	Words() Words
	// Norm is the norm of the radii.
	Norm() Norm

	// CDF is F(z), with a bound on its relative error.
	CDF(z float64) (p, relErr float64)
	// Quantile is about Q(p). Low and High make bounds of it.
	Quantile(p float64) float64
	// Density is about f(z).
	Density(z float64) float64
	// Slope is about f(z+shift)/f(z), the derivative of q ↦ F(Q(q) + shift) at F(z).
	Slope(z, shift float64) float64
	// Peak is the largest F(z+margin) − r·F(z) of all z ≤ −margin/2, rounded up; margin > 0, r ≥ 1.
	Peak(margin, r float64) float64

	// Second makes a radius of the second margin, Q(p_A) − Q(p_B).
	Second() Theorem
	// First makes a radius of the first margin, p_A − p_B.
	First() Theorem

	// Ratios are the lattices on which it can be drawn.
	Ratios() Ratios
	// Masses are lower bounds on the probabilities p_0, p_1, … of the integers ⌊ratio·ε + ½⌋, ε drawn from the law and
	// p_{−j} = p_j. They and their mirror images sum to 1 − 2⁻⁴⁰ or more. Every machine computes the same.
	Masses(ratio *big.Rat) []Mass
}

// Laws are all laws, the default first.
var Laws = []Law{
	Gaussian,
}

// Words are how help and reports speak of a law.
type Words struct {
	Name   string // as in "Gaussian noise"
	Noise  string // with its parameter, as in "Gaussian noise N(0, σ²I)"
	Symbol string // of the scale
	Scale  string // what the scale is, as in "standard deviation"
}

// Title is the symbol behind what it stands for, as in "standard deviation σ".
func (w Words) Title() string { return w.Scale + " " + w.Symbol }

// A Theorem makes radii of lower bounds on a margin. Neither function rounds in a safe direction: each is within four
// roundings of its formula.
type Theorem interface {
	// Formula is for help, as in "radius σ/2 times the margin".
	Formula() string
	// Radius is the radius of a margin > 0 under noise of a scale > 0, in the units of the scale.
	Radius(margin, scale float64) float64
	// Margin is the margin that a radius ≥ 0 takes: the inverse of Radius.
	Margin(radius, scale float64) float64
}

// Linear is the theorem radius = factor·scale·margin. By what all certificates rest on (Law) the factor is ½ for the
// second margin and 1/(2·max f) for the first.
func Linear(factor float64, formula string) Theorem { return linear{factor, formula} }

type linear struct {
	factor  float64
	formula string
}

func (l linear) Formula() string { return l.formula }

func (l linear) Radius(margin, scale float64) float64 { return scale * margin * l.factor }

func (l linear) Margin(radius, scale float64) float64 { return radius / scale / l.factor }

// Ratios are values of scale/step, by which a lattice suits a law.
type Ratios struct {
	Least    int64 // a coarser lattice would waste the noise
	Fine     int64 // from here on rounding adds next to nothing to the noise
	Greatest int64 // up to the next whole number; a finer lattice needs a table of more than 2¹⁶ entries
}

// Allow reports whether noise of this ratio can be drawn.
func (r Ratios) Allow(ratio *big.Rat) bool {
	return ratio.Cmp(big.NewRat(r.Least, 1)) >= 0 && ratio.Cmp(big.NewRat(r.Greatest+1, 1)) < 0
}

// Refine returns the least whole number by which a step is divided for the ratio to reach Fine; false if the ratio is
// above Greatest, or needs a division by more than 2¹⁵.
func (r Ratios) Refine(ratio *big.Rat) (divisor int, ok bool) {
	if ratio.Sign() <= 0 || ratio.Cmp(big.NewRat(r.Greatest+1, 1)) >= 0 {
		return 1, false
	}
	need := new(big.Rat).Inv(ratio)
	need.Mul(need, big.NewRat(r.Fine, 1))
	if need.Cmp(big.NewRat(math.MaxInt16, 1)) > 0 {
		return 1, false
	}
	return max(1, int(ceil(need))), true
}

// Name is the name of one of the Laws, or nothing: the default. Files do not name the default.
type Name string

// Of is the Name of a law.
func Of(l Law) Name {
	if l.Name() == Laws[0].Name() {
		return ""
	}
	return Name(l.Name())
}

// Law is the law of a name that was parsed. It panics if there is none.
func (n Name) Law() Law {
	for _, l := range Laws {
		if l.Name() == n.String() {
			return l
		}
	}
	panic("no law of noise is called " + string(n))
}

// String is the law's name, also of the default.
func (n Name) String() string {
	if n == "" {
		return Laws[0].Name()
	}
	return string(n)
}

// MarshalText writes the name, or nothing for the default.
func (n Name) MarshalText() ([]byte, error) { return []byte(n), nil }

// UnmarshalText reads the name of a law, or nothing: the default.
func (n *Name) UnmarshalText(text []byte) error { return Choices().Unmarshal(text, n) }

// Choices are the names of all laws.
func Choices() choice.List[Name] {
	names := make([]Name, len(Laws))
	for i, l := range Laws {
		names[i] = Of(l)
	}
	return choice.Of("law", names...).Optional().Describe(func(n Name) string {
		return n.Law().Words().Noise + ", radii in " + n.Law().Norm().Title()
	})
}

// Each joins what every law says; with several laws, each behind its name.
func Each(say func(Law) string) string {
	if len(Laws) == 1 {
		return say(Laws[0])
	}
	var all []string
	for _, l := range Laws {
		all = append(all, l.Name()+": "+say(l))
	}
	return strings.Join(all, "; ")
}
