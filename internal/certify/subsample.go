package certify

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
)

// ErrStopped means that a rule ended the sampling early, so the number of votes depends on the votes.
var ErrStopped = errors.New("the sampling stopped early, so the number of votes depends on the votes")

// Subsample returns v with n of its N estimation votes, drawn without replacement. Each set of n votes is equally
// likely, so the counts have the multivariate hypergeometric distribution. The selection votes stay the same. The
// result depends only on v, n, seed and turn; different turns give independent subsamples.
//
// If the votes of v are independent, the votes of the subsample are independent too. So if n is fixed before the votes
// are seen, a certificate from the subsample holds with the same probability as a certificate from n fresh votes.
func (v Votes) Subsample(n int64, seed uint64, turn int) (Votes, error) {
	switch {
	case v.Stop != (StopRule{}):
		return Votes{}, ErrStopped
	case v.Deterministic:
		return Votes{}, errors.New("the votes are evaluations at fixed inputs, not random samples")
	case n < 1 || n > v.N:
		return Votes{}, fmt.Errorf("a subsample of %d votes: there are %d", n, v.N)
	}
	left := append(slices.Clone(v.Counts), v.None)
	var key [32]byte
	for k, word := range []uint64{seed, uint64(n), uint64(turn), uint64(v.Index)} {
		binary.LittleEndian.PutUint64(key[8*k:], word)
	}
	words := rand.NewChaCha8(key)
	drawn := left // the votes of the subsample
	if rest := v.N - n; n <= rest {
		drawn = remove(left, v.N, n, words)
	} else {
		remove(left, v.N, rest, words)
	}
	last := len(drawn) - 1
	v.N, v.Counts, v.None = n, drawn[:last:last], drawn[last]
	return v, nil
}

// The function 'remove' draws n votes without replacement from the votes in 'counts', whose sum is the argument
// 'total'. It subtracts the drawn votes from 'counts' and returns them.
func remove(counts []int64, total, n int64, words *rand.ChaCha8) []int64 {
	order := make([]int, len(counts)) // classes with many votes first, so that the search below is short
	for class := range order {
		order[class] = class
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(counts[b], counts[a]) })
	drawn := make([]int64, len(counts))
	for ; n > 0; n-- {
		place := below(uint64(total), words)
		total--
		for _, class := range order {
			if k := uint64(counts[class]); place >= k {
				place -= k
				continue
			}
			counts[class]--
			drawn[class]++
			break
		}
	}
	return drawn
}

// The function 'below' draws a uniform whole number from 0 to n−1 (Lemire 2019, Algorithm 5).
func below(n uint64, words *rand.ChaCha8) uint64 {
	high, low := bits.Mul64(words.Uint64(), n)
	if low < n {
		for least := -n % n; low < least; {
			high, low = bits.Mul64(words.Uint64(), n)
		}
	}
	return high
}
