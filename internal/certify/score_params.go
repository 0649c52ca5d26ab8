package certify

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ScoreParams say what is certified from scores, and how surely. The classifier
// that is certified predicts the class with the largest *mean score* under noise;
// the one certified from votes predicts the class with the most votes.
type ScoreParams struct {
	Bound   MeanBound
	Combine Combine
	Margin  MarginKind
	Class   Class
	// Alpha is the failure probability of all that is stated of an example: with
	// Confidence.Radii, half of it is the certificate's and half the intervals' (with
	// ConfidenceTangent that of the interval at each radius, for itself).
	Alpha float64
	Sigma float64 // standard deviation of the noise, in the units of the data
	// Lipschitz is a known L2 Lipschitz constant of the vector of mean scores; 0 =
	// unknown. Only the first margin uses it.
	Lipschitz  float64
	Confidence ConfidenceParams
}

func (p ScoreParams) validate() error {
	v := VoteParams{Margin: p.Margin, Alpha: p.Alpha, Sigma: p.Sigma, Lipschitz: p.Lipschitz}
	if err := v.validate(); err != nil {
		return err
	}
	if p.Alpha > 0.5 {
		return fmt.Errorf("alpha %v is above 1/2", p.Alpha)
	}
	if p.Combine == Taylor && p.Margin != SecondMargin {
		return errors.New("the combination taylor needs the second margin")
	}
	if len(p.Confidence.Radii) > 0 && !p.Combine.Sound() {
		return fmt.Errorf("combination %s is not sound: it cannot certify the class whose confidence is bounded", p.Combine)
	}
	for i, r := range p.Confidence.Radii {
		if slices.Contains(p.Confidence.Radii[:i], r) {
			return fmt.Errorf("radius %v is given twice", r)
		}
		if !(r >= 0) || math.IsInf(r, 1) {
			return fmt.Errorf("radius %v is not a number from 0", r)
		}
	}
	return nil
}

// classAlpha is the certificate's part of α.
func (p ScoreParams) classAlpha() float64 {
	if len(p.Confidence.Radii) > 0 {
		return p.Alpha / 2
	}
	return p.Alpha
}

// sideAlpha is the part of α for one side of the confidence intervals.
func (p ScoreParams) sideAlpha() float64 { return p.Alpha / 4 }

// ConfidenceParams say how the confidence under attack is bounded.
type ConfidenceParams struct {
	Radii  []float64 // of the attack; empty: the confidence is not bounded
	Method ConfidenceMethod
	Bound  MeanBound // of ConfidenceStandard and ConfidenceTangent
	Band   Band      // of ConfidenceCDF
}

// ConfidenceMethod bounds the confidence within a radius.
type ConfidenceMethod int

const (
	// ConfidenceTangent uses the mean of a function of the score that is fixed from
	// the selection samples.
	ConfidenceTangent ConfidenceMethod = iota
	// ConfidenceStandard uses the mean of the score alone.
	ConfidenceStandard
	// ConfidenceCDF uses a band for the score's distribution.
	ConfidenceCDF
)

var confidenceMethodNames = []string{"tangent", "standard", "cdf"}

func (m ConfidenceMethod) String() string { return confidenceMethodNames[m] }

// ParseConfidenceMethod reads the name of a ConfidenceMethod.
func ParseConfidenceMethod(s string) (ConfidenceMethod, error) {
	i, err := parseName("method", s, confidenceMethodNames)
	return ConfidenceMethod(i), err
}

// Band is a confidence band for the survival function of a score.
type Band int

const (
	// BandBinomial has the exact binomial bound at each of K thresholds, at α/K: its
	// width goes to 0 with the survival function at 0 and 1.
	BandBinomial Band = iota
	// BandDKW has one width everywhere (Dvoretzky, Kiefer & Wolfowitz).
	BandDKW
)

var bandNames = []string{"binomial", "dkw"}

func (b Band) String() string { return bandNames[b] }

// ParseBand reads the name of a Band.
func ParseBand(s string) (Band, error) {
	i, err := parseName("band", s, bandNames)
	return Band(i), err
}
