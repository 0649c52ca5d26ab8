package run

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/conformal"
	"github.com/rscert/rscert/internal/conformalfile"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// fitSaved fits a predictor on the saved scores of a run or of a file. The scores of the estimation samples serve as
// the predictor's draws.
func (p *ConformalFit) fitSaved(ctx context.Context, console experiment.Console) (f *conformalfile.File, err error) {
	if p.Temperature != 1 {
		return nil, spec.BadInputf("%s %v: the saved scores have the temperature with which they were saved", param.Temperature, p.Temperature)
	}
	evidence, err := runfolder.Find(p.Saved)
	if err != nil {
		return nil, spec.BadInput(err)
	}
	if run := evidence.Run; run != nil && run.Parameters.Only.Given() {
		return nil, hint.Add(spec.BadInputf("%s: %s", p.Saved, run.Parameters.Only.Says()), "calibrate on examples that were drawn at random, not selected by results")
	}
	scores, err := evidence.Scores()
	if err != nil {
		return nil, spec.BadInput(err)
	}
	defer func() { err = errors.Join(err, scores.Close()) }()
	if err := checkSavedGroups(p.Groups, evidence.Run, scores, p.Saved); err != nil {
		return nil, err
	}
	f = &conformalfile.File{}
	if err := p.describeSaved(ctx, f, evidence, scores.N); err != nil {
		return nil, err
	}
	design, err := p.designSaved(f, scores.N)
	if err != nil {
		return nil, err
	}
	c := &savedCalibration{plan: p, scores: scores, design: design, calibrator: design.Calibrator()}
	c.scorer = scorer{Scorer: design.Scorer, outputs: graph.Probabilities, classes: scores.Classes}
	bar := progress.Start(console.Progress, "scores", int64(scores.Examples), 0)
	defer bar.Finish()
	if err := c.run(ctx, bar); err != nil {
		return nil, err
	}
	if f.Classifier == nil {
		f.Calibration.Examples = c.digest.sum()
	}
	return f, p.finish(f, c.calibrator, scores.Classes)
}

// checkSavedGroups is the variant of checkGroups for a file of scores: it returns an error if the number of groups
// differs from the number of examples. If the file belongs to no run and has indices, the number of examples in the
// data is unknown. Then checkSavedGroups checks nothing. Later, groupOf checks that each example of the file has a
// group.
func checkSavedGroups(groups []string, run *runfolder.Run, scores *runfolder.Scores, path string) error {
	switch {
	case run != nil:
		return checkGroups(groups, run.Data.Examples, path)
	case scores.HasIndex:
		return nil
	}
	return checkGroups(groups, scores.Examples, path)
}

// describeSaved fills in the members of conformal.json that depend on the source of the scores: a run, or a file that
// belongs to no run.
func (p *ConformalFit) describeSaved(ctx context.Context, f *conformalfile.File, evidence *runfolder.Evidence, draws int64) (err error) {
	if evidence.Run == nil {
		return p.describeFile(ctx, f, draws)
	}
	run := *evidence.Run
	if err := p.checkNoise(run); err != nil {
		return err
	}
	if _, sealed := run.Format(); !sealed {
		return hint.Add(spec.BadInputf("%s: is of format 1, which does not record its lattice", p.Saved), "certify again with this version")
	}
	if err := run.Parameters.Law.NeedRandom(); err != nil {
		return spec.BadInput(err)
	}
	f.Classifier = conformalfile.ClassifierOf(run)
	f.Calibration.Data, f.Calibration.Run, f.Calibration.RunID = &run.Data, p.Saved, run.ID()
	f.Allowance = allowanceOf(run)
	if err := p.describe(f); err != nil {
		return err
	}
	f.Temperature, p.seed = run.Parameters.Temperature, run.Parameters.Seed
	return nil
}

// checkNoise refuses a law or a scale that differs from the run's.
func (p *ConformalFit) checkNoise(run runfolder.Run) error {
	c := run.Parameters.Smoothing
	switch {
	case p.Spec.Sigma != 0 && p.Spec.Sigma != c.Sigma:
		return spec.BadInputf("%s %v: the run of %s has %v", param.Sigma, p.Spec.Sigma, p.Saved, c.Sigma)
	case p.Spec.Law != "" && p.Spec.Law.Law() != c.Law.Law():
		return spec.BadInputf("%s %s: the run of %s has %s", param.Law, p.Spec.Law, p.Saved, c.Law)
	}
	return nil
}

// allowanceOf returns the allowance (experiment.Experiment.Allowance) for the inputs of a run. The run does not record
// whether its data file holds float32, so the result allows for float64.
func allowanceOf(run runfolder.Run) float64 {
	n := run.Noise
	step, _ := new(big.Rat).SetString(n.Step)
	if !n.Quantised || step == nil {
		return 0
	}
	g, _ := step.Float64()
	read := dataset.Lattice{Low: float32(n.Low), High: float32(n.High), Rounded: true}
	return smoothing.Allowance(run.Parameters.Law.Law().Norm(), g, int(run.Inputs()), read)
}

// describeFile fills in the members of conformal.json if the scores come from a file that belongs to no run.
func (p *ConformalFit) describeFile(ctx context.Context, f *conformalfile.File, draws int64) (err error) {
	f.Schema, f.Version, f.Temperature = conformalfile.Schema, p.Version, 1
	f.Calibration.Scores, f.Calibration.Group = p.Saved, p.GroupColumn
	if p.seed, err = experiment.DrawSeed(); err != nil {
		return err
	}
	if f.Calibration.SHA256, err = hashFile(ctx, p.Saved); err != nil {
		return err
	}
	a := &p.Params.Attack
	if draws == 1 && p.Spec.Sigma == 0 && a.Radius+a.PoisonRadius == 0 {
		f.Arithmetic = certify.Exact
		return p.noNoise()
	}
	if a.Radius+a.PoisonRadius > 0 && p.Spec.Sigma == 0 {
		return hint.Add(spec.Missing(param.Sigma), "%s does not say the σ of its noise", p.Saved)
	}
	if err := p.Spec.Law.NeedRandom(); err != nil {
		return spec.BadInput(err)
	}
	a.Law, a.Scale = p.Spec.Law, p.Spec.Sigma
	f.Arithmetic = certify.Idealised // rscert did not draw this noise
	return nil
}

// designSaved chooses the numbers of draws for the conformal predictor. If the user gives no number of calibration
// draws, designSaved takes the default number, but at most the number of saved draws.
func (p *ConformalFit) designSaved(f *conformalfile.File, draws int64) (*conformal.Design, error) {
	if p.Params.CalibrationDraws > draws {
		return nil, spec.BadInputf("%s %d: %s has %d draws of each example", param.CalibrationDraws, p.Params.CalibrationDraws, p.Saved, draws)
	}
	design, err := p.design(f)
	if err != nil || design.M <= draws {
		return design, err
	}
	p.Params.CalibrationDraws = draws
	if design, err = p.design(f); err == nil && design.M > draws {
		err = spec.BadInputf("%s: has %d draws of each example, and the rule needs %d", p.Saved, draws, design.M)
	}
	return design, err
}

// hashFile returns the SHA-256 of a file, in hex.
func hashFile(ctx context.Context, path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", spec.BadInput(err)
	}
	defer file.Close()
	sum, buffer := sha256.New(), make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := file.Read(buffer)
		_, _ = sum.Write(buffer[:n]) // never fails
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(sum.Sum(nil)), nil
		}
		if err != nil {
			return "", spec.BadInput(err)
		}
	}
}

// savedCalibration reads saved scores and adds them to a calibrator.
type savedCalibration struct {
	plan       *ConformalFit
	scores     *runfolder.Scores
	design     *conformal.Design
	calibrator *conformal.Calibrator
	scorer     scorer
	seen       map[int]bool
	digest     exampleDigest
}

func (c *savedCalibration) run(ctx context.Context, bar *progress.Bar) error {
	c.seen = map[int]bool{}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		index, label, err := c.scores.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = c.add(index, label)
		}
		if err != nil {
			return spec.BadInput(err)
		}
		bar.Add(1, "")
	}
}

// add adds the saved scores of one example to the calibration.
func (c *savedCalibration) add(index, label int) error {
	switch {
	case label < 0 || label >= c.scorer.classes:
		return fmt.Errorf("%s: example %d has label %d: calibration needs labels from 0 to %d", c.plan.Saved, index, label, c.scorer.classes-1)
	case c.seen[index]:
		return fmt.Errorf("%s: example %d appears twice", c.plan.Saved, index)
	}
	c.seen[index] = true
	group, err := groupOf(c.plan.Groups, index)
	if err != nil {
		return err
	}
	point := conformal.Point{Label: label, Group: group}
	c.scorer.u = uniform(c.plan.seed, index)
	c.digest.next()
	err = c.scores.Estimation(func(rows []float32) error {
		c.digest.add(rows)
		c.scorer.eachRow(rows, func(probabilities []float64) {
			if int64(len(point.Scores)) < c.design.M {
				point.Scores = append(point.Scores, c.scorer.Score(probabilities, label, c.scorer.u))
			}
		})
		return nil
	})
	if err != nil {
		return err
	}
	return c.calibrator.Add(point)
}
