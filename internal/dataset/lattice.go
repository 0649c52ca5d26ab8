package dataset

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"

	"github.com/x448/float16"
)

// LatticeKind says of which lattice values are points, Step·k for integers k.
type LatticeKind uint8

// The kinds of lattices.
const (
	NoLattice     LatticeKind = iota // any floats
	ByteLattice                      // k/255, k = 0 … 255
	WordLattice                      // k/65535, k = 0 … 65535
	BinaryLattice                    // k/2ᵉ
)

// Lattice describes the values of a dataset.
//
// For k/255 and k/65535 the values in the file are roundings of the lattice points, from which k is recovered without
// doubt; what is certified is the real vector k/255 and the vectors k′/255 near it, that is images of bytes, and a
// model is given values that come of k, never the file's. So the rounding in the file costs nothing. Whoever reads a
// certificate as one about the distance of two such float32 files as real vectors must take
// off the radius what both roundings can amount to: FileRounding.
type Lattice struct {
	Kind      LatticeKind
	Step      *big.Rat // nil for NoLattice
	Low, High float32  // least and greatest value
	exponent  int      // of BinaryLattice: Step = 2^exponent
	rounding  float64  // the most by which the file's way of writing Step·k misses it
	// Rounded says that the file holds float64 numbers that are no float32. They are on k/255 and k/65535 if their
	// float32 are, since k is known; on a power of two only if all are names of their float32 (isNamed).
	Rounded bool
}

// String is the line that is printed.
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

// Index returns the k of a value on the lattice: x = Step·k, up to the file's rounding.
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

// FileRounding is how far apart, beyond their distance as lattice points, two vectors of n values can be that are
// written as this file writes them. Rounded up; 0 where the file's values are the points.
func (l Lattice) FileRounding(n int) float64 {
	if l.rounding == 0 {
		return 0
	}
	return math.Nextafter(2*l.rounding*math.Sqrt(float64(n)), 1e300)
}

// ReadingRounding is how far n values between Low and High can be from the float64 numbers in a file that they are the
// nearest float32 of: √n·2⁻²⁴·max(|Low|, |High|), rounded up; 0 if the file holds float32.
func (l Lattice) ReadingRounding(n int) float64 {
	if !l.Rounded {
		return 0
	}
	span := max(math.Abs(float64(l.Low)), math.Abs(float64(l.High)), 0x1p-126)
	return math.Sqrt(float64(n)) * span * 0x1p-24 * (1 + 0x1p-50)
}

// Lattice tells on which lattice the values are. Bytes are known to be on k/255; of other values all examples are
// read, and they are on k/255 if they can be; else on k/65535, unless all are multiples of 2⁻¹⁵; else the coarsest k/2ᵉ, if the values are fewer than 2²⁰ steps from 0 and
// the file's numbers are float32 or names of them. (0 and 1 alone are on
// all of them, and then an adversary who can set any byte is the stronger one.) Values of float16 from 2⁻⁵ up are on
// k/2¹⁵.
func (d *Dataset) Lattice(ctx context.Context) (Lattice, error) {
	if d.bytes && ctx.Err() == nil {
		return Lattice{Kind: ByteLattice, Step: big.NewRat(1, 255), Low: 0, High: 1}, nil
	}
	var r recogniser
	values, misses := make([]float32, d.size()), []float64(nil)
	if d.roundings != nil {
		misses = make([]float64, d.size())
	}
	for i := range d.labels {
		if err := ctx.Err(); err != nil {
			return Lattice{}, err
		}
		if err := d.values(i, values); err != nil {
			return Lattice{}, err
		}
		r.add(values)
		if misses == nil {
			continue
		}
		named, err := d.roundings(i, misses)
		if err != nil {
			return Lattice{}, err
		}
		r.odd = r.odd || !named
		r.missed = max(r.missed, slices.Max(misses))
	}
	return r.lattice(), nil
}

// recogniser looks at values one by one.
type recogniser struct {
	seen, notZero      bool
	low, high          float32
	notBytes, notWords bool
	rounding           float64 // of the bytes
	exponent           int     // of the lowest bit of the values that are not 0
	missed             float64 // the farthest that a value is from the float64 in the file
	odd                bool    // a float64 in the file is no name of its float32
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

// maxBinarySteps is how far from 0 the values of a binary lattice may be. Any float32 are multiples of some power of
// two; with 2²³ steps or more it is their own grid, and one much finer than the noise is of no use.
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

// byteRounding reports whether x is how a program writes k/255 for a byte k, and by how much that may miss it: divided
// in float32 (PyTorch, NumPy, rscert), half a unit of float32 below 1; multiplied by the float32 1/255 (JAX,
// TensorFlow), which is off by 2⁻³² at most; or the quotient in float16.
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

// isWord reports whether x is k/65535 divided in float32.
func isWord(x float32) bool {
	k := float32(math.RoundToEven(65535 * float64(x)))
	return 0 <= k && k <= 65535 && x == k/65535
}

// lowestBit is the greatest e such that x ≠ 0 is a multiple of 2ᵉ.
func lowestBit(x float32) int {
	fraction, e := math.Frexp(float64(x)) // fraction·2⁵³ is an integer
	return e - 53 + bits.TrailingZeros64(uint64(math.Abs(math.Ldexp(fraction, 53))))
}
