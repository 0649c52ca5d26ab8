package smoothing

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"sync"

	"github.com/rscert/rscert/internal/law"
)

// Lattice is the set of noisy inputs. Every coordinate of such an input is Step·k for an integer k.
//
// For a clean input x = Step·i, the noisy input is M(x) = Step·(i + J). A Table draws the integer J. J has the
// distribution of ⌊(σ/Step)·Z + ½⌋, where σ is the scale of the noise and Z is noise of scale 1. So for every function
// f on the lattice, f(M(x)) and f(round(x + σZ)) have the same distribution. Here 'round' rounds to the lattice. This
// rounding is part of the certified classifier, because the smoothed function is u ↦ f(round(u)). Every bound for the
// ideal law of Z therefore holds exactly for the computed classifier.
type Lattice struct {
	Step      *big.Rat
	Low, High int // the smallest and the largest i in the data
}

// Refine returns the lattice for data on lattice l and for noise with the given law and scale. It divides the step of l
// by s, the smallest whole number for which the quotient of the scale and the new step is at least the law's limit
// Ratios.Fine. For bytes and Gaussian noise, s is 1 if σ ≥ 0.118. The result 'ok' is false if the table on lattice l
// would be too large, or if s would exceed 2¹⁵ − 1. On a finer lattice, the table would be even larger.
func (l Lattice) Refine(noise law.Law, scale float64) (fine Lattice, s int, ok bool) {
	ratio := new(big.Rat).SetFloat64(scale)
	if ratio == nil {
		return l, 1, false
	}
	ratio.Quo(ratio, l.Step)
	if s, ok = noise.Ratios().Refine(ratio); !ok {
		return l, 1, false
	}
	step := new(big.Rat).Quo(l.Step, big.NewRat(int64(s), 1))
	return Lattice{Step: step, Low: s * l.Low, High: s * l.High}, s, true
}

// maxValues limits the number of values in LatticeNoise, so that they take at most 64 MiB.
const maxValues = 1 << 24

// LatticeNoise turns lattice points into noisy inputs of a model. It uses only integers and look-ups, so every
// processor computes the same bits.
type LatticeNoise struct {
	lattice Lattice
	table   *Table
	// values[c·width + i] is the model's input in channel c for the integer Low + First + i.
	values []float32
	width  int
	// zeroCounter returns a counter whose random word gives the noise 0 (see Rows.Clean).
	zeroCounter func() uint64
}

// NewLatticeNoise prepares the noise that table t draws on lattice l. The model takes the inputs (x − mean)/std. The
// arguments 'mean' and 'std' have one number for each channel. A model input is the float32 nearest to (Step·k −
// mean)/std, rounded once.
func NewLatticeNoise(l Lattice, t *Table, mean, std []float64) (*LatticeNoise, error) {
	if len(mean) != len(std) || len(mean) == 0 {
		return nil, fmt.Errorf("%d means and %d standard deviations: want one of each a channel", len(mean), len(std))
	}
	width := l.High - l.Low + 1 + t.Last - t.First
	if l.Low > l.High || l.Low < math.MinInt32 || l.High > math.MaxInt32 || width > maxValues/len(mean) {
		return nil, fmt.Errorf("the data span %d steps of the lattice; in %d channels the noise has room for %d",
			l.High-l.Low, len(mean), maxValues/len(mean)+t.First-t.Last)
	}
	n := &LatticeNoise{lattice: l, table: t, width: width, values: make([]float32, 0, width*len(mean))}
	n.zeroCounter = sync.OnceValue(func() uint64 {
		counter, _ := t.findZero()
		return counter
	})
	for c := range mean {
		values, err := channelValues(l.Step, l.Low+t.First, width, mean[c], std[c])
		if err != nil {
			return nil, err
		}
		n.values = append(n.values, values...)
	}
	return n, nil
}

// channelValues returns the float32 nearest to (step·k − mean)/std for k = first, first+1, …
func channelValues(step *big.Rat, first, n int, mean, std float64) ([]float32, error) {
	m, s := new(big.Rat).SetFloat64(mean), new(big.Rat).SetFloat64(std)
	if m == nil || s == nil || s.Sign() <= 0 {
		return nil, fmt.Errorf("mean %v, standard deviation %v: want finite numbers, the second above 0", mean, std)
	}
	slope := new(big.Rat).Quo(step, s)
	value := new(big.Rat).Quo(m, s)
	value.Sub(new(big.Rat).Mul(slope, big.NewRat(int64(first), 1)), value)
	values := make([]float32, n)
	for i := range values {
		v, _ := value.Float32()
		if math.IsInf(float64(v), 0) {
			return nil, fmt.Errorf("(x − %v)/%v is beyond float32 at x = %s", mean, std, value.FloatString(1))
		}
		values[i] = v
		value.Add(value, slope)
	}
	return values, nil
}

// errOffRange means that the input is outside the range for which the noise was prepared.
var errOffRange = errors.New("outside the range of the data")

// LatticeInput is an example on the lattice.
type LatticeInput struct {
	noise *LatticeNoise
	// places [D] holds an index into noise.values for each coordinate. If the table draws the label k, coordinate d has
	// the value noise.values[places[d] + k]. The noise 0 has the label −table.First. So if the noise is 0, coordinate d
	// has the value noise.values[places[d] − table.First].
	places []int32
}

// Input returns the example with the coordinates Step·integers[d]. The function 'channel' returns the channel of a
// coordinate. Input takes ownership of the slice 'integers'.
func (n *LatticeNoise) Input(integers []int32, channel func(d int) int) (LatticeInput, error) {
	for d, k := range integers {
		if int(k) < n.lattice.Low || int(k) > n.lattice.High {
			return LatticeInput{}, fmt.Errorf("coordinate %d: %d steps: %w", d, k, errOffRange)
		}
		integers[d] = int32(channel(d)*n.width + int(k) - n.lattice.Low)
	}
	return LatticeInput{n, integers}, nil
}

// Len returns D.
func (in LatticeInput) Len() int { return len(in.places) }

// Clean sets dst [D] to the input without noise.
func (in LatticeInput) Clean(dst []float32) {
	for d, p := range in.places {
		dst[d] = in.noise.values[int(p)-in.noise.table.First]
	}
}

// Perturb sets dst [D] to the noisy input of a sample (0 ≤ sample < 2³¹). Each coordinate gets the model's input value
// for the integer i + J. Here i is the clean coordinate in lattice steps, and J is the drawn noise.
func (in LatticeInput) Perturb(dst []float32, s Stream, sample int64) {
	places := in.places
	values, entries := in.noise.values, in.noise.table.entries
	if len(entries) == 0 {
		return // unreachable, but the line tells the compiler that draw's index is in range
	}
	key := s.key
	y, places := uint64(sample)*weyl*key, places[:len(dst)]
	for d := range dst {
		z := y + key
		dst[d] = values[int(places[d])+int(draw(entries, squares64(y, z)))]
		y = z // y of the next coordinate
	}
}
