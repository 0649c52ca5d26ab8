package certify

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/big"
	"strconv"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/law"
)

// A Target says what to certify and at which level. Certificates from votes and from scores both use it.
type Target struct {
	Law    law.Name // law of the noise; empty for the Gaussian law
	Margin MarginKind
	Class  Class
	// Alpha is the allowed probability that any of the statements about an example is wrong. It is in (0, 1).
	Alpha float64
	// Level is the part of Alpha that the bounds may use if noise is drawn from random words of finite length
	// (smoothing.Deflate). For idealised noise, 0 means all of Alpha. For exact noise, 0 is an error.
	Level float64
	Sigma float64 // scale of the noise in the units of the data; for the Gaussian, its standard deviation
	// Lipschitz is a known Lipschitz constant of the vector of smoothed vote probabilities or mean scores. Distances of
	// inputs are in the law's norm, and distances of vectors are in L2. Lipschitz is 0 if no constant is known. Only
	// the first margin uses Lipschitz.
	Lipschitz  float64
	Arithmetic Arithmetic // whether the noise is Idealised or Exact
	// Precision is the number format in which the model was computed. The format is part of the model. Precision is
	// empty if the format is unknown.
	Precision string
	Claim
	// Scaled means that each column has a scale of its own, and that radii are in units of these scales. Sigma is then
	// 1. A perturbation δ is within the radius if two conditions hold. On the columns without noise, δ is 0. For the
	// other columns d, the norm of the numbers δ_d/scale_d is within the radius.
	Scaled bool
	// Step is the step of the lattice of the inputs. If radii are in L1, certificates also state them in steps. The
	// method Splitting needs Step. For other methods, Step may be nil, which means that the step is unknown.
	Step *big.Rat
}

// The method 'additive' returns the law of the noise. It needs a valid name of a law (the method 'complete' checks the
// name). It panics for the law Splitting, which is not additive.
func (t Target) additive() law.Additive {
	l, err := t.Law.Additive()
	if err != nil {
		panic(err)
	}
	return l
}

// The method 'complete' fills in defaults and checks the fields that are given.
func (t *Target) complete() error {
	_, err := law.Choices().Parse(string(t.Law))
	if err := errors.Join(err, marginKinds.complete(&t.Margin), classes.complete(&t.Class), t.Claim.complete()); err != nil {
		return err
	}
	if t.Law.Deterministic() {
		return fmt.Errorf("law %s is for the method %s of votes", t.Law, Splitting)
	}
	switch {
	case !(t.Alpha > 0 && t.Alpha < 1):
		return fmt.Errorf("alpha %v is outside (0, 1)", t.Alpha)
	case !(t.Level >= 0 && t.Level <= t.Alpha):
		return fmt.Errorf("level %v is outside [0, alpha = %v]", t.Level, t.Alpha)
	case t.Arithmetic == Exact && t.Level == 0:
		return errors.New("too many draws for this noise table: the correction uses all of alpha; take fewer samples or a coarser lattice")
	case t.level() < binomial.MinLevel:
		return fmt.Errorf("alpha %v is below %v", t.level(), binomial.MinLevel)
	case !(t.Sigma > 0) || math.IsInf(t.Sigma, 1):
		return fmt.Errorf("sigma %v is not a positive number", t.Sigma)
	case !(t.Lipschitz >= 0) || math.IsInf(t.Lipschitz, 1):
		return fmt.Errorf("lipschitz constant %v is not a positive number", t.Lipschitz)
	case t.Scaled && t.Sigma != 1:
		return fmt.Errorf("sigma %v: with a scale for each column, radii are in units of the scales, and sigma is 1", t.Sigma)
	case t.Scaled && t.Lipschitz > 0:
		return errors.New("a lipschitz constant is for noise with one scale")
	case t.Lipschitz > 0 && t.Margin != FirstMargin:
		return errors.New("a lipschitz constant needs the first margin")
	}
	return nil
}

// The method 'accepts' returns an error unless the votes come from the target's classifier under the target's kind of
// noise. Old files lack the key reject_below, so votes without this key are not an error.
func (t Target) accepts(v Votes) error {
	switch {
	case v.Scaled != t.Scaled:
		return errScaled(v.Scaled)
	case v.Deterministic && !t.Law.Deterministic():
		return fmt.Errorf("its votes are evaluations at fixed inputs (law %s), not random samples: give the run folder", law.Splitting.Name())
	case !v.Deterministic && t.Law.Deterministic():
		return fmt.Errorf("its votes are not marked as deterministic, and law %s needs evaluations at fixed inputs", t.Law)
	case v.RejectBelow != 0 && v.RejectBelow != t.RejectBelow:
		return fmt.Errorf("reject_below is %v, and the classifier to certify has %v", v.RejectBelow, t.RejectBelow)
	}
	return nil
}

// errScaled returns the error for votes or a certificate whose value of Scaled differs from the target's value. The
// argument 'scaled' is the value in the votes or the certificate.
func errScaled(scaled bool) error {
	if scaled {
		return errors.New("each column has noise of its own scale here: only the run says what its radii mean; give the run folder")
	}
	return errors.New("it is of noise with one scale, and the run has a scale for each column")
}

// needGaussian returns an error if the noise is not Gaussian. It is called for methods whose paper replaces Φ⁻¹ by a
// polynomial.
func (t Target) needGaussian(kind string, method fmt.Stringer) error {
	if t.Law.Law() != law.Gaussian {
		return fmt.Errorf("%s %s is for %s", kind, method, law.Gaussian.Words().Noise)
	}
	return nil
}

// level returns the failure probability available to the bounds.
func (t Target) level() float64 {
	if t.Level > 0 {
		return t.Level
	}
	return t.Alpha
}

// The type 'method' describes the method that bounded the margin of a certificate. It holds the method's name, as
// certificates state it, and whether the method is sound.
type method struct {
	name  string
	sound bool
}

// A marginBound is a lower bound on a margin.
type marginBound struct {
	margin    float64            // if it is ≤ 0, nothing is certified
	unbounded bool               // the margin is +∞
	bounds    map[string]float64 // bounds from which the margin was computed
}

// certificate returns the certificate of class a, where b is the bound on its margin and n is the number of samples. It
// subtracts the argument 'quantisation' from the radius (see Certificate.Quantisation).
func (t Target) certificate(m method, index, label, a int, n int64, quantisation float64, b marginBound) Certificate {
	cert := Certificate{
		Index: index, Label: label, Prediction: Abstained, Law: t.Law, Norm: t.Law.Law().Norm(),
		Method: m.name, Sound: m.sound, MarginKind: t.Margin, Lipschitz: t.Lipschitz,
		Alpha: t.Alpha, Sigma: t.Sigma, Scaled: t.Scaled, Arithmetic: t.Arithmetic, Precision: t.Precision, N: n, Quantisation: quantisation, Bounds: maps.Clone(b.bounds),
		Claim: t.Claim,
	}
	if !(b.margin > 0) {
		return cert
	}
	cert.Prediction = a
	cert.Correct = a == label
	if b.unbounded { // only the second margin can be +∞
		cert.Margin, cert.Radius, cert.Unbounded = math.MaxFloat64, math.MaxFloat64, true
		return cert
	}
	cert.Margin = RoundDown(b.margin)
	cert.Radius = lessQuantisation(t.Radius(b.margin), quantisation)
	cert.Steps = t.steps(cert)
	return cert
}

// The method 'steps' returns the radius of a certificate in steps of the lattice, rounded down. It returns nil if the
// certificate has no class, if radii are not in L1, or if the inputs do not lie on a lattice. The reported radius is
// smaller than the radius that the law's theorem gives (see the function 'theorem'). So the certificate also holds for
// perturbations of exactly the returned number of steps.
func (t Target) steps(cert Certificate) *int64 {
	if t.Step == nil || cert.Norm != law.L1 || cert.Prediction == Abstained || cert.Quantisation != 0 || cert.Unbounded {
		return nil
	}
	exact, ok := new(big.Rat).SetString(strconv.FormatFloat(cert.Radius, 'g', -1, 64))
	if !ok {
		return nil
	}
	exact.Quo(exact, t.Step)
	steps := new(big.Int).Quo(exact.Num(), exact.Denom()).Int64()
	return &steps
}

// lessQuantisation returns the difference radius − quantisation, rounded down, or 0 if the difference is negative.
// Inputs are rounded to the lattice, and this rounding can lengthen a perturbation by at most 'quantisation'.
func lessQuantisation(radius, quantisation float64) float64 {
	if quantisation == 0 {
		return radius
	}
	return max(0, RoundDown(nudgeDown(radius-quantisation)))
}

// Class says which class A to certify. The estimation samples do not affect this choice, except with the method
// Splitting.
type Class string

const (
	// Predicted is the class with the most votes of the N0 selection samples, or the lowest such class in a tie. With
	// the method Splitting, it is the class with the most known evaluations.
	Predicted Class = "predicted"
	// Label is the true label.
	Label Class = "label"
)

var classes = table[Class, struct{}]{"class", []entry[Class, struct{}]{
	{name: Predicted, sound: true, what: "the class with the most votes among the n0 selection samples; with scores, the class with the largest mean score in these samples"},
	{name: Label, sound: true, what: "the true label"},
}}

// Classes describes the two values of Class, the default first.
func Classes() []Row[Class] { return classes.rows() }

func (c Class) String() string { return string(c) }

// MarshalText returns the name, or empty text if no name is set.
func (c Class) MarshalText() ([]byte, error) { return []byte(c), nil }

// UnmarshalText parses the name of a Class.
func (c *Class) UnmarshalText(text []byte) error { return classes.parse(text, c) }

// MarginKind is a distance between the probabilities of the class and the runner-up.
type MarginKind string

const (
	// SecondMargin is Q(p_A) − Q(p_B), where Q is the law's quantile function: Φ⁻¹ for the Gaussian.
	SecondMargin MarginKind = "second"
	// FirstMargin is p_A − p_B.
	FirstMargin MarginKind = "first"
)

var marginKinds = table[MarginKind, struct{}]{"margin", []entry[MarginKind, struct{}]{
	{name: SecondMargin, sound: true},
	{name: FirstMargin, sound: true, what: "; for each of these laws, with a known Lipschitz constant L, the radius is at least margin/(√2·L)"},
}}

// MarginKinds describes both margins, the default first. A description contains the formula of the radius for each law.
func MarginKinds() []Row[MarginKind] {
	rows := marginKinds.rows()
	for i, r := range rows {
		rows[i].What = law.EachAdditive(func(l law.Additive) string { return theorem(l, r.Name).Formula() }) + r.What
	}
	return rows
}

func (k MarginKind) String() string { return string(k) }

// MarshalText returns the name, or empty text if no name is set.
func (k MarginKind) MarshalText() ([]byte, error) { return []byte(k), nil }

// UnmarshalText parses the name of a MarginKind.
func (k *MarginKind) UnmarshalText(text []byte) error { return marginKinds.parse(text, k) }

// Arithmetic says for which noise a certificate holds (docs/results.md).
type Arithmetic int

const (
	// Idealised is real-valued noise, which the computed floats approximate. If a record names no arithmetic, its
	// arithmetic is Idealised.
	Idealised Arithmetic = iota
	// Exact is the noise that the computer really adds, with its rounding.
	Exact
)

var arithmetics = choice.Of("arithmetic", Idealised, Exact)

func (a Arithmetic) String() string { return [...]string{Idealised: "idealised", Exact: "exact"}[a] }

// MarshalText returns the name.
func (a Arithmetic) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText parses the name of an Arithmetic.
func (a *Arithmetic) UnmarshalText(text []byte) error { return arithmetics.Unmarshal(text, a) }
