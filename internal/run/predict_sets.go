package run

import (
	"github.com/rscert/rscert/internal/conformal"
	"github.com/rscert/rscert/internal/conformalfile"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/predict"
	"github.com/rscert/rscert/internal/spec"
)

// readConformal reads the plan's conformal.json, and makes the plan's experiment compute scores as the calibration did.
func (p *PredictPlan) readConformal() (*applying, error) {
	if p.Conformal == "" {
		return nil, nil
	}
	f, err := conformalfile.Read(p.Conformal)
	switch {
	case err != nil:
		return nil, spec.BadInput(err)
	case f.Classifier == nil || f.Classifier.Noiseless():
		return nil, hint.Add(spec.BadInputf("%s: is for scores without noise or from a file", p.Conformal), "'rscert conformal apply' computes its sets")
	case f.Predictor.Guarantee == conformal.Group:
		return nil, hint.Add(spec.BadInputf("%s: has a threshold for each group", p.Conformal), "'rscert conformal apply' takes the groups of the inputs")
	}
	run := f.Run()
	if p.Spec.Batch == 0 {
		p.Spec.Batch = run.Runtime.Batch
	}
	if p.Spec.NoiseOn == "" || p.Spec.NoiseOn == spec.NoiseOnAuto {
		p.Spec.NoiseOn = spec.NoiseOn(run.Runtime.NoiseOn)
	}
	if p.Spec.Lattice == nil {
		p.Spec.Lattice = latticeOf(run)
	}
	plan := ConformalApply{Spec: p.Spec, Path: p.Conformal, Round: p.Round}
	return &applying{plan: plan, file: f, result: &ConformalSets{NoiseSeed: p.Spec.Seed}}, nil
}

// prepareSets prepares the computation of prediction sets with the open experiment. It returns an error if the
// calibration used another classifier, or if an input is one of the calibration examples.
func (a *answering) prepareSets(console experiment.Console) error {
	if a.sets == nil {
		return nil
	}
	a.sets.experiment = a.experiment
	if err := a.sets.prepare(console); err != nil {
		return err
	}
	return a.sets.disjoint(a.sets.file.Run(), recordOf(a.experiment))
}

// setStatement returns the guarantee for the prediction sets of the answers, as text.
func (a *answering) setStatement(answers []predict.Answer) string {
	if a.sets == nil {
		return ""
	}
	for _, answer := range answers {
		a.sets.result.Sets = append(a.sets.result.Sets, *answer.Set)
	}
	a.sets.conclude()
	return a.sets.result.Statement
}
