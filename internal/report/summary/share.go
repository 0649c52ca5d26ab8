package summary

import (
	"math/big"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/decimal"
)

// newShare returns count/of with its two-sided Clopper–Pearson interval, rounded outward. The true share is below the
// interval with probability at most (1 − level)/2, and above the interval with probability at most (1 − level)/2.
func newShare(count, of int, level float64) Share {
	half := (1 - level) / 2
	return Share{
		Count: count, Of: of, Value: float64(count) / float64(of),
		Low:  binomial.LowerBound(int64(count), int64(of), half),
		High: binomial.UpperBound(int64(count), int64(of), half),
	}
}

// optionalShare returns the result of newShare, or nil for a share of 0 examples.
func optionalShare(count, of int, level float64) *Share {
	if of == 0 {
		return nil
	}
	s := newShare(count, of, level)
	return &s
}

// Rat returns the share as an exact fraction.
func (s Share) Rat() *big.Rat { return big.NewRat(int64(s.Count), int64(s.Of)) }

// shareLess returns max(0, count − failures)/of, rounded down.
func shareLess(count int, failures int64, of int) float64 {
	return decimal.Down(big.NewRat(max(0, int64(count)-failures), int64(of)))
}
