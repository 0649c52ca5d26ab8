package run

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/predict"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

// PredictPlan says which smoothed classifier answers, and how.
type PredictPlan struct {
	// Spec is the experiment. If Run is set, Predict takes the experiment from the run. Only the paths, the options for
	// reading labels, the seed, the choice of examples, the device, the batch size and the number of threads still come
	// from Spec.
	Spec spec.Spec
	Run  string // run folder; empty for none

	Rule   predict.Rule
	Alpha  float64 // allowed probability of a wrong answer, for each input
	Budget int64   // maximum number of votes of the sequential rule
	N      int64   // number of votes if the rule is predict.ByFixed
	Round  bool    // if true, inputs that are off the run's lattice are rounded to this lattice

	// Conformal is the path of a conformal.json. If Conformal is not empty, each answer also gets a prediction set.
	Conformal string

	Certify *runfolder.Certification // parameters for certifying the class of each answer; nil: no certificates
	Version string

	voting runfolder.Certification // how samples vote, and what a vote for no class means; both come from the run
}

// Predicted is the result of Predict.
type Predicted struct {
	Model      string       `json:"model"`
	Data       string       `json:"data"`
	Run        string       `json:"run,omitempty"`    // the run folder
	RunID      string       `json:"run_id,omitempty"` // identifies the run (runfolder.Run.ID)
	Law        string       `json:"law"`
	Sigma      float64      `json:"sigma"`
	Norm       law.Norm     `json:"norm"`             // norm of the certificates' radii
	Scaled     bool         `json:"scaled,omitempty"` // radii are in units of the scales of the columns
	Claim      string       `json:"claim"`            // claim of a certificate, in words
	Rule       predict.Rule `json:"rule"`
	Alpha      float64      `json:"alpha"`
	Budget     int64        `json:"budget"` // maximum number of votes for an answer
	Arithmetic string       `json:"arithmetic"`
	Seed       uint64       `json:"seed"`
	Inputs     int          `json:"inputs"`
	Answered   int          `json:"answered"`
	Abstained  int          `json:"abstained"`
	Labelled   int          `json:"labelled"` // inputs with a label
	Correct    int          `json:"correct"`  // answers that equal the label
	Samples    int64        `json:"samples"`  // votes used by all answers together
	Seconds    float64      `json:"seconds"`
	// The field Different lists the software and GPUs that differ between the run and this machine.
	Different []string `json:"different,omitempty"`
	// Statement says what is guaranteed for the answers. Sets says what is guaranteed for the prediction sets.
	Statement string           `json:"statement"`
	Sets      string           `json:"sets,omitempty"`
	Answers   []predict.Answer `json:"answers"`
}

// closeExperiment closes an experiment. The result of the experiment is already known, so closeExperiment reports an
// error only as a warning.
func closeExperiment(e *experiment.Experiment, console experiment.Console) {
	if err := e.Close(); err != nil {
		console.Warnf(warning.CloseFailed, "%v", err)
	}
}

// Predict computes an answer for every input of the data. Errors in the user's input are InputErrors.
func Predict(ctx context.Context, p PredictPlan, console experiment.Console) (*Predicted, error) {
	recorded, err := p.settle()
	if err != nil {
		return nil, err
	}
	sets, err := p.readConformal()
	if err != nil {
		return nil, err
	}
	e, err := experiment.Open(ctx, p.Spec, console)
	if err != nil {
		return nil, err
	}
	defer closeExperiment(e, console)
	a := &answering{plan: p, experiment: e, sets: sets}
	if err := a.prepareSets(console); err != nil {
		return nil, err
	}
	r := &Predicted{Model: p.Spec.ModelName(), Data: p.Spec.Data, Run: p.Run, Rule: p.Rule, Alpha: p.Alpha, Budget: p.votes(), Seed: e.Spec.Seed}
	now := e.Record()
	if recorded != nil {
		if r.Different, err = sameClassifier(*recorded, now); err != nil {
			return nil, err
		}
		for _, d := range r.Different {
			console.Warnf(warning.OtherConditions, "%s: votes near ties may differ", d)
		}
		r.RunID = recorded.ID()
	}
	if err := a.begin(now, r); err != nil {
		return nil, err
	}
	began := time.Now()
	if err := a.run(ctx, r, console); err != nil {
		return nil, err
	}
	r.Seconds = time.Since(began).Seconds()
	r.Statement, r.Sets = p.statement(recorded, r.Different), a.setStatement(r.Answers)
	return r, nil
}

// settle checks the plan and completes it from the plan's run. It returns this run.
func (p *PredictPlan) settle() (*runfolder.Run, error) {
	if err := predict.CheckAlpha(p.Alpha); err != nil {
		return nil, spec.BadInput(param.Errorf("%s %w", param.Alpha, err))
	}
	if n := p.votes(); n < 1 || n >= smoothing.MaxSamples {
		return nil, spec.BadInputf("%d votes: want 1 to %d", n, smoothing.MaxSamples-1)
	}
	p.Spec.KeepOutputs = true // every device must return the outputs: Observe needs them
	if p.Run == "" {
		if c := p.Certify; c != nil {
			c.Class = certify.Predicted
		}
		return nil, spec.BadInput(p.Spec.Law.NeedRandom())
	}
	recorded, err := runfolder.Read(p.Run)
	if err != nil {
		return nil, spec.BadInput(err)
	}
	if _, sealed := recorded.Format(); !sealed {
		return nil, hint.Add(spec.BadInputf("%s: is of format 1, which does not record its lattice", p.Run), "certify again with this version")
	}
	if _, byVotes := recorded.Parameters.Method.Votes(); !byVotes {
		return nil, hint.Add(spec.BadInputf("%s: its certificates are about the class with the largest mean score, and this command answers the class with the most votes", p.Run),
			"certify by votes, or leave out %s", param.Run)
	}
	if err := needOneClass(p.Run, recorded); err != nil {
		return nil, err
	}
	p.voting = recorded.Parameters.Certification
	if p.Spec, err = reopen(recorded, p.Spec, p.Round); err != nil {
		return nil, err
	}
	return &recorded, p.certifyAs(recorded)
}

// certifyAs takes the parameters of certification from the run if the plan asks for certificates. If the plan has a
// stopping rule, certifyAs keeps this rule.
func (p *PredictPlan) certifyAs(recorded runfolder.Run) error {
	if p.Certify == nil {
		return nil
	}
	stop, c := p.Certify.Stop, recorded.Parameters.Certification
	c.Class, c.Scores, c.SaveScores, c.ConfidenceRadii, c.Confidence, c.ConfidenceBound, c.Band = certify.Predicted, false, false, nil, "", "", ""
	if c.N0 < 1 {
		c.N0 = 100
	}
	if stop.Given() {
		c.Stop = stop
	}
	p.Certify = &c
	return nil
}

// voter returns the function that computes a sample's vote from its outputs. The result nil stands for smoothing.Vote.
func (p PredictPlan) voter(e *experiment.Experiment) func([]float32) int {
	return voter(p.voting, e.Model().Outputs())
}

// votes is the maximum number of votes for an answer.
func (p PredictPlan) votes() int64 {
	if p.Rule == predict.ByFixed {
		return p.N
	}
	return p.Budget
}

// statement returns the text of Predicted.Statement.
func (p PredictPlan) statement(recorded *runfolder.Run, different []string) string {
	s := fmt.Sprintf("An answer differs from the class of the smoothed classifier with probability at most %g for each input.", p.Alpha)
	if recorded == nil || !certifiesVotes(*recorded) {
		return s
	}
	if len(different) > 0 {
		return s + " The certificates of the run are about the software and hardware of the run, which differ here."
	}
	a := recorded.Parameters.Alpha
	if recorded.Parameters.Scaled() {
		s += " Radii are in units of each column's scale, and hold for inputs with the same values in the frozen columns."
	}
	return s + fmt.Sprintf(" Around an input that the run certifies, every lattice input within the radius gets the certified class or "+
		"an abstention, except with probability %g + Q·%g for Q queries, even if each query depends on the answers before.", a, p.Alpha)
}

// certifiesVotes reports whether a run's certificates are sound and exact, and certify the class with the most votes.
func certifiesVotes(r runfolder.Run) bool {
	method, byVotes := r.Parameters.Method.Votes()
	return byVotes && method.Sound() && r.Target(r.Parameters.Alpha).Arithmetic == certify.Exact
}

// answering is a PredictPlan that is being carried out.
type answering struct {
	plan       PredictPlan
	experiment *experiment.Experiment
	level      float64 // Alpha minus a correction for the finite length of the noise's random words
	certifiers runfolder.Certifiers
	take       func(predict.Answer)
	sets       *applying // computes prediction sets; nil: none
}

// begin computes the failure probabilities (levels) for the answers and for the certificates, and prepares the
// certifiers.
func (a *answering) begin(now runfolder.Run, r *Predicted) (err error) {
	p := a.plan
	n := p.votes()
	if c := p.Certify; c != nil {
		most := max(n, c.N)
		now.Parameters.Certification = *c
		now.Parameters.N = most
		// An answer may take more votes than c.N. The level of 'target' allows for the finite length of the noise's
		// random words. So it must allow for the words of 'most' votes, not only of c.N votes.
		target := now.Target(c.Alpha)
		now.Parameters.N = c.N
		if a.certifiers, err = now.Parameters.Certifiers(target); err != nil {
			return spec.BadInput(err)
		}
		n = most + c.N0
	}
	now.Parameters.N0, now.Parameters.N = 0, n
	target := now.Target(p.Alpha)
	a.level = p.Alpha
	if target.Arithmetic == certify.Exact {
		a.level = target.Level
	}
	if !(a.level > 0) {
		return spec.BadInputf("%s: too many draws for this noise table: lower the number of votes", param.Alpha)
	}
	r.Scaled, r.Norm, r.Claim = p.Spec.Scaled(), p.Spec.Law.Law().Norm(), a.plan.voting.Claim().Says()
	r.Law, r.Sigma, r.Arithmetic = string(p.Spec.Law.Law().Name()), p.Spec.Sigma, target.Arithmetic.String()
	return nil
}

// run computes the answers for all inputs.
func (a *answering) run(ctx context.Context, r *Predicted, console experiment.Console) error {
	positions := a.experiment.Positions()
	bar := progress.Start(console.Progress, "predict", int64(len(positions)), 0)
	defer bar.Finish()
	a.take = func(answer predict.Answer) {
		r.count(answer)
		bar.Add(1, fmt.Sprintf("%d answered, %d abstained", r.Answered, r.Abstained))
	}
	s := a.experiment.Sampler()
	s.SkipClean, s.Voter = true, a.plan.voter(a.experiment)
	if a.plan.Certify != nil {
		s.N0 = a.plan.Certify.N0
	}
	next := 0
	err := s.Run(ctx, func() (smoothing.Experiment, error) {
		if next == len(positions) {
			return nil, nil
		}
		example, err := a.experiment.Example(positions[next])
		next++
		if err != nil {
			return nil, err
		}
		return a.start(example), nil
	})
	var dependence *smoothing.DependenceError
	if errors.As(err, &dependence) {
		return fmt.Errorf("%w: the smoothed classifier is no function of one input, and has no answer", err)
	}
	return err
}

// count appends an answer to the result and updates the result's counts.
func (r *Predicted) count(a predict.Answer) {
	r.Inputs++
	r.Samples += a.Samples
	if a.Class == predict.Abstained {
		r.Abstained++
	} else {
		r.Answered++
	}
	if a.Label != nil {
		r.Labelled++
		if a.Class == *a.Label {
			r.Correct++
		}
	}
	r.Answers = append(r.Answers, a)
}
