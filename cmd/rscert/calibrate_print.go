package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/table"
)

// write writes the files of --save, --onnx and --out.
func (c *calibrationTask) write(o calibrateOptions) error {
	if o.save != "" {
		content, err := json.MarshalIndent(c.found, "", "  ")
		if err == nil {
			err = durable.WriteFile(o.save, append(content, '\n'))
		}
		if err != nil {
			return err
		}
	}
	if o.onnx != "" {
		content, err := c.found.ONNX()
		if err == nil {
			err = durable.WriteFile(o.onnx, content)
		}
		if err != nil {
			return err
		}
	}
	if o.out == "" {
		return nil
	}
	var b bytes.Buffer
	if err := c.writeProbabilities(&b, c.found.Apply(c.all.Values)); err != nil {
		return err
	}
	return durable.WriteFile(o.out, b.Bytes())
}

// writeProbabilities writes the calibrated probabilities p of all rows as CSV, for --out. For a Venn–Abers map it also
// writes p₀ and p₁. It copies the other columns of the input, but not columns about the uncalibrated outputs.
func (c *calibrationTask) writeProbabilities(out io.Writer, p []float64) error {
	classes := c.all.Classes
	low, high := c.found.Intervals(c.all.Values)
	pairs := len(low) / max(1, c.all.N())
	var names []string
	for k := range classes {
		names = append(names, "p"+strconv.Itoa(k))
	}
	if c.all.Label != nil {
		names = append(names, "label")
	}
	names = append(names, "fitted")
	for k := range pairs {
		suffix := ""
		if pairs > 1 {
			suffix = "_" + strconv.Itoa(k)
		}
		names = append(names, "va_p0"+suffix, "va_p1"+suffix)
	}
	written := names
	if c.cluster != nil {
		names = append(names, c.cluster.Column)
		written = append(slices.Clone(names), strings.ToLower(c.cluster.Column))
	}
	copied := copyColumns(c.table, written)
	w := table.NewWriter(out)
	w.Header(append(names, copied.names...)...)
	for i, fitted := range c.fitted {
		for _, x := range p[i*classes : (i+1)*classes] {
			w.Float(x)
		}
		if c.all.Label != nil {
			w.Int(c.all.Label[i])
		}
		w.Bool(fitted || c.refit)
		for k := i * pairs; k < (i+1)*pairs; k++ {
			w.Float(low[k])
			w.Float(high[k])
		}
		if c.cluster != nil {
			w.Text(c.cluster.names[i])
		}
		copied.write(w, i)
		w.EndRow()
	}
	return w.Flush()
}

func (r calibrateReport) print(w io.Writer) error {
	limit := ""
	if r.Map.AtLimit {
		limit = " (T at its limit: " + noMaximum(1/r.Map.Weight[0]) + ")"
	}
	if r.Fitted == 0 {
		fmt.Fprintf(w, "%s map of %s, applied to %d rows", r.Method, r.Input, r.Tested)
	} else {
		fmt.Fprintf(w, "%s map of %s%s, fitted on %d rows; metrics on %d others",
			r.Method, r.Input, limit, r.Fitted, r.Tested)
	}
	if r.Before == nil {
		_, err := fmt.Fprintln(w, "; no labels, so no metrics")
		return err
	}
	fmt.Fprintf(w, "; %s calibration; %d bins %s, intervals at level %g\n\n", r.After.Quantity, r.Bins, r.Edge.Brackets(), r.Level)
	if err := writeBeforeAfter(w, *r.Before, *r.After); err != nil {
		return err
	}
	r.Cluster.print(w)
	return nil
}

// noMaximum explains why the likelihood has no maximum.
func noMaximum(temperature float64) string {
	if temperature < 1 {
		return "every label has the largest logit, so the likelihood has no maximum"
	}
	return "uniform probabilities fit better than the logits, so the likelihood has no maximum"
}

// writeBeforeAfter prints the metrics of the same examples before and after calibration.
func writeBeforeAfter(w io.Writer, before, after calibration) error {
	t := report.Table{Columns: []report.Column{
		report.TextColumn(""),
		{Name: "before", Decimals: 4}, {Decimals: 4}, {Name: "after", Decimals: 4}, {Decimals: 4},
	}}
	then := map[string]*estimate{}
	for _, m := range after.list() {
		then[m.name] = m.estimate
	}
	for _, m := range before.list() {
		var value, interval report.Cell
		// after calibration, a metric can be undefined: some metrics need both right and wrong answers
		if e := then[m.name]; e != nil {
			value, interval = e.Value, e.interval()
		}
		t.AddRow(report.Text(m.name), m.Value, m.interval(), value, interval)
	}
	return t.WriteText(w)
}
