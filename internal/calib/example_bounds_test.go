package calib_test

import (
	"fmt"
	"math/rand/v2"

	"github.com/rscert/rscert/internal/calib"
)

// The function 'perturbed' draws n scores and perturbs each with a sech kernel of bandwidth 1/8. The unperturbed score
// is the probability that the label is 1.
func perturbed(n int) *calib.Sample {
	random := rand.New(rand.NewPCG(1, 2))
	kernel := calib.Sech{Bandwidth: 0.125, Seed: 3}
	score, label := make([]float64, n), make([]float64, n)
	for i := range n {
		s := random.Float64()
		if random.Float64() < s {
			label[i] = 1
		}
		score[i] = kernel.Perturb(s, i)
	}
	sample, err := calib.NewSample(score, label)
	if err != nil {
		panic(err)
	}
	return sample
}

// The example runs the methods on the same 20,000 scores. It leaves out the method that needs weights. Each method
// makes one of two assumptions. The first assumption is that the total variation of the calibration function is at most
// V = 1. This holds if the function is monotone. The second is that the function is smooth because the scores were
// perturbed.
func ExampleBoundMethods() {
	sample := perturbed(20_000)
	p := calib.BoundParams{CrossFit: calib.CrossFit{Delta: 0.05, Folds: 5, Seed: 1}, Variation: 1, Bandwidth: 0.125}
	for _, m := range calib.BoundMethods {
		if m.Assumption == calib.BoundedWeightedVariation {
			continue // these scores have no weights
		}
		b, err := m.Compute(sample, p)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%-16s %.3f sound: %v\n", m.Name, b.Value, b.Sound)
	}
	// Output:
	// binned-tv        0.055 sound: true
	// binned-lipschitz 0.052 sound: true
	// binned-best      0.054 sound: true
	// binned-bentkus   0.053 sound: true
	// binned-quadratic 0.052 sound: true
	// tv               0.331 sound: true
	// nw               0.134 sound: true
	// nw-second-order  0.093 sound: true
	// lipschitz        0.115 sound: true
	// ciosek-nw        0.095 sound: false
}

// The scores were perturbed with the bandwidth h = 1/8. Because of the perturbation the bound holds for every
// classifier.
func ExampleBinnedLipschitz() {
	b, err := calib.BinnedLipschitz(perturbed(20_000), 0.05, 0.125)
	if err != nil {
		panic(err)
	}
	fmt.Printf("at most %.3f with probability %v\n", b.Value, 1-b.Delta)
	// Output: at most 0.052 with probability 0.95
}

// This example puts perturbed scores into buckets. The buckets give a bound on the calibration error.
func ExampleLipschitz() {
	b, err := calib.Lipschitz(perturbed(20_000), 0.05, 0.125)
	if err != nil {
		panic(err)
	}
	fmt.Printf("at most %.3f with probability %v\n", b.Value, 1-b.Delta)
	// Output: at most 0.115 with probability 0.95
}

// This example uses a kernel smoother to bound the calibration error. The output has two bounds: the repaired bound,
// which is sound, and the bound as printed in Ciosek et al. 2025, which is not sound.
func ExampleNadarayaWatson() {
	cf := calib.CrossFit{Delta: 0.05, Folds: 5, Seed: 1}
	for _, kind := range []calib.NadarayaWatsonKind{calib.Repaired, calib.Printed} {
		b, err := calib.NadarayaWatson(perturbed(20_000), cf, 0.125, kind)
		if err != nil {
			panic(err)
		}
		fmt.Printf("at most %.3f, sound: %v\n", b.Value, b.Sound)
	}
	// Output:
	// at most 0.134, sound: true
	// at most 0.095, sound: false
}

// The example assumes that P(y=1|s) is monotone and uses total variation denoising. The terms add up to the bound.
func ExampleTotalVariation() {
	cf := calib.CrossFit{Delta: 0.05, Folds: 5, Seed: 1}
	b, err := calib.TotalVariation(perturbed(20_000), cf, 1)
	if err != nil {
		panic(err)
	}
	fmt.Printf("at most %.3f: %v\n", b.Value, b.Value == b.Sum())
	// Output: at most 0.331: true
}

// All scores are 0.9 and half of the labels are 1, so the calibration error is 0.4.
func ExampleBettingLower() {
	score, label := make([]float64, 2000), make([]float64, 2000)
	for i := range score {
		score[i], label[i] = 0.9, float64(i%2)
	}
	sample, err := calib.NewSample(score, label)
	if err != nil {
		panic(err)
	}
	b, err := calib.BettingLower(sample, 0.05, 1)
	if err != nil {
		panic(err)
	}
	fmt.Printf("at least %.2f with probability %v\n", b.Value, 1-b.Delta)
	// Output: at least 0.37 with probability 0.95
}

// Exactly 20 % of the examples with score 0.2 have label 1. Exactly 80 % of the examples with score 0.8 have label 1.
// So the calibration error is 0, and the noise of the labels does not raise the estimate.
func ExampleEstimateError() {
	score, label := make([]float64, 2000), make([]float64, 2000)
	for i := range score {
		score[i] = 0.2 + 0.6*float64(i%2)
		if (i/2)%10 < 2+6*(i%2) {
			label[i] = 1
		}
	}
	sample, err := calib.NewSample(score, label)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.3f\n", calib.EstimateError(sample))
	// Output: 0.000
}

// All 1,000 scores are 0.7, and 600 of them have label 1.
func ExampleCurve() {
	score, label := make([]float64, 1000), make([]float64, 1000)
	for i := range score {
		score[i] = 0.7
		if i < 600 {
			label[i] = 1
		}
	}
	sample, err := calib.NewSample(score, label)
	if err != nil {
		panic(err)
	}
	curve, err := calib.Curve(sample, 0.05)
	if err != nil {
		panic(err)
	}
	for _, p := range curve {
		fmt.Printf("%d scores %.1f: η = %.1f in [%.3f, %.3f]\n", p.N, p.Score, p.Eta, p.Lower, p.Upper)
	}
	// Output: 1000 scores 0.7: η = 0.6 in [0.558, 0.642]
}

// A Sample sorts its pairs by score, so no bound depends on the order of the input.
func ExampleNewSample() {
	sample, err := calib.NewSample([]float64{0.1, 0.4, 0.35, 0.8}, []float64{0, 0, 1, 1})
	if err != nil {
		panic(err)
	}
	auroc, err := sample.AUROC()
	if err != nil {
		panic(err)
	}
	fmt.Println(sample.N(), auroc)
	_, err = calib.NewSample([]float64{0.1, 1.4}, []float64{0, 1})
	fmt.Println(err)
	// Output:
	// 4 0.75
	// row 1: score 1.4 is outside [0, 1]
}

// A score hardly ever moves by more than a few bandwidths, and it never leaves [0, 1].
func ExampleSech_Perturb() {
	kernel := calib.Sech{Bandwidth: 1.0 / 64, Seed: 1}
	inside, near := true, 0
	for row := range 1000 {
		s := kernel.Perturb(0.99, row)
		inside = inside && s >= 0 && s <= 1
		if s > 0.9 {
			near++
		}
	}
	fmt.Println(inside, near > 990)
	// Output: true true
}

// CheckPerturbed rejects scores with two decimals, because too many of them are equal. Scores perturbed by Sech are
// hardly ever equal.
func ExampleCheckPerturbed() {
	score, label := make([]float64, 1000), make([]float64, 1000)
	for i := range score {
		score[i] = float64(1+i%99) / 100
	}
	rounded, err := calib.NewSample(score, label)
	if err != nil {
		panic(err)
	}
	fmt.Println(calib.CheckPerturbed(rounded, 0.125) != nil, calib.CheckPerturbed(perturbed(1000), 0.125))
	// Output: true <nil>
}
