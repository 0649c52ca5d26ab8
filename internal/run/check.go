package run

import (
	"context"
	"fmt"
	"time"

	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
)

// Check is the result of certify --check: a description of the run, and the results of a short test of the experiment.
type Check struct {
	Model       string          `json:"model"` // the model's input and output
	Classes     int             `json:"classes"`
	DataClasses int             `json:"data_classes"` // the largest label plus one
	Data        string          `json:"data"`         // format and shape
	Values      string          `json:"values"`
	Low         float32         `json:"low"`
	High        float32         `json:"high"`
	Examples    int             `json:"examples"` // number of examples of the run
	Device      string          `json:"device"`
	Look        experiment.Look `json:"look"`
	// Precisions compares each lower precision of the device with float32. It compares the speeds of a small network on
	// this machine. Precisions is empty if the device computes only in float32.
	Precisions []PrecisionAdvice `json:"precisions,omitempty"`
	// Verdict judges whether the model and the data fit each other.
	Verdict []CheckVerdict `json:"verdict"`
	// Seconds is the maximum time that sampling takes at the speed of the short test.
	Seconds float64 `json:"seconds"`
	Image   string  `json:"image,omitempty"` // path of a picture of a noisy example
	// Denoiser is the denoiser in front of the model, if any. The short test runs the denoiser and the model together.
	Denoiser *runfolder.Denoiser `json:"denoiser,omitempty"`
}

// PrecisionAdvice advises for or against a precision.
type PrecisionAdvice struct {
	Device    string         `json:"device"`
	Precision onnx.Precision `json:"precision"`
	Against   string         `json:"against"` // device to compare with: the fastest in float32 on the same hardware
	Ratio     float64        `json:"ratio"`
	Faster    bool           `json:"faster"`
	Text      string         `json:"text"`
}

// AdvisePrecisions returns the advice that follows from the speeds of a small network. The argument 'spell' formats the
// names of parameters.
func AdvisePrecisions(speeds []onnx.Speed, spell param.Spelling) (advice []PrecisionAdvice) {
	for _, g := range onnx.Gains(speeds) {
		advice = append(advice, PrecisionAdvice{g.Device.String(), g.Precision, g.Against.String(), g.Ratio, g.Faster(), g.Text().Spell(spell)})
	}
	return advice
}

// CheckVerdict is the judgement of one aspect of the set-up.
type CheckVerdict struct {
	Aspect  experiment.Aspect  `json:"aspect"`  // layout, scale, classes, labels or accuracy
	Outcome experiment.Outcome `json:"outcome"` // ok, unsure or suspect
	Text    string             `json:"text"`
}

// CheckRun briefly tests the experiment of a plan. It certifies nothing and writes no run folder. If the argument
// 'picture' is not empty, CheckRun writes a noisy example to this path, as PNG. The argument 'spell' formats the names
// of parameters in the verdict.
func CheckRun(ctx context.Context, p Plan, picture string, spell param.Spelling, console experiment.Console) (Check, error) {
	p.Settle()
	if p.Out == "" {
		p.Out = "-" // a check writes no folder
	}
	p.Resume = false
	r, err := prepare(ctx, p, console)
	if err != nil {
		return Check{}, err
	}
	defer r.close()
	e := r.experiment
	l, err := e.Look(ctx)
	if err != nil {
		return Check{}, err
	}
	e.Warn(l)
	data := e.Data()
	c := Check{
		Model: fmt.Sprintf("%s → %s", e.Model().Input(), e.Model().Output()), Classes: e.Model().Classes(), DataClasses: data.Classes,
		Data: fmt.Sprintf("%s %v", data.Format, data.Shape), Values: data.Values, Low: float32(l.Low), High: float32(l.High),
		Examples: len(r.positions), Device: fmt.Sprintf("%s, %s", e.Device(), e.Model().Precision()), Look: l, Image: picture,
		Denoiser: e.Denoiser(),
	}
	for _, f := range l.Findings {
		c.Verdict = append(c.Verdict, CheckVerdict{f.Aspect, f.Outcome, f.Text.Spell(spell)})
	}
	if e.Device().HasPrecisions() {
		speeds, err := e.Library().MeasureSpeeds(ctx, e.Device(), e.Threads())
		if err != nil {
			return Check{}, err
		}
		c.Precisions = AdvisePrecisions(speeds, spell)
	}
	if l.SamplesPerSecond > 0 {
		c.Seconds = float64(len(r.positions)) * float64(r.plan.N0+r.plan.N) / l.SamplesPerSecond
	}
	if picture != "" {
		err = e.DrawNoisy(picture)
	}
	return c, err
}

// Duration formats c.Seconds for a reader.
func (c Check) Duration() string { return Duration(c.Seconds) }

// Duration formats a number of seconds for a reader: 45s, 6m or 3h9m.
func Duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second)).Round(time.Second)
	if d < time.Minute {
		return d.String()
	}
	d = d.Round(time.Minute)
	switch hours, minutes := int(d.Hours()), int(d.Minutes())%60; {
	case hours == 0:
		return fmt.Sprintf("%dm", minutes)
	case minutes == 0:
		return fmt.Sprintf("%dh", hours)
	default:
		return fmt.Sprintf("%dh%dm", hours, minutes)
	}
}
