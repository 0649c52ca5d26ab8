// Package run carries out the commands that work with runs, such as certify, predict and verify. The function Certify
// takes a Plan and returns an Outcome. The package certifies examples from votes or from scores. Votes and scores come
// from new samples or from saved files.
package run

import (
	"math"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/signature"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// Plan is a run of certify: an experiment, the claims to certify, and the output folder.
type Plan struct {
	spec.Spec
	runfolder.Certification

	Out     string // run folder
	Version string // version of rscert, for run.json
	Preset  string // name of the preset, for run.json
	Resume  bool   // continue the run in Out; keepResumed says which settings the run keeps

	// Sign signs the finished run. If Sign is nil, the run is not signed. Sign is not part of the run's record.
	Sign *signature.SecretKey

	// OnlyOf names the run whose results select the examples. Certify fills in Spec.Only from this run.
	OnlyOf OnlyOf

	// Radii are the radii at which the summary gives the certified accuracy. If Radii is nil, the radii are chosen
	// automatically. PerClass adds the accuracy of each class to the summary, and Norms adds the accuracy in further
	// norms. The run's record contains none of these three fields.
	Radii    []float64
	PerClass bool
	Norms    []law.Norm
}

// Parameters returns the plan's parameters for run.json.
func (p Plan) Parameters() runfolder.Parameters {
	return runfolder.Parameters{Smoothing: p.Smoothing, Certification: p.Certification, Conditions: p.Conditions}
}

// Settle fills in fields that other fields determine. Some parameters have no effect in this plan. Settle sets them to
// zero, so that run.json omits them, and returns their flags.
func (p *Plan) Settle() (idle []spec.Idle) {
	if p.Law.Deterministic() {
		idle = p.settleSplitting()
	}
	if !p.Method.Given() {
		p.Method = p.defaultMethod()
	}
	p.Scores = p.Scores || p.SaveScores || len(p.ConfidenceRadii) > 0
	if _, byScores := p.Method.Scores(); !byScores {
		p.Combine = ""
		idle = append(idle, spec.Idle{Flag: "combine", Without: "scores"})
	}
	if p.TopK == 1 {
		p.TopK = 0
	}
	if !p.Scores && p.RejectBelow == 0 {
		p.Temperature = 0
		idle = append(idle, spec.Idle{Flag: "temperature", Without: "scores"})
	}
	if len(p.ConfidenceRadii) == 0 {
		p.Confidence, p.ConfidenceBound, p.Band = "", "", ""
		for _, flag := range []string{"confidence", "confidence-bound", "band"} {
			idle = append(idle, spec.Idle{Flag: flag, Without: "confidence-radii"})
		}
	}
	p.KeepOutputs = p.Scores || p.RejectBelow > 0
	return append(idle, p.Spec.Settle()...)
}

// defaultMethod returns the method for a plan that names no method. Scores certify the class if the plan asks for
// scores, or if it saves scores and does not bound the confidence. Otherwise votes certify the class.
func (p *Plan) defaultMethod() runfolder.Method {
	if p.Scores || (p.SaveScores && len(p.ConfidenceRadii) == 0) {
		return runfolder.ByScores(certify.Betting)
	}
	return runfolder.ByVotes(certify.ExactMargin)
}

// validate checks everything that can be checked without opening model and data.
func (p Plan) validate() error {
	if p.Out == "" {
		return spec.Missing(append(p.MissingParameters(), param.Out)...)
	}
	checks := []func() error{p.Validate, p.validateSamples, p.validateMethod}
	if p.Law.Deterministic() {
		checks = []func() error{p.Validate, p.validateSamples, p.validateSplitting}
	}
	for _, check := range checks {
		if err := check(); err != nil {
			return err
		}
	}
	if p.Law.Deterministic() {
		return nil
	}
	parameters := p.Parameters()
	if p.Scales.Given() { // the scales are set when the data are opened
		parameters.Sigma = 1
	}
	target := parameters.Target(p.Alpha)
	target.Scaled = p.Scales.Given() || p.Scaled()
	if target.Scaled {
		if err := p.checkScaled(); err != nil {
			return err
		}
	}
	_, err := parameters.Certifiers(target)
	return spec.BadInput(err)
}

// validateSamples checks the numbers of samples and the radii of the summary.
func (p Plan) validateSamples() error {
	switch {
	case p.Law.Deterministic(): // the lattice determines the number of evaluations
	case p.N < 1:
		return spec.BadInputf("%s %d: want at least 1", param.N, p.N)
	case p.N0 < 0 || (p.N0 == 0 && p.Class == certify.Predicted):
		return spec.BadInputf("%s %d: the predicted class needs at least 1 selection sample", param.N0, p.N0)
	case p.N >= smoothing.MaxSamples || p.N0 >= smoothing.MaxSamples:
		return spec.BadInputf("%s %d, %s %d: want at most %d", param.N, p.N, param.N0, p.N0, smoothing.MaxSamples)
	}
	if err := p.validateClaim(); err != nil {
		return err
	}
	if err := certify.CheckRadii(p.Radii); err != nil {
		return spec.BadInputf("%s %w", param.Radii, err)
	}
	return nil
}

// validateClaim checks the parameters that change what certificates claim.
func (p Plan) validateClaim() error {
	switch {
	case p.TopK < 0:
		return spec.BadInputf("%s %d: want at least 1", param.TopK, p.TopK)
	case !(p.RejectBelow >= 0 && p.RejectBelow <= 1):
		return spec.BadInputf("%s %v: want a confidence from 0 to 1", param.RejectBelow, p.RejectBelow)
	case p.RejectBelow > 0 && !(p.Temperature > 0 && !math.IsInf(p.Temperature, 0)):
		return spec.BadInputf("%s %v: want a number above 0", param.Temperature, p.Temperature)
	case !p.Scores:
		return nil
	case p.TopK > 1:
		return spec.BadInputf("%s %d is for votes, not for %s", param.TopK, p.TopK, param.Scores)
	case p.None != certify.NoneAnswer:
		return spec.BadInputf("%s %s is for votes, not for %s", param.None, p.None, param.Scores)
	case p.RejectBelow > 0:
		return spec.BadInputf("%s %v is for votes, not for %s", param.RejectBelow, p.RejectBelow, param.Scores)
	}
	return nil
}

// validateMethod checks the parameters of votes and of scores.
func (p Plan) validateMethod() error {
	method, byVotes := p.Method.Votes()
	switch {
	case !p.Scores && !byVotes:
		return hint.Add(spec.BadInputf("%s %s is for scores", param.Method, p.Method), "add %s", param.Scores)
	case !p.Scores:
		return nil
	case !(p.Temperature > 0) || math.IsInf(p.Temperature, 0):
		return spec.BadInputf("%s %v: want a number above 0", param.Temperature, p.Temperature)
	case byVotes && len(p.ConfidenceRadii) == 0:
		return spec.BadInputf("%s %s is for votes, not for %s", param.Method, p.Method, param.Scores)
	case byVotes && !method.Sound():
		return spec.BadInputf("%s %s is not sound: it cannot certify the class whose confidence is bounded", param.Method, p.Method)
	case p.Stop.Given():
		return spec.BadInputf("%s %s: only votes can be stopped early, not scores", param.Stop, p.Stop)
	}
	return nil
}
