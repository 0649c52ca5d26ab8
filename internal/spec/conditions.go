package spec

import (
	"math/bits"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/onnx"
)

// Smoothing holds the parameters of the noise that smooths a model. The JSON names are the keys in run.json.
type Smoothing struct {
	Law   law.Name `json:"law,omitempty"` // absent for the Gaussian law
	Sigma float64  `json:"sigma"`

	// SigmaColumns gives each column its own scale, in the order of the columns. SigmaColumns is empty if all columns
	// have the scale Sigma.
	SigmaColumns []SigmaColumn `json:"sigma-columns,omitempty"`
}

// Conditions holds the parameters that determine an experiment's results, except the parameters in Smoothing. The JSON
// names are the keys in run.json.
type Conditions struct {
	Outputs      graph.OutputKind `json:"outputs"`       // logits or probabilities, as detected
	ScoresOutput string           `json:"scores-output"` // output with the scores; optional if only one output fits
	Precision    onnx.Precision   `json:"precision"`
	PreferNHWC   bool             `json:"prefer-nhwc,omitempty"` // for CUDA only
	ConvSearch   onnx.ConvSearch  `json:"conv-search,omitzero"`  // for CUDA only
	Layout       graph.Layout     `json:"layout"`
	Mean         []float64        `json:"mean"`
	Std          []float64        `json:"std"`
	Noise        NoiseKind        `json:"noise"`
	Seed         uint64           `json:"seed"`
	Skip         int              `json:"skip"`
	Max          int              `json:"max"`
	Select       Selection        `json:"select,omitzero"` // which examples are kept if there are more than Max
	Shard        Shard            `json:"shard"`

	// These are the denoiser's parameters. They are absent without a denoiser.
	DenoiserKind      graph.DenoiserKind `json:"denoiser-kind,omitempty"`
	DenoiserRange     []float64          `json:"denoiser-range,omitempty"`
	DiffusionSchedule string             `json:"diffusion-schedule,omitempty"`

	// The field Only selects examples by the results of another run. It is absent for a run of all examples.
	Only Only `json:"only,omitzero"`

	// Average says what an ensemble averages. It is absent if there is only one model.
	Average graph.Average `json:"average,omitempty"`
}

// Positions returns the positions of the experiment's examples in a dataset with the given number of examples. The
// positions are in ascending order. If the field Only selects examples, Skip, Max, Select and Shard apply to the list
// of the selected examples.
func (c Conditions) Positions(examples int) []int {
	if !c.Only.Given() {
		return c.turns(examples)
	}
	turns := c.turns(len(c.Only.Examples))
	positions := make([]int, len(turns))
	for i, turn := range turns {
		positions[i] = c.Only.Examples[turn]
	}
	return positions
}

// The method 'turns' returns the positions that Skip, Max, Select and Shard select in a list with the given number of
// examples.
func (c Conditions) turns(examples int) []int {
	if examples < 1 || c.Skip < 1 || c.Shard.K < 1 {
		return nil // run folders of the first format may lack Skip or Shard
	}
	var positions []int
	candidates := (examples-1)/c.Skip + 1 // number of candidates; every Skip-th example is a candidate
	turns := candidates
	if c.Max > 0 {
		turns = min(turns, c.Max)
	}
	for turn := c.Shard.I; turn < turns; turn += c.Shard.K {
		i := turn
		if c.Select == Spread {
			i = spread(turn, turns, candidates)
		}
		positions = append(positions, i*c.Skip)
	}
	return positions
}

// spread returns the index of one selected candidate. The argument 'turns' is the number of selected candidates, and
// 'turn' is the position of this candidate among them, counted from 0. The function divides all candidates into
// consecutive parts, one for each selected candidate. Part number 'turn' begins at ⌊turn·candidates/turns⌋. A hash of
// 'turn' selects one candidate of this part, always the same one. Without the hash, the selection would proceed in
// equal steps. Such steps could follow a pattern in the order of the files. For example, they could select the first
// image of every class.
func spread(turn, turns, candidates int) int {
	begin, end := part(turn, turns, candidates), part(turn+1, turns, candidates)
	// These lines compute the splitmix64 hash (Steele, Lea and Flood 2014) of the turn.
	z := uint64(turn+1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	offset, _ := bits.Mul64(z^z>>31, uint64(end-begin))
	return begin + int(offset)
}

// part returns ⌊turn·candidates/turns⌋.
func part(turn, turns, candidates int) int {
	high, low := bits.Mul64(uint64(turn), uint64(candidates))
	quotient, _ := bits.Div64(high, low, uint64(turns)) // turn ≤ turns, so the quotient is at most candidates
	return int(quotient)
}
