package experiment

import (
	"errors"
	"fmt"

	"github.com/rscert/rscert/internal/diffusion"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// readModels loads the classifier and the denoiser in front of it.
func (e *Experiment) readModels() error {
	p := e.Spec
	classifier, err := e.readClassifier()
	if err != nil {
		return spec.BadInput(err)
	}
	e.file, e.modelSum = classifier, classifier.SHA256()
	if p.Denoiser == "" {
		return nil
	}
	front, err := graph.ReadModel(p.Denoiser)
	if err != nil {
		return spec.BadInput(err)
	}
	e.denoiser = &runfolder.Denoiser{File: p.Denoiser, SHA256: front.SHA256()}
	if err := e.chooseTimestep(); err != nil {
		return err
	}
	d := graph.Denoiser{
		Kind: p.DenoiserKind, Low: p.DenoiserRange[0], High: p.DenoiserRange[1], Mean: p.Mean, Std: p.Std,
		Timestep: e.denoiser.Timestep, AlphaBar: e.denoiser.AlphaBar,
	}
	if e.file, err = graph.Denoise(front, classifier, d); err != nil {
		return spec.BadInput(fmt.Errorf("%s and %s: %w", p.Denoiser, p.ModelName(), err))
	}
	return nil
}

// chooseTimestep finds the timestep at which the diffusion model expects noise of standard deviation (High−Low)·σ. This
// standard deviation is σ scaled to the model's range [Low, High].
func (e *Experiment) chooseTimestep() error {
	p := e.Spec
	if !p.DenoiserKind.Diffusion() {
		return nil
	}
	schedule, err := diffusion.Open(p.DiffusionSchedule)
	if err != nil {
		return spec.BadInput(param.Errorf("%s: %w", param.DiffusionSchedule, err))
	}
	d := e.denoiser
	if d.Timestep, err = schedule.Timestep((p.DenoiserRange[1] - p.DenoiserRange[0]) * p.Sigma); errors.Is(err, diffusion.ErrBeyond) {
		return spec.BadInputf("%s %v: in the denoiser's range %v, %w", param.Sigma, p.Sigma, p.DenoiserRange, err)
	} else if err != nil {
		return spec.BadInput(err)
	}
	d.Timesteps, d.AlphaBar = len(schedule), schedule[d.Timestep]
	return nil
}

// Classifier returns the name of an experiment's classifier: the model alone, or the model behind a denoiser.
func Classifier(model string, d *runfolder.Denoiser) string {
	if d == nil {
		return model
	}
	return fmt.Sprintf("%s behind the denoiser %v", model, d)
}
