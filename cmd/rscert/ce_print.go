package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
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
	if assume(methods, calib.BoundedVariation) || assume(methods, calib.BoundedWeightedVariation) {
		what := "if P(y=1|s) is monotone in s"
		if *r.Variation != 1 {
			what = fmt.Sprintf("if P(y=1|s) has total variation ≤ %g", *r.Variation)
		}
		if r.Weights != nil {
			what += " in the weighted population"
		}
		all = append(all, what)
	}
	if r.Weights != nil && r.Weights.Sensitivity > 1 {
		all = append(all, fmt.Sprintf("if each true weight is between weight/%[1]g and weight·%[1]g", r.Weights.Sensitivity))
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
	r.printColumns(out)
	r.Weights.print(out, r.N, r.Seed)
	if r.Cluster != nil {
		r.Cluster.print(out, "The bounds")
		fmt.Fprintln(out)
	}
	kept := r.N
	if r.Weights != nil {
		kept = r.Weights.Kept
	}
	t := report.Table{Columns: []report.Column{
		report.TextColumn(""), {Round: report.Up, Decimals: 4}, report.TextColumn(""), report.TextColumn(""),
	}}
	for _, m := range methods {
		b := r.Bounds[m.Name]
		t.AddRow(report.Text("at most"), report.Number(b.Value), report.Text(nameMethod(m.Name, b.Sound)),
			report.Text("= "+describeTerms(b.Terms)))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Lower)) {
		b := r.Lower[name]
		t.AddRow(report.Text("at least"), report.Text(report.Round(b.Value, report.Down, 0, 4)),
			report.Text(nameMethod(name, b.Sound)), report.Text("whatever P(y=1|s) is"))
	}
	estimate := report.Round(r.Estimate, report.Nearest, 0, 4)
	t.AddRow(report.Text("estimate"), report.Text(estimate), report.Text("bins"), report.Text("no guarantee"))
	if err := t.WriteText(out); err != nil {
		return err
	}
	fmt.Fprintln(out)
	kind := ""
	switch sound, unsound := r.countSound(); {
	case sound == 0:
		fmt.Fprintln(out, "None of these bounds is sound: nothing is promised about their probability.")
	case unsound > 0:
		kind = "sound "
		fallthrough
	default:
		if r.Joint {
			fmt.Fprintf(out, "All %sbounds hold together with probability ≥ 1 − %g.\n", kind, r.Delta)
		} else {
			fmt.Fprintf(out, "Each %sbound alone holds with probability ≥ 1 − %g; with --joint all hold together.\n", kind, r.Delta)
		}
	}
	for _, outcome := range r.Requirements {
		if outcome.Met {
			fmt.Fprintln(out, outcome.Line())
		}
	}
	for _, m := range methods {
		if b := r.Bounds[m.Name]; b.OfSample > 0 {
			_, err := fmt.Fprintf(out, "The mean of |s − P(y=1|s)| over these %d scores is at most %s (%s, alone).\n",
				kept, report.Round(b.OfSample, report.Up, 0, 4), m.Name)
			if err != nil {
				return err
			}
		}
	}
	r.printVariation(out)
	r.printNorms(out)
	return errors.Join(r.Groups.print(out, r.Delta, r.Joint), r.Classes.print(out, r.Delta, r.Joint))
}

// printColumns prints which columns hold the scores that 'rscert ce' uses, so that the reader can compare the result
// with the result of 'rscert metrics'. It prints nothing if 'rscert ce' uses all columns of scores and labels. There is
// one exception: it prints the columns if the score is the probability of class 1 and no column 'score' holds it.
func (r *ceReport) printColumns(out io.Writer) {
	probabilities := r.Quantity == calib.ClassOneQuantity && !slices.Contains(r.Columns, "score")
	if len(r.Unused) == 0 && !probabilities {
		return
	}
	what := "the confidence in the answer"
	if r.Quantity == calib.ClassOneQuantity {
		what = "the probability of class 1"
	}
	fmt.Fprintf(out, "The score is %s (columns %s).\n", what, strings.Join(r.Columns, ", "))
	if len(r.Unused) > 0 {
		fmt.Fprintf(out, "The file also has the columns %s, which 'rscert ce' does not use.\n", strings.Join(r.Unused, ", "))
	}
	if probabilities {
		fmt.Fprintln(out, "'rscert metrics' is about the most probable class here, and with --quantity class-1 about class 1.")
	}
	fmt.Fprintln(out)
}

// countSound counts the sound bounds and the unsound bounds for all rows.
func (r *ceReport) countSound() (sound, unsound int) {
	count := func(is bool) {
		if is {
			sound++
		} else {
			unsound++
		}
	}
	for _, b := range r.Bounds {
		count(b.Sound)
	}
	for _, b := range r.Lower {
		count(b.Sound)
	}
	return sound, unsound
}

// describeTerms returns the terms of a bound as a sum. It leaves out the rounding term.
func describeTerms(terms calib.Terms) string {
	var sum []string
	for _, term := range terms {
		if term.Name != "rounding" {
			sum = append(sum, strings.ReplaceAll(term.Name, "_", " ")+" "+report.Round(term.Value, report.Up, 0, 4))
		}
	}
	return strings.Join(sum, " + ")
}
