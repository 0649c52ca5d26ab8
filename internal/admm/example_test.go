package admm_test

import (
	"context"
	"fmt"

	"github.com/rscert/rscert/internal/admm"
	"github.com/rscert/rscert/internal/calib"
)

// The variable 'attacked' holds three predictions whose confidences an attack can move.
var attacked = []calib.Bounded{
	{Lower: 0.6, Upper: 0.9, Correct: true},
	{Lower: 0.7, Upper: 0.8, Correct: true},
	{Lower: 0.5, Upper: 0.65, Correct: false},
}

// newProblem returns the problem for the predictions in 'attacked' and ten bins.
func newProblem(clean []float64) *admm.Problem {
	bins, err := calib.NewBins(10)
	if err != nil {
		panic(err)
	}
	problem, err := admm.NewProblem(attacked, clean, bins)
	if err != nil {
		panic(err)
	}
	return problem
}

// The searches find confidences that an adversary could cause. So the calibration error of these confidences is at most
// the exact maximum (calib.CCE).
func ExampleProblem() {
	bins, err := calib.NewBins(10)
	if err != nil {
		panic(err)
	}
	worst, err := calib.CCE(attacked, bins)
	if err != nil {
		panic(err)
	}
	problem := newProblem(nil)
	brier := problem.Brier()
	found := problem.Best(context.Background(), admm.PaperGrid().Runs(false)[:1], admm.Watch{})
	fmt.Printf("Brier confidences %.4f, ADMM %.4f, exact %.4f\n", brier.ECE, found.ECE, worst.Value)
	// Output: Brier confidences 0.1833, ADMM 0.4333, exact 0.4333
}

// The confidences furthest from the truth are 0.6, 0.7 and 0.65. The first and the last of these share a bin.
func ExampleProblem_Brier() {
	e := newProblem(nil).Brier()
	fmt.Printf("%.4f by %v\n", e.ECE, e.Confidences)
	// Output: 0.1833 by [0.6 0.7 0.65]
}

// The example does one run of Algorithm 1. It prints the calibration error, whether the run was interrupted, and the
// number of the last step (Residuals.Step).
func ExampleProblem_ADMM() {
	problem := newProblem([]float64{0.8, 0.75, 0.6})
	var last admm.Residuals
	run := admm.Params{Start: admm.FromClean, RateZ: 0.01, RateA: 0.01, Growth: 1.005, Steps: 3000}
	e := problem.ADMM(context.Background(), run, admm.Steps, func(r admm.Residuals) { last = r })
	fmt.Printf("%.4f, interrupted: %v, after %d steps\n", e.ECE, e.Interrupted, last.Step)
	// Output: 0.4333, interrupted: false, after 3000 steps
}

// The gradient ascent on the differentiable calibration error starts once from the clean confidences and once from the
// confidences with the largest Brier score.
func ExampleProblem_DECE() {
	problem := newProblem([]float64{0.8, 0.75, 0.6})
	e, err := problem.DECE(context.Background(), admm.DECEParams{}, admm.Watch{})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.4f, never above the exact 0.4333\n", e.ECE)
	// Output: 0.4167, never above the exact 0.4333
}

// The example prints the calibration error that Adaptive finds in bins of equal count. It also prints calib.LargestGap,
// an upper bound on this error for every choice of bins.
func ExampleProblem_Adaptive() {
	e, err := newProblem(nil).Adaptive()
	if err != nil {
		panic(err)
	}
	largest, err := calib.LargestGap(attacked)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%.4f, at most %.4f\n", e.ECE, largest)
	// Output: 0.4500, at most 0.4500
}

// Best returns the best of the paper's 16 runs.
func ExampleProblem_Best() {
	problem := newProblem([]float64{0.8, 0.75, 0.6})
	e := problem.Best(context.Background(), admm.PaperGrid().Runs(true), admm.Watch{})
	fmt.Printf("%.4f\n", e.ECE)
	// Output: 0.4333
}

// The paper has 16 runs. Half of them start from the clean confidences. If these are unknown, only the other 8 runs
// remain.
func ExamplePaperGrid() {
	g := admm.PaperGrid()
	fmt.Println(len(g.Runs(true)), len(g.Runs(false)))
	// Output: 16 8
}

// In a custom grid, an empty list stands for the paper's values.
func ExampleParamGrid() {
	g := admm.ParamGrid{Starts: []admm.Start{admm.FromBrier}, RatesZ: []float64{0.001}, Steps: 100}
	runs := g.Runs(true)
	fmt.Println(len(runs), runs[0].Start, runs[0].RateZ, runs[0].Steps)
	// Output: 4 brier 0.001 100
}

// A search that can start only from the clean confidences fails if NewProblem did not get them.
func ExampleNoStartError() {
	_, err := newProblem(nil).DECE(context.Background(), admm.DECEParams{Starts: []admm.Start{admm.FromClean}}, admm.Watch{})
	fmt.Println(err)
	// Output: the clean confidences are not known, and there is no other start
}

// Complete fills in the defaults of DECE.
func ExampleDECEParams_Complete() {
	p := admm.DECEParams{}.Complete()
	fmt.Println(p.Rate, p.Steps, p.StartsFrom(true), p.StartsFrom(false))
	// Output: 0.01 1000 [brier clean] [brier]
}
