package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/rscert/rscert/internal/certify"
)

// writeSummaries prints one table of summaries at equal radii, a row a method.
func writeSummaries(w io.Writer, summaries []certify.Summary) error {
	if len(summaries) == 0 {
		return nil
	}
	first := summaries[0]
	fmt.Fprintf(w, "certified accuracy in %%, by L2 radius (%d examples, σ = %g, α = %g)\n\n", first.Examples, first.Sigma, first.Alpha)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "method\t")
	for _, c := range first.Certified {
		fmt.Fprintf(t, "%g\t", c.Radius)
	}
	fmt.Fprint(t, "average radius\tabstained\t\n")
	for _, s := range summaries {
		name := s.Method
		if !s.Sound {
			name += " (not sound)"
		}
		fmt.Fprintf(t, "%s\t", name)
		for _, c := range s.Certified {
			fmt.Fprintf(t, "%s\t", floorDecimals(100*c.Accuracy, 1))
		}
		fmt.Fprintf(t, "%s\t%d\t\n", floorDecimals(s.AverageRadius, 4), s.Abstained)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	who := ""
	if len(summaries) > 1 {
		who = "each sound method for itself: "
	}
	for _, s := range summaries {
		if s.Delta > 0 { // failures depend on α and the examples, the same for all
			fmt.Fprintf(w, "\n%swith probability %g at most %d of these %d certificates are wrong;\nthe accuracies are then at least those above less %s points\n",
				who, 1-s.Delta, s.Failures, s.Examples, ceilDecimals(100*float64(s.Failures)/float64(s.Examples), 1))
			break
		}
	}
	return nil
}

// floorDecimals prints x ≥ 0 with so many decimals, rounded down: a radius is
// never printed larger than it is.
func floorDecimals(x float64, decimals int) string {
	if x >= 1e15 {
		return "∞"
	}
	scale := math.Pow(10, float64(decimals))
	// The nearest decimal stands for x itself where they agree to rounding.
	s := fmt.Sprintf("%.*f", decimals, x)
	if floored := math.Floor(x*scale*(1+1e-15)) / scale; floored < x {
		s = fmt.Sprintf("%.*f", decimals, floored)
	}
	return strings.TrimPrefix(s, "-")
}

// ceilDecimals prints x with so many decimals, rounded up: an upper bound is
// never printed smaller than it is.
func ceilDecimals(x float64, decimals int) string {
	scale := math.Pow(10, float64(decimals))
	return fmt.Sprintf("%.*f", decimals, math.Ceil(x*scale)/scale)
}
