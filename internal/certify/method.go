package certify

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/binomial"
)

// Class says which class A of an example is certified. It is fixed before the
// estimation samples are seen; never the arg max of those.
type Class int

const (
	// Predicted is the arg max of the N0 selection samples; the lowest class
	// wins a tie.
	Predicted Class = iota
	// Label is the true label.
	Label
)

var classNames = []string{"predicted", "label"}

func (c Class) String() string { return classNames[c] }

// ParseClass reads the name of a Class.
func ParseClass(s string) (Class, error) {
	i, err := parseName("class", s, classNames)
	return Class(i), err
}

// MarginKind is the distance between the probabilities of the class and the
// runner-up that is bounded.
type MarginKind int

const (
	// SecondMargin is Φ⁻¹(p_A) − Φ⁻¹(p_B).
	SecondMargin MarginKind = iota
	// FirstMargin is p_A − p_B.
	FirstMargin
)

var marginNames = []string{"second", "first"}

func (k MarginKind) String() string { return marginNames[k] }

// ParseMarginKind reads the name of a MarginKind.
func ParseMarginKind(s string) (MarginKind, error) {
	i, err := parseName("margin", s, marginNames)
	return MarginKind(i), err
}

// VoteMethod bounds the margin of an example from its votes.
type VoteMethod int

const (
	ClopperPearson VoteMethod = iota
	Bonferroni
	Margin
	Moutaouakil
)

var voteMethodNames = []string{"clopper-pearson", "bonferroni", "margin", "moutaouakil"}

func (m VoteMethod) String() string { return voteMethodNames[m] }

// Sound reports whether the failure probability of m is at most α for every
// classifier.
func (m VoteMethod) Sound() bool { return m != Moutaouakil }

// ParseVoteMethod reads the name of a VoteMethod.
func ParseVoteMethod(s string) (VoteMethod, error) {
	i, err := parseName("method", s, voteMethodNames)
	return VoteMethod(i), err
}

func parseName(what, s string, names []string) (int, error) {
	for i, name := range names {
		if s == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("unknown %s %q (one of %s)", what, s, strings.Join(names, ", "))
}

// VoteParams say what is certified from votes, and how surely.
type VoteParams struct {
	Method VoteMethod
	Margin MarginKind
	Class  Class
	Alpha  float64 // failure probability, in (0, 1)
	Sigma  float64 // standard deviation of the noise, in the units of the data
	// Lipschitz is a known L2 Lipschitz constant of the vector of smoothed vote
	// probabilities; 0 = unknown. Only the first margin uses it.
	Lipschitz float64
}

func (p VoteParams) validate() error {
	switch {
	case !(p.Alpha > 0 && p.Alpha < 1):
		return fmt.Errorf("alpha %v is outside (0, 1)", p.Alpha)
	case p.Alpha < binomial.MinLevel:
		return fmt.Errorf("alpha %v is below %v", p.Alpha, binomial.MinLevel)
	case !(p.Sigma > 0) || math.IsInf(p.Sigma, 1):
		return fmt.Errorf("sigma %v is not a positive number", p.Sigma)
	case !(p.Lipschitz >= 0) || math.IsInf(p.Lipschitz, 1):
		return fmt.Errorf("lipschitz constant %v is not a positive number", p.Lipschitz)
	case p.Lipschitz > 0 && p.Margin != FirstMargin:
		return errors.New("a lipschitz constant needs the first margin")
	}
	return nil
}

// roundDigits is the number of significant decimal digits of the figures of a
// certificate: fewer than the last digits of exp and log, in which platforms
// differ, and more than any of the bounds means.
const roundDigits = 9

// RoundDown returns the largest number of nine significant decimal digits that
// is at most x: the form in which lower bounds, margins and radii are reported.
func RoundDown(x float64) float64 {
	y := roundNearest(x)
	if y <= x {
		return y
	}
	// One unit of the last kept digit is at most |x|·10⁻⁸; a step of half the
	// smallest such unit, |x|·10⁻⁹/2, cannot skip a decimal.
	for step := math.Abs(x) * 0.5e-9; y > x; step *= 2 {
		y = roundNearest(x - step)
	}
	return y
}

// RoundUp is the smallest number of nine significant decimal digits ≥ x.
func RoundUp(x float64) float64 { return -RoundDown(-x) }

func roundNearest(x float64) float64 {
	y, err := strconv.ParseFloat(strconv.FormatFloat(x, 'e', roundDigits-1, 64), 64)
	if err != nil { // out of range: x is within rounding of ±MaxFloat64
		return x
	}
	return y
}
