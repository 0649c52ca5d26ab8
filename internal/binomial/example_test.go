package binomial_test

import (
	"fmt"
	"math"

	"github.com/rscert/rscert/internal/binomial"
)

// The probability of at least 8 heads in 10 throws of a fair coin is 56/1024.
func ExampleTail() {
	p := binomial.Tail(10, 8, 0.5)
	fmt.Println(p.Lower <= 56.0/1024 && 56.0/1024 <= p.Upper)
	fmt.Printf("%.7f\n", p.Upper)
	// Output:
	// true
	// 0.0546875
}

// The probability of exactly 3 heads in 10 throws of a fair coin is C(10, 3)/1024.
func ExampleLogTerm() {
	logp, absErr := binomial.LogTerm(10, 3, 0.5, 0.5)
	fmt.Printf("%.7f\n", math.Exp(logp))
	fmt.Println(math.Abs(logp-math.Log(120.0/1024)) <= absErr+1e-15, absErr < 1e-13)
	// Output:
	// 0.1171875
	// true true
}

// If all n votes are for one class, the bound is α^(1/n).
func ExampleLowerBound() {
	bound := binomial.LowerBound(100, 100, 0.001)
	fmt.Printf("%.6f %.6f\n", bound, math.Pow(0.001, 1.0/100))
	// Output: 0.933254 0.933254
}

// After 300 trials without a failure, the upper bound on the failure rate at level 0.95 is 1 − 0.05^(1/300). This is
// about 3/300.
func ExampleUpperBound() {
	fmt.Printf("%.6f\n", binomial.UpperBound(0, 300, 0.05))
	// Output: 0.009936
}

// The exact Clopper–Pearson bound lies between the two ends of the span. A certificate uses the lower end.
func ExampleLowerSpan() {
	s := binomial.LowerSpan(990, 1000, 0.001)
	fmt.Printf("%.6f, relative width below 1e-9: %v\n", s.Lower, s.Upper-s.Lower < 1e-9*s.Lower)
	fmt.Println(s.Lower == binomial.LowerBound(990, 1000, 0.001))
	// Output:
	// 0.976036, relative width below 1e-9: true
	// true
}

// Each of 1,000 certificates is wrong with probability at most 0.001, independently of the others. With a probability
// of at least 0.999, at most 5 of them are wrong.
func ExampleFailureQuantile() {
	k, err := binomial.FailureQuantile(1000, 0.001, 0.001)
	if err != nil {
		panic(err)
	}
	fmt.Println(k)
	// Output: 5
}

// A quantised model is compared with the original model. On one image, only the original model is right. On nine
// images, only the quantised model is right. So p = 2·(1 + 10)/2¹⁰.
func ExampleMcNemar() {
	fmt.Printf("%.5f\n", binomial.McNemar(1, 9))
	// Output: 0.02148
}
