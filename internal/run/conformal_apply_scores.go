package run

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// fromScores computes the sets with a predictor that was fitted on a file of scores. It takes the draws from another
// file of scores. The conformal.json of such a predictor names no model, so fromScores cannot compare the classifiers.
// The user must make sure that the scores come from the classifier of the calibration.
func (a *applying) fromScores(ctx context.Context, console experiment.Console) (err error) {
	path, p := a.plan.Spec.Data, &a.file.Predictor
	switch {
	case path == "":
		return spec.Missing(param.Data)
	case a.plan.Spec.Model != "":
		return spec.BadInputf("%s %s: %s was fitted on the file of scores %s, which names no model: give such a file by %s",
			param.Model, a.plan.Spec.Model, a.plan.Path, a.file.Calibration.Scores, param.Data)
	}
	sum, err := hashFile(ctx, path)
	if err != nil {
		return err
	}
	if sum == a.file.Calibration.SHA256 {
		return a.calibrationFile()
	}
	evidence, err := runfolder.Find(path)
	if err != nil {
		return spec.BadInput(err)
	}
	if err := a.sameNoise(evidence.Run); err != nil {
		return err
	}
	scores, err := evidence.Scores()
	if err != nil {
		return spec.BadInput(err)
	}
	defer func() { err = errors.Join(err, scores.Close()) }()
	if err := checkSavedGroups(a.plan.Groups, evidence.Run, scores, path); err != nil {
		return err
	}
	need := p.QueryM
	if a.plan.CertifiedSize {
		need = max(need, p.M)
	}
	switch {
	case scores.Classes != p.Labels:
		return spec.BadInputf("%s: has %d classes, and %s has %d", path, scores.Classes, a.plan.Path, p.Labels)
	case scores.N < need:
		return spec.BadInputf("%s: has %d draws of each input, and a set needs %d", path, scores.N, need)
	}
	if a.result.NoiseSeed, err = experiment.DrawSeed(); err != nil {
		return err
	}
	if seed := a.plan.Spec.FixedSeed; seed != nil {
		a.result.NoiseSeed = *seed
	}
	a.promise()
	a.bar = progress.Start(console.Progress, "apply", int64(scores.Examples), 0)
	defer a.bar.Finish()
	if err := a.readScores(ctx, scores); err != nil {
		return err
	}
	if a.digest.sum() == a.file.Calibration.Examples {
		return a.calibrationFile()
	}
	a.conclude()
	return nil
}

// calibrationFile refuses the scores of the calibration examples.
func (a *applying) calibrationFile() error {
	return spec.BadInputf("%s: is the file of the calibration examples of %s, about which a set promises nothing", a.plan.Spec.Data, a.plan.Path)
}

// sameNoise refuses the scores of a run if the run and the predictor differ in the noise or in the temperature. The
// predictor was fitted on a file that names no model, so sameNoise cannot compare models. The argument 'run' is nil for
// a file of scores that belongs to no run.
func (a *applying) sameNoise(run *runfolder.Run) error {
	if run == nil {
		return nil
	}
	p, attack := run.Parameters, a.file.Predictor.Attack
	differs := func(name param.Name, here, there any) error {
		return hint.Add(spec.BadInputf("%s: %s is %v in its run, and %v in %s", a.plan.Spec.Data, name, here, there, a.plan.Path),
			"fit a predictor on a run with this noise")
	}
	switch {
	case p.Scaled():
		return spec.BadInputf("%s: its run has %s, and prediction sets are for noise with one σ", a.plan.Spec.Data, param.SigmaColumns)
	case run.Noise.Quantised:
		return hint.Add(spec.BadInputf("%s: its run rounded inputs to a lattice of its own, which %s does not allow for", a.plan.Spec.Data, a.plan.Path),
			"fit a predictor on a run, and apply it to the model")
	case p.Sigma != attack.Scale:
		return differs(param.Sigma, p.Sigma, attack.Scale)
	case p.Law.Law() != attack.Law.Law():
		return differs(param.Law, p.Law, attack.Law)
	case p.Temperature != a.file.Temperature:
		return differs(param.Temperature, p.Temperature, a.file.Temperature)
	}
	return nil
}

// readScores computes the sets of all examples in a file.
func (a *applying) readScores(ctx context.Context, scores *runfolder.Scores) error {
	seen := map[int]bool{}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		index, label, err := scores.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && seen[index] {
			err = fmt.Errorf("%s: example %d appears twice", a.plan.Spec.Data, index)
		}
		if err == nil {
			seen[index] = true
			err = a.readExample(scores, index, label)
		}
		if err != nil {
			return spec.BadInput(err)
		}
	}
}

// readExample computes the set of the next example in a file.
func (a *applying) readExample(scores *runfolder.Scores, index, label int) error {
	group, err := groupOf(a.plan.Groups, index)
	if err != nil {
		return err
	}
	s := scorer{outputs: graph.Probabilities, u: uniform(a.result.NoiseSeed, index)}
	t := newTally(&a.file.Predictor, s, group, a.plan.CertifiedSize)
	a.digest.next()
	err = scores.Estimation(func(rows []float32) error {
		a.digest.add(rows)
		t.observe(rows)
		return nil
	})
	if err != nil {
		return err
	}
	set, err := t.set()
	if err != nil {
		return err
	}
	set.Index, set.Group = index, group
	if label != certify.UnknownLabel {
		if label < 0 || label >= scores.Classes {
			return fmt.Errorf("%s: example %d has label %d: want 0 to %d", a.plan.Spec.Data, index, label, scores.Classes-1)
		}
		set.Label = &label
	}
	set.Conditions = a.conditionsOf(set.Label, group)
	a.take(set)
	return nil
}
