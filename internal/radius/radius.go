// Package radius reads radii as users write them. Every flag with a radius uses this package, so that the syntax and
// the units are the same everywhere. The package internal/report/gate reads radii in requirements. It uses this package
// to read a fraction, but not to read a decimal number.
//
// A radius is either one decimal number of at least 0 (for example 0.25 or 1e-3) or a fraction of two decimal numbers
// (for example 2/255). Its unit is the unit of the data as they are after reading. Images then have values in [0, 1],
// so a step of one byte is 1/255. A number with a percent sign or a unit is not a radius.
package radius

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/decimal"
	"github.com/rscert/rscert/internal/quote"
)

// part matches the numerator or the denominator of a fraction. It limits the number of digits, so that computing with
// the fraction is fast.
var part = regexp.MustCompile(`^[0-9]{1,20}(\.[0-9]{1,40})?$`)

// Parse reads a radius from a text. For a fraction, it returns the smallest float64 whose shortest decimal (decimal.Of)
// is at least the fraction. So a certificate for the result is also a certificate for the fraction.
func Parse(text string) (float64, error) { return parse(text, decimal.Up) }

// ParseWithin does the same as Parse, but rounds a fraction down. So a perturbation within the result is also within
// the fraction.
func ParseWithin(text string) (float64, error) { return parse(text, decimal.Down) }

func parse(text string, round func(*big.Rat) float64) (float64, error) {
	trimmed := strings.TrimSpace(text)
	if fraction, ok, err := parseFraction(trimmed); ok || err != nil {
		if err != nil {
			return 0, fmt.Errorf("%s: %w", quote.Field(text), err)
		}
		return round(fraction), nil
	}
	x, err := strconv.ParseFloat(trimmed, 64)
	if err != nil || !(x >= 0) || math.IsInf(x, 1) {
		return 0, fmt.Errorf("%s: want a radius: a number from 0 or a fraction, such as 0.25 or 2/255", quote.Field(text))
	}
	return x + 0, nil // -0 becomes 0
}

// parseFraction returns the exact value of a fraction. The second result is false if the text is no fraction.
func parseFraction(text string) (*big.Rat, bool, error) {
	above, below, ok := strings.Cut(text, "/")
	if !ok {
		return nil, false, nil
	}
	if !part.MatchString(above) || !part.MatchString(below) {
		return nil, false, fmt.Errorf("want a fraction of two numbers, such as 2/255")
	}
	numerator, _ := new(big.Rat).SetString(above) // no error, because 'above' and 'below' match the regular expression
	denominator, _ := new(big.Rat).SetString(below)
	if denominator.Sign() == 0 {
		return nil, false, fmt.Errorf("the denominator is 0")
	}
	return numerator.Quo(numerator, denominator), true, nil
}

// ParseList parses a text of radii with commas between them. It returns the radii in 'earlier', followed by the radii
// of the text. It leaves out a radius that the result already has.
func ParseList(earlier []float64, text string) ([]float64, error) {
	radii := slices.Clone(earlier)
	for field := range strings.SplitSeq(text, ",") {
		r, err := Parse(field)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(radii, r) {
			radii = append(radii, r)
		}
	}
	return radii, nil
}
