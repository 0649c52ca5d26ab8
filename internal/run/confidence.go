package run

import (
	"context"
	"slices"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/spec"
)

// Confidence is the output of confidence --json: bounds on the confidence under attack, computed from saved scores.
type Confidence struct {
	Examples int                       `json:"examples"`
	Method   string                    `json:"method"`
	Class    string                    `json:"class_method"`  // the method that certifies the class
	Alpha    float64                   `json:"alpha"`         // failure probability of class and interval together
	Law      law.Name                  `json:"law,omitempty"` // law of the noise
	Sigma    float64                   `json:"sigma"`
	Norm     law.Norm                  `json:"norm"` // norm of the radii
	N        int64                     `json:"n"`
	Radii    []RadiusConfidence        `json:"radii"`
	Bounds   []certify.ConfidenceBound `json:"bounds"`
	// Arithmetic says for which noise the bounds hold (certify.Arithmetic). Rounding inputs to a lattice reduces the
	// radii, and Quantisation is the largest of these reductions.
	Arithmetic   certify.Arithmetic `json:"arithmetic"`
	Precision    string             `json:"precision,omitempty"`
	Quantisation float64            `json:"quantisation,omitempty"`
	// The method 'tangent' (certify.ConfidenceTangent) uses a function that it computes from some of the samples.
	// TangentSamples is the number of estimation samples per example that the method uses for this function. N includes
	// these samples. TangentSamples is 0 if the function is computed from selection samples, or if the bounds do not
	// use the method 'tangent'.
	TangentSamples int64 `json:"tangent_samples,omitempty"`
}

// RadiusConfidence summarises the bounds at one radius of the attack.
type RadiusConfidence struct {
	Radius    float64 `json:"radius"`
	Certified int     `json:"certified"` // number of examples with a certified class; the means are over these examples
	LeftOut   int     `json:"left_out"`  // number of examples whose class is not certified at the radius
	Lower     float64 `json:"mean_lower"`
	Upper     float64 `json:"mean_upper"`
	Width     float64 `json:"mean_width"`
}

// BoundConfidence bounds the confidence under attack for every example of saved scores. If q.Votes names a method for
// votes, votes certify the class. Otherwise scores certify the class.
func BoundConfidence(ctx context.Context, q SavedScores, show progress.Options) (Confidence, error) {
	p := q.Params
	if len(p.Confidence.Radii) == 0 {
		return Confidence{}, spec.BadInputf("%s is missing", param.Radii)
	}
	if p.Scaled {
		return Confidence{}, spec.BadInputf("%s: has a σ for each column (%s), and bounds on the confidence are for runs with one σ", q.Evidence.Path, param.SigmaColumns)
	}
	class := string(q.Votes)
	switch {
	case q.Votes == "":
		class = p.Bound.String() + "+" + p.Combine.String()
		if !p.Combine.Sound() {
			return Confidence{}, spec.BadInputf("%s %s is not sound: it cannot certify the class", param.Combine, p.Combine)
		}
	case !q.Votes.Sound():
		return Confidence{}, spec.BadInputf("%s %s is not sound: it cannot certify the class", param.ClassMethod, q.Votes)
	}
	c := Confidence{Method: p.Confidence.String(), Class: class, Alpha: p.Alpha, Law: p.Law, Sigma: p.Sigma, Norm: p.Law.Law().Norm(), Arithmetic: p.Arithmetic, Precision: p.Precision, Bounds: []certify.ConfidenceBound{}}
	for _, radius := range p.Confidence.Radii {
		c.Radii = append(c.Radii, RadiusConfidence{Radius: radius})
	}
	samples := func(s certify.ScoreExample) { c.TangentSamples = p.Confidence.TangentSamples(s.N0, s.N) }
	if err := certifyScores(ctx, q, show, samples, c.add); err != nil {
		return Confidence{}, err
	}
	c.average()
	return c, nil
}

func (c *Confidence) add(cert certify.Certificate, bounds []certify.ConfidenceBound) {
	c.Examples++
	c.N = cert.N
	c.Quantisation = max(c.Quantisation, cert.Quantisation)
	c.Bounds = append(c.Bounds, bounds...)
	for i := range c.Radii {
		at := &c.Radii[i]
		k := slices.IndexFunc(bounds, func(b certify.ConfidenceBound) bool { return b.Certified && b.Radius == at.Radius })
		if k < 0 {
			at.LeftOut++
			continue
		}
		at.Certified++
		at.Lower += bounds[k].Lower
		at.Upper += bounds[k].Upper
	}
}

// average converts the sums of the bounds into means.
func (c *Confidence) average() {
	for i := range c.Radii {
		if at := &c.Radii[i]; at.Certified > 0 {
			at.Lower /= float64(at.Certified)
			at.Upper /= float64(at.Certified)
			at.Width = at.Upper - at.Lower
		}
	}
}
