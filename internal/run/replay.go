package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/rscert/rscert/internal/auditlog"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/predict"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// Replayed is the result of Replay.
type Replayed struct {
	Log      string `json:"log"`
	Run      string `json:"run"`
	RunID    string `json:"run_id"`
	Logged   int    `json:"logged"`   // answers in the log
	Absent   int    `json:"absent"`   // answers whose inputs are not in the data
	Repeated int    `json:"repeated"` // answers that equal the logged answers, bit for bit
	// The field Different lists the answers that differ from the logged answers.
	Different []ReplayDifference `json:"different,omitempty"`
}

// ReplayDifference is an answer that differs from the logged answer.
type ReplayDifference struct {
	Line   int64          `json:"line"` // line of the log
	Logged predict.Answer `json:"logged"`
	Now    predict.Answer `json:"now"`
}

// ModelOf returns the path of the (first) model in a run folder's run.json.
func ModelOf(folder string) (string, error) {
	recorded, err := runfolder.Read(folder)
	model, _ := recorded.Model.Paths()
	return model, spec.BadInput(err)
}

// Replay computes the answers of a server's audit log again, and compares them with the logged answers. It skips
// answers whose inputs are not in the data. The log, not the plan, determines the rule, the levels, and which answers
// have certificates. Errors in the user's input are InputErrors.
func Replay(ctx context.Context, p PredictPlan, log string, console experiment.Console) (*Replayed, error) {
	recorded, err := runfolder.Read(p.Run)
	if err != nil {
		return nil, spec.BadInput(err)
	}
	var lines []auditlog.Line
	if err := auditlog.Read(log, recorded.Seed(), func(l auditlog.Line) error {
		lines = append(lines, l)
		return nil
	}); err != nil {
		return nil, spec.BadInput(err)
	}
	if len(lines) == 0 || lines[0].Session == nil {
		return nil, spec.BadInputf("%s: does not begin with a session", log)
	}
	first := lines[0].Session
	p.adopt(*first)
	if p.Spec.Batch == 0 {
		p.Spec.Batch = first.Batch
	}
	a, err := OpenAnswerer(ctx, p, console)
	if err != nil {
		return nil, err
	}
	sampler, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(sampler) }()
	r := &Replayed{Log: log, Run: p.Run, RunID: a.about.RunID}
	err = a.replay(ctx, r, lines, console)
	a.Stop()
	return r, errors.Join(err, <-ended, a.Close())
}

// adopt copies the rule and its settings from a logged session to the plan.
func (p *PredictPlan) adopt(s auditlog.Session) {
	p.Rule, p.Alpha, p.Round = s.Rule, s.Alpha, s.Round
	if s.Rule == predict.ByFixed {
		p.N = s.Budget
	} else {
		p.Budget = s.Budget
	}
}

// replay computes the answers in an audit log again.
func (a *Answerer) replay(ctx context.Context, r *Replayed, lines []auditlog.Line, console experiment.Console) error {
	inputs, err := a.inputsByHash(ctx)
	if err != nil {
		return err
	}
	bar := progress.Start(console.Progress, "replay", int64(len(lines)), 0)
	defer bar.Finish()
	p := a.plan
	for _, l := range lines {
		bar.Add(1, fmt.Sprintf("%d repeated, %d different", r.Repeated, len(r.Different)))
		if s := l.Session; s != nil {
			if s.RunID != a.about.RunID {
				return spec.BadInputf("%s: line %d: a session of run %s, not of %s", r.Log, l.Line, s.RunID, a.about.RunID)
			}
			p.adopt(*s)
			continue
		}
		r.Logged++
		values, ok := inputs[l.Answer.Input]
		if !ok {
			r.Absent++
			continue
		}
		if err := a.repeat(ctx, p, r, l, values); err != nil {
			return fmt.Errorf("%s: line %d: %w", r.Log, l.Line, err)
		}
	}
	return nil
}

// repeat computes one logged answer again. If the new answer equals the logged answer, repeat counts it in r.Repeated.
// Otherwise repeat adds both answers to r.Different.
func (a *Answerer) repeat(ctx context.Context, p PredictPlan, r *Replayed, l auditlog.Line, values []float32) error {
	key, err := strconv.ParseUint(l.Answer.Key, 16, 64)
	if err != nil {
		return spec.BadInput(err)
	}
	now, err := a.ask(ctx, p, Question{
		Inputs: [][]float32{values}, Certify: l.Answer.Certify, Radius: l.Answer.Radius, Key: &key, First: l.Answer.Index,
	})
	if err != nil {
		return err
	}
	was, is := l.Answer.Answer, now.Answers[0]
	if a.sets == nil { // the log may have prediction sets, but without the predictor the replay cannot repeat them
		was.Set = nil
	}
	first, err := json.Marshal(was)
	if err != nil {
		return err
	}
	second, err := json.Marshal(is)
	if err != nil {
		return err
	}
	if string(first) == string(second) {
		r.Repeated++
	} else {
		r.Different = append(r.Different, ReplayDifference{l.Line, was, is})
	}
	return nil
}

// inputsByHash reads the data. It returns a map from the InputHash of each example to the example's values.
func (a *Answerer) inputsByHash(ctx context.Context) (map[string][]float32, error) {
	inputs := map[string][]float32{}
	for _, position := range a.experiment.Positions() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		example, err := a.experiment.Values(position)
		if err != nil {
			return nil, err
		}
		inputs[InputHash(example.Values)] = example.Values
	}
	return inputs, nil
}
