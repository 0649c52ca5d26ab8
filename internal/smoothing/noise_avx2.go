//go:build goexperiment.simd && amd64 && go1.26 && !go1.27

package smoothing

import (
	"math"
	"simd/archsimd"
)

// words256 sets dst[w] to the word of counter + w. len(dst) is a multiple of 8.
func (s Stream) words256(dst []uint32, counter uint64) {
	first := counter * s.key
	y0 := archsimd.LoadUint64x4(&[4]uint64{first, first + 2*s.key, first + 4*s.key, first + 6*s.key})
	key := archsimd.BroadcastUint64x4(s.key)
	step := archsimd.BroadcastUint64x4(8 * s.key)
	upper := archsimd.BroadcastUint64x4(math.MaxUint32 << 32)
	by33 := archsimd.BroadcastUint64x4(33)
	for ; len(dst) >= 8; dst = dst[8:] {
		y1 := y0.Add(key)
		y2 := y1.Add(key)
		even := swap256(squares256(y0, y1, by33).And(upper))
		odd := squares256(y1, y2, by33).And(upper)
		even.Or(odd).AsUint32x8().Store((*[8]uint32)(dst))
		y0 = y0.Add(step)
	}
}

// squares256 is squares with the word in the upper half of each lane.
func squares256(y, z, by33 archsimd.Uint64x4) archsimd.Uint64x4 {
	v := square256(y, swap256(y), by33).Add(y) // x of the next round is v, its halves swapped
	v = square256(swap256(v), v, by33).Add(z)
	v = square256(swap256(v), v, by33).Add(y)
	return square256(swap256(v), v, by33).Add(z)
}

// square256 is x², given x and x with its halves swapped. There is no product of
// 64-bit lanes: with x = 2³²·h + l, x² = l² + 2³³·h·l mod 2⁶⁴.
func square256(x, swapped, by33 archsimd.Uint64x4) archsimd.Uint64x4 {
	low := x.AsUint32x8()
	return low.MulEvenWiden(low).Add(low.MulEvenWiden(swapped.AsUint32x8()).ShiftLeft(by33))
}

// swap256 swaps the halves of each lane.
func swap256(x archsimd.Uint64x4) archsimd.Uint64x4 {
	return x.AsUint32x8().PermuteScalarsGrouped(1, 0, 3, 2).AsUint64x4()
}

// exactBits are the bits of 2⁵²: with those of n < 2⁵² in them they are 2⁵² + n.
const exactBits = (1023 + 52) << 52

// reduce256 finds k, δ and where to look in the tables. Shifts are by vectors of
// counts: archsimd's shift by a constant brings that in with an instruction of SSE,
// after which vectors of 256 bits wait, ten times as long as all the rest takes.
func (b *buffer) reduce256(groups int) {
	one := archsimd.BroadcastUint64x4(1)
	by8, by40 := archsimd.BroadcastUint64x4(8), archsimd.BroadcastUint64x4(40)
	by44, by48 := archsimd.BroadcastUint64x4(44), archsimd.BroadcastUint64x4(48)
	bits0to7 := archsimd.BroadcastUint64x4(1<<8 - 1)
	bits0to15 := archsimd.BroadcastUint64x4(1<<16 - 1)
	bits8to15 := archsimd.BroadcastUint64x4(1<<16 - 1<<8)
	bits8to39 := archsimd.BroadcastUint64x4(1<<40 - 1<<8)
	exact := archsimd.BroadcastUint64x4(exactBits)
	zero := archsimd.BroadcastFloat64x4(1 << 52)
	centre := archsimd.BroadcastFloat64x4(1<<52 + 1<<15)
	unit := archsimd.BroadcastFloat64x4(2 * math.Pi / (1 << 24))
	for i := range b.k[:groups] {
		var indices archsimd.Uint8x32
		for h := range 2 {
			ab := archsimd.LoadUint32x8((*[8]uint32)(b.words[16*i+8*h:])).AsUint64x4() // a + 2³²·b
			u := ab.ShiftLeft(by8).And(bits8to39).Or(swap256(ab).And(bits0to7)).Add(one)
			k := u.Or(exact).AsFloat64x4().Sub(zero)
			k.Store((*[4]float64)(b.k[i][4*h:]))
			delta := ab.ShiftRight(by40).And(bits0to15).Or(exact).AsFloat64x4().Sub(centre)
			delta.Mul(unit).Store((*[4]float64)(b.delta[i][4*h:]))
			logarithm := k.AsUint64x4().ShiftRight(by44).And(bits0to7)
			arc := ab.ShiftRight(by48).And(bits8to15)
			indices = indices.Or(logarithm.Or(arc).AsUint8x32().PermuteOrZeroGrouped(archsimd.LoadInt8x32(&packed[h])))
		}
		indices.GetLo().Or(indices.GetHi()).Store(&b.indices[i])
	}
}

// packed takes the lowest two bytes of four lanes, of pairs 0 to 3 and of pairs 4
// to 7, to their places among 16, apart in two halves; −1 puts 0.
var packed = [2][32]int8{
	{0, 1, 8, 9, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 8, 9, -1, -1, -1, -1, -1, -1, -1, -1},
	{-1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 8, 9, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 1, 8, 9},
}

// columns256 takes apart the first and the second numbers of the entries of pairs
// h to h+3, and puts the pairs in order.
func columns256(entries *[2][8]float64, h int) (first, second archsimd.Float64x4) {
	even := archsimd.LoadFloat64x4((*[4]float64)(entries[0][h:])).AsUint64x4()
	odd := archsimd.LoadFloat64x4((*[4]float64)(entries[1][h:])).AsUint64x4()
	return even.InterleaveLoGrouped(odd).AsFloat64x4(), even.InterleaveHiGrouped(odd).AsFloat64x4()
}

// combine256 makes Gaussians of what reduce256 and gather left.
func (b *buffer) combine256(groups int) {
	mantissa := archsimd.BroadcastUint64x4(1<<52 - 1)
	by52 := archsimd.BroadcastUint64x4(52)
	exponent0 := archsimd.BroadcastUint64x4(1023 << 52)
	exact := archsimd.BroadcastUint64x4(exactBits)
	exponent40 := archsimd.BroadcastFloat64x4(1<<52 + 1023 + 40)
	octave := archsimd.BroadcastFloat64x4(octave)
	one := archsimd.BroadcastFloat64x4(1)
	two := archsimd.BroadcastFloat64x4(2)
	twoThirds := archsimd.BroadcastFloat64x4(2. / 3)
	half := archsimd.BroadcastFloat64x4(.5)
	sixth := archsimd.BroadcastFloat64x4(1. / 6)
	for i := range b.k[:groups] {
		for h := 0; h < 8; h += 4 {
			k := archsimd.LoadFloat64x4((*[4]float64)(b.k[i][h:])).AsUint64x4()
			m := k.And(mantissa).Or(exponent0).AsFloat64x4()
			// The product that exponents holds.
			exponent := exponent40.Sub(k.ShiftRight(by52).Or(exact).AsFloat64x4()).Mul(octave)
			inverse, log := columns256(&b.logarithms[i], h)
			t := m.Mul(inverse).Sub(one)
			series := t.Mul(t.Mul(one.Sub(t.Mul(twoThirds))).Sub(two))
			r := exponent.Add(log).Add(series).Sqrt()

			arcCos, arcSin := columns256(&b.arcs[i], h)
			d := archsimd.LoadFloat64x4((*[4]float64)(b.delta[i][h:]))
			d2 := d.Mul(d)
			cos := one.Sub(d2.Mul(half))
			sin := d.Sub(d2.Mul(d).Mul(sixth))
			x := r.Mul(arcCos.Mul(cos).Sub(arcSin.Mul(sin))).ConvertToFloat32().AsUint32x4()
			y := r.Mul(arcSin.Mul(cos).Add(arcCos.Mul(sin))).ConvertToFloat32().AsUint32x4()
			x.InterleaveLo(y).AsFloat32x4().Store((*[4]float32)(b.gaussians[16*i+2*h:]))
			x.InterleaveHi(y).AsFloat32x4().Store((*[4]float32)(b.gaussians[16*i+2*h+4:]))
		}
	}
}
