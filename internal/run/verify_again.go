package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/scratch"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

// An Again holds the settings for resampling examples of a run.
type Again struct {
	Model, Data        string
	Further            []string // further models of an ensemble
	Denoiser           string   // empty: as recorded
	Labels, ClassNames string   // empty: as recorded
	Examples           int      // maximum number of examples to resample
	// ChoiceSeed is the seed for the random choice of examples.
	ChoiceSeed uint64
	Library    string
	Threads    int
	Version    string
}

// SampleAgain is the result of resampling examples of a run and comparing them with the run's record.
type SampleAgain struct {
	ChoiceSeed uint64 `json:"choice_seed"`
	Examples   []int  `json:"examples"`  // indices of the resampled examples
	Different  []int  `json:"different"` // indices of examples whose votes or scores differ from the record
	// number of samples that were repeated twice: once alone and once among other inputs
	Compared   int64    `json:"compared"`
	Conditions []string `json:"conditions"`         // conditions on this machine that differ from the record
	Warnings   []string `json:"warnings,omitempty"` // warnings from opening the model and the data
}

// plan returns a plan that draws the samples of the recorded run again. The argument 'out' is the new run folder.
func (q Again) plan(run runfolder.Run, out string) (Plan, error) {
	again, err := specOf(run)
	if err != nil {
		return Plan{}, err
	}
	again.Model, again.Further, again.Data, again.Denoiser, again.Library, again.Threads = q.Model, q.Further, q.Data, q.Denoiser, q.Library, q.Threads
	again.FixedSeed, again.FixedSelect = &run.Parameters.Seed, &run.Parameters.Select
	p := Plan{Spec: again, Certification: run.Parameters.Certification, Out: out, Version: q.Version}
	if d := run.Model.Denoiser; d != nil && p.Denoiser == "" {
		p.Denoiser = d.File
	}
	if q.Labels != "" {
		p.DataOptions.Labels = q.Labels
	}
	if q.ClassNames != "" {
		p.DataOptions.ClassNames = q.ClassNames
	}
	return p, nil
}

// sampleAgain resamples random examples of the run with its model, and compares votes and saved scores bit for bit.
func (v *verifier) sampleAgain(ctx context.Context, q Again, console experiment.Console) (err error) {
	if len(v.Records) == 0 {
		v.skip(checkAgain, "the run has no example")
		return nil
	}
	folder, err := scratch.Make("", "rscert-verify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, folder.Remove()) }()
	run := *v.Evidence.Run
	plan, err := q.plan(run, filepath.Join(folder.Path(), "run"))
	if err != nil {
		return err
	}
	v.Again = &SampleAgain{ChoiceSeed: q.ChoiceSeed, Examples: []int{}, Different: []int{}, Conditions: []string{}}
	warn := console.Warn
	console.Warn = func(w warning.Warning) {
		v.Again.Warnings = append(v.Again.Warnings, w.Text.Spell(param.Plain))
		warn(w)
	}
	r, err := prepare(ctx, plan, console)
	if err != nil {
		return err
	}
	defer r.close()
	now := r.describe()
	now.Data.Selected = run.Data.Selected
	if v.Again.Conditions, err = otherConditions(run, now); err != nil {
		return err
	}
	chosen := q.choose(v.Records)
	found, err := r.drawAgain(ctx, now, chosen)
	var dependence *smoothing.DependenceError
	if errors.As(err, &dependence) {
		v.judge(checkAgain, []string{dependence.Error() + ": the certificates of the run are about no function of one input"}, "")
		return nil
	}
	if err != nil {
		return err
	}
	v.compareAgain(chosen, found)
	return nil
}

// otherConditions lists the conditions that differ between the record and this machine. It returns an error if the
// model or the data differ.
func otherConditions(then, now runfolder.Run) ([]string, error) {
	conditions := []string{}
	for _, d := range then.Differences(now) {
		what := fmt.Sprintf("%s was %s, now %s", d.What, d.First, d.Second)
		if isEvidence(d.What) {
			return nil, spec.BadInputf("cannot sample the run again: %s", what)
		}
		conditions = append(conditions, what)
	}
	return conditions, nil
}

// isEvidence reports whether 'what' (Difference.What) names the model or the data of a run.
func isEvidence(what string) bool {
	return slices.Contains([]string{"the model", "the denoiser", "the denoiser's timestep", "the data set"}, what)
}

// choose returns randomly chosen records, without repetition and in their original order.
func (q Again) choose(records []runfolder.Record) []runfolder.Record {
	turns := rand.New(rand.NewPCG(q.ChoiceSeed, 0)).Perm(len(records))[:min(q.Examples, len(records))]
	slices.Sort(turns)
	var chosen []runfolder.Record
	for _, turn := range turns {
		chosen = append(chosen, records[turn])
	}
	return chosen
}

// drawAgain draws the samples of the chosen records' examples again, and writes the new records to the run folder of
// r.plan. For each example, it also runs the model again on the first sample, in batches with other contents, and
// compares the outputs.
func (r *running) drawAgain(ctx context.Context, now runfolder.Run, chosen []runfolder.Record) (found []runfolder.Record, err error) {
	r.positions = nil
	for _, rec := range chosen {
		r.positions = append(r.positions, rec.Votes.Index)
	}
	now.Data.Selected, now.Data.Shards = len(chosen), nil
	if err := r.begin(now); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.folder.Close()) }()
	r.taken = func(rec runfolder.Record) { found = append(found, rec) }
	sampler := r.sampler()
	sampler.Compare = func(int) bool { return true }
	err = r.draw(ctx, sampler)
	return found, err
}

// compareAgain compares the resampled examples with the record.
func (v *verifier) compareAgain(then, now []runfolder.Record) {
	var reasons []string
	for i, rec := range then {
		v.Again.Examples = append(v.Again.Examples, rec.Votes.Index)
		v.Again.Compared += now[i].Compared
		if why := differentResult(rec, now[i]); why != "" {
			v.Again.Different = append(v.Again.Different, rec.Votes.Index)
			reasons = append(reasons, fmt.Sprintf("example %d: %s", rec.Votes.Index, why))
		}
	}
	if len(reasons) > 0 {
		reasons = append(reasons[:min(len(reasons), mostReasons-1)], v.explainDifference())
	}
	v.judge(checkAgain, reasons, fmt.Sprintf("%d of %d examples have the same votes, bit for bit", len(then), len(v.Records)))
	if last := &v.Checks[len(v.Checks)-1]; last.State == Failed {
		last.Says = fmt.Sprintf("%d of %d examples have other votes or scores", len(v.Again.Different), len(then))
	}
}

// explainDifference lists possible causes of votes that differ from the record.
func (v *verifier) explainDifference() string {
	why := "the record is not of this model and data, was changed, or was computed by other rounding"
	if len(v.Again.Conditions) > 0 {
		why += " (" + strings.Join(v.Again.Conditions, "; ") + ")"
	}
	if v.Compared == 0 {
		why += "; or the model's answers depended on the batch: the run does not say that it compared batches, as runs of newer versions do; the certificates of such a model are wrong"
	}
	return why
}

// differentResult describes how the new votes or saved scores of an example differ from the recorded ones, or returns
// "" if they agree.
func differentResult(then, now runfolder.Record) string {
	a, b := then.Votes, now.Votes
	switch {
	case a.Label != b.Label:
		return fmt.Sprintf("label %d is recorded, the data say %d", a.Label, b.Label)
	case a.N != b.N || a.N0 != b.N0:
		return fmt.Sprintf("%d samples are recorded, %d are drawn here", a.N0+a.N, b.N0+b.N)
	case a.Quantisation != b.Quantisation:
		why := fmt.Sprintf("%v is taken off the radius for rounding the data, and %v must be", a.Quantisation, b.Quantisation)
		if then.Compared == 0 && a.Quantisation < b.Quantisation {
			why += ": older versions took nothing off for reading float64 and decimals as float32"
		}
		return why
	}
	moved := max(a.None0-b.None0, 0) + max(a.None-b.None, 0)
	for k := range a.Counts {
		moved += max(a.Counts[k]-b.Counts[k], 0)
	}
	for k := range min(len(a.Counts0), len(b.Counts0)) {
		moved += max(a.Counts0[k]-b.Counts0[k], 0)
	}
	switch {
	case moved > 0:
		return fmt.Sprintf("at least %d of %d votes differ", moved, a.N0+a.N)
	case a.Clean != nil && b.Clean != nil && *a.Clean != *b.Clean:
		return fmt.Sprintf("class %d is recorded for the input without noise, and it is %d here", *a.Clean, *b.Clean)
	case then.Scores != now.Scores:
		return "the saved scores differ"
	}
	if _, err := runfolder.Contradicts(then.Certificate, now.Certificate); err != nil {
		return err.Error()
	}
	return ""
}
