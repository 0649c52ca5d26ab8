// Package law defines the kinds of noise, which are called laws. A law defines the norm in which its noise certifies.
// An additive law also computes radii, and the probability masses of its noise on a lattice.
//
// A new law needs one file with a type that implements Additive, and one entry in Laws. Commands, help, reports and
// tests take the laws from Laws. The law Splitting is not additive, because its noise is not random.
package law

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/choice"
)

// A Law is a kind of noise. Every law except Splitting is Additive.
type Law interface {
	// Name returns the law's name in flags and files.
	Name() string

	// Words returns the law's names in help and reports.
	Words() Words

	// Norm returns the norm in which radii are measured.
	Norm() Norm

	// Ratios returns limits for the ratio scale/step, where step is the lattice's step. Within these limits, the noise
	// can be drawn on the lattice.
	Ratios() Ratios
}

// An Additive law is a noise distribution that is added to the input. Its coordinates are independent with the same
// density f, which is symmetric about 0 and log-concave. All functions of z are for scale 1. F is the distribution
// function, and Q = F⁻¹.
//
// All certificates rest on one property: along a unit direction of the law's norm, the probability p of an event never
// changes faster than f(Q(p)). Then Q(p) changes by at most ρ within the distance ρ. The same holds for Q(m), where m
// is the mean of any statistic in [0,1]. Because f is log-concave, q ↦ F(Q(q) + ρ) is concave for ρ ≥ 0. The package
// 'certify' needs this concavity for its margins and tangents.
type Additive interface {
	Law

	// CDF returns an approximation of F(z) and a bound on the relative error of this approximation.
	CDF(z float64) (p, relErr float64)
	// Quantile approximates Q(p). The functions Low and High turn the approximation into bounds.
	Quantile(p float64) float64
	// Density approximates f(z).
	Density(z float64) float64
	// Slope approximates f(z+shift)/f(z), which is the derivative of q ↦ F(Q(q) + shift) at q = F(z).
	Slope(z, shift float64) float64
	// Peak returns the maximum of F(z+margin) − r·F(z) over z ≤ −margin/2, rounded up. It needs margin > 0 and r ≥ 1.
	Peak(margin, r float64) float64

	// Second returns the theorem that turns the margin Q(p_A) − Q(p_B) into a radius.
	Second() Theorem
	// First returns the theorem that turns the margin p_A − p_B into a radius.
	First() Theorem
	// Masses returns lower bounds on the probabilities that the random integer ⌊ratio·ε + ½⌋ has the values first,
	// first+1, …. Here ε follows the law. A law may add a constant to ε. Such a constant shifts the inputs of the
	// smoothed function, but it does not affect the certificates. The masses sum to at least 1 − 2⁻⁴⁰. All machines
	// compute the same masses. The argument 'ratio' must be a result of Ratios.Round, and Ratios.Allow must allow this
	// ratio.
	Masses(ratio *big.Rat) (first int, masses []Mass)
}

// Laws lists all laws, the default first.
var Laws = []Law{
	Gaussian,
	Laplace,
	Uniform,
	Splitting,
}

// In returns the laws that certify in the given norm.
func In(n Norm) []Law {
	return slices.DeleteFunc(slices.Clone(Laws), func(l Law) bool { return l.Norm() != n })
}

// Words holds the names that help and reports use for a law and its scale.
type Words struct {
	Name   string // for example "Gaussian noise"
	Noise  string // name with the parameter, for example "Gaussian noise N(0, σ²I)"
	Symbol string // symbol of the scale
	Scale  string // meaning of the scale, for example "standard deviation"
}

// Title returns the scale's meaning and symbol, for example "standard deviation σ".
func (w Words) Title() string { return w.Scale + " " + w.Symbol }

// A Theorem turns lower bounds on a margin into radii. Its functions do not round in a safe direction. Each result has
// the error of at most four roundings.
type Theorem interface {
	// Formula returns the text for help, for example "radius σ/2 times the margin".
	Formula() string
	// Radius returns the radius for a margin > 0 under noise of a scale > 0. The radius is in the units of the scale.
	Radius(margin, scale float64) float64
	// Margin is the inverse of Radius: it returns the margin required for a radius ≥ 0.
	Margin(radius, scale float64) float64
}

// Linear returns the theorem radius = factor·scale·margin. The factor is ½ for Additive.Second, and 1/(2·max f) for
// Additive.First. Both factors follow from the property that the comment of Additive states.
func Linear(factor float64, formula string) Theorem { return linear{factor, formula} }

type linear struct {
	factor  float64
	formula string
}

func (l linear) Formula() string { return l.formula }

func (l linear) Radius(margin, scale float64) float64 { return scale * margin * l.factor }

func (l linear) Margin(radius, scale float64) float64 { return radius / scale / l.factor }

// Ratios holds a law's limits for the ratio scale/step, where step is the lattice's step.
type Ratios struct {
	Least    int64 // below this ratio, rounding to the lattice would add too much to the noise
	Fine     int64 // from this ratio on, rounding adds almost nothing to the noise
	Greatest int64 // ratios scale/step below Greatest + 1 are allowed; their tables have at most 2¹⁶ entries
	Halves   bool  // Round replaces a ratio by the nearest multiple of ½ if the two are almost equal
}

// Round returns the ratio that callers pass to the method Masses. If r.Halves is set and a multiple of ½ is within a
// factor 1 ± 2⁻⁵³ of the ratio, Round returns this multiple. For example, a scale that is the float64 nearest to
// k·step/2 gets the ratio k/2. Certified radii allow for four roundings (see Theorem). One of them is the rounding of
// the scale to float64.
func (r Ratios) Round(ratio *big.Rat) *big.Rat {
	if !r.Halves {
		return ratio
	}
	half := big.NewRat(1, 2)
	k := new(big.Rat).SetInt64(ceil(new(big.Rat).Sub(new(big.Rat).Add(ratio, ratio), half)))
	k.Mul(k, half)
	away := new(big.Rat).Sub(ratio, k)
	if away.Abs(away).Cmp(new(big.Rat).Mul(k, big.NewRat(1, 1<<53))) > 0 {
		return ratio
	}
	return k
}

// Allow reports whether noise can be drawn on a lattice for this ratio of the noise's scale to the lattice's step.
func (r Ratios) Allow(ratio *big.Rat) bool {
	return ratio.Cmp(big.NewRat(r.Least, 1)) >= 0 && ratio.Cmp(big.NewRat(r.Greatest+1, 1)) < 0
}

// Refine returns the smallest whole number n for which the step divided by n gives a ratio of at least r.Fine. The
// result 'ok' is false if the ratio is outside (0, Greatest + 1), or if n would exceed math.MaxInt16.
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

// Name is the name of one of the Laws. It is empty for the default law, and files omit an empty Name.
type Name string

// Of returns the Name of a law.
func Of(l Law) Name {
	if l.Name() == Laws[0].Name() {
		return ""
	}
	return Name(l.Name())
}

// Law returns the law with this name. It panics if no law has the name.
func (n Name) Law() Law {
	for _, l := range Laws {
		if l.Name() == n.String() {
			return l
		}
	}
	panic("no law of noise is called " + string(n))
}

// Additive returns the law with this name, or an error if the law is not additive. It panics if no law has the name.
func (n Name) Additive() (Additive, error) {
	if l, ok := n.Law().(Additive); ok {
		return l, nil
	}
	return nil, fmt.Errorf("law %s has no distribution: its noise is not random", n)
}

// Deterministic reports whether the law with this name has noise that is not random. If the result is true, the law's
// certificates hold with certainty.
func (n Name) Deterministic() bool { return n == Of(Splitting) }

// NeedRandom returns an error for the law Splitting. Commands call NeedRandom if their method draws random noise.
func (n Name) NeedRandom() error {
	if n.Deterministic() {
		return fmt.Errorf("law %s: this command draws random noise, and law %s has none", n, n)
	}
	return nil
}

// String returns the law's name, also for the default law, whose Name is empty.
func (n Name) String() string {
	if n == "" {
		return Laws[0].Name()
	}
	return string(n)
}

// MarshalText returns the name, or empty text for the default.
func (n Name) MarshalText() ([]byte, error) { return []byte(n), nil }

// UnmarshalText parses the name of a law. Empty text is the default.
func (n *Name) UnmarshalText(text []byte) error { return Choices().Unmarshal(text, n) }

// Choices lists the names of all laws.
func Choices() choice.List[Name] { return ChoicesOf(Laws) }

// ChoicesOf lists the names of the given laws.
func ChoicesOf[L Law](laws []L) choice.List[Name] {
	names := make([]Name, len(laws))
	for i, l := range laws {
		names[i] = Of(l)
	}
	return choice.Of("law", names...).Optional().Describe(func(n Name) string {
		return n.Law().Words().Noise + "; radii in " + n.Law().Norm().Title()
	})
}

// EachAdditive calls the function 'say' for every additive law and joins the texts that this function returns. If there
// are several laws, each text begins with the name of its law.
func EachAdditive(say func(Additive) string) string {
	laws := Additives()
	if len(laws) == 1 {
		return say(laws[0])
	}
	var all []string
	for _, l := range laws {
		all = append(all, l.Name()+": "+say(l))
	}
	return strings.Join(all, "; ")
}

// Additives lists the additive laws, in the order of Laws.
func Additives() []Additive {
	var all []Additive
	for _, l := range Laws {
		if a, ok := l.(Additive); ok {
			all = append(all, a)
		}
	}
	return all
}
