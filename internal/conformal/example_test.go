package conformal_test

import (
	"fmt"
	"strings"

	"github.com/rscert/rscert/internal/conformal"
)

// The sets miss the true class with probability at most 0.1, for every attack within the L2 radius 0.25. Calibration
// uses 19 examples, and 5 noisy scores of the true class for each example.
func ExampleNewDesign() {
	design, err := conformal.NewDesign(conformal.Params{
		Rule: conformal.Count, Scorer: conformal.NewScorer(conformal.THR), Miss: 0.1, Guarantee: conformal.Marginal,
		Attack: conformal.Attack{Radius: 0.25, Scale: 0.25}, Draws: 5,
	})
	if err != nil {
		panic(err)
	}
	fmt.Printf("calibration: %d of %d scores, query: %d of %d scores\n", design.T, design.M, design.QueryT, design.QueryM)

	c := design.Calibrator()
	for i := range 19 {
		p := 0.5 + float64(i)/40
		if err := c.Add(conformal.Point{Scores: []float64{p, p - 0.1, p - 0.05, p + 0.02, p - 0.2}, Label: i % 3}); err != nil {
			panic(err)
		}
	}
	predictor, err := c.Predictor(3)
	if err != nil {
		panic(err)
	}
	fmt.Printf("threshold %.3f, the %d-th smallest of %d\n", float64(predictor.Cells[0].Tau), predictor.Cells[0].K, predictor.N)
	// Output:
	// calibration: 4 of 5 scores, query: 1 of 5 scores
	// threshold 0.425, the 2-th smallest of 19
}

// A query stops as soon as every class is decided.
func ExamplePredictor_Decide() {
	p := conformal.Predictor{Design: conformal.Design{QueryM: 20, QueryT: 6}, Labels: 3}
	_, decided := p.Decide(nil, []int64{10, 5, 0}, 10)
	fmt.Println(decided)
	verdicts, decided := p.Decide(nil, []int64{16, 6, 0}, 16)
	fmt.Println(verdicts[0] == conformal.In, verdicts[2] == conformal.Out, decided)
	set, err := p.Set([]int64{16, 6, 0}, 16)
	fmt.Println(set, err)
	// Output:
	// false
	// true true true
	// [0 1] <nil>
}

// The example uses conformal.Weights. With this rule, one noisy copy of each query (Draws: 1) is enough.
func ExampleDesign_Claim() {
	design, err := conformal.NewDesign(conformal.Params{
		Rule: conformal.Weights, Scorer: conformal.NewScorer(conformal.THR), Miss: 0.1, Guarantee: conformal.Marginal,
		Attack: conformal.Attack{Radius: 0.25, Scale: 0.25}, Draws: 1, CalibrationDraws: 8, Degree: 4,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(strings.ReplaceAll(design.Claim(), ", ", ",\n"))
	// Output:
	// the set of a query contains the true class with probability at least 0.9,
	// over calibration examples and queries together,
	// for every attack within the L2 radius 0.25,
	// if examples and queries are exchangeable before any attack,
	// and the noise of a query is fresh and secret
}

// APS ranks the classes by probability. The score of a class y is the negative of a sum. The sum consists of the
// probabilities of all classes ranked above y, and of a random share of the probability of y.
func ExampleScorer_Scores() {
	scores := conformal.NewScorer(conformal.APS).Scores(nil, []float64{0.25, 0.5, 0.25}, 0.5)
	fmt.Println(scores)
	// Output: [-0.625 -0.25 -0.875]
}

// The true classes of four queries are known. The example computes how many of their sets contain the true class, and
// the sizes of these sets.
func ExamplePredictor_Evaluator() {
	p := conformal.Predictor{Labels: 3}
	e := p.Evaluator(0.05)
	for _, o := range []conformal.Outcome{{Label: 0, Set: []int{0}}, {Label: 1, Set: []int{0, 1}}, {Label: 2, Set: []int{}}, {Label: 2, Set: []int{2}}} {
		if err := e.Add(o); err != nil {
			panic(err)
		}
	}
	v, err := e.Evaluation()
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d of %d covered, mean size %v, %d empty\n", v.Covered, v.N, v.MeanSize, v.Empty)
	// Output: 3 of 4 covered, mean size 1, 1 empty
}
