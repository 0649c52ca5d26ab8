package acce_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/table"
)

// readTable parses a table of bounds.
func readTable(text string) *table.Table {
	options := acce.Columns()
	options.Input = strings.NewReader(text)
	t, err := table.Read(context.Background(), table.Stdin, options)
	if err != nil {
		panic(err)
	}
	return t
}

// The example takes the two predictions in Emde et al. 2025, appendix E.2. For three bins, it computes the calibration
// error without attack, the largest calibration error, and the largest Brier score.
func ExampleStudy_Solve() {
	table := readTable("lower,upper,confidence,correct\n0.1,0.6,0.23,1\n0.5,0.9,0.78,0\n")
	study, err := acce.NewStudy(table, acce.Options{Bins: 3, Solvers: acce.Solvers[:1]})
	if err != nil {
		panic(err)
	}
	results, err := study.Solve(context.Background())
	if err != nil {
		panic(err)
	}
	r := results[0]
	fmt.Printf("clean ECE %.3f, CCE %.2f, CBS %.2f\n", *r.ECE, *acce.Solvers[0].Value(r), r.CBS)
	// Output: clean ECE 0.775, CCE 0.90, CBS 0.81
}

// WriteAttack writes the attack as a table. In this attack, each confidence is an end of its interval. The last column
// holds the bin of the confidence.
func ExampleStudy_WriteAttack() {
	table := readTable("lower,upper,confidence,correct\n0.1,0.6,0.23,1\n0.5,0.9,0.78,0\n")
	study, err := acce.NewStudy(table, acce.Options{Bins: 3, Solvers: acce.Solvers[:1], Attack: true})
	if err != nil {
		panic(err)
	}
	if _, err := study.Solve(context.Background()); err != nil {
		panic(err)
	}
	if err := study.WriteAttack(os.Stdout); err != nil {
		panic(err)
	}
	// Output:
	// lower,upper,correct,confidence,bin
	// 0.1,0.6,1,0.1,0
	// 0.5,0.9,0,0.9,2
}

// Only the exact solver returns an upper bound. The other solvers return values that are at most this bound.
func ExampleSolver() {
	for _, s := range acce.Solvers {
		fmt.Println(s.Name, s.Exact)
	}
	// Output:
	// exact true
	// admm false
	// dece false
	// brier false
}

// The example states a bound for the dataset as a whole. With a probability of at least 0.999, no more than 5 of the
// 1,000 intervals fail.
func ExampleDataset() {
	rows := strings.Repeat("0.8,0.9,1\n", 1000)
	study, err := acce.NewStudy(readTable("lower,upper,correct\n"+rows), acce.Options{
		Bins: 10, Solvers: acce.Solvers[:1], Dataset: &acce.Dataset{Delta: 0.001, Alpha: 0.001, Examples: 1000},
	})
	if err != nil {
		panic(err)
	}
	results, err := study.Solve(context.Background())
	if err != nil {
		panic(err)
	}
	c := results[0].Certified
	fmt.Printf("CCE %.3f if every interval holds; %d failures: %.3f\n", *results[0].CCE, c.Failures, *c.CCE)
	// Output: CCE 0.200 if every interval holds; 5 failures: 0.210
}
