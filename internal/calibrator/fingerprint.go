package calibrator

import (
	"crypto/sha256"
	"fmt"
	"maps"
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
	// ascending order. The rows with these hashes are a sample of the rows of the fit. So if another file holds half of
	// the rows of the fit, it has about half of the hashes in Least.
	Least []string `json:"least"`
	// Recurrence is an upper bound on the probability that a new, independent row is equal to a row of the fit. It is
	// estimated from the rows of the fit. Draws is the number of these rows. If most rows occur in groups of g copies
	// (see copiesOf), a group counts as one row. Recurrence and Draws are 0 in maps of earlier versions.
	Recurrence float64 `json:"recurrence,omitempty"`
	Draws      int     `json:"draws,omitempty"`
}

const fingerprintSize = 64

// Fingerprint returns the fingerprint of the rows.
func (d Data) Fingerprint() Fingerprint {
	counts := count(d.hashes())
	hashes := slices.Sorted(maps.Keys(counts))
	f := Fingerprint{N: d.N()}
	if f.N > 0 {
		f.Recurrence, f.Draws = recurrence(counts)
	}
	for _, h := range hashes[:min(len(hashes), fingerprintSize)] {
		f.Least = append(f.Least, hexadecimal(h))
	}
	return f
}

func hexadecimal(h uint64) string { return fmt.Sprintf("%016x", h) }

// The method 'hashes' returns a hash of the outputs of each row.
func (d Data) hashes() []uint64 {
	out := make([]uint64, d.N())
	var text []byte
	for i := range out {
		text = text[:0]
		for _, x := range d.Values[i*d.Columns : (i+1)*d.Columns] {
			text = append(strconv.AppendUint(text, math.Float64bits(x+0), 16), ',') // −0 becomes 0
		}
		for _, b := range sha256.Sum256(text) {
			out[i] = out[i]<<8 | uint64(b) // after the loop, out[i] holds the last 8 bytes of the hash
		}
	}
	return out
}

// Shared is the result of a search for rows in a data set.
type Shared struct {
	Rows, Of int // Rows is the number of rows that were found; 'Of' is the number of rows that were looked for
	// ByChance is false if so many rows were found that chance hardly explains it. A test at the level 10⁻⁶ decides
	// this. To estimate how often independent rows are equal, the test uses the rows that occur more than once in the
	// same file.
	ByChance bool
}

// All returns true if every row was found.
func (s Shared) All() bool { return s.Rows == s.Of }

// In returns how many hashes in f.Least are also hashes of rows of d.
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
	rate, _ := recurrence(counts)
	if f.Draws > 0 {
		// The variable 'rate' bounds the probability that d holds a given row by chance. If d was drawn with
		// replacement from the rows of the fit, d has many equal rows, and the bound computed from d is too high. Then
		// the bound computed from the fit is smaller. The code uses the smaller of these two bounds.
		rate = min(rate, f.Recurrence*max(1, float64(d.N())/float64(f.Draws)))
	}
	return s.judge(rate)
}

// SharedWith counts the rows of d that occur among the rows of the argument 'other'.
func (d Data) SharedWith(other Data) Shared {
	counts, own := count(other.hashes()), count(d.hashes())
	s := Shared{Of: d.N()}
	for h, c := range own {
		if counts[h] > 0 {
			s.Rows += c
		}
	}
	// If n ≥ m, the probability that a row occurs among n rows is at most n/m times the probability that it occurs
	// among m rows.
	scale := max(1, float64(other.N())/float64(d.N()))
	rate, _ := recurrence(counts)
	ownRate, _ := recurrence(own)
	return s.judge(min(rate, scale*ownRate))
}

func count(hashes []uint64) map[uint64]int {
	counts := map[uint64]int{}
	for _, h := range hashes {
		counts[h]++
	}
	return counts
}

// judge sets ByChance. The argument 'rate' is an upper bound on the probability that an independent row is found by
// chance.
func (s Shared) judge(rate float64) Shared {
	s.ByChance = s.Rows == 0 || rate >= 1 || manyOf(s.Rows, s.Of, rate) > leakLevel
	return s
}

const leakLevel = 1e-6

// manyOf returns P(X ≥ found), where X is the number of successes among n trials of probability p.
func manyOf(found, n int, p float64) float64 {
	return distuv.Binomial{N: float64(n), P: p}.Survival(float64(found) - 1)
}

// recurrence returns an upper bound 'rate' on the probability that another independent row is equal to one of the given
// rows. The argument 'counts' holds the number of these rows for each hash. The estimate of this probability is the
// share of the given rows that occur more than once (Good 1953). The result 'draws' is the number of given rows. If
// most rows occur in groups of g copies (see copiesOf), a group counts as one row.
func recurrence(counts map[uint64]int) (rate float64, draws int) {
	twins := 0
	of := copiesOf(counts)
	for _, c := range counts {
		once := (c + of - 1) / of
		draws += once
		if once > 1 {
			twins += once
		}
	}
	n := float64(draws)
	rate = float64(twins) / n
	return min(1, rate+3*math.Sqrt(rate*(1-rate)/n)+3/n), draws
}

// copiesOf returns a number g such that most rows seem to occur in the file in groups of g copies. It returns 1 if the
// rows seem not to be copied. If several g fit, it returns the largest. Let c be the number of times that a row occurs
// in the file. If all rows are independent, the distribution of c is nearly a Poisson distribution, given that c > 0.
// Then the probability that c is a multiple of g > 1 is at most 1/2. For example, c is even with probability
// (1−e^−λ)/2, where λ is the Poisson mean. copiesOf accepts g if c is a multiple of g for far more than half of the
// different rows.
func copiesOf(counts map[uint64]int) int {
	values := map[int]int{} // values[c] is the number of different rows that occur c times
	for _, c := range counts {
		values[c]++
	}
	for _, g := range slices.Backward(slices.Sorted(maps.Keys(values))) {
		divided := 0
		for c, k := range values {
			if c%g == 0 {
				divided += k
			}
		}
		if manyOf(divided, len(counts), 0.5) < leakLevel {
			return g
		}
	}
	return 1
}
