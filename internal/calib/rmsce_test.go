package calib

import (
	"fmt"
	"math"
	"testing"
)

// The values come from binary_calibration_error of torchmetrics 1.9.0 (torch 2.15.0) with the norm l2, in float64.
func TestRMSCEAgrees(t *testing.T) {
	p := goldenPredictions()
	for bins, want := range map[int]float64{10: 0.1686115599837672, 15: 0.16552463575787185} {
		b, err := EqualWidth(p, bins, LowerClosed) // some confidences are 0.5, which is an edge of 10 bins
		if err != nil {
			t.Fatal(err)
		}
		near(t, fmt.Sprintf("RMSCE(%d)", bins), RMSCE(b), want, 1e-12)
	}
}

// The test recomputes both ends of the interval from the examples. For the lower end, it computes a bound for each
// pattern that is 0 in all bins except those with the largest gaps. Then it takes the largest of these bounds.
func TestRMSCEEstimateFromTheFormula(t *testing.T) {
	for _, weighted := range []bool{false, true} {
		p := weightedPredictions(weighted)
		// makes the predictions far from calibrated, so that the lower end of the interval is above 0
		for i := range p.Correct {
			p.Correct[i] = p.Correct[i] && p.Confidence[i] < 0.7
		}
		share, _, _ := sharesByHand(p, allOf(p), func(int) float64 { return 0 })
		for _, count := range []int{1, 4} {
			bins, _ := EqualWidth(p, count, UpperClosed)
			var weight, gap, squares, largest []float64
			var size []int
			for _, b := range bins {
				var w, sum, square, most float64
				for _, i := range membersOf(p, b) {
					r := indicator(p.Correct[i]) - p.Confidence[i]
					w += share[i]
					sum += share[i] * r
					square += math.Pow(share[i]*r, 2)
					most = max(most, share[i])
				}
				weight, gap, squares = append(weight, w), append(gap, sum/w), append(squares, square)
				largest, size = append(largest, most), append(size, len(membersOf(p, b)))
			}
			var value, square, most float64
			for m, g := range gap {
				value += weight[m] * g * g
				square = max(square, squares[m]/weight[m])
				most = max(most, largest[m]/math.Sqrt(weight[m]))
			}
			value = math.Sqrt(value)
			l := math.Log(2 / 0.1)
			want := Estimate{value, 0, min(1, value+deviationByHand(p.N(), most, square, l)), Martingale}
			for subset := 1; subset < 1<<count; subset++ {
				var n int
				var sum, norm, squareSum, most float64
				smallest, other := math.Inf(1), 0.0
				for m := range gap {
					if subset>>m&1 == 0 {
						other = max(other, math.Abs(gap[m]))
						continue
					}
					smallest = min(smallest, math.Abs(gap[m]))
					n += size[m]
					sum += weight[m] * math.Abs(gap[m])
					norm += weight[m]
					squareSum += squares[m]
					most = max(most, largest[m])
				}
				if smallest < other {
					continue // skip this pattern, because a gap outside it is larger than a gap in it
				}
				norm = math.Sqrt(norm)
				want.Lower = max(want.Lower, sum/norm-
					deviationByHand(n, most/norm, squareSum/norm/norm, l+float64(count)*math.Log(3)))
			}
			if want.Lower <= 0 {
				t.Fatalf("the interval %v is cut off", want)
			}
			sameEstimate(t, fmt.Sprintf("RMSCE of %d bins, weighted %v", count, weighted), RMSCEEstimate(p, bins, 0.9), want, 1e-10)
		}
	}
	// Empty bins have no influence on the result.
	p := &Predictions{Confidence: []float64{0.1, 0.9}, Correct: []bool{true, true}}
	few, _ := EqualWidth(p, 2, UpperClosed)
	many, _ := EqualWidth(p, 20, UpperClosed)
	sameEstimate(t, "empty bins", RMSCEEstimate(p, many, 0.9), RMSCEEstimate(p, few, 0.9), 1e-12)
}
