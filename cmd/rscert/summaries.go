package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/report"
)

// writeSummaries prints one table of summaries at the same radii, one row per method.
func writeSummaries(w io.Writer, summaries []certify.Summary) error {
	if len(summaries) == 0 {
		return nil
	}
	writeSummaryTitle(w, summaries[0], "", false, false)
	t := report.Table{Columns: summaryColumns(summaries[0].Certified, report.Column{Name: "method", Align: report.Right})}
	for _, s := range summaries {
		name := report.Text(nameMethod(s.Method, s.Sound))
		t.AddRow(summaryCells(s.Certified, s.AverageRadius, s.Abstained, name)...)
	}
	if err := t.WriteText(w); err != nil {
		return err
	}
	writeStatements(w, summaries)
	writeSummaryNotes(w, summaries, "")
	return conditionsOf(summaries[0]).write(w)
}

// writeSummaryTitle prints the title of a table of summaries. The argument 'quantity' names what the columns stand for;
// it is empty for the radius. The title omits σ if the table has a column for it, and it omits the number of examples and
// α if they differ between the rows.
func writeSummaryTitle(w io.Writer, s certify.Summary, quantity string, hasSigma, differ bool) {
	if quantity == "" {
		quantity = certify.NormTitle(s.Norm, s.Scaled) + " radius"
	}
	symbol := s.Law.Law().Words().Symbol
	var about []string
	if s.Scaled {
		about = append(about, "units of "+symbol)
	}
	if !differ {
		about = append(about, fmt.Sprintf("%d examples", s.Examples))
	}
	if !s.Scaled && !hasSigma {
		about = append(about, fmt.Sprintf("%s = %g", symbol, s.Sigma))
	}
	switch {
	case s.Deterministic:
		about = append(about, "deterministic")
	case !differ:
		about = append(about, fmt.Sprintf("α = %g", s.Alpha))
	}
	fmt.Fprintf(w, "%s in %%, by %s", s.Accuracy(), quantity)
	if len(about) > 0 {
		fmt.Fprintf(w, " (%s)", strings.Join(about, ", "))
	}
	fmt.Fprint(w, "\n\n")
}

// writeStatements prints how many certificates of a row may be wrong. It prints one statement for all rows, because
// this number depends only on α and the number of examples.
func writeStatements(w io.Writer, summaries []certify.Summary) {
	who := ""
	if len(summaries) > 1 {
		who = "for each sound method alone: "
	}
	for _, s := range summaries {
		if s.Delta > 0 {
			writeStatement(w, who, s)
			break
		}
	}
	if first := summaries[0]; first.Deterministic {
		fmt.Fprintf(w, "\nthe certificates are deterministic: none of %s is wrong\n", report.Certificates(first.Examples, first.Sampled))
	}
}

// writeSummaryNotes first prints a warning if there are several summaries: the user should not choose a row by its
// results. Then it prints the line 'more', unless it is empty. Last, it prints the claim of the certificates, unless
// this is the usual claim (certify.Claim.Usual).
func writeSummaryNotes(w io.Writer, summaries []certify.Summary, more string) {
	first := summaries[0]
	if len(summaries) > 1 {
		fmt.Fprint(w, "\n"+certify.ChooseFirst+"\n")
	}
	if more != "" {
		fmt.Fprintln(w, more)
	}
	if !first.Usual() {
		fmt.Fprintf(w, "what a certificate claims: %s\n", first.Says())
	}
}

// writeNorms prints a table for each norm other than s.Norm for which s holds results.
func writeNorms(w io.Writer, s certify.Summary) error {
	for _, n := range s.Norms {
		fmt.Fprintf(w, "\n%s in %%, by the %s radius that follows from the %s radius\n\n", s.Accuracy(), n.Norm.Title(), s.Norm.Title())
		t := report.Table{Columns: summaryColumns(n.Certified, report.Column{Name: "method", Align: report.Right})}
		t.AddRow(summaryCells(n.Certified, n.AverageRadius, s.Abstained, report.Text(nameMethod(s.Method, s.Sound)))...)
		if err := t.WriteText(w); err != nil {
			return err
		}
	}
	return nil
}

// writeClasses prints a table for each summary that has results by class. The table has a row for each class.
func writeClasses(w io.Writer, summaries ...certify.Summary) error {
	for _, s := range summaries {
		if len(s.Classes) == 0 {
			continue
		}
		fmt.Fprintf(w, "\nby class, %s:\n\n", nameMethod(s.Method, s.Sound))
		t := report.Table{Columns: summaryColumns(s.Certified, report.ExactColumn("class"), report.ExactColumn("examples"))}
		for _, c := range s.Classes {
			class, examples := report.Count(c.Class), report.Count(c.Examples)
			t.AddRow(summaryCells(c.Certified, c.AverageRadius, c.Abstained, class, examples)...)
		}
		if err := t.WriteText(w); err != nil {
			return err
		}
	}
	return nil
}

// summaryColumns adds columns for the certified accuracy at each radius, the average radius and the abstentions.
func summaryColumns(certified []certify.CertifiedAccuracy, columns ...report.Column) []report.Column {
	var radii []float64
	for _, c := range certified {
		radii = append(radii, c.Radius)
	}
	return valueColumns(radii, "average radius", columns...)
}

// valueColumns adds columns for the certified accuracy at each of the values, for an average and for the abstentions.
func valueColumns(values []float64, average string, columns ...report.Column) []report.Column {
	for _, x := range values {
		columns = append(columns, report.Column{
			Name: fmt.Sprint(x), Align: report.Right, Round: report.Down, Decimals: 1, Percent: true,
		})
	}
	return append(columns, report.RoundedColumn(average, report.Down, 4), report.ExactColumn("abstained"))
}

// summaryCells appends the cells for the columns of summaryColumns to the argument 'row'.
func summaryCells(certified []certify.CertifiedAccuracy, averageRadius float64, abstained int, row ...report.Cell) []report.Cell {
	for _, c := range certified {
		row = append(row, report.Number(c.Accuracy))
	}
	return append(row, report.RadiusNumber(averageRadius), report.Count(abstained))
}

// conditions holds the conditions of the certificates, but not their method. The conditions are the noise for which a
// certificate holds (certify.Arithmetic), the number format of the model, and the loss of radius by rounding to the
// lattice.
type conditions struct {
	arithmetic   certify.Arithmetic
	precision    string
	quantisation float64
}

func conditionsOf(s certify.Summary) conditions {
	return conditions{s.Arithmetic, s.Precision, s.Quantisation}
}

func (c conditions) write(w io.Writer) error {
	var err error
	if c.quantisation > 0 {
		_, err = fmt.Fprintf(w, "every radius is reduced by up to %s, because the classifier first rounds its inputs to multiples of a small step (a lattice)\n",
			report.Round(c.quantisation, report.Up, 0, 4))
	}
	if c.precision != "" && c.precision != "f32" && err == nil {
		_, err = fmt.Fprintf(w, "the model is computed in %s: the certificates are for this format\n", c.precision)
	}
	if c.arithmetic != certify.Exact && err == nil {
		_, err = fmt.Fprintln(w, "arithmetic: idealised. The noise was added in floats, or the file does not record how: see docs/what-is-certified.md")
	}
	return err
}

// nameMethod returns a method's name for a table.
func nameMethod(name string, sound bool) string {
	if !sound {
		name += " (not sound)"
	}
	return name
}

// writeStatement prints how many certificates may be wrong. The text begins with the argument 'who'. This argument says
// to which methods the statement applies; it is empty for a single method.
func writeStatement(w io.Writer, who string, s certify.Summary) {
	certificates := report.Certificates(s.Examples, s.Sampled)
	if s.Failures == 0 {
		fmt.Fprintf(w, "\n%swith probability %g none of %s is wrong\n", who, 1-s.Delta, certificates)
		return
	}
	fmt.Fprintf(w, "\n%swith probability %g at most %d of %s are wrong;\n"+
		"the accuracies are then at least those above less %s points\n",
		who, 1-s.Delta, s.Failures, certificates, report.Round(float64(s.Failures)/float64(s.Examples), report.Up, 2, 1))
}
