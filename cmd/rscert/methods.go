package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/calibrator"
	"github.com/rscert/rscert/internal/certify"
)

// newMethodsTopic makes 'rscert help methods' from the tables of methods.
func newMethodsTopic() *cobra.Command {
	var b strings.Builder
	b.WriteString(`The following list describes the methods that compute certificates, bounds and
calibration maps. Each heading names the flags that take the methods below it. The
result of a sound method is true with the stated probability. Some methods are not
sound. rscert has them only to reproduce results of their papers. The words in brackets
lead to the papers: [cohen2019] is docs/references.md#cohen2019. The comments in the
code give the formulas and the assumptions.
`)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	tabulateRows(t, "Certificates from votes (--method of certify and radius, --class-method of confidence):", certify.VoteMethods())
	tabulateRows(t, "Bounds on mean scores (--method of certify and radius for scores; only the sound ones:\n--bound of confidence, --confidence-bound of certify):", certify.MeanBounds())
	tabulateRows(t, "Bounds on the margin between mean scores (--combine):", certify.Combines())
	tabulateRows(t, "Bounds on the confidence under attack (--method of confidence, --confidence of certify):", certify.ConfidenceMethods())
	fmt.Fprintln(t, "\nUpper bounds on the calibration error (--method of ce):")
	for _, m := range calib.BoundMethods {
		tabulateMethod(t, m.Name, m.Sound, m.What, m.Papers)
	}
	fmt.Fprintln(t, "\nCalibration maps (--method of calibrate). They are estimates and bound nothing.\n'rscert calibrate --help' explains the letters:")
	for _, m := range calibrator.Methods {
		fmt.Fprintf(t, "  %s\t–\t%s [%s]\n", m.Name, m.What, strings.ReplaceAll(m.Papers, " ", ", "))
	}
	_ = t.Flush() // a Builder never fails
	return &cobra.Command{Use: "methods", Short: "List every method with its soundness and its papers", Long: b.String()}
}

func tabulateRows[M ~string](t *tabwriter.Writer, title string, rows []certify.Row[M]) {
	fmt.Fprintln(t, "\n"+title)
	for _, r := range rows {
		tabulateMethod(t, string(r.Name), r.Sound, r.What, r.Papers)
	}
}

func tabulateMethod(t *tabwriter.Writer, name string, sound bool, what, papers string) {
	verdict := "sound"
	if !sound {
		verdict = "not sound"
	}
	fmt.Fprintf(t, "  %s\t%s\t%s [%s]\n", name, verdict, what, strings.ReplaceAll(papers, " ", ", "))
}
