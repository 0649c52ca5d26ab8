package experiment

import (
	"context"
	"errors"
	"fmt"
	"image"
	"image/color"
	imagedraw "image/draw"
	"math"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// ErrOtherData means that a data set differs from the run's data set. OpenPictures wraps this error.
var ErrOtherData = errors.New("is not the data set of the run")

// Pictures draws the examples of a run whose inputs are images.
type Pictures struct {
	data  *dataset.Dataset
	run   runfolder.Run
	noise noise
}

// OpenPictures opens the data set of a run. The digest of the data set must equal the digest in run.json. The caller
// must Close the result.
func OpenPictures(ctx context.Context, run runfolder.Run, path string) (*Pictures, error) {
	data, err := dataset.Open(ctx, path, run.Data.Options)
	if err != nil {
		return nil, spec.BadInput(err)
	}
	p := &Pictures{data: data, run: run}
	if err := p.prepare(ctx, path); err != nil {
		return nil, errors.Join(spec.BadInput(err), p.Close())
	}
	return p, nil
}

func (p *Pictures) prepare(ctx context.Context, path string) (err error) {
	shape := p.run.Data.Shape
	if len(shape) > 0 {
		p.data.FitChannels(shape[0])
	}
	if p.data.SHA256() != p.run.Data.SHA256 {
		return fmt.Errorf("%s: %w: its SHA-256 is %.12s…, run.json has "+
			"%.12s…", path, ErrOtherData, p.data.SHA256(), p.run.Data.SHA256)
	}
	if !Drawable(shape) {
		return fmt.Errorf("%s: examples of shape %v are no images of 1 or 3 channels", path, shape)
	}
	if p.run.Parameters.Noise == spec.Float {
		return nil
	}
	if p.run.Parameters.Scaled() {
		return fmt.Errorf("%s: pictures are drawn of noise with one σ, and the run has a σ for each channel", path)
	}
	if p.noise.data, err = p.data.Lattice(ctx); err != nil {
		return err
	}
	p.noise.seed, p.noise.inputs = p.run.Parameters.Seed, int(p.run.Inputs())
	return p.noise.plain(p.run.Parameters.Law.Law(), p.run.Parameters.Sigma)
}

// Draw makes two images of an example from the run's data set. The first image has no noise. The second image has noise
// of the run's law and seed. Draw clips values to [0,1].
func (p *Pictures) Draw(index int) (input, noisy image.Image, err error) {
	if index < 0 || index >= p.data.Len() {
		return nil, nil, spec.BadInputf("example %d: the data set has %d", index, p.data.Len())
	}
	example, err := p.data.Example(index)
	if err != nil {
		return nil, nil, spec.BadInput(err)
	}
	values := make([]float32, len(example.Values))
	parameters := p.run.Parameters
	err = p.noise.perturb(values, example.Values, parameters.Sigma, smoothing.NewStream(parameters.Seed, index, smoothing.Selection))
	return drawRGB(example.Values, p.run.Data.Shape), drawRGB(values, p.run.Data.Shape), err
}

// Close closes the data set.
func (p *Pictures) Close() error { return p.data.Close() }

// Drawable reports whether values of this shape are an image of 1 or 3 channels.
func Drawable(shape []int) bool { return len(shape) == 3 && (shape[0] == 1 || shape[0] == 3) }

// drawRGB converts values [C,H,W] to an image. It clips the values to [0,1].
func drawRGB(values []float32, shape []int) image.Image {
	channels, h, w := shape[0], shape[1], shape[2]
	picture := image.NewRGBA(image.Rect(0, 0, w, h))
	for i := range h * w {
		pixel := func(c int) uint8 {
			return uint8(math.Round(255 * min(max(float64(values[c%channels*h*w+i]), 0), 1)))
		}
		picture.SetRGBA(i%w, i/w, color.RGBA{pixel(0), pixel(1), pixel(2), 255})
	}
	return picture
}

// The method 'plain' prepares the noise for values in the units of the data, not for normalised values.
func (n *noise) plain(l law.Law, sigma float64) error {
	n.channel = func(int) int { return 0 }
	return n.prepare(l, sigma, []float64{0}, []float64{1})
}

// perturb writes an example with noise to dst, in the order and units of the data.
func (n *noise) perturb(dst, example []float32, sigma float64, s smoothing.Stream) error {
	if n.data.Kind == dataset.NoLattice && !n.onLattice() {
		scale := make([]float32, len(example))
		for d := range scale {
			scale[d] = float32(sigma)
		}
		smoothing.FloatInput{Values: example, Scale: scale}.Perturb(dst, s, 0)
		return nil
	}
	integers, _ := n.integers(example)
	input, err := n.place(integers)
	if err == nil {
		input.Perturb(dst, s, 0)
	}
	return err
}

// DrawAttacked makes one image from three pictures, side by side: the example, the change that an attack made, and the
// attacked example. Grey means no change. DrawAttacked scales the changes so that the largest change becomes black or
// white. It clips values to [0,1]. The shape must be Drawable.
func DrawAttacked(example, attacked []float32, shape []int) image.Image {
	most := float32(0)
	for i, v := range example {
		most = max(most, attacked[i]-v, v-attacked[i])
	}
	change := make([]float32, len(example))
	for i, v := range example {
		change[i] = .5
		if most > 0 {
			change[i] += (attacked[i] - v) / (2 * most)
		}
	}
	const gap = 1
	w := shape[2] + gap
	joined := image.NewRGBA(image.Rect(0, 0, 3*w-gap, shape[1]))
	imagedraw.Draw(joined, joined.Bounds(), image.White, image.Point{}, imagedraw.Src)
	for k, values := range [][]float32{example, change, attacked} {
		at := image.Rect(k*w, 0, k*w+shape[2], shape[1])
		imagedraw.Draw(joined, at, drawRGB(values, shape), image.Point{}, imagedraw.Src)
	}
	return joined
}
