//go:build goexperiment.simd && amd64 && go1.26 && !go1.27

package smoothing

import (
	"math"
	"simd/archsimd"
)

var evenWords = [8]uint64{0, 2, 4, 6, 8, 10, 12, 14}

// words512 sets dst[w] to the word of counter + w. len(dst) is a multiple of
// 16.
func (s Stream) words512(dst []uint32, counter uint64) {
	key := archsimd.BroadcastUint64x8(s.key)
	step := archsimd.BroadcastUint64x8(16 * s.key)
	upper := archsimd.BroadcastUint64x8(math.MaxUint32 << 32)
	y0 := archsimd.LoadUint64x8(&evenWords).Add(archsimd.BroadcastUint64x8(counter)).Mul(key)
	for ; len(dst) >= 16; dst = dst[16:] {
		y1 := y0.Add(key)
		y2 := y1.Add(key)
		even := squares512(y0, y1).RotateAllLeft(32).AndNot(upper)
		odd := squares512(y1, y2).And(upper)
		even.Or(odd).AsUint32x16().Store((*[16]uint32)(dst))
		y0 = y0.Add(step)
	}
}

// squares512 is squares with the word in the upper half of each lane.
func squares512(y, z archsimd.Uint64x8) archsimd.Uint64x8 {
	x := y.Mul(y).Add(y).RotateAllLeft(32)
	x = x.Mul(x).Add(z).RotateAllLeft(32)
	x = x.Mul(x).Add(y).RotateAllLeft(32)
	return x.Mul(x).Add(z)
}

// reduce512 finds k, δ and where to look in the tables. Shifts are rotations and
// masks: archsimd has a shift by a constant only with the constant in a register.
func (b *buffer) reduce512(groups int) {
	one := archsimd.BroadcastUint64x8(1)
	bits0to7 := archsimd.BroadcastUint64x8(1<<8 - 1)
	bits0to15 := archsimd.BroadcastUint64x8(1<<16 - 1)
	bits8to15 := archsimd.BroadcastUint64x8(1<<16 - 1<<8)
	bits8to39 := archsimd.BroadcastUint64x8(1<<40 - 1<<8)
	centre := archsimd.BroadcastInt64x8(1 << 15)
	unit := archsimd.BroadcastFloat64x8(2 * math.Pi / (1 << 24))
	for i := range b.k[:groups] {
		ab := archsimd.LoadUint32x16((*[16]uint32)(b.words[16*i:])).AsUint64x8() // a + 2³²·b
		u := ab.RotateAllLeft(8).And(bits8to39).Or(ab.RotateAllRight(32).And(bits0to7)).Add(one)
		k := u.AsInt64x8().ConvertToFloat64()
		k.Store(&b.k[i])
		delta := ab.RotateAllRight(40).And(bits0to15).AsInt64x8().Sub(centre)
		delta.ConvertToFloat64().Mul(unit).Store(&b.delta[i])
		logarithm := k.AsUint64x8().RotateAllRight(44).And(bits0to7)
		arc := ab.RotateAllRight(48).And(bits8to15)
		logarithm.Or(arc).TruncateToUint16().AsUint8x16().Store(&b.indices[i])
	}
}

// columns512 takes apart the first and the second numbers of eight entries, and puts
// the pairs in order.
func columns512(entries *[2][8]float64) (first, second archsimd.Float64x8) {
	even := archsimd.LoadFloat64x8(&entries[0]).AsUint64x8()
	odd := archsimd.LoadFloat64x8(&entries[1]).AsUint64x8()
	return even.InterleaveLoGrouped(odd).AsFloat64x8(), even.InterleaveHiGrouped(odd).AsFloat64x8()
}

// Coordinates 0 to 7 and 8 to 15 of eight pairs whose first coordinates are
// numbered 0 to 7 and second 8 to 15.
var interleaved = [2][8]uint32{{0, 8, 1, 9, 2, 10, 3, 11}, {4, 12, 5, 13, 6, 14, 7, 15}}

// combine512 makes Gaussians of what reduce512 and gather left.
func (b *buffer) combine512(groups int) {
	mantissa := archsimd.BroadcastUint64x8(1<<52 - 1)
	mantissaBits := archsimd.BroadcastUint64x8(52)
	exponent0 := archsimd.BroadcastUint64x8(1023 << 52)
	exponent40 := archsimd.BroadcastInt64x8(1023 + 40)
	octave := archsimd.BroadcastFloat64x8(octave)
	one := archsimd.BroadcastFloat64x8(1)
	two := archsimd.BroadcastFloat64x8(2)
	twoThirds := archsimd.BroadcastFloat64x8(2. / 3)
	half := archsimd.BroadcastFloat64x8(.5)
	sixth := archsimd.BroadcastFloat64x8(1. / 6)
	lower := archsimd.LoadUint32x8(&interleaved[0])
	upper := archsimd.LoadUint32x8(&interleaved[1])
	for i := range b.k[:groups] {
		k := archsimd.LoadFloat64x8(&b.k[i]).AsUint64x8()
		m := k.And(mantissa).Or(exponent0).AsFloat64x8()
		// The product that exponents holds.
		exponent := exponent40.Sub(k.ShiftRight(mantissaBits).AsInt64x8()).ConvertToFloat64().Mul(octave)
		inverse, log := columns512(&b.logarithms[i])
		t := m.Mul(inverse).Sub(one)
		series := t.Mul(t.Mul(one.Sub(t.Mul(twoThirds))).Sub(two))
		r := exponent.Add(log).Add(series).Sqrt()

		arcCos, arcSin := columns512(&b.arcs[i])
		d := archsimd.LoadFloat64x8(&b.delta[i])
		d2 := d.Mul(d)
		cos := one.Sub(d2.Mul(half))
		sin := d.Sub(d2.Mul(d).Mul(sixth))
		x := r.Mul(arcCos.Mul(cos).Sub(arcSin.Mul(sin))).ConvertToFloat32()
		y := r.Mul(arcSin.Mul(cos).Add(arcCos.Mul(sin))).ConvertToFloat32()
		x.ConcatPermute(y, lower).Store((*[8]float32)(b.gaussians[16*i:]))
		x.ConcatPermute(y, upper).Store((*[8]float32)(b.gaussians[16*i+8:]))
	}
}
