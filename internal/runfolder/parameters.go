package runfolder

import (
	"cmp"
	"fmt"
	"math/bits"
	"reflect"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/param"
)

// Parameters are the flags of certify that determine the results, by flag name.
type Parameters struct {
	Law             law.Name                 `json:"law,omitempty"` // law of the noise; absent: Gaussian
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
	Combine         certify.Combine          `json:"combine"` // for scores
	ConfidenceRadii []float64                `json:"confidence-radii"`
	Confidence      certify.ConfidenceMethod `json:"confidence"`       // method of the bounds on confidence
	ConfidenceBound certify.MeanBound        `json:"confidence-bound"` // bound on the means in them
	Band            certify.Band             `json:"band"`             // band for the distribution in them
	Temperature     float64                  `json:"temperature"`
	Outputs         graph.OutputKind          `json:"outputs"`       // logits or probabilities, as detected
	ScoresOutput    string                   `json:"scores-output"` // empty = the only output
	Precision       onnx.Precision           `json:"precision"`
	PreferNHWC      bool                     `json:"prefer-nhwc,omitempty"` // for CUDA
	ConvSearch      onnx.ConvSearch          `json:"conv-search,omitzero"`  // for CUDA
	Layout          graph.Layout              `json:"layout"`
	Mean            []float64                `json:"mean"`
	Std             []float64                `json:"std"`
	Noise           NoiseKind                `json:"noise"`
	Seed            uint64                   `json:"seed"`
	Skip            int                      `json:"skip"`
	Max             int                      `json:"max"`
	Select          Selection                `json:"select,omitzero"` // how Max selects
	Shard           Shard                    `json:"shard"`

	// Settings of the denoiser before the model; absent without one.
	DenoiserKind      graph.DenoiserKind `json:"denoiser-kind,omitempty"`
	DenoiserRange     []float64         `json:"denoiser-range,omitempty"`
	DiffusionSchedule string            `json:"diffusion-schedule,omitempty"`
}

// TangentSamples is the number of the N samples of an example that fix the guess of the bounds on the confidence
// (certify.ConfidenceParams.TangentSamples).
func (p Parameters) TangentSamples() int64 {
	return certify.ConfidenceParams{Radii: p.ConfidenceRadii, Method: p.Confidence}.TangentSamples(p.N0, p.N)
}

// ParameterDifference is a parameter in which two runs differ.
type ParameterDifference struct {
	Name          param.Name
	First, Second any
}

// Differences returns the parameters in which p and other differ, in the order of run.json.
func (p Parameters) Differences(other Parameters) (diff []ParameterDifference) {
	first, second := reflect.ValueOf(p), reflect.ValueOf(other)
	for i := range first.NumField() {
		a, b := first.Field(i), second.Field(i)
		if a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0 || reflect.DeepEqual(a.Interface(), b.Interface()) {
			continue
		}
		name, _, _ := strings.Cut(first.Type().Field(i).Tag.Get("json"), ",")
		diff = append(diff, ParameterDifference{param.Name(name), a.Interface(), b.Interface()})
	}
	return diff
}

// Selection chooses the examples that Max takes.
type Selection uint8

// The ways to select examples.
const (
	First  Selection = iota // the first ones
	Spread                  // one of each of Max parts of the dataset, which covers the classes of a sorted dataset
)

// Selections lists all selections.
var Selections = choice.Of("selection", First, Spread)

func (s Selection) String() string {
	if s == Spread {
		return "spread"
	}
	return "first"
}

// MarshalText returns the name.
func (s Selection) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a name.
func (s *Selection) UnmarshalText(text []byte) error { return Selections.Unmarshal(text, s) }

// Shard is part I of K of a run: of the run's examples in order, those with number I modulo K.
type Shard struct{ I, K int }

// Whole is the shard that covers the whole run.
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

// MarshalText returns i/k.
func (s Shard) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.I, s.K) }

// compare orders shards.
func (s Shard) compare(t Shard) int { return cmp.Or(s.I-t.I, s.K-t.K) }

// Positions returns the positions, ascending, of the examples to certify in a dataset of the given size.
func (p Parameters) Positions(examples int) []int {
	if examples < 1 || p.Skip < 1 || p.Shard.K < 1 {
		return nil // the first format may omit it
	}
	var positions []int
	candidates := (examples-1)/p.Skip + 1 // every Skip-th example
	turns := candidates
	if p.Max > 0 {
		turns = min(turns, p.Max)
	}
	for turn := p.Shard.I; turn < turns; turn += p.Shard.K {
		i := turn
		if p.Select == Spread {
			i = spread(turn, turns, candidates)
		}
		positions = append(positions, i*p.Skip)
	}
	return positions
}

// spread returns the candidate of a turn: a fixed pseudo-random one from ⌊turn·candidates/turns⌋ up to the next
// turn's. Equal steps would pick up patterns in the order of files, such as the first image of every class.
func spread(turn, turns, candidates int) int {
	begin, end := part(turn, turns, candidates), part(turn+1, turns, candidates)
	// splitmix64 (Steele, Lea and Flood 2014) of the turn.
	z := uint64(turn+1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	offset, _ := bits.Mul64(z^z>>31, uint64(end-begin))
	return begin + int(offset)
}

// part returns ⌊turn·candidates/turns⌋.
func part(turn, turns, candidates int) int {
	high, low := bits.Mul64(uint64(turn), uint64(candidates))
	quotient, _ := bits.Div64(high, low, uint64(turns)) // turn ≤ turns, so it is at most candidates
	return int(quotient)
}
