// Package tables prints summaries of runs, comparisons and requirements as text, Markdown, LaTeX, CSV and JSON. It
// rounds lower bounds down and upper bounds up, so that they stay true.
package tables

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/report/history"
	"github.com/rscert/rscert/internal/report/projection"
	"github.com/rscert/rscert/internal/report/selection"
	"github.com/rscert/rscert/internal/report/summary"

	"github.com/rscert/rscert/internal/choice"
)

// Report is the content to print. If the format is JSON, Write prints the Report itself as one JSON document.
type Report struct {
	Runs         []summary.Summary       `json:"runs"`
	Envelope     []summary.EnvelopePoint `json:"envelope,omitempty"` // set if there are several runs
	Comparisons  []gate.Comparison       `json:"comparisons,omitempty"`
	Differences  []gate.Comparison       `json:"differences,omitempty"` // comparison of each further run with the first one
	Projection   *projection.Projection  `json:"projection,omitempty"`
	Requirements []gate.Outcome          `json:"requirements,omitempty"`
	History      *history.Result         `json:"history,omitempty"`
	// Models is a comparison of the models that the runs certify. If it is set, its tables replace the tables of the
	// single runs.
	Models *selection.Comparison `json:"by_model,omitempty"`

	Classes bool `json:"-"` // whether to print the tables by class as well
}

// Format is an output format of a Report.
type Format string

// These are the formats, with the default first.
const (
	Text     Format = "text"
	Markdown Format = "markdown"
	LaTeX    Format = "latex"
	CSV      Format = "csv"
	JSON     Format = "json"
)

// Formats lists all formats.
var Formats = choice.Of("format", Text, Markdown, LaTeX, CSV, JSON)

func (f Format) String() string { return string(f) }

// Write prints the report.
func (r Report) Write(w io.Writer, f Format) error {
	switch f {
	case JSON:
		return report.WriteJSON(w, "report", r)
	case CSV:
		if r.Projection != nil {
			return writeProjectionCSV(w, *r.Projection)
		}
		if r.Models != nil {
			return r.writeModelsCSV(w)
		}
		return r.writeCSV(w)
	}
	out := bufio.NewWriter(w)
	for k, s := range r.sections() {
		if k > 0 {
			fmt.Fprintln(out)
		}
		if err := s.write(out, f); err != nil {
			return err
		}
	}
	return out.Flush()
}

// WriteMain prints one table in the format Markdown: the table of the certified accuracy.
func (r Report) WriteMain(w io.Writer) error {
	out := bufio.NewWriter(w)
	if err := r.accuracy().write(out, Markdown); err != nil {
		return err
	}
	return out.Flush()
}

// WriteOverview prints two tables in the format Text: the table of the certified accuracy, and the table of the
// requirements. It omits the second table if there are no requirements.
func (r Report) WriteOverview(w io.Writer) error {
	sections := []section{r.accuracy()}
	if len(r.Requirements) > 0 {
		sections = append(sections, requirements(r.Requirements))
	}
	out := bufio.NewWriter(w)
	for k, s := range sections {
		if k > 0 {
			fmt.Fprintln(out)
		}
		if err := s.write(out, Text); err != nil {
			return err
		}
	}
	return out.Flush()
}

// section is a table with a caption and notes.
type section struct {
	caption string
	table   report.Table
	notes   []string
}

func (s section) write(out *bufio.Writer, f Format) error {
	s.caption, s.notes = quote.Line(s.caption), slices.Clone(s.notes) // the caption and the notes contain names of runs
	for k, n := range s.notes {
		s.notes[k] = quote.Line(n)
	}
	switch f {
	case Markdown:
		fmt.Fprintf(out, "**%s**\n\n", report.EscapeMarkdown(s.caption))
		if err := s.table.WriteMarkdown(out); err != nil {
			return err
		}
		for _, n := range s.notes {
			fmt.Fprintf(out, "\n%s\n", report.EscapeMarkdown(n))
		}
		return nil
	case LaTeX:
		fmt.Fprintf(out, "%% %s\n", s.caption)
		if err := s.table.WriteLaTeX(out); err != nil {
			return err
		}
		for _, n := range s.notes {
			fmt.Fprintf(out, "%% %s\n", n)
		}
		return nil
	}
	fmt.Fprintf(out, "%s\n\n", s.caption)
	if err := s.table.WriteText(out); err != nil {
		return err
	}
	for k, n := range s.notes {
		if k == 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, n)
	}
	return nil
}

// sections returns the tables in print order.
func (r Report) sections() []section {
	if r.Projection != nil {
		table := project(*r.Projection)
		table.notes = append(table.notes, r.chosenExamples()...)
		return append([]section{table}, r.verdicts()...)
	}
	if r.Models != nil {
		return append(r.models(), r.verdicts()...)
	}
	return append(r.summaries(), r.verdicts()...)
}

// summaries returns the tables that have a row for each run, and then the tables that show a single run.
func (r Report) summaries() []section {
	sections := slices.Concat([]section{r.accuracy()}, r.norms(), r.pa())
	for _, s := range r.Runs {
		sections = append(sections, r.intervals(s))
		if len(s.Selective) > 0 {
			sections = append(sections, r.selective(s))
		}
		if r.Classes && len(s.Classes) > 0 {
			sections = append(sections, r.classes(s))
		}
		if s.ByGroup != nil {
			sections = append(sections, r.groups(s)...)
		}
		if len(s.Calibration) > 0 {
			sections = append(sections, r.calibration(s))
		}
		if s.Columns != nil {
			sections = append(sections, r.columns(s))
		}
	}
	return sections
}

// verdicts returns the tables of comparisons, conditions, requirements and the history.
func (r Report) verdicts() (sections []section) {
	for _, c := range r.Comparisons {
		caption, table, notes := Comparison(c)
		sections = append(sections, section{caption, table, notes})
	}
	if len(r.Differences) > 0 {
		sections = append(sections, differences(r.Differences))
	}
	if r.Projection == nil {
		sections = append(sections, r.conditions())
	}
	if len(r.Requirements) > 0 {
		sections = append(sections, requirements(r.Requirements))
	}
	if r.History != nil {
		sections = append(sections, trends(*r.History))
	}
	return sections
}

// runName returns " of " and the run's name. If there is only one run, it returns "".
func (r Report) runName(s summary.Summary) string {
	if len(r.Runs) == 1 {
		return ""
	}
	return " of " + s.Name
}

// rowName returns the name of a run for its row in a table of all runs. It includes the norm of the run's radii if the
// runs have different norms.
func (r Report) rowName(s summary.Summary) report.Cell {
	name := s.RunName(r.Runs)
	if !summary.OneNorm(r.Runs) {
		name += ", " + s.Conditions.NormTitle()
	}
	return report.Text(name)
}

// percent returns a column of shares.
func percent(name string, to report.Rounding) report.Column {
	return report.Column{Name: name, Align: report.Right, Round: to, Decimals: 1, Percent: true}
}

func shareValue(s *summary.Share) report.Cell {
	if s == nil {
		return nil
	}
	return report.Number(s.Value)
}

// accuracy returns the table of the certified accuracy, with one row per run. It has a column for each radius, and then
// columns for the average radius, the clean and the smoothed accuracy, and the abstentions.
func (r Report) accuracy() section {
	s := section{caption: fmt.Sprintf("%s in %%, by %s radius (%s%s)", summary.Accuracy(r.Runs), summary.Norms(r.Runs), units(r.Runs), examples(r.Runs))}
	s.table.Columns = []report.Column{{Name: "run", Align: report.Right}}
	for _, p := range r.Runs[0].Curve {
		s.table.Columns = append(s.table.Columns, percent(fmt.Sprint(p.Radius), report.Down))
	}
	s.table.Columns = append(s.table.Columns, report.RoundedColumn("average radius", report.Down, 4),
		percent("clean", report.Down), percent("smoothed", report.Down), percent("abstained", report.Nearest))
	for _, run := range r.Runs {
		row := []report.Cell{r.rowName(run)}
		for _, p := range run.Curve {
			row = append(row, report.Number(p.Accuracy.Value))
		}
		s.table.AddRow(append(row, report.RadiusNumber(run.AverageRadius.Value), shareValue(run.Clean), shareValue(run.Smoothed),
			report.Number(run.Abstained.Value))...)
	}
	s.notes = append(s.notes, r.chosenExamples()...)
	for _, run := range r.Runs {
		if run.Audit != nil && run.Audit.Examples > 0 {
			s.table.AddRow(underAttack(*run.Audit, r.runName(run))...)
			s.notes = append(s.notes, auditNote(*run.Audit, r.runName(run)))
		}
	}
	if len(r.Envelope) > 0 {
		row := []report.Cell{report.Text("upper envelope")}
		for _, p := range r.Envelope {
			row = append(row, report.Number(p.Accuracy.Value))
		}
		s.table.AddRow(row...)
		s.notes = append(s.notes, "The upper envelope is of no single classifier: at each radius it is the best run, chosen after the fact.")
	}
	return s
}

// chosenExamples returns a note for each run whose examples were selected by the results of another run. The note warns
// that a rate of these examples is not a rate of the dataset.
func (r Report) chosenExamples() (notes []string) {
	for _, run := range r.Runs {
		if run.Conditions.Only != "" {
			notes = append(notes, fmt.Sprintf("Examples%s: %s.", r.runName(run), run.Conditions.Only))
		}
	}
	return notes
}

// norms returns a table of the certified accuracy for each norm in Summary.Norms, with one row per run.
func (r Report) norms() (sections []section) {
	for _, norm := range summary.FurtherNorms(r.Runs) {
		runs := summary.AllIn(norm, r.Runs)
		radii := runs[0].Curve
		for _, run := range runs { // the columns are the radii of the run with the largest radius
			if c := run.Curve; c[len(c)-1].Radius > radii[len(radii)-1].Radius {
				radii = c
			}
		}
		s := section{caption: fmt.Sprintf("%s in %%, by the %s radius that follows from the certified radius (%s)", summary.Accuracy(runs), norm.Title(), examples(runs))}
		s.table.Columns = []report.Column{{Name: "run", Align: report.Right}}
		for _, p := range radii {
			s.table.Columns = append(s.table.Columns, percent(fmt.Sprint(p.Radius), report.Down))
		}
		s.table.Columns = append(s.table.Columns, report.RoundedColumn("average radius", report.Down, 4))
		for _, run := range runs {
			row := []report.Cell{report.Text(run.RunName(r.Runs))}
			for _, p := range radii {
				row = append(row, report.Number(run.At(p.Radius).Accuracy.Value))
			}
			s.table.AddRow(append(row, report.RadiusNumber(run.AverageRadius.Value))...)
		}
		sections = append(sections, s)
	}
	return sections
}

// underAttack returns the row of an audit: the share of the audited examples that the attack did not break.
func underAttack(a summary.Audit, of string) []report.Cell {
	row := []report.Cell{report.Text("under attack" + of)}
	for _, p := range a.Curve {
		row = append(row, report.Number(p.Unbroken.Value))
	}
	return row
}

// auditNote explains the row of an audit.
func auditNote(a summary.Audit, of string) string {
	found := "no contradiction to the certificates"
	if a.Contradictions > 0 {
		found = fmt.Sprintf("certificates contradicted: %d", a.Contradictions)
	}
	if a.MoreThanChance {
		found += ", more than chance explains"
	}
	return fmt.Sprintf("Under attack%s: the share of %d audited examples without a verified change of the answer within the radius, an upper bound; %s.",
		of, a.Examples, found)
}

// examples returns a text with the number of examples.
func examples(runs []summary.Summary) string {
	first := runs[0].Examples
	for _, s := range runs {
		if s.Examples != first {
			return "numbers of examples differ"
		}
	}
	if first == 1 {
		return "1 example"
	}
	return fmt.Sprintf("%d examples", first)
}

// intervals returns a table of the run's accuracies with their confidence intervals, one row per radius. If the summary
// has a Dataset, the table also has a lower bound on the certified accuracy. This bound holds with probability 1 − δ.
func (r Report) intervals(s summary.Summary) section {
	out := section{caption: fmt.Sprintf("%s%s in %%, with what it says beyond these examples and these samples", s.Conditions.Accuracy(), r.runName(s))}
	out.table.Columns = []report.Column{report.ExactColumn(s.Conditions.RadiusTitle()), report.ExactColumn("examples"), percent("accuracy", report.Down),
		percent(fmt.Sprintf("%g %% interval", 100*s.Level), report.Nearest)}
	if s.Dataset != nil {
		name := fmt.Sprintf("with probability %g", 1-s.Dataset.Delta)
		if s.Conditions.Deterministic {
			name = "certain"
		}
		out.table.Columns = append(out.table.Columns, percent(name, report.Down))
	}
	for _, p := range s.Curve {
		row := []report.Cell{report.Number(p.Radius), report.Count(p.Accuracy.Count), report.Number(p.Accuracy.Value),
			report.Interval{Low: p.Accuracy.Low, High: p.Accuracy.High}}
		if p.Certified != nil {
			row = append(row, report.Number(*p.Certified))
		}
		out.table.AddRow(row...)
	}
	population := fmt.Sprintf("over the population that the %d examples are drawn from", s.Examples)
	if s.Conditions.Only != "" {
		population = "over those examples of the population that such a run would select"
	}
	out.notes = append(out.notes, fmt.Sprintf("Interval: the accuracy %s, each radius for itself (Clopper–Pearson).", population))
	switch d := s.Dataset; {
	case d != nil && s.Conditions.Deterministic:
		out.notes = append(out.notes, fmt.Sprintf("The certificates are deterministic: none of %s is wrong.", report.Certificates(s.Examples, d.Examples)))
	case d != nil:
		out.notes = append(out.notes, fmt.Sprintf(
			"With probability %g over the noise, at most %d of %s are wrong (alpha = %g each), at all radii at once: the last column leaves so many out.",
			1-d.Delta, d.Failures, report.Certificates(s.Examples, d.Examples), d.Alpha))
	}
	if a := s.AverageRadius; a.Low != nil {
		out.notes = append(out.notes, fmt.Sprintf("Average certified %s %s, %g %% interval [%s, %s].", s.Conditions.RadiusTitle(), report.Round(a.Value, report.Down, 0, 4),
			100*s.Level, report.Round(*a.Low, report.Down, 0, 4), report.Round(*a.High, report.Up, 0, 4)))
	}
	out.notes = append(out.notes, says(s.Cautions)...)
	return out
}

// The function 'says' returns the texts of cautions.
func says(cautions []summary.Caution) (notes []string) {
	for _, c := range cautions {
		notes = append(notes, c.Says)
	}
	return notes
}

// classes returns the table of a run by true class, with one row per class.
func (r Report) classes(s summary.Summary) section {
	out := section{caption: fmt.Sprintf("%s%s in %%, by true class and %s radius", s.Conditions.Accuracy(), r.runName(s), s.Conditions.NormTitle())}
	out.table.Columns = []report.Column{report.ExactColumn("class"), report.ExactColumn("examples")}
	for _, p := range s.Curve {
		out.table.Columns = append(out.table.Columns, percent(fmt.Sprint(p.Radius), report.Down))
	}
	out.table.Columns = append(out.table.Columns, report.RoundedColumn("average radius", report.Down, 4),
		percent("clean", report.Down), percent("smoothed", report.Down), percent("abstained", report.Nearest))
	for _, c := range s.Classes {
		row := []report.Cell{report.Count(c.Label), report.Count(c.Examples)}
		for _, a := range c.Certified {
			row = append(row, report.Number(a.Value))
		}
		out.table.AddRow(append(row, report.RadiusNumber(c.AverageRadius), shareValue(c.Clean), shareValue(c.Smoothed), report.Number(c.Abstained.Value))...)
	}
	return out
}

// calibration returns the table of the calibration of a run, with one row per radius.
func (r Report) calibration(s summary.Summary) section {
	out := section{caption: fmt.Sprintf("calibration under attack%s, %d equal-width bins", r.runName(s), s.Calibration[0].Bins)}
	first := s.Calibration[0]
	out.table.Columns = []report.Column{report.ExactColumn(s.Conditions.RadiusTitle()), report.ExactColumn("n"), report.RoundedColumn("ECE, no attack", report.Nearest, 4),
		report.RoundedColumn("CBS", report.Up, 4), report.RoundedColumn("CCE", report.Up, 4)}
	if first.Certified != nil {
		out.table.Columns = append(out.table.Columns, report.RoundedColumn("CBS, all", report.Up, 4), report.RoundedColumn("CCE, all", report.Up, 4))
	}
	for _, t := range first.Thresholded {
		out.table.Columns = append(out.table.Columns, report.RoundedColumn(fmt.Sprintf("error at τ = %g", t.Tau), report.Up, 4))
	}
	for _, c := range s.Calibration {
		row := []report.Cell{report.OptionalNumber(c.Radius), report.Count(c.N), report.OptionalNumber(c.ECE), report.Number(c.CBS), report.Number(c.CCE)}
		if c.Certified != nil {
			row = append(row, report.Number(c.Certified.CBS), report.Number(c.Certified.CCE))
		}
		for _, t := range c.Thresholded {
			row = append(row, errorCell(t))
		}
		out.table.AddRow(row...)
	}
	out.notes = []string{"CBS, CCE and the error among the answers with confidence ≥ τ are the worst within the radius, if every bound holds."}
	if d := first.Certified; d != nil {
		out.notes = append(out.notes, fmt.Sprintf("\"All\": with probability %g over the noise of %d examples (alpha = %g each), each radius for itself.",
			1-d.Delta, d.Examples, d.Alpha))
	}
	return out
}

// errorCell returns a cell with t.Error, the largest possible rate of wrong answers if every bound holds. The cell is
// nil if there are no answers.
func errorCell(t summary.Thresholded) report.Cell {
	if t.Answered() == 0 {
		return nil
	}
	return report.Number(t.Error)
}

// Comparison returns a table that compares a run with its baseline, with one row per radius.
func Comparison(c gate.Comparison) (caption string, table report.Table, notes []string) {
	caption = fmt.Sprintf("%s beside the baseline %s: certified accuracy in %%, paired by example", c.Run, c.Baseline)
	table.Columns = []report.Column{report.ExactColumn(c.RadiusTitle), percent("baseline", report.Nearest), percent("this", report.Nearest),
		{Name: "change", Align: report.Right, Decimals: 1, Percent: true, Sign: true}, percent(fmt.Sprintf("%g %% interval", 100*c.Level), report.Nearest),
		report.ExactColumn("lost"), report.ExactColumn("gained"), report.RoundedColumn("p", report.Up, 4), report.TextColumn("")}
	for _, a := range c.Accuracy {
		table.AddRow(report.Number(a.Radius), report.Number(a.Baseline), report.Number(a.This), report.Number(a.Change),
			report.Interval{Low: a.Low, High: a.High}, report.Count(a.Lost), report.Count(a.Gained), report.Number(a.P), mark(a))
	}
	notes = []string{"Lost and gained: examples that only the baseline, or only this run, certifies right. p: McNemar's exact test, two-sided.",
		noDifference(c.Level)}
	if c.RadiiFromResults {
		notes = append(notes, fromResults)
	}
	r := c.Radius
	line := fmt.Sprintf("Average certified %s %s after %s, a change of %s", c.RadiusTitle, finite("%.4f", r.This), finite("%.4f", r.Baseline),
		finite("%+.4f", r.Change))
	if r.Low != nil {
		line += fmt.Sprintf(", %g %% interval [%s, %s], p = %s", 100*c.Level, report.Round(*r.Low, report.Down, 0, 4),
			report.Round(*r.High, report.Up, 0, 4), report.Round(*r.P, report.Up, 0, 4))
	}
	notes = append(notes, line+".")
	if !c.ByHash {
		notes = append(notes, "That both have the same data rests on their indices and labels: the files have no SHA-256 of the data.")
	}
	return caption, table, append(notes, says(c.Cautions)...)
}

// finite formats an average radius, or the difference of two average radii. It prints ∞ or −∞ for a number that stands
// for infinity.
func finite(format string, x float64) string {
	switch inf := math.Inf(1); {
	case float64(report.RadiusNumber(x)) == inf:
		return "∞"
	case float64(report.RadiusNumber(-x)) == inf:
		return "−∞"
	}
	return fmt.Sprintf(format, x)
}

// conditions returns the table of the conditions, with one row per run.
func (r Report) conditions() section {
	out := section{caption: "conditions"}
	out.table.Columns = []report.Column{report.TextColumn("run"), report.TextColumn("method"), report.TextColumn("sound"), report.TextColumn("arithmetic"),
		report.ExactColumn(summary.ScaleSymbol(r.Runs)), report.ExactColumn("α"), report.ExactColumn("n"), report.TextColumn("precision"), report.TextColumn("noise"),
		report.TextColumn("seed"), report.ExactColumn("examples")}
	for _, s := range r.Runs {
		c := s.Conditions
		sound, arithmetic := report.Cell(nil), report.Cell(nil)
		if c.Sound != nil {
			sound = report.Text(map[bool]string{true: "yes", false: "no"}[*c.Sound])
			arithmetic = report.Text(c.Arithmetic.String())
		}
		n := report.Cell(nil)
		if c.N > 0 {
			n = report.Count(c.N)
		}
		seed := report.Cell(nil)
		if c.Seed != nil {
			seed = report.Text(fmt.Sprint(*c.Seed))
		}
		sigma := report.OptionalNumber(c.Sigma)
		if c.Scaled {
			sigma = report.Text("per column")
		}
		noise := c.Noise
		if c.Law.Law() != law.Gaussian && noise != "" {
			noise = c.Law.String() + ", " + noise
		}
		out.table.AddRow(report.Text(s.Name), words(c.Method), sound, arithmetic, sigma, report.OptionalNumber(c.Alpha),
			n, words(c.Precision), words(noise), seed, report.Count(s.Examples))
		out.notes = append(out.notes, caveats(s)...)
	}
	return out
}

func words(s string) report.Cell {
	if s == "" {
		return nil
	}
	return report.Text(s)
}

// caveats lists the limits of a run's numbers.
func caveats(s summary.Summary) (notes []string) {
	c := s.Conditions
	add := func(format string, args ...any) { notes = append(notes, s.Name+": "+fmt.Sprintf(format, args...)) }
	if s.Selected > s.Examples {
		add("the run is not finished: %d of %d examples.", s.Examples, s.Selected)
	}
	switch {
	case s.Kind == summary.LogKind:
		add("a log from elsewhere: it does not state σ, α, soundness or the rounding of its radii.")
	case c.Sound != nil && !*c.Sound:
		add("the method is not sound: nothing is certified.")
	case c.Arithmetic != certify.Exact:
		add("the arithmetic is idealised: the certificates hold for real-valued noise, not for the noise that was run.")
	}
	if c.Quantisation > 0 {
		add("every radius is reduced by up to %s, because the classifier first rounds its inputs to multiples of a small step (a lattice).", report.Round(c.Quantisation, report.Up, 0, 4))
	}
	if c.Denoiser != nil {
		add("the model stands behind the denoiser %s: what is certified is the pair.", quote.Line(c.Denoiser.String()))
	}
	if len(c.Members) > 0 {
		add("the model is an ensemble: it averages the %s of %d models.", c.Average, len(c.Members))
	}
	if c.Composition != "" {
		add("the certificates combine those of several runs (%s); the radii hold for the classifier that these runs form together.", quote.Line(c.Composition))
	}
	if c.Precision != "" && c.Precision != onnx.F32.String() {
		add("the model is computed in %s: what is certified is the model as computed so.", quote.Line(c.Precision))
	}
	if !c.Usual() {
		add("a certificate claims that %s.", c.Says())
	}
	if c.Shard != "" {
		add("it is of shards alone: %s.", c.Shard)
	}
	if c.Class == string(certify.Label) {
		add("the label's class is certified: a wrong prediction is an abstention.")
	}
	return notes
}

// requirements returns the table of the requirements, with one row per outcome.
func requirements(outcomes []gate.Outcome) section {
	out := section{caption: "requirements"}
	out.table.Columns = []report.Column{report.TextColumn(""), report.TextColumn("run"), report.TextColumn("requirement"), report.TextColumn("value")}
	for _, o := range outcomes {
		out.table.AddRow(report.Text(map[bool]string{true: "met", false: "NOT MET"}[o.Met]), report.Text(o.Run), report.Text(o.Requirement), report.Text(o.Says))
	}
	return out
}
