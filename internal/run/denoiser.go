package run

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/rscert/rscert/internal/diffusion"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
)

// settleDenoiser fills in what follows from the kind of denoiser, and resets what plays no part.
func (p *Plan) settleDenoiser() (idle []Idle) {
	switch {
	case p.Denoiser == "":
		p.DenoiserKind, p.DenoiserRange, p.DiffusionSchedule = "", nil, ""
		for _, flag := range []string{"denoiser-kind", "denoiser-range", "diffusion-schedule"} {
			idle = append(idle, Idle{flag, "denoiser"})
		}
		return idle
	case !p.DenoiserKind.Diffusion():
		p.DenoiserKind, p.DiffusionSchedule = graph.DenoisedImage, ""
		idle = append(idle, Idle{"diffusion-schedule", "denoiser-kind epsilon or x0"})
	default:
		p.DiffusionSchedule = cmp.Or(p.DiffusionSchedule, "linear")
	}
	if len(p.DenoiserRange) == 0 {
		p.DenoiserRange = []float64{0, 1}
		if p.DenoiserKind.Diffusion() {
			p.DenoiserRange = []float64{-1, 1}
		}
	}
	return idle
}

// validateDenoiser checks what does not depend on the models.
func (p Plan) validateDenoiser() error {
	if p.Denoiser == "" {
		return nil
	}
	if r := p.DenoiserRange; len(r) != 2 || !(r[0] < r[1]) || math.IsInf(float64(float32(r[1]-r[0])), 0) {
		return badInputf("%s %v: want two numbers, LOW,HIGH", param.DenoiserRange, r)
	}
	for _, of := range []struct {
		name   param.Name
		values []float64
	}{{param.Mean, p.Mean}, {param.Std, p.Std}} {
		if err := checkChannelValues(of.name, of.values); err != nil {
			return err
		}
	}
	return nil
}

// readModels reads the classifier and what stands in front of it.
func (in *inputs) readModels(p Plan) error {
	classifier, err := graph.ReadModel(p.Model)
	if err != nil {
		return BadInput(err)
	}
	in.file, in.modelSum = classifier, classifier.SHA256()
	if p.Denoiser == "" {
		return nil
	}
	front, err := graph.ReadModel(p.Denoiser)
	if err != nil {
		return BadInput(err)
	}
	in.denoiser = &runfolder.Denoiser{File: p.Denoiser, SHA256: front.SHA256()}
	if err := in.chooseTimestep(p); err != nil {
		return err
	}
	d := graph.Denoiser{
		Kind: p.DenoiserKind, Low: p.DenoiserRange[0], High: p.DenoiserRange[1], Mean: p.Mean, Std: p.Std,
		Timestep: in.denoiser.Timestep, AlphaBar: in.denoiser.AlphaBar,
	}
	if in.file, err = graph.Denoise(front, classifier, d); err != nil {
		return BadInput(fmt.Errorf("%s and %s: %w", p.Denoiser, p.Model, err))
	}
	return nil
}

// chooseTimestep finds the timestep of a diffusion model: the noise of the data, in the model's range, is (High−Low)·σ.
func (in *inputs) chooseTimestep(p Plan) error {
	if !p.DenoiserKind.Diffusion() {
		return nil
	}
	schedule, err := diffusion.Open(p.DiffusionSchedule)
	if err != nil {
		return BadInput(param.Errorf("%s: %w", param.DiffusionSchedule, err))
	}
	d := in.denoiser
	if d.Timestep, err = schedule.Timestep((p.DenoiserRange[1] - p.DenoiserRange[0]) * p.Sigma); errors.Is(err, diffusion.ErrBeyond) {
		return badInputf("%s %v: in the denoiser's range %v, %w", param.Sigma, p.Sigma, p.DenoiserRange, err)
	} else if err != nil {
		return BadInput(err)
	}
	d.Timesteps, d.AlphaBar = len(schedule), schedule[d.Timestep]
	return nil
}

// Classifier names what is certified: the model, or the model behind a denoiser.
func (p Plan) Classifier(d *runfolder.Denoiser) string {
	if d == nil {
		return p.Model
	}
	return fmt.Sprintf("%s behind the denoiser %v", p.Model, d)
}
