package summary

import (
	"math"
	"slices"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/spec"
)

// NormTitle names the norm of the radii, for example "L2" or "scaled L2".
func (c Conditions) NormTitle() string {
	return certify.NormTitle(c.Norm, c.Scaled)
}

// RadiusTitle names a radius with its norm, for example "L2 radius".
func (c Conditions) RadiusTitle() string { return c.NormTitle() + " radius" }

// Columns says what a radius r means for each column of the data. In each column, r is measured in units of the scale
// of the noise in that column. A perturbation δ is within r if it is 0 in the Frozen columns and the norm of
// δ_d/scale_d over the other columns d is at most r.
type Columns struct {
	// Radius is the radius r. It equals Options.AxesRadius or, if this option is 0, the median certified radius.
	Radius   float64    `json:"radius"`
	SemiAxes []SemiAxis `json:"semi_axes"`
	// Inscribed is the radius of the largest ball inside the certified set, if only the noisy columns change. It is
	// r·min scale_d over these columns, rounded down.
	Inscribed float64 `json:"inscribed_ball"`
	// Proxy is r·(Π scale_d)^{1/|P|} over the set P of the noisy columns. Proxy is the radius of a ball that has the
	// same volume as the certified set. It certifies nothing.
	Proxy  float64  `json:"proxy_radius"`
	Frozen []string `json:"frozen,omitempty"` // columns without noise
}

// SemiAxis says how far a column may change if no other column changes.
type SemiAxis struct {
	Column string  `json:"column"`
	Scale  float64 `json:"scale"`  // scale of the noise, in the units of the column
	Length float64 `json:"length"` // r·scale, rounded down, in the units of the column
}

// columns explains a radius in the units of each column. The radius 0 stands for the median radius of the correct
// examples. columns returns nil if the noise has only one scale, or if the run is unknown.
func (s Summary) columns(radius float64) *Columns {
	if s.Run == nil || !s.Run.Parameters.Scaled() {
		return nil
	}
	if radius == 0 {
		radius = s.medianRadius()
	}
	return NewColumns(radius, s.Run.Parameters.SigmaColumns)
}

// NewColumns returns what the radius r means in the units of each of the given columns.
func NewColumns(r float64, columns []spec.SigmaColumn) *Columns {
	c := &Columns{Radius: r, SemiAxes: []SemiAxis{}}
	down := func(x float64) float64 { return certify.RoundDown(x * (1 - 0x1p-50)) }
	smallest, logs := math.Inf(1), 0.
	for _, column := range columns {
		if column.Sigma == 0 {
			c.Frozen = append(c.Frozen, column.Name)
			continue
		}
		c.SemiAxes = append(c.SemiAxes, SemiAxis{column.Name, column.Sigma, down(r * column.Sigma)})
		smallest, logs = min(smallest, column.Sigma), logs+math.Log(column.Sigma)
	}
	c.Inscribed, c.Proxy = down(r*smallest), r*math.Exp(logs/float64(len(c.SemiAxes)))
	return c
}

// medianRadius returns the median radius of the correct examples, or 0 if there are none. For an even number of
// examples, it returns the smaller of the two middle radii.
func (s Summary) medianRadius() float64 {
	radii := correctRadii(s.all())
	if len(radii) == 0 {
		return 0
	}
	slices.Sort(radii)
	return radii[(len(radii)-1)/2]
}

// SameScales reports whether radii of two runs are in the same units.
func SameScales(a, b Summary) bool {
	if a.Conditions.Scaled != b.Conditions.Scaled {
		return false
	}
	if !a.Conditions.Scaled || a.Run == nil && b.Run == nil && a.Path == b.Path {
		return true
	}
	return a.Run != nil && b.Run != nil && slices.Equal(a.Run.Parameters.SigmaColumns, b.Run.Parameters.SigmaColumns)
}
