package smoothing

import "math/bits"

// Words sets dst[d] to the 64-bit word of coordinate d of a sample (0 ≤ sample < 2³¹).
//
// The words come from the generator Squares (Widynski 2020, arXiv:2004.06278) with five rounds and 64 bits per counter.
// One step differs from Squares: the last step uses a sum instead of an XOR, because ONNX has no bitwise XOR before
// operator set 18. All arithmetic is mod 2⁶⁴, and rot(x) = x·2³² + x div 2³²:
//
//	counter = sample·G + d, G = 0x9E3779B97F4A7C15
//	y = counter·key, z = y + key
//	x = rot(y·y + y), x = rot(x·x + z), x = rot(x·x + y)
//	t = x·x + z, x = rot(t)
//	word = t + (x·x + y) div 2³²
//
// See the comment of Stream for the counters, and the comment of NewStream for the keys.
func (s Stream) Words(dst []uint64, sample int64) {
	y := uint64(sample) * weyl * s.key
	for d := range dst {
		z := y + s.key
		dst[d] = squares64(y, z)
		y = z // y of the next coordinate
	}
}

func squares64(y, z uint64) uint64 {
	x := bits.RotateLeft64(y*y+y, 32)
	x = bits.RotateLeft64(x*x+z, 32)
	x = bits.RotateLeft64(x*x+y, 32)
	t := x*x + z
	x = bits.RotateLeft64(t, 32)
	return t + (x*x+y)>>32
}
