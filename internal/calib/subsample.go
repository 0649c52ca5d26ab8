package calib

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat"
)

// Subsample returns n pairs drawn from s without replacement. Each set of n positions is equally likely (Knuth 1998,
// Algorithm 3.4.2 S). The result depends only on s, n and seed.
func (s *Sample) Subsample(n int, seed uint64) *Sample {
	return &Sample{draws(s.packed, n, newStream(seed, streamSubsample))}
}

// The function 'draws' returns n randomly chosen points, in the order of the argument 'points'.
func draws(points []uint64, n int, r *splitMix) []uint64 {
	out := make([]uint64, 0, n)
	for i, p := range points {
		if r.uniformBelow(len(points)-i) < n-len(out) {
			out = append(out, p)
		}
	}
	return out
}

// Spread holds the mean and the standard deviation of a bound over the subsamples of one size.
type Spread struct {
	Mean float64 `json:"mean"`
	// SD is the square root of the unbiased variance. It is 0 for a single subsample.
	SD float64 `json:"sd"`
	// Trivial counts the subsamples whose bound says nothing: an upper bound of 1, or a lower bound of 0.
	Trivial int `json:"trivial"`
}

// SizeBounds holds the bounds from subsamples of N rows.
type SizeBounds struct {
	N     int               `json:"n"`
	Lower Spread            `json:"lower"`
	Upper map[string]Spread `json:"bounds"` // keyed by the name of the method
}

// A BoundStudy shows how the bounds of a sample depend on the number of rows.
//
// The subsamples come from one sample, so they share rows. Each bound alone still holds with its stated probability,
// because the rows of one subsample are independent. But no statement about several subsamples together is proved. The
// standard deviation understates how much the bounds of independent samples vary. A subsample of all rows is the sample
// itself. So all subsamples of this size are equal, and only the random numbers of the methods differ.
type BoundStudy struct {
	// Proxy stands for the unknown true error. It is the result of EstimateError for all rows. This result has no
	// guarantee.
	Proxy float64
	Sizes []SizeBounds // in ascending order of N
	// UpperSlope holds, by method, the slope of ln(mean bound − Proxy) against ln n. LowerSlope is the slope of
	// ln(Proxy − mean lower bound). The fit is by least squares. It leaves out the sizes at which a subsample has a
	// trivial bound, because a trivial bound does not depend on n. It also leaves out the sizes at which the difference
	// is not positive. If fewer than two sizes are left, the slope is NaN.
	UpperSlope map[string]float64
	LowerSlope float64
}

// BySize computes the bounds of the plan for each size. The argument 'repeats' is the number of subsamples of each
// size. Each subsample has its own folds and its own order of bets. BySize ignores the field Curve of the plan.
func (p BoundPlan) BySize(ctx context.Context, s *Sample, sizes []int, repeats int) (*BoundStudy, error) {
	if err := s.check(p.Params.Delta); err != nil {
		return nil, err
	}
	if repeats < 1 {
		return nil, fmt.Errorf("%d repeats: at least 1 is needed", repeats)
	}
	if p.usesWeights() {
		return nil, errors.New("subsamples have no weights")
	}
	sizes = slices.Clone(sizes)
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	study := &BoundStudy{Proxy: EstimateError(s)}
	done := p.Done
	p.Curve, p.Done = false, nil
	for _, n := range sizes {
		if n < 1 || n > s.N() {
			return nil, fmt.Errorf("size %d is outside 1 to %d, the number of rows", n, s.N())
		}
		found, err := p.subsamples(ctx, s, n, repeats)
		if err != nil {
			return nil, fmt.Errorf("%d rows: %w", n, err)
		}
		study.Sizes = append(study.Sizes, summarise(n, found))
		if done != nil {
			done(fmt.Sprintf("%d rows", n))
		}
	}
	study.fitSlopes(p.Methods)
	return study, nil
}

// The method 'subsamples' draws several subsamples of n rows and computes the bounds of each subsample.
func (p BoundPlan) subsamples(ctx context.Context, s *Sample, n, repeats int) ([]ErrorBounds, error) {
	found, errs := make([]ErrorBounds, repeats), make([]error, repeats)
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for k := range repeats {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			plan := p
			plan.Params.Seed = mix64(p.Params.Seed ^ mix64(uint64(n)<<32|uint64(k)+1))
			found[k], errs[k] = plan.Compute(ctx, s.Subsample(n, plan.Params.Seed))
		})
	}
	wg.Wait()
	return found, errors.Join(errs[:firstError(errs)]...)
}

// firstError returns the position of the first error, counted from 1. It returns 0 if there is no error.
func firstError(errs []error) int {
	k := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if k < 0 {
		return 0
	}
	return k + 1
}

// summarise returns the means and standard deviations of the bounds of subsamples of n rows.
func summarise(n int, found []ErrorBounds) SizeBounds {
	at := SizeBounds{N: n, Upper: map[string]Spread{}}
	lower := make([]float64, len(found))
	for k, f := range found {
		lower[k] = f.Lower.Value
	}
	at.Lower = newSpread(lower, 0)
	for name := range found[0].Upper {
		upper := make([]float64, len(found))
		for k, f := range found {
			upper[k] = f.Upper[name].Value
		}
		at.Upper[name] = newSpread(upper, 1)
	}
	return at
}

// newSpread summarises bounds. The argument 'trivial' is the value of a bound that says nothing.
func newSpread(bounds []float64, trivial float64) Spread {
	var m moments
	var out Spread
	for _, b := range bounds {
		m.add(b)
		out.Trivial += int(indicator(b == trivial))
	}
	out.Mean = m.mean
	if n := float64(len(bounds)); n > 1 {
		out.SD = math.Sqrt(m.variance() * n / (n - 1))
	}
	return out
}

// fitSlopes sets UpperSlope and LowerSlope.
func (b *BoundStudy) fitSlopes(methods []BoundMethod) {
	b.UpperSlope = map[string]float64{}
	for _, m := range methods {
		b.UpperSlope[m.Name] = b.slope(func(at SizeBounds) (Spread, float64) {
			return at.Upper[m.Name], at.Upper[m.Name].Mean - b.Proxy
		})
	}
	b.LowerSlope = b.slope(func(at SizeBounds) (Spread, float64) { return at.Lower, b.Proxy - at.Lower.Mean })
}

// slope returns the slope of ln(gap) against ln(n) by least squares.
func (b *BoundStudy) slope(gap func(SizeBounds) (Spread, float64)) float64 {
	var x, y []float64
	for _, at := range b.Sizes {
		if s, g := gap(at); s.Trivial == 0 && g > 0 {
			x, y = append(x, math.Log(float64(at.N))), append(y, math.Log(g))
		}
	}
	if len(x) < 2 {
		return math.NaN()
	}
	_, slope := stat.LinearRegression(x, y, nil, false)
	return slope
}
