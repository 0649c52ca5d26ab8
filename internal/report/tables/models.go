package tables

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/selection"
	"github.com/rscert/rscert/internal/report/summary"
)

// models returns the tables that compare models: one table for each radius, a table of the models that the rule of Emde
// et al. 2025 chose, and a table of the rank correlations.
func (r Report) models() (sections []section) {
	for _, at := range r.Models.Radii {
		sections = append(sections, r.modelsAt(at))
	}
	if r.Models.Selection.Within != nil {
		sections = append(sections, r.choices())
	}
	sections = append(sections, r.rankCorrelations()...)
	last := &sections[len(sections)-1]
	last.notes = slices.Concat(last.notes, r.chosenExamples(), r.selectionNotes())
	return sections
}

// modelColumn is a column of the tables of models.
type modelColumn struct {
	report.Column
	cell func(row selection.Row) report.Cell
}

// modelColumns returns the columns of the tables of models. Columns that are empty at every radius are left out.
func (r Report) modelColumns() []modelColumn {
	c := *r.Models
	all := fmt.Sprintf("with probability %g", 1-c.Selection.Delta)
	calibration := func(value func(selection.Calibration) report.Cell) func(selection.Row) report.Cell {
		return func(row selection.Row) report.Cell {
			if row.Calibration == nil {
				return nil
			}
			return value(*row.Calibration)
		}
	}
	certified := func(value func(summary.CertifiedCalibration) float64) func(selection.Row) report.Cell {
		return calibration(func(c selection.Calibration) report.Cell {
			if c.Certified == nil {
				return nil
			}
			return report.Number(value(*c.Certified))
		})
	}
	mark := func(is func(selection.Row) string) func(selection.Row) report.Cell {
		return func(row selection.Row) report.Cell { return words(is(row)) }
	}
	columns := []modelColumn{
		{report.TextColumn("model"), func(row selection.Row) report.Cell { return report.Text(row.Model) }},
		{report.TextColumn("run"), func(row selection.Row) report.Cell {
			if !r.ambiguous() {
				return nil
			}
			return report.Text(row.Path)
		}},
		{report.TextColumn("family"), mark(func(row selection.Row) string { return row.Family })},
		{report.ExactColumn(summary.ScaleSymbol(r.Runs)), func(row selection.Row) report.Cell { return report.OptionalNumber(row.Sigma) }},
		{percent(summary.Accuracy(r.Runs)+" %", report.Down), func(row selection.Row) report.Cell { return report.Number(row.Accuracy.Accuracy.Value) }},
		{percent(all, report.Down), func(row selection.Row) report.Cell { return report.OptionalNumber(row.Accuracy.Certified) }},
		{report.RoundedColumn("average radius", report.Down, 4), func(row selection.Row) report.Cell { return report.RadiusNumber(row.Average.Value) }},
		{report.ExactColumn("n"), calibration(func(c selection.Calibration) report.Cell { return report.Count(c.N) })},
		{report.RoundedColumn("CBS", report.Up, 4), calibration(func(c selection.Calibration) report.Cell { return report.Number(c.CBS) })},
		{report.RoundedColumn("CBS, all", report.Up, 4), certified(func(c summary.CertifiedCalibration) float64 { return c.CBS })},
		{report.RoundedColumn("CCE", report.Up, 4), calibration(func(c selection.Calibration) report.Cell { return report.Number(c.CCE) })},
		{report.RoundedColumn("CCE, all", report.Up, 4), certified(func(c summary.CertifiedCalibration) float64 { return c.CCE })},
		{report.TextColumn("front"), mark(func(row selection.Row) string { return map[bool]string{true: "front"}[row.Front] })},
		{report.TextColumn("choice"), mark(choiceOf)},
	}
	return slices.DeleteFunc(columns, func(column modelColumn) bool {
		return !slices.ContainsFunc(c.Radii, func(at selection.AtRadius) bool {
			return slices.ContainsFunc(at.Rows, func(row selection.Row) bool { return column.cell(row) != nil })
		})
	})
}

// choiceOf returns the cell of a row in the column "choice". If the rule chose the row, the cell names the measures
// that decided the choice. For any other row, the cell is "candidate" if the row's accuracy is within the tolerance of
// the rule (row.Within), and empty otherwise.
func choiceOf(row selection.Row) string {
	var by []string
	for _, m := range row.ChosenBy {
		by = append(by, m.Title())
	}
	switch {
	case len(by) > 0:
		return "smallest " + strings.Join(by, ", ")
	case row.Within:
		return "candidate"
	}
	return ""
}

// ambiguous reports whether two runs have the same model and σ. The tables then also name the runs.
func (r Report) ambiguous() bool {
	seen := map[string]bool{}
	for _, at := range r.Models.Radii[:1] {
		for _, row := range at.Rows {
			key := fmt.Sprintf("%q", row.Model)
			if row.Sigma != nil {
				key += fmt.Sprint(*row.Sigma)
			}
			if seen[key] {
				return true
			}
			seen[key] = true
		}
	}
	return false
}

// modelsAt returns the table of the models at one radius.
func (r Report) modelsAt(at selection.AtRadius) section {
	s := section{caption: fmt.Sprintf("models at the %s radius %v (%s%s)", summary.Norms(r.Runs), at.Radius, units(r.Runs), examples(r.Runs))}
	columns := r.modelColumns()
	for _, c := range columns {
		s.table.Columns = append(s.table.Columns, c.Column)
	}
	for _, row := range at.Rows {
		var cells []report.Cell
		for _, c := range columns {
			cells = append(cells, c.cell(row))
		}
		s.table.AddRow(cells...)
	}
	return s
}

// choices returns the table of the models that the rule of Emde et al. 2025 chose, with one row for each radius, family
// and measure.
func (r Report) choices() section {
	within := *r.Models.Selection.Within
	s := section{caption: fmt.Sprintf("the best calibrated of the models within %s points of the largest certified accuracy (Emde et al. 2025)",
		report.Round(within, report.Nearest, 2, report.Shortest))}
	s.table.Columns = []report.Column{report.ExactColumn(summary.Norms(r.Runs) + " radius"), report.TextColumn("family"), report.TextColumn("smallest"),
		report.ExactColumn("candidates"), report.TextColumn("model"), report.ExactColumn(summary.ScaleSymbol(r.Runs)),
		percent(summary.Accuracy(r.Runs)+" %", report.Down), report.RoundedColumn("value", report.Up, 4),
		report.RoundedColumn(fmt.Sprintf("with probability %g", 1-r.Models.Selection.Delta), report.Up, 4)}
	families := false
	for _, at := range r.Models.Radii {
		for _, c := range at.Choices {
			families = families || c.Family != ""
			s.table.AddRow(report.Number(at.Radius), words(c.Family), report.Text(c.By.Title()), report.Count(c.Candidates), report.Text(c.Model),
				report.OptionalNumber(c.Sigma), report.Number(c.Accuracy), report.Number(c.Value), report.OptionalNumber(c.Certified))
		}
	}
	if !families {
		const family = 1
		s.table.Columns = slices.Delete(s.table.Columns, family, family+1)
		for k, row := range s.table.Rows {
			s.table.Rows[k] = slices.Delete(row, family, family+1)
		}
	}
	return s
}

// rankCorrelations returns the table of the rank correlations, or no table if there are too few models.
func (r Report) rankCorrelations() []section {
	s := section{caption: "rank correlations between the measures of the models"}
	s.table.Columns = []report.Column{report.ExactColumn(summary.Norms(r.Runs) + " radius"), report.TextColumn("between"), report.TextColumn("and"),
		report.ExactColumn("models"), {Name: "Spearman's ρ", Align: report.Right, Decimals: 3, Sign: true},
		{Name: "Kendall's τ-b", Align: report.Right, Decimals: 3, Sign: true}}
	for _, at := range r.Models.Radii {
		for _, c := range at.Correlations {
			s.table.AddRow(report.Number(at.Radius), report.Text(c.Of[0].Title()), report.Text(c.Of[1].Title()), report.Count(c.Models),
				report.OptionalNumber(c.Spearman), report.OptionalNumber(c.Kendall))
		}
	}
	if len(s.table.Rows) == 0 {
		return nil
	}
	return []section{s}
}

// selectionNotes returns notes that explain the numbers of a chosen model. The numbers need an explanation, because
// they also decided the choice.
func (r Report) selectionNotes() (notes []string) {
	c := r.Models.Selection
	notes = []string{"CBS and CCE are the worst values within the radius, if every bound holds. They are about the examples that a model certifies, " +
		"so models with different n are judged on different examples. Front: no other model is at least as good in certified accuracy and in CCE, and better in one of the two."}
	if c.Runs > 1 {
		notes = append(notes, fmt.Sprintf("A choice among %d runs by their results is a selection. So the statements with probability use delta = %g/%d for each run. "+
			"Each column then holds for all runs together with probability %g (CBS and CCE: each radius for itself), and therefore for the chosen run.",
			c.Runs, c.Delta, c.Runs, 1-c.Delta),
			fmt.Sprintf("A single certificate of the chosen run is wrong with probability at most %d·alpha, not alpha. "+
				"If you certify the chosen model again with fresh noise, the new run keeps alpha and delta.", c.Runs))
	}
	if c.BestScale {
		notes = append(notes, fmt.Sprintf("Each row is the run with the largest certified accuracy among the runs of its model: %s may change with the radius.",
			summary.ScaleSymbol(r.Runs)))
	}
	if !r.Models.SameExamples {
		notes = append(notes, "The runs certify different examples, so differences between models also come from the examples.")
	}
	return notes
}

// modelsHeader holds the columns of the CSV table of models, with one row for each radius and run. The columns
// '…_certified' hold bounds. With probability 1 − δ, the bounds of a column are true for all runs at once. For CBS and
// CCE, this holds at each single radius, not for all radii at once.
var modelsHeader = []string{"radius", "model", "family", "run", "sigma", "certified_accuracy", "count", "of", "certified_accuracy_certified",
	"average_radius", "average_radius_certified", "n", "cbs", "cbs_certified", "cce", "cce_certified", "pareto", "within", "chosen_by",
	"sound", "arithmetic", "norm"}

func (r Report) writeModelsCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write(modelsHeader) // out.Error returns the error of Write
	conditions := map[string][]string{}
	for _, s := range r.Runs {
		all := csvConditions(s.Conditions)
		conditions[s.Path] = []string{all[0], all[1], all[len(all)-1]}
	}
	for _, at := range r.Models.Radii {
		for _, row := range at.Rows {
			_ = out.Write(append(modelCells(at.Radius, row), conditions[row.Path]...))
		}
	}
	out.Flush()
	return out.Error()
}

// modelCells returns the cells of a row of the CSV table of models, without the conditions.
func modelCells(radius float64, row selection.Row) []string {
	var n, cbs, cce, allCBS, allCCE any
	if c := row.Calibration; c != nil {
		n, cbs, cce = c.N, c.CBS, c.CCE
		if c.Certified != nil {
			allCBS, allCCE = c.Certified.CBS, c.Certified.CCE
		}
	}
	var by []string
	for _, m := range row.ChosenBy {
		by = append(by, string(m))
	}
	a := row.Accuracy.Accuracy
	cells := []string{csvField(radius), csvText(row.Model), csvText(row.Family), csvText(row.Path)}
	for _, x := range []any{row.Sigma, a.Value, a.Count, a.Of, row.Accuracy.Certified, row.Average.Value, row.Average.Certified,
		n, cbs, allCBS, cce, allCCE, row.Front, row.Within, strings.Join(by, " ")} {
		cells = append(cells, csvField(x))
	}
	return cells
}
