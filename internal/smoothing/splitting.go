package smoothing

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/bits"
	"strconv"

	"github.com/rscert/rscert/internal/law"
)

// Splits are the offsets v of the law Splitting: one integer 0 ≤ v_d < W for each value of an example, in the order of
// the data. W is the number of evaluations per example. All examples of a run share the offsets.
//
// For an example x = Step·i, evaluation t = 0, …, W−1 gives the model the lattice point with the coordinates
//
//	k_d = i_d − ((i_d − t − v_d) mod W) + ⌊W/2⌋.
//
// Here k_d − ⌊W/2⌋ is the largest integer that is at most i_d and congruent to t + v_d modulo W. If i_d moves by s
// steps, k_d changes in min(s, W) of the W evaluations. Let a be the smaller and b the larger of the two values of i_d.
// Then k_d changes in evaluation t if and only if at least one of the integers a+1, …, b is congruent to t + v_d modulo
// W.
//
// The certificates hold for all offsets. The seed determines the offsets, so that a run can be repeated.
type Splits struct {
	width   int
	offsets []int32
}

// splitsExample is an index that no example has. The stream for this index gives the offsets.
const splitsExample = 1<<56 - 1

// NewSplits returns the offsets for examples with d values. Each example is evaluated W times, where W is the argument
// 'width'. The offset of value j is v_j = ⌊w_j·W/2⁶⁴⌋. The words w_j are the words of sample 0 of NewStream(seed,
// 2⁵⁶−1, Estimation).
func NewSplits(seed uint64, width, d int) *Splits {
	s := &Splits{width, make([]int32, d)}
	words := make([]uint64, d)
	NewStream(seed, splitsExample, Estimation).Words(words, 0)
	for i, w := range words {
		high, _ := bits.Mul64(w, uint64(width))
		s.offsets[i] = int32(high)
	}
	return s
}

// Width returns W.
func (s *Splits) Width() int { return s.width }

// Name returns the name of the law, followed by W.
func (s *Splits) Name() string { return law.Splitting.Name() + " " + strconv.Itoa(s.width) }

// Digest returns the SHA-256, in hex, of the bytes "rscert splits 1 ", W in decimals, a newline, and the offsets as
// little-endian 32-bit integers.
func (s *Splits) Digest() string {
	buf := append([]byte("rscert splits 1 "+strconv.Itoa(s.width)), '\n')
	for _, v := range s.offsets {
		buf = binary.LittleEndian.AppendUint32(buf, uint32(v))
	}
	sum := sha256.Sum256(buf)
	return hex.EncodeToString(sum[:])
}

// SplitNoise turns lattice points into the model's inputs under the law Splitting.
type SplitNoise struct {
	lattice Lattice
	splits  *Splits
	// values[c·span + i] is the model's input in channel c for the integer Low − (W−1) + ⌊W/2⌋ + i.
	values []float32
	span   int
}

// NewSplitNoise prepares the model's inputs. As in NewLatticeNoise, the model takes the inputs (x − mean)/std.
func NewSplitNoise(l Lattice, s *Splits, mean, std []float64) (*SplitNoise, error) {
	if len(mean) != len(std) || len(mean) == 0 {
		return nil, fmt.Errorf("%d means and %d standard deviations: want one of each a channel", len(mean), len(std))
	}
	span := l.High - l.Low + s.width
	if l.Low > l.High || l.Low < math.MinInt32 || l.High > math.MaxInt32 || span > maxValues/len(mean) {
		return nil, fmt.Errorf("the data span %d steps of the lattice; in %d channels the noise has room for %d",
			l.High-l.Low, len(mean), maxValues/len(mean)-s.width)
	}
	n := &SplitNoise{lattice: l, splits: s, span: span}
	for c := range mean {
		values, err := channelValues(l.Step, l.Low-n.below(), span, mean[c], std[c])
		if err != nil {
			return nil, err
		}
		n.values = append(n.values, values...)
	}
	return n, nil
}

// The method 'below' returns W − 1 − ⌊W/2⌋, the largest number of steps by which an evaluation lowers a coordinate.
func (n *SplitNoise) below() int { return n.splits.width - 1 - n.splits.width/2 }

// SplitInput is an example under the law Splitting. Its noisy inputs are the inputs of the W evaluations.
type SplitInput struct {
	noise *SplitNoise
	// For coordinate d and evaluation t, the model's input is values[starts[d] + t] if t < jumps[d], and
	// values[starts[d] + t − W] otherwise. jumps[d] is ((i_d − v_d) mod W) + 1.
	starts, jumps []int32
}

// Input returns the example with the coordinates Step·integers[d]. The integers are in the order of the model's input.
// The function 'channel' returns the channel of a coordinate. The function 'from' returns the position of a coordinate
// in the data.
func (n *SplitNoise) Input(integers []int32, channel, from func(d int) int) (SplitInput, error) {
	if want := len(n.splits.offsets); len(integers) != want {
		return SplitInput{}, fmt.Errorf("%d values: want %d", len(integers), want)
	}
	in := SplitInput{n, make([]int32, len(integers)), make([]int32, len(integers))}
	w := n.splits.width
	for d, k := range integers {
		if int(k) < n.lattice.Low || int(k) > n.lattice.High {
			return SplitInput{}, fmt.Errorf("coordinate %d: %d steps: %w", d, k, errOffRange)
		}
		jump := (int(k)-int(n.splits.offsets[from(d)]))%w + 1
		if jump < 1 {
			jump += w
		}
		in.jumps[d] = int32(jump)
		in.starts[d] = int32(channel(d)*n.span + int(k) - n.lattice.Low + w - jump)
	}
	return in, nil
}

// Len returns D.
func (in SplitInput) Len() int { return len(in.starts) }

// Clean sets dst [D] to the example itself.
func (in SplitInput) Clean(dst []float32) {
	half := in.noise.splits.width / 2
	for d, start := range in.starts {
		dst[d] = in.noise.values[int(start+in.jumps[d])-1-half]
	}
}

// Perturb sets dst [D] to one of the W noisy inputs of the example: the input of evaluation t = sample mod W (see
// Splits). It ignores the stream, because the inputs are not random.
func (in SplitInput) Perturb(dst []float32, _ Stream, sample int64) {
	w := int32(in.noise.splits.width)
	t := int32(sample % int64(w))
	values, jumps := in.noise.values, in.jumps[:len(dst)]
	for d, start := range in.starts[:len(dst)] {
		if t >= jumps[d] {
			start -= w
		}
		dst[d] = values[start+t]
	}
}
