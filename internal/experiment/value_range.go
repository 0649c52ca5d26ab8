package experiment

import (
	"math"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
)

// The set-up is probably wrong if the range of the data is wider than muchSpan·σ, or if the model's input gets values
// above muchInput or below −muchInput.
const (
	muchSpan  = 200
	muchInput = 50
)

// rangeMistake reports whether σ, mean or std probably do not fit the range of the data. It also returns a text that
// says why.
func (e *Experiment) rangeMistake() (text param.Text, wrong bool) {
	if e.Spec.Noise == spec.Float || e.Spec.Scaled() {
		// with noise in floats, the range of the data is unknown; with a scale for each column, there is no common σ
		return text, false
	}
	data, symbol := e.noise.data, e.Spec.Law.Law().Words().Symbol
	span := float64(data.High) - float64(data.Low)
	if most := e.noise.largest(e.Spec); most > muchInput && (len(e.Spec.Mean) > 0 || len(e.Spec.Std) > 0) {
		return param.Textf("the model gets values up to %.3g: do %s and %s fit data from %.4g to %.4g?", most, param.Mean, param.Std, data.Low, data.High), true
	}
	if data.Kind == dataset.ByteLattice || span/e.Spec.Sigma <= muchSpan {
		return text, false
	}
	if image, _ := e.imageLike(); image {
		return param.Textf("the data go from %.4g to %.4g and %s is %v, in the same units: bytes are best given as bytes (uint8), which are scaled to [0,1]",
			data.Low, data.High, symbol, e.Spec.Sigma), true
	}
	return param.Textf("the data go from %.4g to %.4g and %s is %v, in the same units: scale the columns to a common range, or give each column its own %s (%s)",
		data.Low, data.High, symbol, e.Spec.Sigma, symbol, param.SigmaScale), true
}

// maybeFittedToBytes reports whether the model may have been fitted to whole numbers from 0 to 255. Models of
// scikit-learn are often fitted to raw bytes, but rscert scales bytes to [0,1].
func (e *Experiment) maybeFittedToBytes() bool {
	return e.noise.data.Kind == dataset.ByteLattice && e.file.Learned() && len(e.Spec.Std) == 0 && e.Spec.Noise != spec.Float && !e.Spec.Scaled()
}

// fittedToBytes returns a text that asks the user whether the model was fitted to whole numbers from 0 to 255.
func fittedToBytes() param.Text {
	return param.Textf("the data are whole numbers from 0 to 255, which were scaled to [0,1]; was the model fitted to them as they are? Then give %s %v (1/255)", param.Std, 1/255.)
}

// judgeRange judges whether the values are in the right units. It judges this from the range of the values. σ and radii
// are in the units of the values. Papers about images state σ and radii for values in [0,1].
func (e *Experiment) judgeRange(x looked) Finding {
	low, high := e.valueRange(x)
	symbol := e.Spec.Law.Law().Words().Symbol
	said := param.Textf("values from %.4g to %.4g", low, high)
	if text, wrong := e.rangeMistake(); wrong {
		return Finding{AspectScale, Suspect, text}
	}
	if e.maybeFittedToBytes() {
		return Finding{AspectScale, Unsure, fittedToBytes()}
	}
	outcome := Suspect
	switch image, sure := e.imageLike(); {
	case !image:
		return Finding{AspectScale, Fine, param.Textf("%s; %s and radii are in these units", said, symbol)}
	case low >= 0 && high <= 1 && !sure:
		return Finding{AspectScale, Fine, said}
	case low >= 0 && high <= 1:
		return Finding{AspectScale, Fine, param.Textf("%s, as usual for images", said)}
	case !sure:
		outcome = Unsure
	}
	switch {
	case x.whole && low >= 0:
		return Finding{AspectScale, outcome, param.Textf("%s, whole numbers: %s and radii are in these units, papers' are for images in [0,1]; give bytes as uint8, or divide the values by %.4g",
			said, symbol, high)}
	case low < 0:
		return Finding{AspectScale, outcome, param.Textf("%s: the values look already normalised, so %s and radii are in units of a standard deviation, papers' are for images in [0,1]; give images in [0,1] and normalise by %s and %s",
			said, symbol, param.Mean, param.Std)}
	}
	return Finding{AspectScale, outcome, param.Textf("%s, not [0,1]: %s and radii are in these units, papers' are for images in [0,1]", said, symbol)}
}

// valueRange returns the range of the data or, if it is unknown, the range of the examples.
func (e *Experiment) valueRange(x looked) (low, high float64) {
	if d := e.noise.data; d.Low != 0 || d.High != 0 || d.Kind != dataset.NoLattice {
		return float64(d.Low), float64(d.High)
	}
	return float64(x.low), float64(x.high)
}

// imageLike reports whether the examples are images. The result 'sure' is false if neither the data nor the model has
// the shape of an image. Then imageLike guesses: it takes the examples for images if their values would fill a square
// of at least 8×8 pixels with one or three channels.
func (e *Experiment) imageLike() (image, sure bool) {
	if shape := e.data.Shape(); len(shape) >= 2 {
		return true, true
	}
	if _, ok := e.model.Layout(); ok || e.model.TakesImages() {
		return true, true
	}
	n := e.model.InputLen()
	square := func(n int) bool {
		side := int(math.Round(math.Sqrt(float64(n))))
		return side >= 8 && side*side == n
	}
	return square(n) || n%3 == 0 && square(n/3), false
}
