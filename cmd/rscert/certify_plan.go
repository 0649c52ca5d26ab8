package main

import (
	"context"
	"fmt"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/run"
)

// runPlan estimates how long certify would take.
func runPlan(ctx context.Context, s streams, o certifyOptions) error {
	if err := o.checkDeadline(); err != nil {
		return err
	}
	f, err := run.PlanRun(ctx, o.Plan, o.deadline, s.console(o.quiet))
	if err != nil {
		return err
	}
	if o.json {
		return report.WriteJSON(s.out, "plan", f)
	}
	t := report.Table{Columns: []report.Column{report.TextColumn(""), report.TextColumn("")}, Flush: true}
	add := func(name, format string, args ...any) {
		t.AddRow(report.Text(name), report.Text(fmt.Sprintf(format, args...)))
	}
	atMost := ""
	if o.Stop.Given() {
		atMost = "at most " // with a stopping rule, the sampling of easy examples ends early
	}
	add("device", "%s, %d threads", f.Device, f.Threads)
	add("samples", "%s%d: %d examples × %d", atMost, f.Samples, f.Examples, f.Samples/int64(f.Examples))
	add("speed", "%.0f samples/s, measured on %d samples; %.1f s to start", f.SamplesPerSecond, f.Measured, f.StartSeconds)
	add("time", "%s%s; %s of core time", atMost, run.Duration(3600*f.Hours), run.Duration(3600*f.CoreHours))
	if f.Shards > 0 {
		add("shards", "%d for %v, on machines like this one: %s%s each", f.Shards, o.deadline, atMost, run.Duration(f.ShardSeconds))
	}
	return t.WriteText(s.out)
}

// checkDeadline checks the flag --deadline.
func (o certifyOptions) checkDeadline() error {
	switch {
	case !o.plan:
		return hint.Add(badInputf("--deadline needs --plan"), "add --plan; a run has no deadline")
	case o.deadline < 0:
		return badInputf("--deadline %v: want a time above 0", o.deadline)
	}
	return nil
}
