package summary

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/report"
)

// Caution says that the data are too few for a statement that a reader may expect. Cautions are part of the results.
type Caution struct {
	Code string `json:"code"`
	Says string `json:"says"`
}

// These are the codes of cautions.
const (
	FewExamples     = "few-examples"
	FewSamples      = "few-samples"
	FewDifferences  = "few-differences"
	IntervalTooWide = "interval-wider-than-change"
)

// widest is the largest allowed width of the interval of a share: 20 percentage points. A wider interval means that
// there are too few examples.
const widest = 0.2

// cautions lists the cautions about a run. The argument 'asked' holds the radii that the user asked for.
func (s Summary) cautions(asked []float64) (all []Caution) {
	if s.Examples > 0 {
		if half := newShare(s.Examples/2, s.Examples, s.Level); half.High-half.Low > widest {
			all = append(all, Caution{FewExamples, fmt.Sprintf("Few examples: with %d, the %g %% interval of a share of one half is [%s, %s] %%.", s.Examples, 100*s.Level,
				report.Round(half.Low, report.Down, 2, 1), report.Round(half.High, report.Up, 2, 1))})
		}
	}
	most := s.AverageRadius.Largest
	if most == nil {
		return all
	}
	var beyond []string
	for _, r := range slices.Compact(slices.Sorted(slices.Values(asked))) {
		if r > *most {
			beyond = append(beyond, fmt.Sprint(r))
		}
	}
	if len(beyond) > 0 && !s.Conditions.Deterministic {
		all = append(all, Caution{FewSamples, fmt.Sprintf("Few samples: n = %d samples certify a radius of at most %s, for any model, so the accuracy at %s is 0.", s.Conditions.N,
			report.Round(*most, report.Up, 0, 4), strings.Join(beyond, ", "))})
	}
	return all
}
