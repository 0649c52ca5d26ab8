package spec

import (
	"math"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/param"
)

// SigmaColumn gives the scale of the noise in one column of a table, or in one colour channel of images.
type SigmaColumn struct {
	Name  string  `json:"name"`
	Sigma float64 `json:"sigma"` // scale of the noise, in the column's own units; 0: no noise
}

// Scaled reports whether each column has its own scale. Sigma is then 1, and radii are in units of the columns' scales.
func (s Smoothing) Scaled() bool { return len(s.SigmaColumns) > 0 }

// Noisy returns the number of columns with noise.
func (s Smoothing) Noisy() (n int) {
	for _, c := range s.SigmaColumns {
		if c.Sigma > 0 {
			n++
		}
	}
	return n
}

// ScaleKind says how the scales of columns are computed from data.
type ScaleKind string

// StandardDeviation scales the noise of a column by the column's standard deviation.
const StandardDeviation ScaleKind = "std"

// ScaleKinds lists all kinds.
var ScaleKinds = choice.Of("scale", StandardDeviation).Optional()

func (k ScaleKind) String() string { return string(k) }

// Scales says where the scales of the columns come from. The zero value means one scale for all columns.
type Scales struct {
	File     string    // CSV or JSON file: names of columns and their scales
	Channels []float64 // scales of the colour channels
	Kind     ScaleKind // if given, a column's scale is Sigma times the column's standard deviation in Data
	Data     string    // path of the data set from which the scales are computed if Kind is given
	Noisy    []string  // columns that get noise although they hold whole numbers; by default, such columns get none
}

// Given reports whether the user asked for a scale for each column.
func (s Scales) Given() bool { return s.File != "" || len(s.Channels) > 0 || s.Kind != "" }

// validateScales checks the parameters of the columns' scales. It is a part of Validate.
func (s Spec) validateScales() error {
	c := s.Scales
	switch {
	case c.Kind == "" && c.Data != "":
		return BadInputf("%s has no effect without %s std", param.ScaleData, param.SigmaScale)
	case c.Kind == "" && len(c.Noisy) > 0:
		return BadInputf("%s has no effect without %s std: give the columns a σ by %s", param.NoisyColumns, param.SigmaScale, param.SigmaColumns)
	case !c.Given() && !s.Scaled():
		return nil
	case s.Noise == Float:
		return BadInputf("%s float: a σ for each column is for noise on a lattice", param.Noise)
	case s.Denoiser != "":
		return BadInputf("%s: denoisers are for one σ, not for a σ for each column", param.Denoiser)
	case s.NoiseOn == NoiseOnDevice && s.Noise == Lattice:
		return BadInputf("%s device: noise with a σ for each column is made on the host", param.NoiseOn)
	case !c.Given():
		return nil
	case c.File != "" && len(c.Channels) > 0, c.File != "" && c.Kind != "", len(c.Channels) > 0 && c.Kind != "":
		return BadInputf("%s, %s and %s: give one of them", param.SigmaColumns, param.SigmaChannels, param.SigmaScale)
	case c.Kind != "" && c.Data == "":
		return BadInputf("%s %s: give the data of the standard deviations by %s, for example the training data", param.SigmaScale, c.Kind, param.ScaleData)
	case c.Kind == "" && s.Sigma != 0:
		return BadInputf("%s %v: %s or %s gives every column its σ", param.Sigma, s.Sigma, param.SigmaColumns, param.SigmaChannels)
	}
	return CheckScales(param.SigmaChannels, c.Channels)
}

// CheckScales returns an error if a scale is negative, infinite or NaN.
func CheckScales(of param.Name, scales []float64) error {
	for _, v := range scales {
		if !(v >= 0) || math.IsInf(v, 1) {
			return BadInputf("%s %v: want numbers from 0; 0 freezes", of, v)
		}
	}
	return nil
}
