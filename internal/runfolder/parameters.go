package runfolder

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/onnx"
)

// Parameters are the flags of certify that determine the results, by their names.
type Parameters struct {
	Sigma           float64                  `json:"sigma"`
	N               int64                    `json:"n"`
	N0              int64                    `json:"n0"`
	Alpha           float64                  `json:"alpha"`
	Method          Method                   `json:"method"`
	Class           certify.Class            `json:"class"`
	Margin          certify.MarginKind       `json:"margin"`
	Lipschitz       float64                  `json:"lipschitz"` // 0 = unknown
	Stop            certify.StopRule         `json:"stop"`      // empty = all n samples
	Scores          bool                     `json:"scores"`
	SaveScores      bool                     `json:"save-scores"`
	Combine         certify.Combine          `json:"combine"` // of scores
	ConfidenceRadii []float64                `json:"confidence-radii"`
	Confidence      certify.ConfidenceMethod `json:"confidence"`       // method of the bounds on the confidence
	ConfidenceBound certify.MeanBound        `json:"confidence-bound"` // of the means in them
	Band            certify.Band             `json:"band"`             // of the distribution in them
	Temperature     float64                  `json:"temperature"`
	Outputs         onnx.OutputKind          `json:"outputs"`       // logits, probabilities; as told apart
	ScoresOutput    string                   `json:"scores-output"` // empty = the only one
	Precision       onnx.Precision           `json:"precision"`
	Layout          onnx.Layout              `json:"layout"`
	Mean            []float64                `json:"mean"`
	Std             []float64                `json:"std"`
	Noise           NoiseKind                `json:"noise"`
	Seed            uint64                   `json:"seed"`
	Skip            int                      `json:"skip"`
	Max             int                      `json:"max"`
	Shard           Shard                    `json:"shard"`
}

// Shard is part I of K of a run: the examples whose turn is I modulo K.
type Shard struct{ I, K int }

// Whole is the shard that is the whole run.
var Whole = Shard{0, 1}

// UnmarshalText reads i/k with 0 ≤ i < k.
func (s *Shard) UnmarshalText(text []byte) error {
	a, b, ok := strings.Cut(string(text), "/")
	i, err1 := strconv.Atoi(a)
	k, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || k < 1 || i < 0 || i >= k {
		return fmt.Errorf("%q: want i/k with 0 ≤ i < k, as in 0/4", text)
	}
	*s = Shard{i, k}
	return nil
}

// MarshalText writes i/k.
func (s Shard) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.I, s.K) }

// Positions are the positions in a dataset of so many examples of those that are
// certified, ascending.
func (p Parameters) Positions(examples int) []int {
	var positions []int
	for turn, i := 0, 0; i < examples && (p.Max == 0 || turn < p.Max); turn, i = turn+1, i+p.Skip {
		if turn%p.Shard.K == p.Shard.I {
			positions = append(positions, i)
		}
	}
	return positions
}
