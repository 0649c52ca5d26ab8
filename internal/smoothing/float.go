package smoothing

import (
	"math"
	"math/bits"
)

// This file makes floating-point noise, for comparison with papers and older runs (--noise float). The code uses only
// integer arithmetic and the operations +, −, ×, ÷, √ of IEEE 754. It never fuses a product with a sum. To prevent
// this, the code below converts products to float64.
//
// The random words come from the generator Squares (Widynski 2020, arXiv:2004.06278) with four rounds and 32 bits per
// counter. All arithmetic is mod 2⁶⁴, and rot(x) = x·2³² + x div 2³²:
//
//	counter = sample·G + w for word w of the sample, G = 0x9E3779B97F4A7C15
//	y = counter·key, z = y + key
//	x = rot(y·y + y), x = rot(x·x + z), x = rot(x·x + y)
//	word = (x·x + z) div 2³²
//
// The method of Box and Muller (1958) turns the words into Gaussians. Coordinates 2j and 2j+1 share a = word 2j and b =
// word 2j+1:
//
//	u = (2⁸·a + b mod 2⁸ + 1)/2⁴⁰ in (0, 1]    r = √(−2 ln u)
//	θ = 2π·(b div 2⁸)/2²⁴                      r·cos θ and r·sin θ
//
// The radius uses 8 bits of b in addition to the 32 bits of a, because the number of bits limits the radius. With 32
// bits the largest radius would be √(64 ln 2) = 6.66. The angle uses the other 24 bits of b. float32 cannot distinguish
// more than 2²⁴ angles.
//
// Error. The computed value is within 2.5e-7 of the real number defined above. The approximations contribute at most
// 8e-9 (see boxMuller). The final rounding contributes half a unit in the last place of float32, 2.4e-7 for values from
// 4 to 8.
//
// Effect of the finite number of bits. Given the drawn u and θ, let v be uniform on (u − 2⁻⁴⁰, u] and φ uniform on [θ,
// θ + 2π/2²⁴). Over all draws, v is uniform on (0, 1] and φ is uniform on [0, 2π), so v and φ give an exact Gaussian
// pair. The computed pair is a rounding of this exact pair.
//
//   - The radius is at most r = √(80 ln 2) = 7.447, and an exact pair exceeds this radius with probability 2⁻⁴⁰. So
//     with probability at least 1 − D·2⁻⁴¹ the noise of D coordinates is the rounding of an exact Gaussian that was not
//     truncated. The truncation changes the distribution by at most 2⁻⁴¹ per coordinate in total variation. For all D
//     coordinates together, this is 1.4e-9 for CIFAR-10 and 6.9e-8 for ImageNet. So the probability of a class changes
//     by at most D·2⁻⁴¹, which is too small to matter for a certificate. For n = 100,000 samples and α = 0.001, a
//     certificate shows at best p ≥ 1 − 6.9e-5. (If u had 32 bits, the change would be 2⁻³³ per coordinate, 1.8e-5 for
//     ImageNet.)
//   - The rounding of the angle moves a pair around the circle by at most r·2π/2²⁴ ≤ 2.8e-6 (5e-7 for r = 1.25). The
//     rounding of the radius moves the pair inwards by about 2⁻⁴⁰/(u·r), which is below 1e-6 except with probability
//     2e-7 per pair. The rounding of x + σε to float32 has an error of about the same size, and the rounding inside a
//     float32 model has a larger error.

// block is the number of words that the code generates at a time and then turns into Gaussians. This number is even,
// and so small that a block fits into the first-level cache.
const block = 256

// Fill sets dst[d] to the standard Gaussian number for coordinate d of a sample (0 ≤ sample < 2³¹).
func (s Stream) Fill(dst []float32, sample int64) {
	var b buffer
	for w := 0; w < len(dst); w += block {
		out := dst[w:min(w+block, len(dst))]
		s.gaussians(&b, uint64(sample)*weyl+uint64(w), len(out))
		copy(out, b.gaussians[:])
	}
}

// A buffer holds the words and Gaussians of one block.
type buffer struct {
	words     [block]uint32
	gaussians [block]float32
}

// gaussians turns n random words into Gaussians and writes them to b.gaussians. The argument 'counter' is the counter
// of the first word: sample·G + coordinate (see Stream). If n is odd, the method does this for n+1 words.
func (s Stream) gaussians(b *buffer, counter uint64, n int) {
	n += n & 1
	s.words(b.words[:n], counter)
	boxMuller(b.gaussians[:n], b.words[:n])
}

// FloatInput is an example to which Perturb adds noise in float32. The noisy input is Values[d] + Scale[d]·Z, where the
// product and the sum are rounded. The bits of such a sum reveal the clean value (Jin et al. 2022). So a certificate
// from these samples would hold only in exact arithmetic.
type FloatInput struct {
	Values []float32 // [D], input without noise, normalised
	Scale  []float32 // [D], σ divided by the normalisation's standard deviation
}

// Len returns D.
func (in FloatInput) Len() int { return len(in.Values) }

// Clean sets dst [D] to the input without noise.
func (in FloatInput) Clean(dst []float32) { copy(dst, in.Values) }

// Perturb sets dst [D] to the noisy input of a sample.
func (in FloatInput) Perturb(dst []float32, s Stream, sample int64) {
	var b buffer
	for w := 0; w < len(dst); w += block {
		out := dst[w:min(w+block, len(dst))]
		s.gaussians(&b, uint64(sample)*weyl+uint64(w), len(out))
		clean, scale := in.Values[w:w+len(out)], in.Scale[w:w+len(out)]
		for d := range out {
			out[d] = clean[d] + float32(scale[d]*b.gaussians[d])
		}
	}
}

// words sets dst[w] to the word for counter + w. The length of dst is even.
func (s Stream) words(dst []uint32, counter uint64) {
	y0 := counter * s.key
	for w := 0; w+1 < len(dst); w += 2 {
		// For a counter c, y is c·key and z is (c+1)·key. So the z of one counter equals the y of the next counter.
		y1 := y0 + s.key
		y2 := y1 + s.key
		dst[w] = squares(y0, y1)
		dst[w+1] = squares(y1, y2)
		y0 = y2
	}
}

func squares(y, z uint64) uint32 {
	x := bits.RotateLeft64(y*y+y, 32)
	x = bits.RotateLeft64(x*x+z, 32)
	x = bits.RotateLeft64(x*x+y, 32)
	return uint32((x*x + z) >> 32)
}

// boxMuller turns each pair of random words into a pair of Gaussian numbers, and writes the numbers to dst.
//
// Error of the radius. Let k = 2⁴⁰·u = 2^e·m with 1 ≤ m < 2. Write m = c·(1+t), where c is the multiple of 1/128
// nearest to m, so |t| ≤ 2⁻⁸. Then −2 ln u = 2(40−e) ln 2 − 2 ln c − 2t + t² − ⅔t³, with an error of at most t⁴/2 ≤
// 1.2e-10. Near u = 1, where r is small, c is 2 and the first two terms cancel exactly. So the error of r is at most
// 1e-9 everywhere.
//
// Error of the angle. Let θ = α + δ, where α is the centre of one of 256 arcs and |δ| ≤ π/256. Then cos δ = 1 − δ²/2
// with an error of at most δ⁴/24 ≤ 9.5e-10, and sin δ = δ − δ³/6 with an error of at most 2.4e-12. Multiplied by the
// largest radius, the larger of the two errors is 7.1e-9.
func boxMuller(dst []float32, words []uint32) {
	for i := 0; i+1 < len(words) && i+1 < len(dst); i += 2 {
		a, b := uint64(words[i]), words[i+1]

		k := math.Float64bits(float64(int64(a<<8 + uint64(b&255) + 1)))
		m := math.Float64frombits(k&(1<<52-1) | 1023<<52)
		c := &logarithms[uint8(k>>44)]
		t := float64(m*c[0]) - 1
		series := float64(t * (float64(t*(1-float64(t*(2./3)))) - 2))
		r := math.Sqrt(exponents[k>>52&63] + c[1] + series)

		arc := &arcs[b>>24]
		d := float64(float64(int32(b>>8&(1<<16-1))-1<<15) * (2 * math.Pi / (1 << 24)))
		d2 := float64(d * d)
		cos := 1 - float64(d2*.5)
		sin := d - float64(float64(d2*d)*(1./6))
		dst[i] = float32(r * (float64(arc[0]*cos) - float64(arc[1]*sin)))
		dst[i+1] = float32(r * (float64(arc[1]*cos) + float64(arc[0]*sin)))
	}
}

// These are the tables of boxMuller. Because of their lengths the compiler can omit bounds checks. The code does not
// compute the tables with math.Log and math.Sincos, because the last bit of these functions' results depends on the
// platform.
var (
	octave     = 2 * logarithm(2) // −2 ln ½
	logarithms [256][2]float64    // 1/c and −2 ln c, where c is the multiple of 1/128 nearest to 1 + (i+½)/256
	// 2(40−e) ln 2 for a float64 with the exponent e, indexed by the low 6 bits of its exponent field 1023+e
	exponents [64]float64
	arcs      [256][2]float64 // cos and sin of 2π(i+½)/256
)

func init() {
	for i := range logarithms {
		c := 1 + float64((i+1)/2)/128
		logarithms[i] = [2]float64{1 / c, -2 * logarithm(c)}
	}
	for e := range 41 {
		exponents[(1023+e)&63] = float64(40-e) * octave
	}
	for i := range 64 {
		cos, sin := cosSin(math.Pi * (float64(i) + .5) / 128)
		for range 4 {
			arcs[i] = [2]float64{cos, sin}
			cos, sin = -sin, cos // cos and sin of the angle plus a quarter turn
			i += 64
		}
	}
}

// logarithm returns ln c for 1 ≤ c ≤ 2 as 2 artanh((c−1)/(c+1)). The argument of artanh is at most ⅓, so
// the terms after the first 18 sum to less than 3⁻³⁶ = 7e-18.
func logarithm(c float64) float64 {
	z := (c - 1) / (c + 1)
	var sum float64
	for n := 35; n > 0; n -= 2 {
		sum = float64(sum*float64(z*z)) + 1/float64(n)
	}
	return 2 * float64(sum*z)
}

// cosSin returns cos x and sin x for 0 ≤ x ≤ π/2 by their Taylor series to x²³/23!. The omitted terms sum to less than
// 1e-20.
func cosSin(x float64) (cos, sin float64) {
	cos, sin = 1, 1
	x2 := float64(x * x)
	for n := 22; n > 0; n -= 2 {
		cos = 1 - float64(cos*x2)/float64(n*(n-1))
		sin = 1 - float64(sin*x2)/float64(n*(n+1))
	}
	return cos, float64(sin * x)
}
