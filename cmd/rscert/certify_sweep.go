package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/cluster"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/report/summary"
	"github.com/rscert/rscert/internal/report/tables"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/sweep"
	"github.com/rscert/rscert/internal/warning"
)

// sweepOptions describe a sweep of certify.
type sweepOptions struct {
	certifyOptions
	grid   sweep.Grid
	points []run.SweepPoint // the points that this process runs
}

// sweepReport is what certify --json prints for a sweep.
type sweepReport struct {
	Out    string             `json:"out"`
	Seed   uint64             `json:"seed"` // seed of the noise of all points
	Axes   sweep.Grid         `json:"axes"`
	Points []run.SweptOutcome `json:"points"`
	// Requirements holds the outcomes of the requirements on every point, in the order of the points.
	Requirements []gate.Outcome `json:"requirements,omitempty"`
}

// chooseNumbers returns the numbers of the points that this process runs. The argument 'point' is the value of --point.
func chooseNumbers(point string, shard spec.Shard, points []sweep.Point) ([]int, error) {
	if point == "" {
		all := make([]int, len(points))
		for k := range all {
			all[k] = k
		}
		return all, nil
	}
	if point == "auto" {
		k, err := cluster.TaskPoint(os.LookupEnv, len(points), shard)
		return []int{k}, badInput(err)
	}
	if k, found := sweep.Find(points, point); found {
		return []int{k}, nil
	}
	if k, err := strconv.Atoi(point); err == nil && k >= 0 && k < len(points) {
		return []int{k}, nil
	}
	return nil, hint.Add(badInputf("--point %s: the sweep has no such point", point), "the points are %s to %s, or 0 to %d",
		points[0].Name, points[len(points)-1].Name, len(points)-1)
}

// runSweep runs, plans or checks a sweep.
func runSweep(ctx context.Context, s streams, o sweepOptions) error {
	if o.check || o.plan || o.deadline != 0 {
		return o.look(ctx, s)
	}
	if err := o.refuseGate(); err != nil {
		return err
	}
	if err := o.gate.check(append(o.inputs(), o.Data)...); err != nil {
		return err
	}
	for _, p := range o.points {
		if err := o.gate.needRadii(p.Plan.ConfidenceRadii); err != nil {
			return err
		}
	}
	if o.Out == "" {
		return hint.Add(badInput(errors.New("--out is missing")), "a sweep needs a folder, which gets one run folder per point")
	}
	if err := run.ValidateSweep(o.points); err != nil {
		return err
	}
	key, err := o.sign.key(ctx, s)
	if err != nil {
		return err
	}
	seed, err := o.start(s)
	if err != nil {
		return err
	}
	for k := range o.points {
		p := &o.points[k].Plan
		p.Sign, p.FixedSeed, p.Resume = key, &seed, o.Resume
	}
	return o.gate.decide(s, func() ([]gate.Outcome, error) {
		outcomes, err := run.CertifySweep(ctx, o.points, s.console(o.quiet))
		if err != nil {
			return nil, o.explainStop(err)
		}
		return o.finish(ctx, s, sweepReport{Out: o.Out, Seed: seed, Axes: o.grid, Points: outcomes})
	})
}

// inputs returns the paths of all models.
func (o sweepOptions) inputs() (all []string) {
	for _, p := range o.points {
		all = append(all, p.Plan.Models()...)
	}
	return all
}

// start writes the record of the sweep into its folder and returns the seed of all points. With --resume, the folder
// may already hold a record. In this case the function writes nothing, but checks that this record describes the same
// sweep.
func (o sweepOptions) start(s streams) (uint64, error) {
	then, err := sweep.Read(o.Out)
	recorded := err == nil && o.Resume
	var seed uint64
	switch {
	case o.FixedSeed != nil:
		seed = *o.FixedSeed
	case recorded:
		seed = then.Seed
	default:
		if seed, err = experiment.DrawSeed(); err != nil {
			return 0, err
		}
	}
	if err := sweep.Start(o.Out, sweep.NewRecord(o.Version, seed, o.grid), o.Resume); err != nil {
		return 0, err
	}
	if o.FixedSeed == nil && !recorded && o.Shard != spec.Whole {
		err := s.warnf(warning.ShardSeed, "%s %s without %s: each shard draws its own seed; give all shards the same seed to join them as one sweep", param.Shard, o.Shard, param.Seed)
		if err != nil {
			return 0, err
		}
	}
	if o.FixedSeed == nil && !recorded {
		s.console(o.quiet).Notef("seed: %d for all points; %s %d repeats the noise", seed, param.Seed, seed)
	}
	return seed, nil
}

// explainStop adds a hint to the error that ended a sweep.
func (o sweepOptions) explainStop(err error) error {
	if _, advised := hint.Of(err); advised && !errors.Is(err, context.Canceled) {
		return err
	}
	return hint.Add(err, "the finished points are in %s; go on with %s", o.Out, param.Resume)
}

// finish checks the requirements on every point and prints the table.
func (o sweepOptions) finish(ctx context.Context, s streams, r sweepReport) ([]gate.Outcome, error) {
	for _, p := range o.points {
		met, err := o.gate.checkPath(ctx, p.Plan.Out)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		r.Requirements = append(r.Requirements, met...)
	}
	if o.json {
		return r.Requirements, report.WriteJSON(s.out, "sweep", r)
	}
	return r.Requirements, o.print(ctx, s, r)
}

// print prints one table with a row for each point.
func (o sweepOptions) print(ctx context.Context, s streams, r sweepReport) error {
	var paths []string
	chosen := false // whether choosing a point by its results can raise the error probability above alpha
	for _, p := range o.points {
		paths = append(paths, p.Plan.Out)
		chosen = chosen || !p.Plan.Law.Deterministic()
	}
	options := reportOptions{summary: summary.Default()}
	options.summary.Radii, options.summary.Norms = o.Radii, o.Norms
	all, err := options.read(ctx, paths)
	if err != nil {
		return err
	}
	runs := all.runs
	table := tables.Report{Runs: runs, Requirements: r.Requirements}
	if err := table.WriteOverview(s.out); err != nil {
		return err
	}
	if chosen && len(runs) > 1 {
		fmt.Fprint(s.out, "\n"+certify.ChoosePoint+"\n")
	}
	for _, p := range r.Points {
		if p.SignedBy != "" {
			fmt.Fprintf(s.out, "\nevery point is signed by the key %s\n", p.SignedBy)
			break
		}
	}
	fmt.Fprintf(s.out, "\nresults of %d points are in %s\nnext: rscert report %s   (intervals and curves of all points)\n",
		len(runs), quote.Line(o.Out), quote.Shell(o.Out))
	return nil
}

// look carries out --check or --plan for every point.
func (o sweepOptions) look(ctx context.Context, s streams) error {
	what := "check"
	if !o.check {
		what = "plan"
	}
	switch {
	case o.gate.given():
		return badInputf("--require: --%s certifies nothing", what)
	case o.sign.given():
		return badInputf("--sign: --%s certifies nothing", what)
	case o.check && o.checkImage != "":
		return hint.Add(badInputf("--check-image: a sweep has several noisy examples"), "check one point by its own flags, without lists")
	case o.check:
		return o.runCheck(ctx, s)
	}
	return o.runPlan(ctx, s)
}

// sweepCheckReport is what certify --check --json prints for a sweep.
type sweepCheckReport struct {
	Points []run.PointCheck `json:"points"`
}

// runCheck checks the set-up of every point.
func (o sweepOptions) runCheck(ctx context.Context, s streams) error {
	checks, err := run.CheckSweep(ctx, o.points, asFlag, s.console(o.quiet))
	if err != nil {
		return err
	}
	if o.json {
		return report.WriteJSON(s.out, "sweep-check", sweepCheckReport{checks})
	}
	var seconds float64
	for k, c := range checks {
		fmt.Fprintf(s.out, "point %s\n", quote.Line(c.Name))
		of := o.certifyOptions
		of.Plan = o.points[k].Plan
		if err := of.printCheck(s, c.Check); err != nil {
			return err
		}
		fmt.Fprintln(s.out)
		seconds += c.Seconds
	}
	fmt.Fprintf(s.out, "the %d points take about %s together\n", len(checks), run.Duration(seconds))
	return nil
}

// runPlan estimates the time of every point and of the sweep.
func (o sweepOptions) runPlan(ctx context.Context, s streams) error {
	if err := o.checkDeadline(); err != nil {
		return err
	}
	f, err := run.PlanSweep(ctx, o.points, o.deadline, s.console(o.quiet))
	if err != nil {
		return err
	}
	if o.json {
		return report.WriteJSON(s.out, "sweep-plan", f)
	}
	t := report.Table{Columns: []report.Column{report.TextColumn("point"), report.ExactColumn("samples"), report.ExactColumn("samples/s"),
		{Name: "time", Align: report.Right}, {Name: "core time", Align: report.Right}}, Flush: true}
	for _, p := range f.Points {
		t.AddRow(report.Text(quote.Line(p.Name)), report.Count(int(p.Samples)), report.Count(int(p.SamplesPerSecond)),
			report.Text(run.Duration(p.Seconds)), report.Text(run.Duration(3600*p.CoreHours)))
	}
	t.AddRow(report.Text("all"), report.Count(int(f.Samples)), nil, report.Text(run.Duration(f.Seconds)), report.Text(run.Duration(3600*f.CoreHours)))
	if err := t.WriteText(s.out); err != nil {
		return err
	}
	if o.Stop.Given() {
		fmt.Fprintln(s.out, "\nthese are the largest possible numbers and times: easy examples stop early")
	}
	if f.Tasks > 0 {
		fmt.Fprintf(s.out, "\nfor %v, on machines like this one: %d points × %d shards = %d tasks, %s each at most\n",
			o.deadline, len(f.Points), f.Shards, f.Tasks, run.Duration(f.TaskSeconds))
	}
	return nil
}

// checkNoSweep refuses to resume or to begin a single run in the folder of a sweep.
func checkNoSweep(out string) error {
	if out == "" {
		return nil
	}
	_, err := os.Stat(filepath.Join(out, sweep.File))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = runfolder.ErrExists
	}
	return hint.Add(badInputf("%s: holds a sweep: %w", out, err), "give the lists of the sweep with --resume, or choose another --out")
}
