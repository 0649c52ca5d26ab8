// Package run carries out runs of certify: a Plan in, an Outcome out. It turns
// examples into certificates, by votes or by scores, sampled now or kept from
// before.
package run

import (
	"cmp"
	"context"
	"errors"
	"math"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
)

// Plan is all that a run of certify is asked to do.
type Plan struct {
	Model, Data string // paths
	Denoiser    string // path of a model in front of Model; empty: none
	Out         string // run folder
	Version     string // of rscert, for run.json

	// DataOptions are how the data are read.
	DataOptions dataset.Options

	// Parameters determine the results.
	runfolder.Parameters

	// FixedSeed repeats the noise of another run; nil draws a seed from the system, or
	// resumes with the run's.
	FixedSeed *uint64
	// FixedSelect is which examples Max takes; nil chooses by the data, or resumes with the run's.
	FixedSelect *runfolder.Selection

	Library string // path of ONNX Runtime; empty: found
	Device  onnx.Device
	NoiseOn NoiseOn // "" as NoiseOnAuto
	Batch   int     // samples a call; 0: chosen
	Threads int     // 0: one a core
	Resume  bool

	// Radii of the summary, ascending or not; nil: chosen. PerClass adds the classes to it. Neither is part of the run.
	Radii    []float64
	PerClass bool
}

// Console is where long work says how far it is and what its user should know.
type Console struct {
	Warn     func(param.Text) // of what may make results other than meant
	Note     func(param.Text) // of what is going on
	Progress progress.Options
}

// The arguments of a warning and a note may name parameters.
func (c Console) warnf(format string, args ...any) { c.Warn(param.Textf(format, args...)) }
func (c Console) notef(format string, args ...any) { c.Note(param.Textf(format, args...)) }

// Notef notes what is going on, as fmt.Sprintf formats it.
func (c Console) Notef(format string, args ...any) { c.notef(format, args...) }

// InputError is an error in what the user gave: the plan, a file.
type InputError struct{ error }

func (e InputError) Unwrap() error { return e.error }

// BadInput marks err, when not nil, as the input's. A cancelled context stays what it is.
func BadInput(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	return InputError{err}
}

func badInputf(format string, args ...any) error {
	return BadInput(param.Errorf(format, args...))
}

// Idle is a flag that plays no part without another.
type Idle struct{ Flag, Without string }

// Settle fills in what follows from other parameters and resets what plays no part to
// its zero value: it is no parameter of the run. It returns the flags that were reset.
func (p *Plan) Settle() (idle []Idle) {
	p.Noise = cmp.Or(p.Noise, runfolder.Lattice)
	if p.Noise != runfolder.Lattice {
		idle = append(idle, Idle{"noise-on", "noise lattice"})
	}
	if !p.Method.Given() {
		p.Method = p.defaultMethod()
	}
	p.Scores = p.Scores || p.SaveScores || len(p.ConfidenceRadii) > 0
	if _, byScores := p.Method.Scores(); !byScores {
		p.Combine = ""
		idle = append(idle, Idle{"combine", "scores"})
	}
	if !p.Scores {
		p.Temperature = 0
		idle = append(idle, Idle{"temperature", "scores"})
	}
	if len(p.ConfidenceRadii) == 0 {
		p.Confidence, p.ConfidenceBound, p.Band = "", "", ""
		for _, flag := range []string{"confidence", "confidence-bound", "band"} {
			idle = append(idle, Idle{flag, "confidence-radii"})
		}
	}
	return append(idle, p.settleDenoiser()...)
}

// defaultMethod is the method of a plan that names none: the class is certified by its
// votes, also where its confidence is bounded, unless --scores asks for the scores.
func (p *Plan) defaultMethod() runfolder.Method {
	if p.Scores || (p.SaveScores && len(p.ConfidenceRadii) == 0) {
		return runfolder.ByScores(certify.Betting)
	}
	return runfolder.ByVotes(certify.ExactMargin)
}

// maxThreads is above the cores of any machine; each thread holds a batch.
const maxThreads = 1024

// validate checks what does not depend on model and data.
func (p Plan) validate() error {
	for _, required := range []struct {
		name  param.Name
		value string
	}{{param.Model, p.Model}, {param.Data, p.Data}, {param.Out, p.Out}} {
		if required.value == "" {
			return hint.Add(badInputf("%s is missing", required.name), "see 'rscert certify %s'", param.Help)
		}
	}
	for _, err := range []error{p.validateSamples(), p.validateMethod(), p.validateDenoiser()} {
		if err != nil {
			return err
		}
	}
	return nil
}

// tuning is how the device chooses its kernels.
func (p Plan) tuning() onnx.Tuning {
	return onnx.Tuning{PreferNHWC: p.PreferNHWC, ConvSearch: p.ConvSearch}
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 0) }

// validateSamples checks what is sampled, and how.
func (p Plan) validateSamples() error {
	switch {
	case !positive(p.Sigma):
		return badInputf("%s %v: want a number above 0", param.Sigma, p.Sigma)
	case p.Noise == runfolder.Float && p.Law.Law() != law.Gaussian:
		return badInputf("%s float: is for %s, not for %s %s", param.Noise, law.Gaussian.Words().Noise, param.Law, p.Law)
	case p.N < 1:
		return badInputf("%s %d: want at least 1", param.N, p.N)
	case p.N0 < 0 || (p.N0 == 0 && p.Class == certify.Predicted):
		return badInputf("%s %d: the predicted class needs at least 1 selection sample", param.N0, p.N0)
	case p.N >= smoothing.MaxSamples || p.N0 >= smoothing.MaxSamples:
		return badInputf("%s %d, %s %d: want at most %d", param.N, p.N, param.N0, p.N0, smoothing.MaxSamples)
	case p.Skip < 1:
		return badInputf("%s %d: want at least 1", param.Skip, p.Skip)
	case p.Max < 0:
		return badInputf("%s %d: want at least 0", param.Max, p.Max)
	case certify.CheckRadii(p.Radii) != nil:
		return badInputf("%s %w", param.Radii, certify.CheckRadii(p.Radii))
	case p.Batch < 0:
		return badInputf("%s %d: want at least 0", param.Batch, p.Batch)
	case p.Device.Check(p.Precision, p.tuning()) != nil:
		return BadInput(p.Device.Check(p.Precision, p.tuning()))
	case p.Threads < 0 || p.Threads > maxThreads:
		return badInputf("%s %d: want 0 to %d", param.Threads, p.Threads, maxThreads)
	}
	return nil
}

// validateMethod checks what belongs to votes, and what to scores.
func (p Plan) validateMethod() error {
	method, byVotes := p.Method.Votes()
	switch {
	case !p.Scores && !byVotes:
		return hint.Add(badInputf("%s %s is for scores", param.Method, p.Method), "add %s", param.Scores)
	case !p.Scores:
		return nil
	case !positive(p.Temperature):
		return badInputf("%s %v: want a number above 0", param.Temperature, p.Temperature)
	case byVotes && len(p.ConfidenceRadii) == 0:
		return badInputf("%s %s is for votes, not for %s", param.Method, p.Method, param.Scores)
	case byVotes && !method.Sound():
		return badInputf("%s %s is not sound: it cannot certify the class whose confidence is bounded", param.Method, p.Method)
	case p.Stop.Given():
		return badInputf("%s %s: only votes can be stopped early, not scores", param.Stop, p.Stop)
	}
	return nil
}
