package run

import (
	"math"
	"slices"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/conformal"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/smoothing"
)

// scorer computes the conformal scores of one example. It is not safe for concurrent use.
type scorer struct {
	conformal.Scorer
	outputs     graph.OutputKind // logits or probabilities: the content of the rows that eachRow gets
	classes     int
	temperature float64 // temperature of the softmax, for logits
	u           float64 // the example's random number, for scores that need one

	row           []float32
	probabilities []float64
}

// eachRow calls the function 'do' with the class probabilities of each of the k rows in 'outputs'. Each row has m
// values. If a row has no answer, its probabilities become NaN. Each class then has the lowest score, −∞. Files of
// scores record such a row as zeros, so a row of zeros also becomes NaN. All calls of 'do' get the same slice.
func (s *scorer) eachRow(outputs []float32, do func(probabilities []float64)) {
	m := s.classes
	if s.probabilities == nil {
		s.row, s.probabilities = make([]float32, m), make([]float64, m)
	}
	for ; len(outputs) >= m; outputs = outputs[m:] {
		copy(s.row, outputs)
		if s.outputs == graph.Logits {
			certify.Softmax(s.row, s.row, m, s.temperature)
		} else {
			certify.ClearNone(s.row, m)
		}
		answered := slices.ContainsFunc(s.row, func(p float32) bool { return p != 0 })
		for i, p := range s.row {
			if s.probabilities[i] = float64(p); !answered {
				s.probabilities[i] = math.NaN()
			}
		}
		do(s.probabilities)
	}
}

// uniform returns the random number u in [0, 1) of an example. This number is a pure function of the seed and the
// example, and independent of the example's estimation samples.
func uniform(seed uint64, index int) float64 {
	var word [1]uint64
	smoothing.NewStream(seed, index, smoothing.Selection).Words(word[:], smoothing.MaxSamples-1)
	return float64(word[0]>>11) * 0x1p-53
}

// noiseless is an input to which no noise is added: every noisy copy equals the input.
type noiseless struct{ smoothing.Input }

// Perturb sets dst to the input without noise.
func (n noiseless) Perturb(dst []float32, _ smoothing.Stream, _ int64) { n.Clean(dst) }
