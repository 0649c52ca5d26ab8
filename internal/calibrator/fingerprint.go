package calibrator

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat/distuv"
)

// Fingerprint identifies the rows of a fit by their outputs, so that a later use of the map can recognise these rows.
// It ignores the labels.
type Fingerprint struct {
	N int `json:"n"` // number of rows
	// Least holds the smallest hashes of the rows, at most fingerprintSize of them. They are hexadecimal numbers in
	// ascending order. If another file holds a share of the rows of the fit, the hashes of its rows include about the
	// same share of Least.
	Least []string `json:"least"`
}

const fingerprintSize = 64

// Fingerprint returns the fingerprint of the rows.
func (d Data) Fingerprint() Fingerprint {
	hashes := slices.Compact(slices.Sorted(slices.Values(d.hashes())))
	f := Fingerprint{N: d.N()}
	for _, h := range hashes[:min(len(hashes), fingerprintSize)] {
		f.Least = append(f.Least, hexadecimal(h))
	}
	return f
}

func hexadecimal(h uint64) string { return fmt.Sprintf("%016x", h) }

// hashes returns a hash of the outputs of each row.
func (d Data) hashes() []uint64 {
	out := make([]uint64, d.N())
	var text []byte
	for i := range out {
		text = text[:0]
		for _, x := range d.Values[i*d.Columns : (i+1)*d.Columns] {
			text = append(strconv.AppendUint(text, math.Float64bits(x+0), 16), ',') // −0 becomes 0
		}
		for _, b := range sha256.Sum256(text) {
			out[i] = out[i]<<8 | uint64(b) // out[i] ends as the last 8 bytes of the hash
		}
	}
	return out
}

// Shared is the result of a comparison of some rows with other rows.
type Shared struct {
	Rows, Of int // of Of rows, Rows rows occur among the other rows
	// ByChance is false if chance hardly explains why so many rows occur in both files. The test has the level 10⁻⁶. It
	// compares the number of these rows with the number of rows that occur more than once within the other file.
	ByChance bool
}

// All reports whether all rows occur among the other rows.
func (s Shared) All() bool { return s.Rows == s.Of }

// In counts the hashes of the fingerprint that occur among the hashes of the rows of d.
func (f Fingerprint) In(d Data) Shared {
	counts := count(d.hashes())
	s := Shared{Of: len(f.Least)}
	known := map[string]bool{}
	for h := range counts {
		known[hexadecimal(h)] = true
	}
	for _, h := range f.Least {
		if known[h] {
			s.Rows++
		}
	}
	return s.judge(counts)
}

// SharedWith counts the rows of d that occur among the rows of other.
func (d Data) SharedWith(other Data) Shared {
	counts := count(other.hashes())
	s := Shared{Of: d.N()}
	for _, h := range d.hashes() {
		if counts[h] > 0 {
			s.Rows++
		}
	}
	return s.judge(counts)
}

func count(hashes []uint64) map[uint64]int {
	counts := map[uint64]int{}
	for _, h := range hashes {
		counts[h]++
	}
	return counts
}

// judge returns s with ByChance set. The argument counts holds the number of other rows with each hash. The share of
// the other rows that occur more than once among them estimates the probability that an independent row occurs among
// them.
func (s Shared) judge(counts map[uint64]int) Shared {
	n, twins := 0.0, 0.0
	for _, c := range counts {
		n += float64(c)
		if c > 1 {
			twins += float64(c)
		}
	}
	rate := twins / n
	rate = min(1, rate+3*math.Sqrt(rate*(1-rate)/n)+3/n)
	s.ByChance = s.Rows == 0 || rate == 1 ||
		distuv.Binomial{N: float64(s.Of), P: rate}.Survival(float64(s.Rows)-1) > 1e-6
	return s
}
