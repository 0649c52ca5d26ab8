package run

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"time"

	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
)

// Check is what certify --check finds: what would be run, and a first look at it.
type Check struct {
	Model       string  `json:"model"` // input and output
	Classes     int     `json:"classes"`
	DataClasses int     `json:"data_classes"` // the largest label and one
	Data        string  `json:"data"`         // format and shape
	Values      string  `json:"values"`
	Low         float64 `json:"low"`
	High        float64 `json:"high"`
	Examples    int     `json:"examples"` // of the run
	Device      string  `json:"device"`
	Look        Look    `json:"look"`
	// Seconds that sampling would take at the speed of the look; --stop makes it less.
	Seconds float64 `json:"seconds"`
	Image   string  `json:"image,omitempty"` // a noisy example
	// Denoiser is the one in front of the model, if any: the look is at the pair.
	Denoiser *runfolder.Denoiser `json:"denoiser,omitempty"`
}

// CheckRun looks at what a plan would run, without sampling and without a run folder. If
// image is not empty, a noisy example is written there, as PNG.
func CheckRun(ctx context.Context, p Plan, picture string, console Console) (Check, error) {
	p.Settle()
	if p.Out == "" {
		p.Out = "-" // nothing is written
	}
	p.Resume = false
	r, err := prepare(ctx, p, console)
	if err != nil {
		return Check{}, err
	}
	defer r.inputs.close()
	l, err := r.look(ctx)
	if err != nil {
		return Check{}, err
	}
	r.warn(l)
	in := r.inputs
	c := Check{
		Model: fmt.Sprintf("%s → %s", in.model.Input(), in.model.Output()), Classes: in.model.Classes(), DataClasses: in.data.Classes(),
		Data: fmt.Sprintf("%s %v", in.data.Format(), in.data.Shape()), Values: in.noise.String(),
		Low: float64(in.noise.data.Low), High: float64(in.noise.data.High),
		Examples: len(r.positions), Device: fmt.Sprintf("%s, %s", in.device(), in.model.Precision()), Look: l, Image: picture,
		Denoiser: in.denoiser,
	}
	if l.SamplesPerSecond > 0 {
		c.Seconds = float64(len(r.positions)) * float64(r.plan.N0+r.plan.N) / l.SamplesPerSecond
	}
	if picture != "" {
		err = r.drawNoisy(picture)
	}
	return c, err
}

// Duration is c.Seconds as one reads it.
func (c Check) Duration() string { return duration(c.Seconds) }

// duration is a number of seconds as one reads it.
func duration(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	if d >= time.Minute {
		return d.Round(time.Minute).String()
	}
	return d.Round(time.Second).String()
}

// drawNoisy writes the run's first example with noise, as an image, clipped to [0,1].
func (r *running) drawNoisy(path string) error {
	shape := r.inputs.data.Shape()
	if !drawable(shape) {
		return badInputf("%s %s: examples of shape %v are no images of 1 or 3 channels", param.CheckImage, path, shape)
	}
	example, err := r.inputs.data.Example(r.positions[0])
	if err != nil {
		return BadInput(err)
	}
	values := make([]float32, len(example.Values))
	p := r.plan
	if err := r.inputs.noise.perturb(values, example.Values, p.Sigma, smoothing.NewStream(p.Seed, 0, smoothing.Selection)); err != nil {
		return err
	}
	picture := drawRGB(values, shape)
	var b bytes.Buffer
	if err := png.Encode(&b, picture); err != nil {
		return err
	}
	return durable.WriteFile(path, b.Bytes())
}
