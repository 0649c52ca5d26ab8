package smoothing

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"

	"github.com/rscert/rscert/internal/law"
)

// Table is a distribution on integers. One random 64-bit word draws an integer from the table. The table uses the alias
// method (Walker 1977; Vose 1991) in integer arithmetic. The method is exact, because all masses are multiples of 2⁻⁶⁴.
//
// A label is the index of an integer: label 0 is First, label 1 is First + 1. There are n = 2ᵇ columns, one per label,
// with 2⁶⁴⁻ᵇ cells each. In each column c, some cells belong to the column's own label c. Their number is the column's
// count. The other cells belong to one other label, the alias. In all columns together, the number of cells of a label
// is 2⁶⁴ times its mass. The word w chooses column c = w mod 2ᵇ and, in this column, cell r = w div 2ᵇ. Each column has
// a threshold, with
//
//	e[c] = 2ᵇ·threshold + alias,  label = min(w, e[c]) mod 2ᵇ,  integer = First + label.
//
// These formulas are exact. We have w ≤ e[c] if and only if r < threshold, or r = threshold and c ≤ alias. So label c
// gets the cells r < threshold and, if c ≤ alias, one more cell. Hence threshold is count − 1 if c < alias, and count
// otherwise. The threshold must not be −1. It would be −1 only if count = 0 and c < alias. This case cannot occur. A
// column with count 0 belongs to a label without mass. Labels without mass come last, and an alias has mass, so c >
// alias. A column that keeps all its cells has alias = c, and any threshold works for it.
type Table struct {
	First int // the integer of label 0
	Last  int // the integer of the last label with mass
	// Eta bounds the excess of the table's masses over the ideal masses. Every integer has at most (1+Eta) times its
	// ideal mass. Eta is an exact multiple of 2⁻⁹².
	Eta  float64
	name string
	bits int // b, the base-2 logarithm of the number of columns
	// entries is the array e of the formulas in the comment of Table.
	entries []uint64
}

// Mass is an alias of law.Mass, a lower bound on a probability.
type Mass = law.Mass

// etaPlaces is the number of binary places of Table.Eta.
const etaPlaces = 92

// NewTable returns the table of a distribution on the integers first, first+1, …. The argument 'masses' gives lower
// bounds p_j on the probabilities of these integers. The table's masses are
//
//	q_j = ⌊p_j(1+η)2⁶⁴⌋ / 2⁶⁴
//
// where η is the smallest multiple of 2⁻⁹² for which these masses sum to 1 or more. The sum exceeds 1 by at most one
// unit of 2⁻⁶⁴ per integer. NewTable subtracts this excess from the largest mass. Integers without mass must be at the
// ends of the range. The method Digest also hashes the argument 'name', so two distributions with different names have
// different digests.
func NewTable(name string, first int, masses []Mass) (*Table, error) {
	eta, err := leastEta(masses)
	if err != nil {
		return nil, fmt.Errorf("distribution %s: %w", name, err)
	}
	counts := make([]uint64, len(masses))
	mode, surplus := 0, uint64(0)
	for j, p := range masses {
		counts[j] = cells(p, eta)
		surplus += counts[j] // arithmetic mod 2⁶⁴
		if counts[j] > counts[mode] {
			mode = j
		}
	}
	counts[mode] -= surplus
	for counts[0] == 0 {
		counts = counts[1:]
		first++
	}
	for counts[len(counts)-1] == 0 {
		counts = counts[:len(counts)-1]
	}
	if slices.Contains(counts, 0) || len(counts) > 1<<16 {
		return nil, fmt.Errorf("distribution %s: want masses above 0 between its ends, and at most %d", name, 1<<16)
	}
	columns := bits.Len(uint(len(counts) - 1))
	return &Table{
		First: first, Last: first + len(counts) - 1, Eta: math.Ldexp(float64(eta), -etaPlaces),
		name: name, bits: columns, entries: aliases(counts, columns, 64),
	}, nil
}

// NewLawTable returns the table of ⌊(scale/step)·ε + ½⌋, where ε follows the law at scale 1. The float64 scale is taken
// as an exact real number, and the step is rational. For the uniform law, a ratio scale/step that is almost equal to a
// multiple of ½ is replaced by this multiple (see Ratios.Round). The table depends only on the law, the scale and the
// step.
func NewLawTable(l law.Additive, scale float64, step *big.Rat) (*Table, error) {
	if !(scale > 0) || math.IsInf(scale, 1) || step.Sign() <= 0 {
		return nil, fmt.Errorf("noise of %s = %v on a lattice of step %s: want numbers above 0", l.Words().Symbol, scale, step.RatString())
	}
	ratio := new(big.Rat).SetFloat64(scale)
	ratio.Quo(ratio, step)
	room := l.Ratios()
	if ratio = room.Round(ratio); !room.Allow(ratio) {
		r, _ := ratio.Float64()
		return nil, fmt.Errorf("%s is %.4g steps of the lattice; a table of noise has room for %d to %d",
			l.Words().Symbol, r, room.Least, room.Greatest)
	}
	first, masses := l.Masses(ratio)
	return NewTable(l.Name()+" "+ratio.RatString(), first, masses)
}

// cells returns ⌊p(1+η)2⁶⁴⌋ for η = eta·2⁻⁹².
func cells(p Mass, eta uint64) uint64 {
	// The product p·2¹²⁸·eta is low + 2⁶⁴·middle + 2¹²⁸·high. The code shifts this product right by 92 places and adds
	// it to p·2¹²⁸.
	carry, _ := bits.Mul64(p.Lo, eta)
	high, middle := bits.Mul64(p.Hi, eta)
	middle, c := bits.Add64(middle, carry, 0)
	high += c
	const shift = etaPlaces - 64
	_, c = bits.Add64(p.Lo, middle>>shift|high<<(64-shift), 0)
	cells, _ := bits.Add64(p.Hi, high>>shift, c)
	return cells
}

// errMass means that the sum of a distribution's masses is too far below 1, or is above 1.
var errMass = errors.New("its masses sum to less than 1 − 2⁻⁴⁰, or to more than 1")

// leastEta returns the smallest eta, in units of 2⁻⁹², for which the cells sum to at least 2⁶⁴.
func leastEta(masses []Mass) (uint64, error) {
	// The function 'total' returns the sum of the cells mod 2⁶⁴, and the number of carries.
	total := func(eta uint64) (sum, carries uint64) {
		for _, p := range masses {
			var c uint64
			sum, c = bits.Add64(sum, cells(p, eta), 0)
			carries += c
		}
		return sum, carries
	}
	if sum, carries := total(0); carries > 1 || carries == 1 && sum > 0 {
		return 0, errMass
	}
	low, high := uint64(0), uint64(1)<<(etaPlaces-40) // every multiple of 2⁻⁹² up to 2⁻⁴⁰ is a float64
	for low < high {
		middle := (low + high) / 2
		if _, carries := total(middle); carries > 0 {
			high = middle
		} else {
			low = middle + 1
		}
	}
	if _, carries := total(low); carries == 0 {
		return 0, errMass
	}
	return low, nil
}

// aliases returns the entries e of a table. The table has 2^columns columns. Each draw from the table uses a random
// word of 'width' bits. The argument 'counts' holds each label's number of cells, which is above 0. These numbers sum
// to 2^width. The columns after the last label in 'counts' belong to labels without mass.
func aliases(counts []uint64, columns, width int) []uint64 {
	full := uint64(1) << (width - columns)
	left := make([]uint64, 1<<columns)
	copy(left, counts)
	entries := make([]uint64, len(left))
	var small, large []int
	for c, k := range left {
		switch {
		case k < full:
			small = append(small, c)
		case k > full:
			large = append(large, c)
		default:
			entries[c] = uint64(c)
		}
	}
	// Each round takes a label that has too few cells to fill its column, and completes this column. It fills the
	// column with cells of a label that has too many cells. The remaining cells exactly fill the remaining columns. So
	// while labels with too few cells remain, labels with too many cells remain, too.
	for len(small) > 0 {
		c, donor := small[len(small)-1], large[len(large)-1]
		small = small[:len(small)-1]
		threshold := left[c]
		if c < donor {
			threshold--
		}
		entries[c] = threshold<<columns | uint64(donor)
		left[donor] -= full - left[c]
		if left[donor] <= full {
			large = large[:len(large)-1]
			if left[donor] < full {
				small = append(small, donor)
			} else {
				entries[donor] = uint64(donor)
			}
		}
	}
	return entries
}

// Integer returns the integer drawn by the word w.
func (t *Table) Integer(w uint64) int { return t.First + int(draw(t.entries, w)) }

// draw returns the label min(w, e[w mod 2ᵇ]) mod 2ᵇ. It avoids min, because the compiler would turn min into a branch
// that the processor cannot predict.
func draw(entries []uint64, w uint64) uint64 {
	mask := uint64(len(entries) - 1)
	e := entries[w&mask]
	difference, borrow := bits.Sub64(w, e, 0)
	return (e + difference&-borrow) & mask
}

// Entries returns 2ᵇ, the number of the table's columns.
func (t *Table) Entries() int { return len(t.entries) }

// Name returns the name of the distribution, with its parameters.
func (t *Table) Name() string { return t.name }

// Digest returns the SHA-256, in hex, of a byte sequence. The sequence begins with "rscert table 1 ", the name and a
// newline. After that come First, Last, η, b and the array e, each number as a little-endian 64-bit integer. For η,
// this integer is the bit pattern of the float64. The comment of Table explains b and e. Equal digests mean equal
// noise.
func (t *Table) Digest() string {
	buf := append([]byte("rscert table 1 "+t.name), '\n')
	for _, v := range []uint64{uint64(t.First), uint64(t.Last), math.Float64bits(t.Eta), uint64(t.bits)} {
		buf = binary.LittleEndian.AppendUint64(buf, v)
	}
	for _, e := range t.entries {
		buf = binary.LittleEndian.AppendUint64(buf, e)
	}
	sum := sha256.Sum256(buf)
	return hex.EncodeToString(sum[:])
}

// Deflate returns α·e^{−Nη}, rounded down. Suppose that a bound uses N draws from tables with this η. If it uses the
// level α·e^{−Nη}, it fails with probability at most α.
//
// The table's masses are at most 1+η times the ideal masses. So for N independent draws, the probability of an event is
// at most (1+η)ᴺ ≤ e^{Nη} times its ideal probability. A bound that fails with probability at most α·e^{−Nη} under the
// ideal law therefore fails with probability at most α under the table's law. This also holds with adaptive stopping if
// N is the largest possible number of draws. The code uses e^{−y} ≥ 1 − y + y²/2 − y³/6 for y ≥ 0. This lower bound is
// too small by at most y⁴/24. A negative result becomes 0.
func Deflate(alpha, eta float64, draws int64) float64 {
	const ulps = 0x1p-50 // more than the total of all rounding errors here
	y := float64(float64(draws)*eta) * (1 + ulps)
	kept := 1 - float64(y*(1-float64(y*(.5-float64(y/6)))))
	return max(0, float64(alpha*kept)*(1-ulps))
}
