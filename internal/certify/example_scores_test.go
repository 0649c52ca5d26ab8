package certify_test

import (
	"fmt"
	"math"

	"github.com/rscert/rscert/internal/certify"
)

// There are two classes. One logit is ln 3 above the other, so the odds are 3 to 1. A temperature of 2 takes the square
// root of the odds.
func ExampleSoftmax() {
	logits := []float32{float32(math.Log(3)), 0}
	probs := make([]float32, 2)
	certify.Softmax(logits, probs, 2, 1)
	fmt.Printf("%.3f\n", probs)
	certify.Softmax(logits, probs, 2, 2)
	fmt.Printf("%.3f\n", probs)
	// Output:
	// [0.750 0.250]
	// [0.634 0.366]
}

// Saved probabilities determine the logits up to a constant, so the temperature can still be changed.
func ExampleRetemper() {
	probs := []float32{0.75, 0.25}
	certify.Retemper(probs, 2, 2)
	fmt.Printf("%.3f\n", probs)
	// Output: [0.634 0.366]
}

// An output with NaN or +∞ is no answer, so its sample votes for no class.
func ExampleIsNone() {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	fmt.Println(certify.IsNone([]float32{1, nan}), certify.IsNone([]float32{1, inf}), certify.IsNone([]float32{1, -inf}))
	// Output: true true false
}

// The example computes every bound on the mean of 950 ones and 50 zeros, at level 0.999.
func ExampleMeanBounds() {
	for _, bound := range certify.MeanBounds() {
		c, err := certify.NewScoreCertifier(certify.ScoreParams{
			Target: certify.Target{Alpha: 0.001, Sigma: 0.5, Class: certify.Label, Margin: certify.FirstMargin}, Bound: bound.Name,
		})
		if err != nil {
			panic(err)
		}
		a, err := c.Start(certify.ScoreExample{Label: 0, Classes: 2, N: 1000})
		if err != nil {
			panic(err)
		}
		for i := range 1000 {
			row := []float32{1, 0}
			if i%20 == 0 {
				row = []float32{0, 1}
			}
			if err := a.Estimation(row); err != nil {
				panic(err)
			}
		}
		cert, err := a.Certificate()
		if err != nil {
			panic(err)
		}
		fmt.Printf("%-9s %.3f sound: %v\n", bound.Name, cert.Bounds["weighted_mean"], bound.Sound)
	}
	// Output:
	// betting   0.917 sound: true
	// hoeffding 0.891 sound: true
	// bernstein 0.905 sound: true
	// prpl-eb   0.918 sound: true
	// chernoff  0.920 sound: true
	// star      0.918 sound: true
	// prpl-eb-sequence 0.914 sound: true
	// moutaouakil-bernstein 0.908 sound: false
	// moutaouakil-sequence 0.705 sound: false
}

// One example has 200 selection samples and 1,000 estimation samples. Its mean scores are 0.13125 and 0.86875. A radius
// above σΦ⁻¹(0.86875) = 0.56 would be false. The certified radius is 0.50.
func ExampleScoreCertifier() {
	c, err := certify.NewScoreCertifier(certify.ScoreParams{
		Target: certify.Target{Alpha: 0.001, Sigma: 0.5}, Bound: certify.Betting, Combine: certify.Directed,
	})
	if err != nil {
		panic(err)
	}
	a, err := c.Start(certify.ScoreExample{Label: 1, Classes: 2, N0: 200, N: 1000})
	if err != nil {
		panic(err)
	}
	row := func(i int) []float32 {
		if i%10 == 0 {
			return []float32{0.75, 0.25}
		}
		return []float32{0.0625, 0.9375}
	}
	for i := range 200 {
		if err := a.Selection(row(i)); err != nil {
			panic(err)
		}
	}
	for i := range 1000 {
		if err := a.Estimation(row(i)); err != nil {
			panic(err)
		}
	}
	cert, err := a.Certificate()
	if err != nil {
		panic(err)
	}
	fmt.Printf("class %d, right: %v, within %.2f, by %s\n", cert.Prediction, cert.Correct, cert.Radius, cert.Method)
	// Output: class 1, right: true, within 0.50, by betting+directed
}

// The score of the class is 0.875 in every sample. The example prints an interval for the mean score at the input
// itself. Then it prints an interval for the mean score at all inputs within the distance 0.25.
func ExampleScoreAccumulator_Confidence() {
	c, err := certify.NewScoreCertifier(certify.ScoreParams{
		Target:     certify.Target{Alpha: 0.001, Sigma: 0.5},
		Confidence: certify.ConfidenceParams{Radii: []float64{0, 0.25}, Method: certify.ConfidenceStandard, Bound: certify.Betting},
	})
	if err != nil {
		panic(err)
	}
	a, err := c.Start(certify.ScoreExample{Label: 1, Classes: 2, N0: 200, N: 1000})
	if err != nil {
		panic(err)
	}
	for range 200 {
		if err := a.Selection([]float32{0.125, 0.875}); err != nil {
			panic(err)
		}
	}
	for range 1000 {
		if err := a.Estimation([]float32{0.125, 0.875}); err != nil {
			panic(err)
		}
	}
	cert, err := a.Certificate()
	if err != nil {
		panic(err)
	}
	for _, b := range a.Confidence(cert) {
		fmt.Printf("within %v: %.3f to %.3f, certified: %v\n", b.Radius, b.Lower, b.Upper, b.Certified)
	}
	// Output:
	// within 0: 0.865 to 0.877, certified: true
	// within 0.25: 0.727 to 0.951, certified: true
}

// The example prints the names of the confidence methods, then the names of the confidence bands. In each list the
// default comes first.
func ExampleConfidenceMethods() {
	for _, m := range certify.ConfidenceMethods() {
		fmt.Println(m.Name)
	}
	for _, b := range certify.Bands() {
		fmt.Println(b.Name)
	}
	// Output:
	// tangent
	// standard
	// cdf
	// binomial
	// dkw
}

// Combines lists the ways to bound a margin from scores, the default first.
func ExampleCombines() {
	for _, c := range certify.Combines() {
		fmt.Println(c.Name, c.Sound)
	}
	// Output:
	// directed true
	// projected true
	// bonferroni true
	// bonferroni-classes true
	// taylor false
}

// The method 'tangent' bounds the mean of a function of the score. It computes this function from some of the samples.
// If there are selection samples, it computes the function from them. Otherwise it uses a twentieth of the estimation
// samples.
func ExampleConfidenceParams_TangentSamples() {
	p := certify.ConfidenceParams{Radii: []float64{0.25}, Method: certify.ConfidenceTangent, Bound: certify.Betting}
	fmt.Println(p, p.TangentSamples(0, 1000), p.TangentSamples(100, 1000))
	// Output: tangent+betting 50 0
}
