package calib_test

import (
	"fmt"

	"github.com/rscert/rscert/internal/calib"
)

// In the example of Emde et al. 2025, appendix E.2, an attack raises the calibration error over three bins to 0.9. It
// moves each confidence to the end of its interval that is further from the truth.
func ExampleWorst_Confidences() {
	attacked := []calib.Bounded{{Lower: 0.1, Upper: 0.6, Correct: true}, {Lower: 0.5, Upper: 0.9, Correct: false}}
	bins, err := calib.NewBins(3)
	if err != nil {
		panic(err)
	}
	worst, err := calib.CCE(attacked, bins)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.2f by the confidences %v\n", worst.Value, worst.Confidences(attacked))
	// Output: 0.90 by the confidences [0.1 0.9]
}

// The largest Brier score over the intervals of the two predictions is 0.81, because the largest error of each
// prediction is 0.9 and 0.9² is 0.81.
func ExampleCBS() {
	attacked := []calib.Bounded{{Lower: 0.1, Upper: 0.6, Correct: true}, {Lower: 0.5, Upper: 0.9, Correct: false}}
	brier, err := calib.CBS(attacked)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.2f by the confidences %v and %v\n", brier, attacked[0].BrierConfidence(), attacked[1].BrierConfidence())
	// Output: 0.81 by the confidences 0.1 and 0.9
}

// For each of the two predictions, the largest gap in its interval is 0.9. The mean of these gaps bounds the
// calibration error for every choice of bins.
func ExampleLargestGap() {
	gap, err := calib.LargestGap([]calib.Bounded{
		{Lower: 0.1, Upper: 0.6, Correct: true}, {Lower: 0.5, Upper: 0.9, Correct: false},
	})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.2f\n", gap)
	// Output: 0.90
}

// The bin of a confidence is found by comparing the confidence with the edges as float64 numbers.
func ExampleBins() {
	bins, err := calib.NewBins(4)
	if err != nil {
		panic(err)
	}
	fmt.Println(bins.Len(), bins.Edges(), bins.Index(0.5), bins.Index(1))
	correct := []bool{true, false}
	fmt.Println(bins.ECE([]float64{0.75, 0.5}, func(n int) bool { return correct[n] }))
	// Output:
	// 4 [0 0.25 0.5 0.75 1] 2 3
	// 0.375
}

// For an interval with swapped ends, the error names the row.
func ExampleCheckBounded() {
	fmt.Println(calib.CheckBounded([]calib.Bounded{{Lower: 0.25, Upper: 0.75}}))
	fmt.Println(calib.CheckBounded([]calib.Bounded{{Lower: 0.75, Upper: 0.25}}))
	// Output:
	// <nil>
	// row 0: lower 0.75 is above upper 0.25
}

// Each of 1,000 intervals fails with probability at most 0.001, independently of the others. So with probability at
// least 0.999, at most 5 of them fail. The statement allows for 5 failures. For each, it adds 1/1,000 to CBS and
// 2/1,000 to CCE.
func ExampleStateForAll() {
	cce := 0.3
	s, err := calib.StateForAll(calib.AttackBounds{CBS: 0.2, CCE: &cce}, 1000, calib.RowWeights{}, calib.Sampled{Examples: 1000}, 0.001, 0.001)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d failures: CBS %.3f, CCE %.3f\n", s.Failures, s.CBS, *s.CCE)
	// Output: 5 failures: CBS 0.205, CCE 0.310
}

// The returned bounds hold even if up to 5 of the 1,000 intervals fail.
func ExampleAttackBounds_WithFailures() {
	gap := 0.4
	b := calib.AttackBounds{CBS: 0.2, LargestGap: &gap}.WithFailures(calib.RowWeights{}.LargestShare(5, 1000))
	fmt.Printf("CBS %.3f, largest gap %.3f\n", b.CBS, *b.LargestGap)
	// Output: CBS 0.205, largest gap 0.405
}

// If every interval holds, the mean of 1,000 terms is at most 0.2. The bound that the example prints holds even if 5 of
// the intervals fail.
func ExampleMeanWithFailures() {
	fmt.Printf("%.3f\n", calib.MeanWithFailures(0.2, calib.RowWeights{}.LargestShare(5, 1000)))
	// Output: 0.205
}

// The intervals of up to 5 of the 1,000 predictions can fail. A prediction with a failed interval can be in any bin.
func ExampleCCEWithFailures() {
	fmt.Printf("%.3f\n", calib.CCEWithFailures(0.3, calib.RowWeights{}.LargestShare(5, 1000)))
	// Output: 0.310
}

// There are two examples at two radii; the second example is not certified at radius 1.
func ExampleBoundRows_ByRadius() {
	rows := calib.BoundRows{
		Lower: []float64{0.8, 0.6, 0.7, 0.1}, Upper: []float64{0.9, 0.8, 0.95, 0.9}, Correct: []float64{1, 0, 1, 0},
		Index: []float64{0, 1, 0, 1}, Radius: []float64{0.5, 0.5, 1, 1}, Certified: []float64{1, 1, 1, 0},
	}
	radii, err := rows.ByRadius(nil)
	if err != nil {
		panic(err)
	}
	for _, r := range radii {
		fmt.Println(r.Radius, r.Intervals, len(r.Uncertified))
	}
	// Output:
	// 0.5 [{0.8 0.9 true} {0.6 0.8 false}] 0
	// 1 [{0.7 0.95 true}] 1
}

// Example 1 has no row at radius 1, so only example 0 is kept at both radii.
func ExampleBoundRows_SameExamples() {
	rows := calib.BoundRows{
		Lower: []float64{0.8, 0.6, 0.7}, Upper: []float64{0.9, 0.8, 0.95}, Correct: []float64{1, 0, 1},
		Index: []float64{0, 1, 0}, Radius: []float64{0.5, 0.5, 1},
	}
	radii, err := rows.ByRadius(nil)
	if err != nil {
		panic(err)
	}
	same, err := rows.SameExamples(radii)
	if err != nil {
		panic(err)
	}
	for _, r := range same {
		fmt.Println(r.Radius, r.Intervals)
	}
	// Output:
	// 0.5 [{0.8 0.9 true}]
	// 1 [{0.7 0.95 true}]
}

// The column Examples states that 10 examples were sampled. The table has rows for two of them.
func ExampleBoundRows_CountSampled() {
	rows := calib.BoundRows{
		Lower: []float64{0.8, 0.6}, Upper: []float64{0.9, 0.8}, Correct: []float64{1, 0},
		Index: []float64{0, 7}, Examples: []float64{10, 10}, Alpha: []float64{0.001, 0.001},
	}
	sampled, err := rows.CountSampled(0)
	if err != nil {
		panic(err)
	}
	alpha, err := rows.StatedAlpha()
	if err != nil {
		panic(err)
	}
	fmt.Println(sampled.Examples, sampled.Assumed, alpha)
	// Output: 10 false 0.001
}

// The threshold is τ = 0.75. The first answer stays right under every attack. An attack can push the confidence of the
// second answer below τ, and can cause a wrong answer for the third example. So at worst one of two answers is wrong.
func ExampleRadiusRows_Threshold() {
	r := calib.RadiusRows{Intervals: []calib.Bounded{
		{Lower: 0.8, Upper: 0.9, Correct: true},
		{Lower: 0.6, Upper: 0.9, Correct: true},
		{Lower: 0.5, Upper: 0.8, Correct: false},
	}}
	t := r.Threshold(0.75, 0)
	fmt.Printf("%d wrong, %d right: %.4f\n", t.Wrong, t.Right, t.Error(0))
	// Output: 1 wrong, 1 right: 0.5000
}

// Of 10 answers, 2 may be wrong. If the bound of one other answer fails, 3 may be wrong.
func ExampleThresholded_Error() {
	t := calib.Thresholded{Tau: 0.5, Wrong: 2, Right: 8}
	fmt.Printf("%.4f %.4f\n", t.Error(0), t.Error(1))
	// Output: 0.2000 0.3000
}

// ThresholdAtTPR finds the largest threshold that at least four of the five right answers reach.
func ExampleThresholdAtTPR() {
	tau, err := calib.ThresholdAtTPR(
		[]float64{0.5, 0.6, 0.7, 0.8, 0.9, 0.95}, []bool{true, true, true, true, true, false}, 0.8)
	if err != nil {
		panic(err)
	}
	fmt.Println(tau)
	// Output: 0.6
}

// Two examples are answered rightly without an attack. The attack makes one of the answers wrong. It also raises the
// confidence of a third answer, which is wrong even without an attack.
func ExampleRejectionCurve() {
	clean := calib.Answers{Confidence: []float64{0.9, 0.9, 0.4}, Right: []bool{true, true, false}}
	attack := calib.Answers{Confidence: []float64{0.9, 0.8, 0.7}, Right: []bool{true, false, false}}
	e := calib.NewRejectionCurve(clean, attack).At(0.5)
	fmt.Printf("clean error %.3f of %.3f\n", e.CleanError, e.CleanAnswered)
	fmt.Printf("robust error by equation (2) %.3f, by listing 2 %.3f\n", e.Robust, e.Listed)
	fmt.Printf("true positives %.3f, false positives %.3f\n", e.TruePositives, e.FalsePositives)
	// Output:
	// clean error 0.000 of 0.667
	// robust error by equation (2) 0.667, by listing 2 0.500
	// true positives 1.000, false positives 1.000
}
