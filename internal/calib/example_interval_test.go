package calib_test

import (
	"fmt"
	"math"

	"github.com/rscert/rscert/internal/calib"
)

// weather returns 1,000 forecasts of rain. It rained on 20 % of the days with the forecast 0.2 and on 60 % of the days
// with 0.7.
func weather() *calib.Predictions {
	var score []float64
	var label []int
	for i := range 1000 {
		s, rainy := 0.2, 2
		if i%2 == 1 {
			s, rainy = 0.7, 6
		}
		y := 0
		if (i/2)%10 < rainy {
			y = 1
		}
		score, label = append(score, s), append(label, y)
	}
	p, err := calib.ClassOne(score, label)
	if err != nil {
		panic(err)
	}
	return p
}

// 90 of 100 answers are right.
func ExampleAccuracyEstimate() {
	p := &calib.Predictions{Confidence: make([]float64, 100), Correct: make([]bool, 100)}
	for i := range 100 {
		p.Confidence[i], p.Correct[i] = 0.9, i >= 10
	}
	e := calib.AccuracyEstimate(p, 0.95)
	fmt.Printf("%.2f in [%.4f, %.4f], %s\n", e.Value, e.Lower, e.Upper, e.Method)
	// Output: 0.90 in [0.8238, 0.9510], clopper-pearson
}

// It rained on 400 of 1,000 days.
func ExamplePrevalenceEstimate() {
	e := calib.PrevalenceEstimate(weather(), 0.95)
	fmt.Printf("%.2f in [%.4f, %.4f], %s\n", e.Value, e.Lower, e.Upper, e.Method)
	// Output: 0.40 in [0.3695, 0.4311], clopper-pearson
}

// The example bounds the Brier score 0.5·(0.16 + 0.25) by an interval that holds for any number of days.
func ExampleBrierEstimate() {
	e := calib.BrierEstimate(weather(), 0.95, 1)
	fmt.Printf("%.3f in [%.3f, %.3f], %s\n", e.Value, e.Lower, e.Upper, e.Method)
	// Output: 0.205 in [0.186, 0.225], betting
}

// Two answers have label 0, and each is alone in its bin. The Brier score is the mean of 0.2² + 0.2² and 0.7² + 0.7².
// The uncertainty is 0, so the reliability is the whole score.
func ExampleMulticlassBrierEstimate() {
	p, err := calib.TopLabel([]float64{0.8, 0.2, 0.3, 0.7}, 2, []int{0, 0})
	if err != nil {
		panic(err)
	}
	e, d, err := calib.MulticlassBrierEstimate(p, 10, calib.UpperClosed, 0.95, 1)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.2f, of which reliability %.2f, uncertainty %.2f\n", e.Value, d.Reliability, d.Uncertainty)
	// Output: 0.53, of which reliability 0.53, uncertainty 0.00
}

// The forecasts of 0.7 are 0.1 too high and the other forecasts are right, so the average error is 0.05.
func ExampleECEEstimate() {
	p := weather()
	bins, err := calib.EqualWidth(p, 10, calib.UpperClosed)
	if err != nil {
		panic(err)
	}
	e := calib.ECEEstimate(p, bins, 0.95)
	fmt.Printf("%.3f in [%.3f, %.3f], %s\n", e.Value, e.Lower, e.Upper, e.Method)
	// Output: 0.050 in [0.000, 0.099], martingale
}

// The example prints the largest calibration error of any bin. Its interval follows from simultaneous intervals for the
// accuracies of all bins.
func ExampleMCEEstimate() {
	p := weather()
	bins, err := calib.EqualWidth(p, 10, calib.UpperClosed)
	if err != nil {
		panic(err)
	}
	e := calib.MCEEstimate(p, bins, 0.95)
	fmt.Printf("%.3f in [%.3f, %.3f], %s\n", e.Value, e.Lower, e.Upper, e.Method)
	// Output: 0.100 in [0.051, 0.151], clopper-pearson
}

// A classifier with two classes gave 1,000 answers with confidence 0.8, and 700 of them are right. So the calibration
// error of each class is 0.1.
func ExampleClasswiseEstimate() {
	var probability []float64
	var label []int
	for i := range 1000 {
		y := 0
		if i < 300 {
			y = 1
		}
		probability, label = append(probability, 0.8, 0.2), append(label, y)
	}
	p, err := calib.TopLabel(probability, 2, label)
	if err != nil {
		panic(err)
	}
	e, err := calib.ClasswiseEstimate(p, 10, calib.UpperClosed, 0.95)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.3f in [%.3f, %.3f], %s\n", e.Value, e.Lower, e.Upper, e.Method)
	// Output: 0.100 in [0.000, 0.151], martingale
}

// The negative log-likelihood is unbounded, so its interval is only a bootstrap interval.
func ExampleNLLEstimate() {
	e := calib.NLLEstimate(weather(), 0.95, 1)
	want := -(0.2*math.Log(0.2) + 0.8*math.Log(0.8) + 0.6*math.Log(0.7) + 0.4*math.Log(0.3)) / 2
	fmt.Printf("%.4f, %.4f, %s\n", e.Value, want, e.Method)
	// Output: 0.5980, 0.5980, bca-bootstrap
}

// The data are 500 ones and 500 zeros. The example bounds the mean of the distribution from which they come.
func ExampleMeanInterval() {
	low, high := calib.MeanInterval(1000, func(i int) float64 { return float64(i % 2) }, 0.05, 1)
	fmt.Printf("[%.2f, %.2f]\n", low, high)
	// Output: [0.46, 0.54]
}

// The data are 500 ones and 500 zeros. The p-value is large for the mean ½ and small for the mean 0.4.
func ExampleMeanPValue() {
	half := func(i int) float64 { return float64(i % 2) }
	fmt.Println(calib.MeanPValue(1000, half, 0.5, 0.05, 1) > 0.5, calib.MeanPValue(1000, half, 0.4, 0.05, 1) < 0.001)
	// Output: true true
}
