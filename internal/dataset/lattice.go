package dataset

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"

	"github.com/x448/float16"

	"github.com/rscert/rscert/internal/law"
)

// LatticeKind is a kind of lattice. The points of a lattice are Step·k, where k is an integer.
type LatticeKind uint8

// These are the kinds of lattices.
const (
	NoLattice     LatticeKind = iota // any floats
	ByteLattice                      // k/255, k = 0 … 255
	WordLattice                      // k/65535, k = 0 … 65535
	BinaryLattice                    // k/2ᵉ
)

// Lattice describes the lattice on which the values of a dataset lie.
//
// On the lattices k/255 and k/65535, the values in the file are rounded lattice points, and each value determines its
// k. The certificate concerns the real vector k/255 and its neighbours k′/255, that is, images of bytes. The model
// receives values computed from k, never the values in the file. So the rounding in the file does not reduce the
// radius. The distance between two images can also be computed from the rounded values in the file. For this distance,
// the radius must be reduced by FileRounding, which covers the rounding of both images.
type Lattice struct {
	Kind      LatticeKind
	Step      *big.Rat // nil for NoLattice
	Low, High float32  // smallest and largest value
	exponent  int      // for BinaryLattice: Step = 2^exponent
	rounding  float64  // bound on |value in the file − Step·k|
	// Rounded means that the file holds float64 numbers that are not float32 numbers. Such data can still be on a
	// lattice. For k/255 and k/65535, it suffices that the nearest float32 numbers are on the lattice, because they
	// determine k. For k/2ᵉ, every number must also be a usual spelling of the float32 stored for it (isNamed).
	Rounded bool
}

// String describes the lattice in a few words, for messages.
func (l Lattice) String() string {
	switch l.Kind {
	case ByteLattice:
		return "values are bytes k/255"
	case WordLattice:
		return "values are 16-bit integers k/65535"
	case BinaryLattice:
		return fmt.Sprintf("values are multiples of 2^%d", l.exponent)
	default:
		return "values are on no lattice"
	}
}

// ParseLattice parses the output of Lattice.String. It does not set Low and High.
func ParseLattice(text string) (Lattice, error) {
	known := []Lattice{{Kind: NoLattice}, {Kind: ByteLattice, Step: big.NewRat(1, 255)}, {Kind: WordLattice, Step: big.NewRat(1, 65535)}}
	for _, l := range known {
		if l.String() == text {
			return l, nil
		}
	}
	l := Lattice{Kind: BinaryLattice}
	if _, err := fmt.Sscanf(text, "values are multiples of 2^%d", &l.exponent); err != nil || l.String() != text || l.exponent < -1000 || l.exponent > 1000 {
		return Lattice{}, fmt.Errorf("%.60q describes no lattice", text)
	}
	l.Step = new(big.Rat).SetFloat64(math.Ldexp(1, l.exponent))
	return l, nil
}

// Index returns k for a value x on the lattice. Because of the file's rounding, x may differ slightly from Step·k.
// Index panics for NoLattice.
func (l Lattice) Index(x float32) int {
	switch l.Kind {
	case ByteLattice:
		return int(math.RoundToEven(255 * float64(x)))
	case WordLattice:
		return int(math.RoundToEven(65535 * float64(x)))
	case BinaryLattice:
		return int(math.Ldexp(float64(x), -l.exponent))
	default:
		panic("dataset: no lattice to index")
	}
}

// Nearest returns k for the point Step·k nearest to x. For k/255 and k/65535 it clamps x to [0,1]. It panics for
// NoLattice.
func (l Lattice) Nearest(x float32) int {
	switch l.Kind {
	case ByteLattice, WordLattice:
		return l.Index(min(max(x, 0), 1))
	case BinaryLattice:
		return int(math.RoundToEven(math.Ldexp(float64(x), -l.exponent)))
	default:
		panic("dataset: no lattice to round to")
	}
}

// FileRounding bounds the effect of the file's rounding on a distance. Let p and p′ be vectors of n lattice values, and
// let x and x′ be the same vectors after this file's rounding. Then ‖x − x′‖₂ exceeds ‖p − p′‖₂ by at most 2√n times
// the largest rounding error of one value. FileRounding returns this bound, rounded up. It returns 0 if the values in
// the file are lattice points.
func (l Lattice) FileRounding(n int) float64 {
	if l.rounding == 0 {
		return 0
	}
	return math.Nextafter(2*l.rounding*math.Sqrt(float64(n)), 1e300)
}

// ReadingRounding bounds the effect of converting a vector of n float64 numbers to float32. If all numbers are between
// Low and High, it returns an upper bound on the distance by which the conversion moves the vector. The distance is in
// the given norm, L2 or L1. The bound is √n·2⁻²⁴·max(|Low|, |High|) in L2 and n·2⁻²⁴·max(|Low|, |High|) in L1, rounded
// up. If the file holds float32, the bound is 0.
func (l Lattice) ReadingRounding(norm law.Norm, n int) float64 {
	if !l.Rounded {
		return 0
	}
	span := max(math.Abs(float64(l.Low)), math.Abs(float64(l.High)), 0x1p-126)
	each := float64(n)
	if norm == law.L2 {
		each = math.Sqrt(each)
	}
	return each * span * 0x1p-24 * (1 + 0x1p-50)
}

// Lattice finds the lattice of the values. Bytes are on k/255. For other data, Lattice reads all examples and takes the
// first of these lattices that holds all values:
//
//   - k/255;
//   - k/65535, unless all values are multiples of 2⁻¹⁵;
//   - the coarsest k/2ᵉ, if the values are less than 2²⁰ steps from 0, and the numbers in the file are float32 numbers
//     or usual spellings of them.
//
// Data that consist of zeros and ones are on all three lattices. Lattice takes k/255 for them, because k/255 allows the
// strongest adversary, who may set any byte. Float16 values of at least 2⁻⁵ are on k/2¹⁵.
func (d *Dataset) Lattice(ctx context.Context) (Lattice, error) {
	r, err := d.recognise(ctx)
	return r.lattice(), err
}

// LatticeAs returns a copy of l in which Low, High and Rounded describe these data. It also reports whether all values
// of the data lie on l. For the kind NoLattice, it reports true.
func (d *Dataset) LatticeAs(ctx context.Context, l Lattice) (Lattice, bool, error) {
	r, err := d.recognise(ctx)
	l.Low, l.High, l.Rounded = r.low, r.high, r.missed > 0
	return l, r.on(l), err
}

// LatticeChanges is an upper limit on the number of examples that change the lattice of a dataset. An example changes
// the lattice if the lattice of the other examples differs from the lattice of all examples. This happens in four
// cases. In a given dataset, each case applies to at most one example. First, all other examples lie on k/255, but this
// example does not. Second, all other examples lie on k/65535, but this example does not. Third, all other examples lie
// on k/2ᵉ. But this example needs a finer step, or a number of this example in the file is not a usual spelling of its
// float32 value (see isNamed). Fourth, only this example has a value that is too many steps from 0. For example, in a
// dataset of zeros, ones, 0.5+2⁻¹⁰ and 100/255, each of the last two examples changes the lattice.
const LatticeChanges = 4

// recognise adds all values to a recogniser and returns this recogniser. For bytes it reads no values, because their
// lattice is known.
func (d *Dataset) recognise(ctx context.Context) (r recogniser, err error) {
	if d.bytes {
		return recogniser{seen: true, high: 1, notZero: true, exponent: lowestBit(float32(1) / 255)}, ctx.Err()
	}
	values, misses := make([]float32, d.size()), []float64(nil)
	if d.roundings != nil {
		misses = make([]float64, d.size())
	}
	for i := range d.labels {
		if err := ctx.Err(); err != nil {
			return r, err
		}
		if err := d.values(i, values); err != nil {
			return r, err
		}
		r.add(values)
		if misses == nil {
			continue
		}
		named, err := d.roundings(i, misses)
		if err != nil {
			return r, err
		}
		r.odd = r.odd || !named
		r.missed = max(r.missed, slices.Max(misses))
	}
	return r, nil
}

// A recogniser finds a lattice from values that are added one by one.
type recogniser struct {
	seen, notZero      bool
	low, high          float32
	notBytes, notWords bool
	rounding           float64 // largest bound on |value − k/255|
	exponent           int     // exponent of the lowest bit set in any value
	missed             float64 // largest |float64 in the file − value|
	// whether the file holds a float64 that is not a usual spelling of its float32, such as its shortest decimal
	// (isNamed)
	odd bool
}

func (r *recogniser) add(values []float32) {
	for _, x := range values {
		if !r.seen {
			r.seen, r.low, r.high = true, x, x
		}
		r.low, r.high = min(r.low, x), max(r.high, x)
		if !r.notBytes {
			rounding, ok := byteRounding(x)
			r.notBytes, r.rounding = !ok, max(r.rounding, rounding)
		}
		r.notWords = r.notWords || !isWord(x)
		if x != 0 {
			if e := lowestBit(x); !r.notZero || e < r.exponent {
				r.notZero, r.exponent = true, e
			}
		}
	}
}

// maxBinarySteps limits |k| on a binary lattice. Without a limit, every dataset would have a lattice, because float32
// values are always multiples of some power of two. A lattice with 2²³ steps or more is only the grid of float32. If
// the step of a lattice is far smaller than the scale of the noise, the noise cannot be drawn on this lattice
// (law.Ratios.Greatest).
const maxBinarySteps = 1 << 20

func (r *recogniser) lattice() Lattice {
	l := Lattice{Low: r.low, High: r.high, Rounded: r.missed > 0}
	span := max(math.Abs(float64(r.low)), math.Abs(float64(r.high)))
	switch {
	case !r.seen:
	case !r.notBytes:
		l.Kind, l.Step, l.rounding = ByteLattice, big.NewRat(1, 255), r.rounding+r.missed
	case !r.notWords && r.exponent < -15:
		l.Kind, l.Step, l.rounding = WordLattice, big.NewRat(1, 65535), 0x1p-25+r.missed
	case !r.odd && math.Ldexp(span, -r.exponent) < maxBinarySteps:
		l.Kind, l.Step = BinaryLattice, new(big.Rat).SetFloat64(math.Ldexp(1, r.exponent))
		l.exponent, l.rounding = r.exponent, r.missed
	}
	return l
}

// The method 'on' reports whether all values lie on the lattice l.
func (r *recogniser) on(l Lattice) bool {
	switch l.Kind {
	case ByteLattice:
		return r.seen && !r.notBytes
	case WordLattice: // every k/255 is 257k/65535
		return r.seen && (!r.notWords || !r.notBytes && r.rounding < 0x1p-20)
	case BinaryLattice:
		span := max(math.Abs(float64(r.low)), math.Abs(float64(r.high)))
		return r.seen && !r.odd && (!r.notZero || r.exponent >= l.exponent) && math.Ldexp(span, -l.exponent) < maxBinarySteps
	}
	return true
}

// byteRounding reports whether x is k/255 for a byte k, as one of the common methods computes it. It also returns a
// bound on |x − k/255|. There are three common methods. PyTorch, NumPy and rscert divide in float32. The error is at
// most 2⁻²⁵, which is half the distance between neighbouring float32 numbers just below 1. JAX and TensorFlow multiply
// by the float32 1/255, which is off by at most 2⁻³². Other programs round the quotient to float16.
func byteRounding(x float32) (rounding float64, ok bool) {
	k := float32(math.RoundToEven(255 * float64(x)))
	if !(0 <= k && k <= 255) {
		return 0, false
	}
	const inverse = float32(1) / 255
	switch x {
	case k / 255:
		return 0x1p-25, true
	case float32(k * inverse):
		return 0x1p-25 + 255*0x1p-32, true
	case float16.Fromfloat32(k / 255).Float32():
		return 0x1p-12 + 0x1p-25, true
	}
	return 0, false
}

// isWord reports whether x is the float32 quotient k/65535 for a k from 0 to 65535.
func isWord(x float32) bool {
	k := float32(math.RoundToEven(65535 * float64(x)))
	return 0 <= k && k <= 65535 && x == k/65535
}

// lowestBit returns the greatest integer e such that x is an integer multiple of 2ᵉ. x must not be 0.
func lowestBit(x float32) int {
	fraction, e := math.Frexp(float64(x)) // fraction·2⁵³ is an integer
	return e - 53 + bits.TrailingZeros64(uint64(math.Abs(math.Ldexp(fraction, 53))))
}
