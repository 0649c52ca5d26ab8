package main

import (
	"context"
	"fmt"

	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/run"
)

// runCheck checks the model and the data without sampling.
func runCheck(ctx context.Context, s streams, o certifyOptions) error {
	if err := checkOutput("check-image", o.checkImage, append(o.Models(), o.Denoiser, o.Data)...); err != nil {
		return err
	}
	c, err := run.CheckRun(ctx, o.Plan, o.checkImage, asFlag, s.console(o.quiet))
	if err != nil {
		return err
	}
	if o.json {
		return report.WriteJSON(s.out, "check", c)
	}
	return o.printCheck(s, c)
}

// printCheck prints the findings about the set-up.
func (o certifyOptions) printCheck(s streams, c run.Check) error {
	t := report.Table{Columns: []report.Column{report.TextColumn(""), report.TextColumn("")}, Flush: true}
	add := func(name, format string, args ...any) {
		t.AddRow(report.Text(name), report.Text(fmt.Sprintf(format, args...)))
	}
	add("model", "%s, %d classes", c.Model, c.Classes)
	if c.Denoiser != nil {
		add("", "%s", experiment.Classifier(o.ModelName(), c.Denoiser))
	}
	labels := "no labels"
	if c.DataClasses > 0 {
		labels = fmt.Sprintf("labels up to %d", c.DataClasses-1)
	}
	add("data", "%s, %s, %d examples in the run", c.Data, labels, c.Examples)
	add("values", "from %.6g to %.6g: %s", c.Low, c.High, c.Values)
	add("device", "%s", c.Device)
	percent := func(x float64) string { return report.Round(x, report.Down, 2, 1) + " %" }
	add("accuracy", "%s without noise, %s with one draw of noise (%d examples)", percent(c.Look.Clean), percent(c.Look.Noisy), c.Look.Examples)
	if c.Look.Differ != nil {
		add("", "%s in float32; %d predictions differ", percent(*c.Look.Float32), *c.Look.Differ)
	}
	add("speed", "about %.0f samples/s: %s for the whole run", c.Look.SamplesPerSecond, c.Duration())
	for _, p := range c.Precisions {
		add("precision", "a small network in %s", p.Text)
	}
	if c.Image != "" {
		add("image", "a noisy example is in %s", c.Image)
	}
	if err := t.WriteText(s.out); err != nil {
		return err
	}
	return printVerdict(s, c.Verdict)
}

// printVerdict prints the judgement of the set-up: a summary, then a line for each aspect.
func printVerdict(s streams, verdict []run.CheckVerdict) error {
	var outcomes []experiment.Outcome
	for _, v := range verdict {
		outcomes = append(outcomes, v.Outcome)
	}
	fmt.Fprintf(s.out, "\nverdict: %s\n", experiment.Worst(outcomes...).Sentence())
	t := report.Table{Columns: []report.Column{report.TextColumn(""), report.TextColumn(""), report.TextColumn("")}, Flush: true}
	for _, v := range verdict {
		t.AddRow(report.Text(string(v.Aspect)), report.Text(string(v.Outcome)), report.Text(quote.Line(v.Text)))
	}
	return t.WriteText(s.out)
}
