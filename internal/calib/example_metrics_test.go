package calib_test

import (
	"fmt"

	"github.com/rscert/rscert/internal/calib"
)

// The input holds probabilities of three classes. The classifier answers with the most probable class.
func ExampleTopLabel() {
	p, err := calib.TopLabel([]float64{
		0.7, 0.2, 0.1,
		0.1, 0.3, 0.6,
	}, 3, []int{0, 1})
	if err != nil {
		panic(err)
	}
	fmt.Println(p.Confidence, p.Correct, p.Accuracy())
	// Output: [0.7 0.6] [true false] 0.5
}

// The input holds probabilities of class 1. The field Correct says whether the label is 1. The method Answers returns
// the confidence of each answer and whether the answer is right.
func ExampleClassOne() {
	p, err := calib.ClassOne([]float64{0.75, 0.25}, []int{1, 1})
	if err != nil {
		panic(err)
	}
	confidence, right := p.Answers()
	fmt.Println(p.Confidence, p.Correct)
	fmt.Println(confidence, right)
	// Output:
	// [0.75 0.25] [true true]
	// [0.75 0.75] [true false]
}

// There are four answers. The answers with confidence 0.6 and 0.8 are right. Of two answers with confidence 0.9, one is
// right.
func ExamplePredictions() {
	p, err := calib.TopLabel([]float64{0.9, 0.1, 0.9, 0.1, 0.4, 0.6, 0.2, 0.8}, 2, []int{0, 1, 1, 1})
	if err != nil {
		panic(err)
	}
	fmt.Printf("accuracy %.3f, mean confidence %.3f\n", p.Accuracy(), p.MeanConfidence())
	fmt.Printf("Brier score of the confidence %.3f, of all classes %.3f\n", p.TopLabelBrier(), p.MulticlassBrier())
	fmt.Printf("negative log-likelihood of the confidence %.4f, of all classes %.4f\n", p.TopLabelNLL(), p.NLL())
	// Output:
	// accuracy 0.750, mean confidence 0.800
	// Brier score of the confidence 0.255, of all classes 0.510
	// negative log-likelihood of the confidence 0.7855, of all classes 0.7855
}

// For a confidence above 1, the error names the row.
func ExamplePredictions_Check() {
	p := &calib.Predictions{Confidence: []float64{0.5, 1.5}, Correct: []bool{true, true}}
	fmt.Println(p.Check())
	// Output: row 1: confidence 1.5 is outside [0, 1]
}

// One of the two answers with confidence 0.9 is right. The answers with confidence 0.6 and 0.8 are right. So the gaps
// of the three bins are 0.4, 0.4 and 0.2.
func ExampleECE() {
	p := &calib.Predictions{Confidence: []float64{0.9, 0.9, 0.6, 0.8}, Correct: []bool{true, false, true, true}}
	bins, err := calib.EqualWidth(p, 10, calib.UpperClosed)
	if err != nil {
		panic(err)
	}
	fmt.Printf("ECE %.2f, MCE %.2f\n", calib.ECE(bins), calib.MCE(bins))
	// Output: ECE 0.35, MCE 0.40
}

// With UpperClosed, a confidence on the edge between two bins belongs to the lower bin. With LowerClosed, it belongs to
// the upper bin.
func ExampleEqualWidth() {
	p := &calib.Predictions{Confidence: []float64{0.5, 0.75}, Correct: []bool{true, true}}
	for _, edge := range []calib.Edge{calib.UpperClosed, calib.LowerClosed} {
		bins, err := calib.EqualWidth(p, 2, edge)
		if err != nil {
			panic(err)
		}
		fmt.Println(bins[0].N, bins[1].N)
	}
	// Output:
	// 1 1
	// 0 2
}

// Each bin has two answers. Equal confidences stay together.
func ExampleEqualCount() {
	p := &calib.Predictions{Confidence: []float64{0.9, 0.9, 0.6, 0.8}, Correct: []bool{true, false, true, true}}
	bins, err := calib.EqualCount(p, 2)
	if err != nil {
		panic(err)
	}
	for _, b := range bins {
		fmt.Printf("%d answers: confidence %.2f, accuracy %.2f\n", b.N, b.Confidence, b.Accuracy)
	}
	// Output:
	// 2 answers: confidence 0.70, accuracy 1.00
	// 2 answers: confidence 0.90, accuracy 0.50
}

// In the upper of two bins, 90 of 100 answers are right. The interval of this bin is the Clopper–Pearson interval of
// the accuracy.
func ExampleBands() {
	p := &calib.Predictions{Confidence: make([]float64, 100), Correct: make([]bool, 100)}
	for i := range 100 {
		p.Confidence[i], p.Correct[i] = 0.9, i >= 10
	}
	bins, err := calib.EqualWidth(p, 2, calib.UpperClosed)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.4f\n", calib.Bands(p, bins, 0.95))
	// Output: [[0.0000 1.0000] [0.8238 0.9510]]
}

// For each class, ClasswiseECE computes the expected calibration error of the probability of this class.
func ExampleClasswiseECE() {
	p, err := calib.TopLabel([]float64{0.9, 0.1, 0.9, 0.1, 0.4, 0.6, 0.2, 0.8}, 2, []int{0, 1, 1, 1})
	if err != nil {
		panic(err)
	}
	mean, each, err := calib.ClasswiseECE(p, 10, calib.UpperClosed)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.2f %.2f\n", mean, each)
	// Output: 0.35 [0.35 0.35]
}

// Ten answers have confidence 0.9, and five of them are right. The plain error is 0.4, and the debiased error is √(0.4²
// − 0.5²/9).
func ExampleDebiasedL2() {
	p := &calib.Predictions{Confidence: make([]float64, 10), Correct: make([]bool, 10)}
	for i := range 10 {
		p.Confidence[i], p.Correct[i] = 0.9, i%2 == 0
	}
	bins, err := calib.EqualWidth(p, 10, calib.UpperClosed)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.4f\n", calib.DebiasedL2(p, bins))
	// Output: 0.3636
}

// The Brier score 0.255 is reliability − resolution + uncertainty = 0.13 − 0.0625 + 0.1875.
func ExampleDecomposeBrier() {
	p := &calib.Predictions{Confidence: []float64{0.9, 0.9, 0.6, 0.8}, Correct: []bool{true, false, true, true}}
	bins, err := calib.EqualWidth(p, 10, calib.UpperClosed)
	if err != nil {
		panic(err)
	}
	d := calib.DecomposeBrier(bins, p.TopLabelBrier())
	fmt.Printf("reliability %.4f, resolution %.4f, uncertainty %.4f, within bins %.4f\n",
		d.Reliability, d.Resolution, d.Uncertainty, d.Within)
	// Output: reliability 0.1300, resolution 0.0625, uncertainty 0.1875, within bins 0.0000
}

// Of 100 answers with confidence 0.8, 70 are right. The error 0.1 is also the bandwidth of the kernel.
func ExampleSmoothECE() {
	p := &calib.Predictions{Confidence: make([]float64, 100), Correct: make([]bool, 100)}
	for i := range 100 {
		p.Confidence[i], p.Correct[i] = 0.8, i >= 30
	}
	c := calib.SmoothECE(p)
	_, accuracy := c.Points(5)
	fmt.Printf("%.3f, accuracy %.2f\n", c.ECE, accuracy[0])
	// Output: 0.100, accuracy 0.70
}

// Of 100 answers with confidence 0.8, 70 are right. So Z is 0.6·10/√(100·0.36·0.16).
func ExampleSpiegelhalter() {
	p := &calib.Predictions{Confidence: make([]float64, 100), Correct: make([]bool, 100)}
	for i := range 100 {
		p.Confidence[i], p.Correct[i] = 0.8, i >= 30
	}
	z, pValue := calib.Spiegelhalter(p)
	fmt.Printf("Z = %.2f, p = %.4f\n", z, pValue)
	// Output: Z = 2.50, p = 0.0124
}

// There are two data sets of 1,000 answers each, all with confidence 0.8. In the first data set 800 of them are right,
// in the second 700.
func ExampleCalibrationTest() {
	for _, right := range []int{800, 700} {
		p := &calib.Predictions{Confidence: make([]float64, 1000), Correct: make([]bool, 1000)}
		for i := range 1000 {
			p.Confidence[i], p.Correct[i] = 0.8, i < right
		}
		fmt.Println(right, calib.CalibrationTest(p) < 0.001)
	}
	// Output:
	// 800 false
	// 700 true
}

// The four scores come from scikit-learn's documentation. The AUROC is 0.75, and the average precision is 0.83.
func ExampleRank() {
	p, err := calib.ClassOne([]float64{0.1, 0.4, 0.35, 0.8}, []int{0, 0, 1, 1})
	if err != nil {
		panic(err)
	}
	r := calib.Rank(p)
	auroc, err := r.AUROC()
	if err != nil {
		panic(err)
	}
	precision, err := r.AveragePrecision()
	if err != nil {
		panic(err)
	}
	fmt.Printf("AUROC %.2f, average precision %.2f\n", auroc, precision)
	// Output: AUROC 0.75, average precision 0.83
}

// Isotonic finds the nearest nondecreasing function: the labels 0, 1, 0, 1 become 0, ½, ½, 1.
func ExampleRanked_Isotonic() {
	p, err := calib.ClassOne([]float64{0.1, 0.35, 0.4, 0.8}, []int{0, 1, 0, 1})
	if err != nil {
		panic(err)
	}
	fmt.Println(calib.Rank(p).Isotonic())
	// Output: [0.1 0.35 0.4 0.8] [0 0.5 0.5 1]
}

// The example ranks the predictions once. Then it puts them into one bin, and after that into two bins.
func ExampleRanked_EqualCount() {
	p := &calib.Predictions{Confidence: []float64{0.9, 0.9, 0.6, 0.8}, Correct: []bool{true, false, true, true}}
	r := calib.Rank(p)
	for _, count := range []int{1, 2} {
		bins, err := r.EqualCount(count)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%d: %.2f\n", count, calib.ECE(bins))
	}
	// Output:
	// 1: 0.05
	// 2: 0.35
}

// The two logits of each row differ by 2·ln 3, and the class with the larger logit is right in 3 of 4 rows. At T = 2
// the confidence is 0.75, which equals the accuracy.
func ExampleFitTemperature() {
	const z = 2.1972245773362196 // 2·ln 3
	fit, err := calib.FitTemperature([]float64{z, 0, z, 0, z, 0, z, 0}, 2, []int{0, 0, 0, 1})
	if err != nil {
		panic(err)
	}
	fmt.Printf("T = %.4f, NLL %.4f, at a limit: %v\n", fit.Temperature, fit.NLL, fit.AtLimit)
	fmt.Printf("%.3f\n", calib.Softmax([]float64{z, 0}, 2, fit.Temperature))
	// Output:
	// T = 2.0000, NLL 0.5623, at a limit: false
	// [0.750 0.250]
}

// In every row the label has the largest logit, so the likelihood keeps growing as T falls.
func ExampleFitTemperature_atLimit() {
	fit, err := calib.FitTemperature([]float64{1, 0, 0, 2}, 2, []int{0, 1})
	if err != nil {
		panic(err)
	}
	fmt.Println(fit.Temperature == calib.MinTemperature, fit.AtLimit)
	// Output: true true
}

// Softmax computes in float64. The input is one row of three classes.
func ExampleSoftmax() {
	fmt.Printf("%.4f\n", calib.Softmax([]float64{0, 1, 2}, 3, 1))
	// Output: [0.0900 0.2447 0.6652]
}

// If probabilities are rounded to four digits, their sum may differ slightly from 1.
func ExampleSumToOne() {
	fmt.Println(calib.SumToOne(0.9999, 3), calib.SumToOne(0.9, 3))
	// Output: true false
}

// 200 of 1,000 rows are held out. The same seed selects the same rows.
func ExampleHoldout() {
	held, err := calib.Holdout(1000, 0.2, 1)
	if err != nil {
		panic(err)
	}
	count := 0
	for _, h := range held {
		if h {
			count++
		}
	}
	fmt.Println(count)
	// Output: 200
}
