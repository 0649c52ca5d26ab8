package certify

import (
	"maps"
	"math"
	"math/big"
	"slices"

	"github.com/rscert/rscert/internal/decimal"
	"github.com/rscert/rscert/internal/law"
)

// Tally sums up certificates that share one method and one α. A Tally keeps 8 bytes per correct certificate, so even a
// run of millions of examples fits into memory. The zero value is empty.
type Tally struct {
	first        Certificate // the first certificate; its field Bounds is nil
	idealised    bool        // true if some certificate is idealised
	samples      int64
	quantisation float64
	largest      float64 // largest radius of a correct certificate, except radii that stand for +∞
	all          part    // counts of all examples; the radii are only in byLabel
	byLabel      map[int]*part
}

// A part counts the certificates of all examples, or of the examples of one label.
type part struct {
	examples, abstained, correct int
	radii                        []float64 // radii of the correct certificates
}

// Add adds certificates.
func (t *Tally) Add(certs ...Certificate) {
	for _, c := range certs {
		t.add(c)
	}
}

func (t *Tally) add(c Certificate) {
	if t.all.examples == 0 {
		t.first, t.byLabel = c, map[int]*part{}
		t.first.Bounds = nil
	}
	t.idealised = t.idealised || c.Arithmetic != Exact
	t.samples += c.N
	t.quantisation = max(t.quantisation, c.Quantisation)
	if c.Correct && !c.Unbounded {
		t.largest = max(t.largest, c.Radius)
	}
	if t.byLabel[c.Label] == nil {
		t.byLabel[c.Label] = &part{}
	}
	t.all.count(c)
	t.byLabel[c.Label].count(c)
	if c.Correct {
		p := t.byLabel[c.Label]
		p.radii = append(p.radii, c.Radius)
	}
}

func (p *part) count(c Certificate) {
	p.examples++
	if c.Prediction == Abstained {
		p.abstained++
	}
	if c.Correct {
		p.correct++
	}
}

// Examples returns the number of added certificates.
func (t *Tally) Examples() int { return t.all.examples }

// Correct returns the number of added certificates whose class is the label.
func (t *Tally) Correct() int { return t.all.correct }

// Largest returns the largest radius of a correct certificate, or 0 if there is none. It ignores radii that stand for
// +∞.
func (t *Tally) Largest() float64 { return t.largest }

// Summary returns the summary of the added certificates. It holds the certified accuracy at each of the given radii.
func (t *Tally) Summary(radii []float64) Summary {
	c := t.first
	s := Summary{
		Method: c.Method, Sound: c.Sound, Arithmetic: c.Arithmetic, Precision: c.Precision, Alpha: c.Alpha,
		Law: c.Law, Sigma: c.Sigma, Norm: c.Norm, Scaled: c.Scaled, Examples: t.all.examples, Abstained: t.all.abstained,
		Quantisation: t.quantisation, Samples: t.samples, Claim: c.Claim, Deterministic: c.Deterministic,
	}
	if t.idealised {
		s.Arithmetic = Idealised
	}
	s.allowFailures(s.Examples)
	parts := slices.Collect(maps.Values(t.byLabel))
	s.Certified, s.AverageRadius = curve(radii, parts...), averageRadius(parts...)
	return s
}

// In returns a summary in another norm. It converts the radius of each certificate to a radius that the certificate
// implies in the other norm. If the argument 'radii' is empty, the method uses the radii of RadiiUpTo.
func (t *Tally) In(norm law.Norm, s Space, radii []float64) (NormSummary, error) {
	var converted []*part
	most := 0.0
	for _, p := range t.byLabel {
		c := &part{examples: p.examples}
		for _, radius := range p.radii {
			r, err := s.RadiusIn(norm, t.first.Norm, radius)
			if err != nil {
				return NormSummary{}, err
			}
			if c.radii = append(c.radii, r); r < math.MaxFloat64 {
				most = max(most, r)
			}
		}
		converted = append(converted, c)
	}
	if len(radii) == 0 {
		radii = RadiiUpTo(most)
	}
	return NormSummary{norm, curve(radii, converted...), averageRadius(converted...)}, nil
}

// Classes returns a summary for each label, in ascending order of labels. A summary holds the certified accuracy at
// each of the given radii. Classes ignores examples without a label. The number of failures in a class is bounded only
// by Summary.Failures, because all failures may be in this class.
func (t *Tally) Classes(radii []float64) []ClassSummary {
	var classes []ClassSummary
	for _, label := range slices.Sorted(maps.Keys(t.byLabel)) {
		if label == UnknownLabel {
			continue
		}
		p := t.byLabel[label]
		classes = append(classes, ClassSummary{label, p.examples, p.abstained, curve(radii, p), averageRadius(p)})
	}
	return classes
}

// curve returns the certified accuracy at each radius over the examples of all parts.
func curve(radii []float64, parts ...*part) []CertifiedAccuracy {
	var curve []CertifiedAccuracy
	for _, r := range radii {
		count, examples := 0, 0
		for _, p := range parts {
			examples += p.examples
			for _, radius := range p.radii {
				if radius >= r {
					count++
				}
			}
		}
		curve = append(curve, CertifiedAccuracy{r, float64(count) / float64(max(1, examples))})
	}
	return curve
}

// averageRadius returns the average certified radius over the examples of all parts.
func averageRadius(parts ...*part) float64 {
	sum, examples := new(big.Rat), 0
	for _, p := range parts {
		sum.Add(sum, decimal.Sum(p.radii))
		examples += p.examples
	}
	return decimal.MeanDown(sum, max(1, examples))
}
