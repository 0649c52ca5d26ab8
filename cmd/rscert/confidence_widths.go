package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/curves"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/runfolder"
)

// widthOptions are the flags of 'confidence --compare', which compares methods.
type widthOptions struct {
	methods []string
	names   []string
	plots   []string
	size    picture.Size
}

// widthFlags adds the flags of widthOptions to cmd.
func widthFlags(cmd *cobra.Command, o *widthOptions) {
	f := cmd.Flags()
	f.StringSliceVar(&o.methods, "compare", nil, "instead of the bounds, print the mean width of the intervals between the lower and the upper bound, for each of these `methods`; for example: standard+hoeffding,cdf+dkw,tangent")
	f.StringSliceVar(&o.plots, "plot", nil, "with --compare, draw the widths against the radius to this .svg, .png or .pdf `file`")
	f.TextVar(&o.size, "plot-size", picture.Size{}, "`size` of the figure in centimetres, such as 15x10")
	f.StringSliceVar(&o.names, "names", nil, "with --compare, `names` for the runs or scores files, in their order; default: the names of the folders or files")
	group(cmd, "Comparing methods")
}

// check refuses flags that do not fit together. The argument 'inputs' is the number of inputs.
func (o widthOptions) check(inputs int, out string) error {
	if len(o.methods) == 0 {
		switch {
		case len(o.plots) > 0:
			return hint.Add(badInputf("--plot draws the widths of several methods"), "add --compare standard,cdf,tangent")
		case len(o.names) > 0:
			return hint.Add(badInputf("--names is for a comparison of methods"), "add --compare standard,cdf,tangent")
		}
		return nil
	}
	switch {
	case out != "":
		return badInputf("--out %s: a comparison of methods writes no bounds", out)
	case len(o.names) > 0 && len(o.names) != inputs:
		return badInputf("--names: %d names for %d inputs", len(o.names), inputs)
	}
	return nil
}

// parseWidthMethods parses the list of --compare. The argument 'given' holds the flags --bound and --band. They apply
// to each method in the list that names no bound or band of its own.
func parseWidthMethods(names []string, given certify.ConfidenceParams) ([]certify.ConfidenceParams, error) {
	var all []certify.ConfidenceParams
	for _, name := range names {
		p := given
		method, bound, has := strings.Cut(name, "+")
		err := p.Method.UnmarshalText([]byte(method))
		switch {
		case err != nil || !has:
		case p.Method == certify.ConfidenceCDF:
			err = p.Band.UnmarshalText([]byte(bound))
		default:
			err = p.Bound.UnmarshalText([]byte(bound))
		}
		if err != nil {
			return nil, badInput(fmt.Errorf("--compare %s: %w", name, err))
		}
		if slices.ContainsFunc(all, func(q certify.ConfidenceParams) bool { return q.String() == p.String() }) {
			return nil, badInputf("--compare: %s is given twice", p)
		}
		all = append(all, p)
	}
	return all, nil
}

// widthComparison is the document that 'confidence --compare --json' prints.
type widthComparison struct {
	Widths []run.Widths `json:"widths"`
}

// compareWidths compares the widths of the methods for each input.
func compareWidths(ctx context.Context, s streams, paths []string, o confidenceOptions, g runfolder.Given, class *classMethod) error {
	formats, err := pictureFormats(o.widths.plots, paths...)
	if err != nil {
		return err
	}
	given := o.scores.Params.Confidence
	given.Bound = o.scores.Params.Bound
	methods, err := parseWidthMethods(o.widths.methods, given)
	if err != nil {
		return err
	}
	names := nameRuns(paths)
	copy(names, o.widths.names)
	var all [][]run.Widths
	for _, path := range paths {
		q, err := o.evidence(s, path, g, class)
		if err != nil {
			return err
		}
		widths, err := run.CompareWidths(ctx, q, methods, s.progress(o.quiet))
		if err != nil {
			return err
		}
		all = append(all, widths)
	}
	panels := widthPanels(names, all)
	draw := func(format picture.Format) ([]byte, error) { return curves.DrawWidths(format, panels, o.widths.size) }
	if err := writePictures(o.widths.plots, formats, draw); err != nil {
		return err
	}
	s.wrote(o.widths.plots...)
	if o.json {
		return report.WriteJSON(s.out, "confidence-widths", widthComparison{slices.Concat(all...)})
	}
	return printWidths(s, names, all)
}

// widthPanels returns the panels of the figure.
func widthPanels(names []string, all [][]run.Widths) (panels []curves.WidthPanel) {
	for k, widths := range all {
		panel := curves.WidthPanel{Name: names[k], Norm: widths[0].Norm.Title()}
		for _, w := range widths {
			line := curves.WidthLine{Method: w.Method}
			for _, at := range w.Radii {
				if at.Certified > 0 {
					line.Radii, line.Widths = append(line.Radii, at.Radius), append(line.Widths, at.Width)
				}
			}
			panel.Methods = append(panel.Methods, line)
		}
		panels = append(panels, panel)
	}
	return panels
}

// printWidths prints a row for each input and method, with a column for each radius. The last row of an input has the
// number of certified examples.
func printWidths(s streams, names []string, all [][]run.Widths) error {
	first := all[0][0]
	fmt.Fprintf(s.out, "mean width of the interval of the confidence under attack, by %s radius\n\n", first.Norm.Title())
	t := report.Table{Columns: []report.Column{report.TextColumn("run"), report.ExactColumn(first.Law.Law().Words().Symbol), report.TextColumn("method")}}
	for _, at := range first.Radii {
		t.Columns = append(t.Columns, report.RoundedColumn(fmt.Sprint(at.Radius), report.Nearest, 4))
	}
	for k, widths := range all {
		for _, w := range widths {
			row := []report.Cell{report.Text(names[k]), report.Number(w.Sigma), report.Text(w.Method)}
			for _, at := range w.Radii {
				width := report.Cell(nil)
				if at.Certified > 0 {
					width = report.Number(at.Width)
				}
				row = append(row, width)
			}
			t.AddRow(row...)
		}
		row := []report.Cell{report.Text(names[k]), report.Number(widths[0].Sigma), report.Text("certified examples")}
		for _, at := range widths[0].Radii {
			row = append(row, report.Count(at.Certified))
		}
		t.AddRow(row...)
	}
	if err := t.WriteText(s.out); err != nil {
		return err
	}
	_, err := fmt.Fprintf(s.out, "\nThe means are over the examples whose class is certified at the radius. Each method alone holds with probability 1 − alpha.\n"+
		"If you choose one of k methods by these widths, divide alpha by k, or bound the confidence again with fresh samples.\n")
	return err
}
