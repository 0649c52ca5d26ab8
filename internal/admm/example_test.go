package admm_test

import (
	"context"
	"fmt"

	"github.com/rscert/rscert/internal/admm"
	"github.com/rscert/rscert/internal/calib"
)

// The searches find confidences that an adversary could reach: estimates from below of what calib.CCE gives exactly.
func ExampleProblem() {
	attacked := []calib.Bounded{
		{Lower: 0.6, Upper: 0.9, Correct: true},
		{Lower: 0.7, Upper: 0.8, Correct: true},
		{Lower: 0.5, Upper: 0.65, Correct: false},
	}
	bins, err := calib.NewBins(10)
	if err != nil {
		panic(err)
	}
	problem, err := admm.NewProblem(attacked, nil, bins)
	if err != nil {
		panic(err)
	}
	worst, err := calib.CCE(attacked, bins)
	if err != nil {
		panic(err)
	}
	brier := problem.Brier()
	found := problem.Best(context.Background(), admm.PaperGrid().Runs(false)[:1], admm.Watch{})
	fmt.Printf("Brier confidences %.4f, ADMM %.4f, exact %.4f\n", brier.ECE, found.ECE, worst.Value)
	// Output: Brier confidences 0.1833, ADMM 0.4333, exact 0.4333
}
