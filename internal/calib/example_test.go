package calib_test

import (
	"fmt"

	"github.com/rscert/rscert/internal/calib"
)

// An adversary may move the confidences of three predictions within intervals.
func ExampleCCE() {
	attacked := []calib.Bounded{
		{Lower: 0.6, Upper: 0.9, Correct: true},
		{Lower: 0.7, Upper: 0.8, Correct: true},
		{Lower: 0.5, Upper: 0.65, Correct: false},
	}
	bins, err := calib.NewBins(10)
	if err != nil {
		panic(err)
	}
	worst, err := calib.CCE(attacked, bins)
	if err != nil {
		panic(err)
	}
	brier, err := calib.CBS(attacked)
	if err != nil {
		panic(err)
	}
	fmt.Printf("calibration error at most %.4f, Brier score at most %.4f\n", worst.Value, brier)
	// Output: calibration error at most 0.4333, Brier score at most 0.2242
}

// The bound comes from 2,000 scores of a calibrated binary classifier, under the assumption that P(y=1|s) is monotone.
func ExampleBinnedVariation() {
	var score, label []float64
	for i := range 2000 {
		score = append(score, 0.2+0.6*float64(i%2))
		y := 0.0
		// the label is 1 for 20 % of the scores that equal 0.2, and for 80 % of the scores that equal 0.8
		if (i/2)%10 < 2+6*(i%2) {
			y = 1
		}
		label = append(label, y)
	}
	sample, err := calib.NewSample(score, label)
	if err != nil {
		panic(err)
	}
	bound, err := calib.BinnedVariation(sample, 0.05, 1)
	if err != nil {
		panic(err)
	}
	fmt.Printf("at most %.2f with probability %v\n", bound.Value, 1-bound.Delta)
	// Output: at most 0.03 with probability 0.95
}
