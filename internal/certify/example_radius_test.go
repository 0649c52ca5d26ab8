package certify_test

import (
	"fmt"
	"math"

	"github.com/rscert/rscert/internal/certify"
)

// For a first margin p_A − p_B, the radius is σ√(π/2) times the margin. If a Lipschitz constant L of the smoothed
// classifier is known and small enough, the radius is larger: margin/(√2·L).
func ExampleTarget_Radius_first() {
	fmt.Printf("%.4f\n", certify.Target{Sigma: 0.5, Margin: certify.FirstMargin}.Radius(0.8))
	fmt.Printf("%.4f\n", certify.Target{Sigma: 0.5, Margin: certify.FirstMargin, Lipschitz: 0.5}.Radius(0.8))
	// Output:
	// 0.5013
	// 1.1314
}

// Lower bounds are reported with nine digits, rounded down.
func ExampleRoundDown() {
	fmt.Println(certify.RoundDown(2.0/3), certify.RoundDown(-2.0/3))
	// Output: 0.666666666 -0.666666667
}

// Upper bounds are rounded up.
func ExampleRoundUp() {
	fmt.Println(certify.RoundUp(2.0/3), certify.RoundUp(-2.0/3))
	// Output: 0.666666667 -0.666666666
}

// Of three certificates two are correct and one abstained. The certified accuracy at a radius r is the share of
// examples that have a correct certificate with a radius of at least r.
func ExampleTally_Summary() {
	certs := []certify.Certificate{
		{Label: 0, Prediction: 0, Correct: true, Radius: 0.3, Alpha: 0.001, Sigma: 0.25, N: 1000, Sound: true},
		{Label: 1, Prediction: 1, Correct: true, Radius: 0.6, Alpha: 0.001, Sigma: 0.25, N: 1000, Sound: true},
		{Label: 1, Prediction: certify.Abstained, Alpha: 0.001, Sigma: 0.25, N: 1000, Sound: true},
	}
	var t certify.Tally
	t.Add(certs...)
	s := t.Summary([]float64{0, 0.5})
	for _, c := range s.Certified {
		fmt.Printf("at %v: %.3f\n", c.Radius, c.Accuracy)
	}
	fmt.Printf("mean radius %.1f, %d abstained, at most %d wrong with probability %v\n",
		s.AverageRadius, s.Abstained, s.Failures, 1-s.Delta)
	// Output:
	// at 0: 0.667
	// at 0.5: 0.333
	// mean radius 0.3, 1 abstained, at most 0 wrong with probability 0.95
}

// At radius 0.25, the only example of class 0 and one of the two examples of class 1 are certified.
func ExampleTally_Classes() {
	certs := []certify.Certificate{
		{Label: 0, Prediction: 0, Correct: true, Radius: 0.3},
		{Label: 1, Prediction: 1, Correct: true, Radius: 0.6},
		{Label: 1, Prediction: certify.Abstained},
	}
	var t certify.Tally
	t.Add(certs...)
	for _, c := range t.Classes([]float64{0.25}) {
		fmt.Println(c.Class, c.Examples, c.Certified[0].Accuracy)
	}
	// Output:
	// 0 1 1
	// 1 2 0.5
}

// The summary covers 100 of 1,000 certificates. Some of the 1,000 certificates may be false, and all of these may be
// among the 100. So Among returns the bound on the number of false certificates among all 1,000.
func ExampleSummary_Among() {
	certs := make([]certify.Certificate, 100)
	for i := range certs {
		certs[i] = certify.Certificate{Alpha: 0.001, Sound: true}
	}
	var t certify.Tally
	t.Add(certs...)
	s := t.Summary(nil)
	fmt.Println(s.Failures, s.Among(1000).Failures)
	// Output: 1 3
}

// RadiiUpTo returns radii for a Summary. The radii are round numbers up to the largest certified radius.
func ExampleRadiiUpTo() {
	fmt.Println(certify.RadiiUpTo(1.1))
	// Output: [0 0.25 0.5 0.75 1]
}

// Radii are finite and not negative.
func ExampleCheckRadii() {
	fmt.Println(certify.CheckRadii([]float64{0, 0.5}))
	fmt.Println(certify.CheckRadii([]float64{math.NaN()}))
	// Output:
	// <nil>
	// [NaN]: want numbers from 0
}
