package main

import (
	"fmt"
	"strings"

	"github.com/rscert/rscert/internal/certify"
)

// printMarked prints a part of docs/confidence.md.
func printMarked(name, table string) {
	fmt.Printf("<!-- made: %s -->\n\n%s\n<!-- end: %s -->\n\n", name, table, name)
}

// splitRadius is the radius of one table. The function splitHeader returns the header of this table, and splitRow
// returns its rows. The table gives the widths of confidence intervals at this radius, for runs without selection
// samples. It has a column for each value of k in splitSamples. The method 'tangent' determines its tangent from the
// first k samples.
const splitRadius = 0.25

var splitSamples = []int{1, 5, 10, 50, 100}

func splitHeader() string {
	line := "| n | `standard` |"
	for _, k := range splitSamples {
		line += fmt.Sprintf(" k = %d |", k)
	}
	return line + " taken |\n|" + strings.Repeat(" ---: |", len(splitSamples)+3) + "\n"
}

// splitRow returns the table row for n samples. The function splitHeader returns the header of this table. The map
// 'widths' holds the interval width of the method 'tangent' for each k. The entry for k = 0 is the width of the method
// 'standard'.
func splitRow(n int, widths map[int]float64) string {
	line := fmt.Sprintf("| %d | %.4f |", n, widths[0])
	for _, k := range splitSamples {
		if w, ok := widths[k]; ok {
			line += fmt.Sprintf(" %.4f |", w)
		} else {
			line += " – |"
		}
	}
	taken := certify.ConfidenceParams{Method: certify.ConfidenceTangent, Radii: widthRadii}
	return line + fmt.Sprintf(" %d |\n", taken.TangentSamples(0, int64(n)))
}
