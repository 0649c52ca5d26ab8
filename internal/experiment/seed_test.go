package experiment

import "testing"

// A fresh seed has 53 bits. In 64 seeds, each of these bits must be 1 at least once. By chance, fewer than one test in
// 10¹⁷ fails. Higher bits must always be 0.
func TestDrawSeedBits(t *testing.T) {
	var seen uint64
	for range 64 {
		seed, err := DrawSeed()
		if err != nil {
			t.Fatal(err)
		}
		seen |= seed
	}
	if seen != 1<<53-1 {
		t.Errorf("64 seeds have the bits %x between them", seen)
	}
}
