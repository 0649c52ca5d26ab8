package experiment

import "testing"

// A fresh seed has 53 bits: each of them is 1 in some of 64 seeds, but for one test in 10¹⁷, and none above ever is.
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
