package run

import (
	"context"
	"fmt"
	"time"

	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/runfolder"
)

// Check is the result of certify --check: what certify would run, and a first look at it.
type Check struct {
	Model       string          `json:"model"` // input and output
	Classes     int             `json:"classes"`
	DataClasses int             `json:"data_classes"` // the largest label and one
	Data        string          `json:"data"`         // format and shape
	Values      string          `json:"values"`
	Low         float64         `json:"low"`
	High        float64         `json:"high"`
	Examples    int             `json:"examples"` // of the run
	Device      string          `json:"device"`
	Look        experiment.Look `json:"look"`
	// Seconds is the time that sampling would take at the speed of the look, at most.
	Seconds float64 `json:"seconds"`
	Image   string  `json:"image,omitempty"` // a noisy example
	// Denoiser stands in front of the model, if any: the look is at the pair.
	Denoiser *runfolder.Denoiser `json:"denoiser,omitempty"`
}

// CheckRun looks at the experiment of a plan, without sampling and without a run folder. If picture is not empty, a noisy
// example is written there, as PNG.
func CheckRun(ctx context.Context, p Plan, picture string, console experiment.Console) (Check, error) {
	p.Settle()
	if p.Out == "" {
		p.Out = "-" // nothing is written
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
		Data: fmt.Sprintf("%s %v", data.Format, data.Shape), Values: data.Values, Low: data.Low, High: data.High,
		Examples: len(r.positions), Device: fmt.Sprintf("%s, %s", e.Device(), e.Model().Precision()), Look: l, Image: picture,
		Denoiser: e.Denoiser(),
	}
	if l.SamplesPerSecond > 0 {
		c.Seconds = float64(len(r.positions)) * float64(r.plan.N0+r.plan.N) / l.SamplesPerSecond
	}
	if picture != "" {
		err = e.DrawNoisy(picture)
	}
	return c, err
}

// Duration writes c.Seconds for a reader.
func (c Check) Duration() string { return duration(c.Seconds) }

// duration writes a number of seconds for a reader.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d >= time.Minute {
		return d.Round(time.Minute).String()
	}
	return d.Round(time.Second).String()
}
