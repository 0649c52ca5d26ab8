package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/table"
)

// writeCurve writes the curve as CSV.
func writeCurve(path string, curve []calib.CurvePoint) error {
	var b bytes.Buffer
	w := table.NewWriter(&b)
	w.Header("score", "eta", "lower", "upper", "n", "from", "to")
	for _, p := range curve {
		w.Float(p.Score)
		w.Float(p.Eta)
		w.Float(p.Lower)
		w.Float(p.Upper)
		w.Int(p.N)
		w.Float(p.From)
		w.Float(p.To)
		w.EndRow()
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return durable.WriteFile(path, b.Bytes())
}

// describeAssumptions states the assumptions of the bounds.
func (r *ceReport) describeAssumptions(methods []calib.BoundMethod) string {
	var all []string
	if assume(methods, calib.BoundedVariation) {
		if *r.Variation == 1 {
			all = append(all, "if P(y=1|s) is monotone in s")
		} else {
			all = append(all, fmt.Sprintf("if P(y=1|s) has total variation ≤ %g", *r.Variation))
		}
	}
	if assume(methods, calib.PerturbedScores) {
		switch {
		case r.Perturbed:
			all = append(all, fmt.Sprintf("for the scores perturbed here with bandwidth %g", r.Bandwidth))
		case r.Recorded:
			all = append(all, fmt.Sprintf("for scores perturbed with bandwidth %g, as the file records", r.Bandwidth))
		default:
			all = append(all, fmt.Sprintf("if the scores were perturbed with bandwidth %g, which the file does not record",
				r.Bandwidth))
		}
	}
	return strings.Join(all, "; ")
}

func (r *ceReport) print(out io.Writer, methods []calib.BoundMethod) error {
	fmt.Fprintf(out, "calibration error E|s − P(y=1|s)|, %d scores, %s\n\n", r.N, r.Assumption)
	t := report.Table{Columns: []report.Column{
		report.TextColumn(""), {Round: report.Up, Decimals: 4}, report.TextColumn(""), report.TextColumn(""),
	}}
	for _, m := range methods {
		b := r.Bounds[m.Name]
		t.AddRow(report.Text("at most"), report.Number(b.Value), report.Text(nameMethod(m.Name, b.Sound)),
			report.Text("= "+describeTerms(b.Terms)))
	}
	lower := report.Round(r.Lower["betting"].Value, report.Down, 0, 4)
	t.AddRow(report.Text("at least"), report.Text(lower), report.Text("betting"), report.Text("whatever P(y=1|s) is"))
	estimate := report.Round(r.Estimate, report.Nearest, 0, 4)
	t.AddRow(report.Text("estimate"), report.Text(estimate), report.Text("bins"), report.Text("no guarantee"))
	if err := t.WriteText(out); err != nil {
		return err
	}
	if r.Joint {
		fmt.Fprintf(out, "\nAll bounds hold together with probability ≥ 1 − %g.\n", r.Delta)
	} else {
		fmt.Fprintf(out, "\nEach bound alone holds with probability ≥ 1 − %g; with --joint all hold together.\n", r.Delta)
	}
	for _, m := range methods {
		if b := r.Bounds[m.Name]; b.OfSample > 0 {
			_, err := fmt.Fprintf(out, "The mean of |s − P(y=1|s)| over these %d scores is at most %s (%s, alone).\n",
				r.N, report.Round(b.OfSample, report.Up, 0, 4), m.Name)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// describeTerms writes the terms of a bound as a sum, without the rounding term.
func describeTerms(terms calib.Terms) string {
	var sum []string
	for _, term := range terms {
		if term.Name != "rounding" {
			sum = append(sum, strings.ReplaceAll(term.Name, "_", " ")+" "+report.Round(term.Value, report.Up, 0, 4))
		}
	}
	return strings.Join(sum, " + ")
}
