// L1 makes the tables of docs/other-threats.md. They show the certified accuracy by L1 radius under several laws of
// noise. For Gaussian noise, the L1 radius is the certified L2 radius, because ‖δ‖₂ ≤ ‖δ‖₁.
//
//	go run ./studies/l1 RUN…    the run folders; scripts/studies.sh makes them
package main

import (
	"context"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"

	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/summary"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 2 {
		log.Fatal("usage: l1 RUN…")
	}
	if err := compare(os.Args[1:]); err != nil {
		log.Fatal(err)
	}
}

// radii are the L1 radii of the table.
var radii = []float64{0, 0.25, 0.5, 0.75, 1, 1.5, 2, 2.5, 3}

// compare prints a table with one row per run.
func compare(paths []string) error {
	t := report.Table{Columns: []report.Column{
		report.TextColumn("model"), report.TextColumn("noise"), report.ExactColumn("scale"), report.RoundedColumn("standard deviation", report.Nearest, 2),
	}}
	for _, r := range radii {
		t.Columns = append(t.Columns, report.Column{Name: fmt.Sprint(r), Align: report.Right, Round: report.Down, Decimals: 1, Percent: true})
	}
	t.Columns = append(t.Columns, report.RoundedColumn("average radius", report.Down, 3), report.ExactColumn("abstained"))
	for _, path := range paths {
		row, err := measure(path)
		if err != nil {
			return err
		}
		t.AddRow(row...)
	}
	fmt.Print("<!-- made: l1 -->\n\n")
	if err := t.WriteMarkdown(os.Stdout); err != nil {
		return err
	}
	fmt.Print("\n<!-- end: l1 -->\n")
	return nil
}

// measure returns the row of the table for the run in the folder 'path'.
func measure(path string) ([]report.Cell, error) {
	source, err := summary.Read(context.Background(), path)
	if err != nil {
		return nil, err
	}
	o := summary.Default()
	o.Radii, o.Norms = radii, []law.Norm{law.L1}
	whole, err := summary.New(source, o)
	if err != nil {
		return nil, err
	}
	s, ok := whole.InNorm(law.L1)
	if !ok || s.Selected != s.Examples || !s.Conditions.Certifies() {
		return nil, fmt.Errorf("%s: is not a finished, sound run with L1 radii", path)
	}
	c := s.Conditions
	scale, deviation := describe(c.Law.Law(), *c.Sigma)
	row := []report.Cell{report.Text(filepath.Base(c.Model.File)), report.Text(c.Law.String()), report.Text(scale), report.Number(deviation)}
	for _, p := range s.Curve {
		row = append(row, report.Number(p.Accuracy.Value))
	}
	return append(row, report.Number(s.AverageRadius.Value), report.Count(s.Abstained.Count)), nil
}

// describe returns the scale of the noise with its symbol, such as "b = 0.5", and the standard deviation of the noise.
func describe(l law.Law, scale float64) (words string, deviation float64) {
	switch l.Name() {
	case "uniform", "splitting":
		return fmt.Sprintf("W = %.6g, λ = %.4g", 510*scale, scale), scale / math.Sqrt(3)
	case "laplace":
		return fmt.Sprintf("b = %g", scale), scale * math.Sqrt2
	}
	return fmt.Sprintf("%s = %g", l.Words().Symbol, scale), scale
}
