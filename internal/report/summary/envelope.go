package summary

import (
	"maps"
	"slices"
)

// EnvelopePoint is the best certified accuracy of several runs at a radius.
type EnvelopePoint struct {
	Radius   float64 `json:"radius"`
	Accuracy Share   `json:"accuracy"`
	Run      string  `json:"run"` // name of the first run with this accuracy
}

// Envelope is the upper envelope of the certified accuracy curves of several runs. Papers draw it for several values
// of σ. It does not describe a single classifier, because the best run may change with the radius and the results
// decide which run is the best.
func Envelope(runs []Summary) []EnvelopePoint {
	radii := map[float64]bool{}
	for _, s := range runs {
		for _, p := range s.Curve {
			radii[p.Radius] = true
		}
	}
	var envelope []EnvelopePoint
	for _, r := range slices.Sorted(maps.Keys(radii)) {
		envelope = append(envelope, EnvelopeAt(runs, r))
	}
	return envelope
}

// EnvelopeAt returns the envelope at a radius.
func EnvelopeAt(runs []Summary, radius float64) EnvelopePoint {
	var best EnvelopePoint
	for k, s := range runs {
		if a := s.At(radius).Accuracy; k == 0 || a.Rat().Cmp(best.Accuracy.Rat()) > 0 {
			best = EnvelopePoint{radius, a, s.Name}
		}
	}
	return best
}
