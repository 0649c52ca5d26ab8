//go:build goexperiment.simd && amd64 && go1.26 && !go1.27

package smoothing

import "simd/archsimd"

// The noise with vectors of 512 bits (noise_avx512.go) or 256 (noise_avx2.go). Each
// value comes of the same operations in the same order as in noise.go, where they
// are explained, and so has the same bits. MulAdd, which rounds once where noise.go
// rounds twice, must not be used. Integers below 2⁵² become float64 by whatever
// way: it is exact.
//
// A block is made in passes because archsimd, an experiment of Go 1.26, has no
// gather: table entries are copied one by one, and a vector loaded too soon
// after its parts were stored has to wait for them.

// vectorBits is the length of the vectors that are used, 512, 256 or 0: what the
// processor and the operating system have.
var vectorBits = func() int {
	switch {
	case archsimd.X86.AVX512(): // F, DQ and VL
		return 512
	case archsimd.X86.AVX2():
		return 256
	}
	return 0
}()

// buffer holds a block while it is made: what one pass leaves to the next, eight
// pairs an element.
type buffer struct {
	words     [block]uint32
	gaussians [block]float32
	k         [block / 16][8]float64
	delta     [block / 16][8]float64
	indices   [block / 16][16]uint8 // of each pair, in logarithms and in arcs
	// The entries of pairs 0, 2, 4 and 6, then those of 1, 3, 5 and 7.
	logarithms, arcs [block / 16][2][8]float64
}

func (s Stream) gaussians(b *buffer, counter uint64, n int) {
	if vectorBits == 0 {
		s.scalarGaussians(b, counter, n)
		return
	}
	groups := (n + 15) / 16
	if vectorBits == 512 {
		s.words512(b.words[:16*groups], counter)
	} else {
		s.words256(b.words[:16*groups], counter)
	}
	b.boxMuller(groups)
	archsimd.ClearAVXUpperBits()
}

// boxMuller sets b.gaussians to the Gaussians of b.words, 16 a group.
func (b *buffer) boxMuller(groups int) {
	if vectorBits == 512 {
		b.reduce512(groups)
		b.gather(groups)
		b.combine512(groups)
	} else {
		b.reduce256(groups)
		b.gather(groups)
		b.combine256(groups)
	}
}

func perturb(dst, base, scale, noise []float32) {
	d := 0
	if vectorBits == 512 {
		for ; d <= len(dst)-16; d += 16 {
			product := archsimd.LoadFloat32x16((*[16]float32)(scale[d:])).Mul(archsimd.LoadFloat32x16((*[16]float32)(noise[d:])))
			archsimd.LoadFloat32x16((*[16]float32)(base[d:])).Add(product).Store((*[16]float32)(dst[d:]))
		}
	} else if vectorBits == 256 {
		for ; d <= len(dst)-8; d += 8 {
			product := archsimd.LoadFloat32x8((*[8]float32)(scale[d:])).Mul(archsimd.LoadFloat32x8((*[8]float32)(noise[d:])))
			archsimd.LoadFloat32x8((*[8]float32)(base[d:])).Add(product).Store((*[8]float32)(dst[d:]))
		}
	}
	if d > 0 {
		archsimd.ClearAVXUpperBits()
	}
	scalarPerturb(dst[d:], base[d:], scale[d:], noise[d:])
}

// gather copies the table entries. It is written out because a loop took twice
// as long.
func (b *buffer) gather(groups int) {
	for i := range b.indices[:groups] {
		n, l, a := &b.indices[i], &b.logarithms[i], &b.arcs[i]
		fetch(&l[0], 0, &logarithms[n[0]])
		fetch(&l[1], 0, &logarithms[n[2]])
		fetch(&l[0], 2, &logarithms[n[4]])
		fetch(&l[1], 2, &logarithms[n[6]])
		fetch(&l[0], 4, &logarithms[n[8]])
		fetch(&l[1], 4, &logarithms[n[10]])
		fetch(&l[0], 6, &logarithms[n[12]])
		fetch(&l[1], 6, &logarithms[n[14]])
		fetch(&a[0], 0, &arcs[n[1]])
		fetch(&a[1], 0, &arcs[n[3]])
		fetch(&a[0], 2, &arcs[n[5]])
		fetch(&a[1], 2, &arcs[n[7]])
		fetch(&a[0], 4, &arcs[n[9]])
		fetch(&a[1], 4, &arcs[n[11]])
		fetch(&a[0], 6, &arcs[n[13]])
		fetch(&a[1], 6, &arcs[n[15]])
	}
}

func fetch(dst *[8]float64, place int, entry *[2]float64) {
	archsimd.LoadFloat64x2(entry).Store((*[2]float64)(dst[place:]))
}
