package main

import (
	"fmt"
	"io"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/report"
)

// writeSummaries prints one table of summaries at equal radii, a row a method.
func writeSummaries(w io.Writer, summaries []certify.Summary) error {
	if len(summaries) == 0 {
		return nil
	}
	first := summaries[0]
	fmt.Fprintf(w, "certified accuracy in %%, by L2 radius (%d examples, σ = %g, α = %g)\n\n",
		first.Examples, first.Sigma, first.Alpha)
	t := report.Table{Columns: []report.Column{{Name: "method", Align: report.Right}}}
	for _, c := range first.Certified {
		t.Columns = append(t.Columns, report.Column{
			Name: fmt.Sprint(c.Radius), Align: report.Right, Round: report.Down, Decimals: 1, Percent: true,
		})
	}
	t.Columns = append(t.Columns,
		report.RoundedColumn("average radius", report.Down, 4), report.ExactColumn("abstained"))
	for _, s := range summaries {
		row := []report.Cell{report.Text(nameMethod(s.Method, s.Sound))}
		for _, c := range s.Certified {
			row = append(row, report.Number(c.Accuracy))
		}
		t.AddRow(append(row, report.Number(s.AverageRadius), report.Count(s.Abstained))...)
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	who := ""
	if len(summaries) > 1 {
		who = "each sound method for itself: "
	}
	for _, s := range summaries {
		if s.Delta > 0 { // failures depend on α and the examples, the same for all
			fmt.Fprintf(w, "\n%swith probability %g at most %d of these %d certificates are wrong;\n"+
				"the accuracies are then at least those above less %s points\n",
				who, 1-s.Delta, s.Failures, s.Examples,
				report.Round(float64(s.Failures)/float64(s.Examples), report.Up, 2, 1))
			break
		}
	}
	return conditions{first.Arithmetic, first.Precision, first.Quantisation}.write(w)
}

// conditions are what certificates rest on beyond their method.
type conditions struct {
	arithmetic   certify.Arithmetic
	precision    string
	quantisation float64
}

func (c conditions) write(w io.Writer) error {
	var err error
	if c.quantisation > 0 {
		_, err = fmt.Fprintf(w, "up to %s has been taken off every radius: the inputs are on no lattice, and rounding them is part of the classifier\n",
			report.Round(c.quantisation, report.Up, 0, 4))
	}
	if c.precision != "" && c.precision != "f32" && err == nil {
		_, err = fmt.Fprintf(w, "the model is computed in %s: the certificates are about it as computed so\n", c.precision)
	}
	if c.arithmetic != certify.Exact && err == nil {
		_, err = fmt.Fprintln(w, "arithmetic: idealised. The noise was added in floats, or the votes do not say how: see docs/what-is-certified.md")
	}
	return err
}

// nameMethod is a method's name in a table.
func nameMethod(name string, sound bool) string {
	if !sound {
		name += " (not sound)"
	}
	return name
}
