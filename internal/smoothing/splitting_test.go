package smoothing

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/big"
	"testing"
)

// NewSplits must return the offsets that its documentation defines. The test computes these offsets from the words with
// math/big. The method Digest must return the hash that its documentation defines.
func TestSplitsAreOfTheirStream(t *testing.T) {
	const seed, width, d = 7, 100, 300
	words := make([]uint64, d)
	NewStream(seed, 1<<56-1, Estimation).Words(words, 0)
	s := NewSplits(seed, width, d)
	text := []byte("rscert splits 1 100\n")
	seen := map[int32]bool{}
	for i, v := range s.offsets {
		want := new(big.Int).Mul(new(big.Int).SetUint64(words[i]), big.NewInt(width))
		if want.Rsh(want, 64); want.Int64() != int64(v) {
			t.Fatalf("offset %d is %d, want %d", i, v, want)
		}
		text = binary.LittleEndian.AppendUint32(text, uint32(v))
		seen[v] = true
	}
	if sum := sha256.Sum256(text); s.Digest() != hex.EncodeToString(sum[:]) {
		t.Error("the digest is not that of the documented bytes")
	}
	if len(seen) < 85 { // 300 independent offsets take, on average, 95 of the 100 possible values
		t.Errorf("300 offsets have %d of 100 values", len(seen))
	}
	for _, other := range []*Splits{NewSplits(seed+1, width, d), NewSplits(seed, width+1, d), NewSplits(seed, width, d-1)} {
		if other.Digest() == s.Digest() {
			t.Error("other offsets have the same digest")
		}
	}
}

// The test compares the inputs with the definition k = i − ((i − t − v) mod W) + ⌊W/2⌋. Without normalisation and on a
// lattice of step 1, the values of the model's input are the integers k themselves.
func TestSplitInputIsTheDefinition(t *testing.T) {
	const low, high = -3, 9
	from := func(d int) int { return []int{2, 0, 1}[d] }
	for _, w := range []int{2, 3, 7, 8, 20} {
		splits := NewSplits(1, w, 3)
		// In the second channel, the model's inputs are larger by 1000.
		noise, err := NewSplitNoise(Lattice{big.NewRat(1, 1), low, high}, splits, []float64{0, -1000}, []float64{1, 1})
		if err != nil {
			t.Fatal(err)
		}
		channel := func(d int) int { return d % 2 }
		for i := low; i <= high; i++ {
			x := []int32{int32(i), int32(high), int32(low + (i-low)/2)}
			clean := append([]int32(nil), x...)
			input, err := noise.Input(x, channel, from)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]float32, input.Len())
			input.Clean(got)
			check := func(what string, want func(d int) int) {
				for d := range got {
					if k := want(d) + 1000*channel(d); got[d] != float32(k) {
						t.Fatalf("W = %d, x = %v, %s: coordinate %d is %v, want %d", w, clean, what, d, got[d], k)
					}
				}
			}
			check("clean", func(d int) int { return int(clean[d]) })
			for sample := range 2 * w {
				input.Perturb(got, Stream{}, int64(sample))
				check(fmt.Sprint("evaluation ", sample), func(d int) int {
					k := int(clean[d])
					rest := (k - sample - int(splits.offsets[from(d)])) % w
					if rest < 0 {
						rest += w
					}
					return k - rest + w/2
				})
			}
		}
	}
}

// In the W evaluations, each coordinate must take W consecutive lattice values, each of them once. So a random
// evaluation gives the coordinate uniform noise.
func TestSplitInputHasTheLawOfUniformNoise(t *testing.T) {
	const w = 10
	noise, err := NewSplitNoise(Lattice{big.NewRat(1, 1), 0, 5}, NewSplits(3, w, 4), []float64{0}, []float64{1})
	if err != nil {
		t.Fatal(err)
	}
	input, err := noise.Input([]int32{0, 2, 5, 5}, func(int) int { return 0 }, func(d int) int { return d })
	if err != nil {
		t.Fatal(err)
	}
	counts := [4]map[float32]int{{}, {}, {}, {}}
	x := make([]float32, 4)
	for sample := range int64(w) {
		input.Perturb(x, Stream{}, sample)
		for d, v := range x {
			counts[d][v]++
		}
	}
	for d, i := range []int{0, 2, 5, 5} {
		for k := i - w/2 + 1; k <= i+w/2; k++ {
			if counts[d][float32(k)] != 1 {
				t.Errorf("coordinate %d = %d takes the value %d %d times", d, i, k, counts[d][float32(k)])
			}
		}
	}
}

func TestSplitNoiseRefuses(t *testing.T) {
	one := []float64{1}
	lattice := Lattice{big.NewRat(1, 255), 0, 255}
	for name, err := range map[string]error{
		"means":  second(NewSplitNoise(lattice, NewSplits(1, 4, 2), []float64{0, 0}, one)),
		"span":   second(NewSplitNoise(Lattice{big.NewRat(1, 1), 0, 1 << 25}, NewSplits(1, 4, 2), []float64{0}, one)),
		"std":    second(NewSplitNoise(lattice, NewSplits(1, 4, 2), []float64{0}, []float64{0})),
		"range":  input(t, lattice, []int32{0, 256}),
		"number": input(t, lattice, []int32{0, 1, 2}),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := input(t, lattice, []int32{0, 255}); err != nil {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

func input(t *testing.T, l Lattice, integers []int32) error {
	t.Helper()
	noise, err := NewSplitNoise(l, NewSplits(1, 4, 2), []float64{0}, []float64{1})
	if err != nil {
		t.Fatal(err)
	}
	return second(noise.Input(integers, func(int) int { return 0 }, func(d int) int { return d }))
}
