package smoothing

// Phase says what a sample is for. The selection samples choose the class, and the estimation samples give the bound on
// its probability. The two sets of samples must be independent (Cohen et al. 2019, Algorithm 1).
type Phase uint8

// These are the phases of sampling, in order.
const (
	Selection  Phase = 0
	Estimation Phase = 1
)

func (p Phase) String() string {
	if p == Selection {
		return "selection"
	}
	return "estimation"
}

// Stream gives the random words of one example in one phase. A word is a pure function of seed, example, phase, sample
// and coordinate. It does not depend on other draws, the order of draws, threads or the machine. The function Words in
// words.go computes it. Words uses the counter sample·G + coordinate, with G = 0x9E3779B97F4A7C15.
//
// Suppose that sample and coordinate were two separate bit fields of the counter, with the sample in the upper half.
// Then, for a given coordinate, the low half of counter·key would be equal in all samples. The first round of the
// generator would then not mix the sample's number into the word. G is 2⁶⁴ over the golden ratio, so for 0 < |s| < 2³¹,
// s·G stays more than 2³² away from every multiple of 2⁶⁴. (This bound follows from the theory of best approximations,
// and the tests check it.) So all counters are distinct for up to 2³¹ samples with up to 2³² coordinates.
type Stream struct{ key uint64 }

// MaxSamples limits the number of samples of an example in a phase. Up to this limit, all words of these samples have
// different counters.
const MaxSamples = 1 << 31

// weyl is ⌊2⁶⁴/φ⌋, which is odd. It is the constant G in the comment of Stream, and the step of SplitMix64.
const weyl = 0x9E3779B97F4A7C15

// NewStream returns the stream for an example (0 ≤ example < 2⁵⁶) in a phase.
//
// Squares needs a key whose bits are irregular. Widynski builds keys from 16 hexadecimal digits by four rules. No digit
// is 0. The last digit is odd. The last eight digits are all different. Each of the first eight digits differs from its
// right neighbour. A random 64-bit key would sometimes be weak: it could be even, have few bits set, or be zero, which
// makes all words zero. The keys seed, seed+1, … would give similar sequences. So NewStream numbers the keys that
// follow the rules. NewStream also numbers the pairs (example, phase). The seed determines a permutation of the key
// numbers. This permutation maps the number of each pair to the number of its key. For one seed no two pairs share a
// key, and neighbouring pairs get unrelated keys.
func NewStream(seed uint64, example int, phase Phase) Stream {
	if int64(example)>>56 != 0 || phase > Estimation {
		panic("smoothing: example or phase out of range")
	}
	n := uint64(example)<<1 | uint64(phase)
	for {
		// Cycle walking restricts the permutation from [0, 2⁵⁸) to [0, admissibleKeys).
		if n = permute(seed, n); n < admissibleKeys {
			return Stream{key: admissibleKey(n)}
		}
	}
}

// admissibleKeys is the number of keys that follow the rules (see NewStream). There are 8 odd digits for the last
// place, 14!/7! ways to choose the next seven different digits, and 14 choices for each of the upper eight digits. The
// product is about 2^57.5.
const admissibleKeys = 8 * (14 * 13 * 12 * 11 * 10 * 9 * 8) * (14 * 14 * 14 * 14 * 14 * 14 * 14 * 14)

// admissibleKey returns the admissible key with number n, where n < admissibleKeys.
func admissibleKey(n uint64) uint64 {
	// The digits in unused[place:] are not yet used. At the start, odd digits are at even indices.
	unused := [15]uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	var key, digit uint64
	for place := range uint64(16) {
		switch {
		case place == 0:
			i := n % 8 * 2
			n /= 8
			digit, unused[i] = unused[i], unused[0]
		case place < 8:
			i := place + n%(15-place)
			n /= 15 - place
			digit, unused[i] = unused[i], unused[place]
		default:
			d := n%14 + 1
			n /= 14
			if d >= digit { // skip the neighbour's digit
				d++
			}
			digit = d
		}
		key |= digit << (4 * place)
	}
	return key
}

// permute is a permutation of [0, 2⁵⁸) that the seed determines. It is a balanced Feistel network of six rounds. Such a
// network is a bijection for any round function.
func permute(seed, n uint64) uint64 {
	left, right := n>>29, n&(1<<29-1)
	for range 6 {
		seed += weyl
		left, right = right, left^mix(right^mix(seed))>>35
	}
	return left<<29 | right
}

// mix is the output function of SplitMix64 (Steele, Lea and Flood 2014).
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
