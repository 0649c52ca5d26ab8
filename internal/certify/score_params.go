package certify

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ScoreParams selects the target and the methods for certificates from scores. These certificates are about the
// classifier that predicts the class with the largest mean score under noise. Certificates from votes are about the
// classifier that predicts the class with the most votes.
//
// If Confidence.Radii are given, half of Alpha goes to the certificate and half to the intervals for the confidence.
// With ConfidenceTangent, the interval at each radius uses this second half in full. So each interval holds by itself,
// but the intervals at all radii need not hold simultaneously.
type ScoreParams struct {
	Target
	Bound      MeanBound
	Combine    Combine
	Confidence ConfidenceParams
	// If ClassByVotes is set, the votes certify the class. This class is the label if Class is Label. Otherwise, it is
	// the class with the most votes of the selection samples. A VoteCertifier for ClassTarget certifies this class. The
	// scores then only bound the confidence in this class and, if the label is another class, also the confidence in
	// the label. The fields Bound and Combine are unused.
	ClassByVotes bool
}

func (p *ScoreParams) complete() error {
	if err := p.Target.complete(); err != nil {
		return err
	}
	if err := errors.Join(meanBounds.complete(&p.Bound), combines.complete(&p.Combine)); err != nil {
		return err
	}
	if !p.Claim.Usual() {
		return errors.New("scores certify only the answer itself: ranks, samples without an answer and rejection are for votes")
	}
	if p.ClassByVotes && len(p.Confidence.Radii) == 0 {
		return errors.New("scores bound only the confidence of a class that votes certify, and no radii are given")
	}
	if p.Alpha > 0.5 {
		return fmt.Errorf("alpha %v is above 1/2", p.Alpha)
	}
	if p.Combine == Taylor && p.Margin != SecondMargin {
		return errors.New("the combination taylor needs the second margin")
	}
	if p.Combine == Taylor {
		if err := p.needGaussian("combination", p.Combine); err != nil {
			return err
		}
	}
	if len(p.Confidence.Radii) > 0 && !p.ClassByVotes && !p.method().sound {
		return fmt.Errorf("%s is not sound: it cannot certify the class whose confidence is bounded", p.method().name)
	}
	return p.Confidence.complete()
}

// Name returns the name that certificates give to the method.
func (p ScoreParams) Name() string { return p.method().name }

// method returns the method that bounds the margin: the name that certificates give to it, and whether it is sound.
func (p ScoreParams) method() method {
	return method{p.Bound.String() + "+" + p.Combine.String(), p.Bound.Sound() && p.Combine.Sound()}
}

// ClassTarget returns the Target of the certificates. Its Alpha is the part of α that the certificates may use.
func (p ScoreParams) ClassTarget() Target {
	if len(p.Confidence.Radii) > 0 {
		return p.Target.ClassOnly()
	}
	return p.Target
}

// ClassOnly returns the Target that certifies the class with half of α. The bounds on the confidence use the other
// half.
func (t Target) ClassOnly() Target {
	t.Alpha /= 2
	t.Level /= 2
	return t
}

// sideAlpha returns the failure probability of one side of one interval. The argument 'classes' is the number of
// classes with an interval. Each interval has two sides. All these sides share half of α equally.
func (p ScoreParams) sideAlpha(classes int) float64 { return p.level() / 4 / float64(classes) }

// ConfidenceParams selects the bounds on the confidence under attack.
type ConfidenceParams struct {
	Radii  []float64 // radii of the attack; without radii there are no bounds
	Method ConfidenceMethod
	Bound  MeanBound // for ConfidenceStandard and ConfidenceTangent
	Band   Band      // for ConfidenceCDF
}

func (p *ConfidenceParams) complete() error {
	if err := errors.Join(
		confidenceMethods.complete(&p.Method), meanBounds.complete(&p.Bound), bands.complete(&p.Band),
	); err != nil {
		return err
	}
	if !p.Bound.Sound() {
		return fmt.Errorf("bound %s is not sound: it cannot bound the confidence", p.Bound)
	}
	for i, r := range p.Radii {
		if slices.Contains(p.Radii[:i], r) {
			return fmt.Errorf("radius %v is given twice", r)
		}
		if !(r >= 0) || math.IsInf(r, 1) {
			return fmt.Errorf("radius %v is not a number from 0", r)
		}
	}
	return nil
}

// String returns the name of the method, with its bound or band, for example standard+betting.
func (p ConfidenceParams) String() string {
	if p.Method == ConfidenceCDF {
		return p.Method.String() + "+" + p.Band.String()
	}
	return p.Method.String() + "+" + p.Bound.String()
}

// ConfidenceMethod is a way to bound the confidence within a radius.
type ConfidenceMethod string

const (
	// ConfidenceTangent uses the mean of a function of the score. The selection samples determine this function. If
	// there are no selection samples, the first estimation samples determine it.
	ConfidenceTangent ConfidenceMethod = "tangent"
	// ConfidenceStandard uses only the mean of the score.
	ConfidenceStandard ConfidenceMethod = "standard"
	// ConfidenceCDF uses a confidence band for the score's distribution.
	ConfidenceCDF ConfidenceMethod = "cdf"
)

// startInterval starts the bounds on the mean score of a class. The lower and the upper bound each fail with
// probability at most α.
type startInterval func(a *ScoreAccumulator, class int, alpha float64) confidence

var confidenceMethods = table[ConfidenceMethod, startInterval]{"method", []entry[ConfidenceMethod, startInterval]{
	{ConfidenceTangent, true, "bounds the mean of a function of the score; the selection samples determine the function", "kumar2020", startTangent},
	{ConfidenceStandard, true, "bounds the mean score z within the radius R by Φ(Φ⁻¹(z̲)−R/σ) ≤ z ≤ Φ(Φ⁻¹(z̄)+R/σ), where z̲ and z̄ are bounds on the mean score without attack (Kumar et al. 2020, Theorem 1)", "kumar2020 salman2019", startStandard},
	{ConfidenceCDF, true, "bounds the probability that the score exceeds a threshold, for every threshold (these bounds form a confidence band); then applies the formula of 'standard' to each of these bounds (Kumar et al. 2020, Theorem 2)", "kumar2020 massart1990", startSurvivalBand},
}}

// ConfidenceMethods describes all methods for the confidence, the default first.
func ConfidenceMethods() []Row[ConfidenceMethod] { return confidenceMethods.rows() }

func (m ConfidenceMethod) String() string { return string(m) }

// MarshalText returns the name, or empty text if no name is set.
func (m ConfidenceMethod) MarshalText() ([]byte, error) { return []byte(m), nil }

// UnmarshalText parses the name of a ConfidenceMethod.
func (m *ConfidenceMethod) UnmarshalText(text []byte) error { return confidenceMethods.parse(text, m) }

// Band is a confidence band for the survival function of a score.
type Band string

const (
	// BandBinomial uses the exact binomial bound at each of K thresholds, with failure probability α/K. The band is
	// narrowest where the survival function is near 0 or 1.
	BandBinomial Band = "binomial"
	// BandDKW has the same width everywhere (Dvoretzky, Kiefer & Wolfowitz).
	BandDKW Band = "dkw"
)

var bands = table[Band, boundSurvival]{"band", []entry[Band, boundSurvival]{
	{BandBinomial, true, "takes the exact binomial bound at each of 127 thresholds; tight in the tails", "clopper1934", (*survivalBand).binomialPoints},
	{BandDKW, true, "has the same width everywhere (Dvoretzky, Kiefer & Wolfowitz); Kumar et al. 2020 and Emde et al. 2025 use this band", "massart1990 dvoretzky1956", (*survivalBand).dkwPoints},
}}

// Bands describes all confidence bands, the default first.
func Bands() []Row[Band] { return bands.rows() }

func (b Band) String() string { return string(b) }

// MarshalText returns the name, or empty text if no name is set.
func (b Band) MarshalText() ([]byte, error) { return []byte(b), nil }

// UnmarshalText parses the name of a Band.
func (b *Band) UnmarshalText(text []byte) error { return bands.parse(text, b) }
