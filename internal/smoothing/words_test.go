package smoothing

import (
	"fmt"
	"math"
	"strconv"
	"testing"
)

// The golden words come from an independent implementation in Python.
func TestWordsGolden(t *testing.T) {
	checked := 0
	for _, v := range readLatticeGolden(t).Words {
		seed, _ := strconv.ParseUint(v.Seed, 10, 64)
		example, _ := strconv.ParseInt(v.Example, 10, 64)
		if int64(int(example)) != example {
			continue // int has 32 bits on this platform
		}
		words := make([]uint64, v.Coordinates[len(v.Coordinates)-1]+1)
		NewStream(seed, int(example), v.Phase).Words(words, v.Sample)
		for i, d := range v.Coordinates {
			checked++
			if got := fmt.Sprintf("%016x", words[d]); got != v.Words[i] {
				t.Errorf("seed %s example %s %v sample %d: word %d is %s, want %s",
					v.Seed, v.Example, v.Phase, v.Sample, d, got, v.Words[i])
			}
		}
	}
	if checked < 80 {
		t.Errorf("only %d words", checked)
	}
}

// Words must differ if their seeds, examples, phases, samples or coordinates differ. The test compares the words of all
// combinations of 2 seeds, 8 examples, 2 phases, 8 samples and 64 coordinates. With independent random words, the test
// would fail with probability 2⁻³⁷. A word must also not depend on how many words are requested.
func TestWordsDiffer(t *testing.T) {
	seen := map[uint64]string{}
	var words [64]uint64
	var few [5]uint64
	for seed := range uint64(2) {
		for example := range 8 {
			for phase := Selection; phase <= Estimation; phase++ {
				s := NewStream(seed, example, phase)
				for sample := range int64(8) {
					s.Words(words[:], sample)
					s.Words(few[:], sample)
					for d, w := range words {
						name := fmt.Sprintf("seed %d example %d %v sample %d word %d", seed, example, phase, sample, d)
						if other, ok := seen[w]; ok {
							t.Fatalf("%s and %s have word %x", other, name, w)
						}
						seen[w] = name
						if d < len(few) && few[d] != w {
							t.Fatalf("%s: word %x of 5, %x of 64", name, few[d], w)
						}
					}
				}
			}
		}
	}
}

// fitWords64 tests n words from each of three series. The first series holds the words of one sample. The second series
// holds the first word of each sample of an example. The third series holds the first word of each example. fitWords64
// tests all bytes, several kinds of pairs of bytes, and how often each bit changes from one word to the next.
func fitWords64(f *fit, n int) {
	s := NewStream(4, 7, Selection)
	words := make([]uint64, 4096)
	var one [1]uint64
	for name, word := range map[string]func(i int) uint64{
		"words of a sample": func(i int) uint64 {
			if i%len(words) == 0 {
				y := uint64(i) * s.key // the product of counter and key, for sample 0
				for d := range words {
					words[d] = squares64(y, y+s.key)
					y += s.key
				}
			}
			return words[i%len(words)]
		},
		"first word of all samples": func(i int) uint64 {
			s.Words(one[:], int64(i))
			return one[0]
		},
		"first word of all examples": func(i int) uint64 {
			NewStream(4, i, Selection).Words(one[:], 0)
			return one[0]
		},
	} {
		var bytes [8][]int
		for k := range bytes {
			bytes[k] = make([]int, 256)
		}
		// Test three kinds of pairs of bytes: the high bytes of neighbouring words, the low bytes of neighbouring
		// words, and the high byte and the low byte of one word. The low byte helps to choose the table's column, and
		// the high byte is compared with the threshold.
		var serial [3][]int
		for k := range serial {
			serial[k] = make([]int, 1<<16)
		}
		var ones [64]int
		before := word(0)
		for i := 1; i <= n; i++ {
			v := word(i)
			for k := range bytes {
				bytes[k][v>>(8*k)&255]++
			}
			for k := range ones {
				ones[k] += int((v^before)>>k) & 1
			}
			if i%2 == 1 { // only every second i, so that no word belongs to two pairs
				serial[0][v>>56<<8|before>>56]++
				serial[1][v&255<<8|before&255]++
			}
			serial[2][v>>56<<8|v&255]++
			before = v
		}
		for k := range bytes {
			f.uniform(bytes[k], fmt.Sprintf("%s: byte %d", name, k))
		}
		f.uniform(serial[0], name+": high bytes of neighbours")
		f.uniform(serial[1], name+": low bytes of neighbours")
		f.uniform(serial[2], name+": high byte and low byte")
		for k, c := range ones {
			f.normal((2*float64(c)-float64(n))/math.Sqrt(float64(n)), "%s: changes of bit %d", name, k)
		}
	}
}
