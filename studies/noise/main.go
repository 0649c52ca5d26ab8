// Noise makes the tables of docs/what-is-certified.md. They compare two runs of the bundled model, one with noise on a
// lattice and one with noise in floats. They also show by how much rounding reduces the radius for data that are not on
// the lattice.
//
//	go run ./studies/noise LATTICE FLOAT    the run folders; scripts/studies.sh makes them
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math"
	"os"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: noise LATTICE FLOAT")
	}
	if err := errors.Join(compareRuns(os.Args[1], os.Args[2]), measureRounding("testdata/mnist")); err != nil {
		log.Fatal(err)
	}
}

// evidence holds the votes and certificates of a run.
type evidence struct {
	votes []certify.Votes
	certs []certify.Certificate
}

func readRun(path string) (e evidence, err error) {
	found, err := runfolder.Find(path)
	if err != nil {
		return e, err
	}
	if e.votes, err = found.Votes(func(certify.Votes) error { return nil }); err != nil {
		return e, err
	}
	e.certs, err = found.Certificates()
	return e, err
}

// compareRuns prints the certified accuracy of both runs by radius. It also makes a sign test on the examples that only
// one of the runs certifies, and compares the votes example by example.
func compareRuns(lattice, float string) error {
	a, err := readRun(lattice)
	if err != nil {
		return err
	}
	b, err := readRun(float)
	if err != nil {
		return err
	}
	if len(a.certs) != len(b.certs) {
		return fmt.Errorf("%d and %d examples", len(a.certs), len(b.certs))
	}
	fmt.Println("| radius | lattice | float | by the lattice alone | in floats alone | p |\n| ---: | ---: | ---: | ---: | ---: | ---: |")
	n := float64(len(a.certs))
	for r := 0.; r <= 1.5; r += 0.25 {
		var both, onlyA, onlyB float64
		for i, c := range a.certs {
			inA, inB := c.Correct && c.Radius >= r, b.certs[i].Correct && b.certs[i].Radius >= r
			switch {
			case inA && inB:
				both++
			case inA:
				onlyA++
			case inB:
				onlyB++
			}
		}
		fmt.Printf("| %g | %.1f | %.1f | %g | %g | %.2f |\n", r, 100*(both+onlyA)/n, 100*(both+onlyB)/n, onlyA, onlyB, signTest(onlyA, onlyB))
	}
	fmt.Printf("\naverage radius %.4f and %.4f\n", averageRadius(a.certs), averageRadius(b.certs))
	compareVotes(a.votes, b.votes)
	return nil
}

func averageRadius(certs []certify.Certificate) float64 {
	var t certify.Tally
	t.Add(certs...)
	return t.Summary(nil).AverageRadius
}

// signTest returns the two-sided p-value of the counts 'a' and 'b' under a fair coin.
func signTest(a, b float64) float64 {
	if a == b {
		return 1
	}
	return min(1, 2*distuv.Binomial{N: a + b, P: .5}.CDF(min(a, b)))
}

// compareVotes compares the votes for the label by the two-sample z statistic. It computes z only for some examples: in
// both runs, the expected number of votes must be at least 10 for the label, and at least 10 for the other classes
// together. The p-value for all examples together comes from the sum of the squares of z.
func compareVotes(a, b []certify.Votes) {
	var squares, sum, examples, largest float64
	for i, v := range a {
		w := b[i]
		x, y, n, m := float64(v.Counts[v.Label]), float64(w.Counts[w.Label]), float64(v.N), float64(w.N)
		p := (x + y) / (n + m)
		if min(p, 1-p)*min(n, m) < 10 {
			continue
		}
		z := (x/n - y/m) / math.Sqrt(p*(1-p)*(1/n+1/m))
		squares += z * z
		sum += z
		largest = max(largest, math.Abs(z))
		examples++
	}
	p := distuv.ChiSquared{K: examples}.Survival(squares)
	fmt.Printf("votes for the label in %g examples: Σz² = %.1f (p = %.2f), Σz/√n = %.2f, largest |z| = %.2f\n\n",
		examples, squares, min(p, 1-p)*2, sum/math.Sqrt(examples), largest)
}

// measureRounding prints how much rounding reduces the radius for images of digits from a real dataset. It resizes the
// digits in floats, which moves them off the lattice.
func measureRounding(path string) error {
	ctx := context.Background()
	data, err := dataset.Open(ctx, path, dataset.Options{})
	if err != nil {
		return err
	}
	defer data.Close()
	fmt.Println("| D | data | mean | most | bound |\n| ---: | --- | ---: | ---: | ---: |")
	for _, c := range []struct{ side, channels int }{{8, 1}, {28, 1}, {32, 3}} {
		const sigma = 0.5
		q, err := smoothing.NewQuantiser(law.Gaussian, sigma, 0, 1)
		if err != nil {
			return err
		}
		d := c.side * c.side * c.channels
		integers := make([]int32, d)
		var sum, most float64
		for i := range data.Len() {
			e, err := data.Example(i)
			if err != nil {
				return err
			}
			lost := q.Quantise(integers, resize(e.Values, 28, c.side, c.channels)) / sigma
			sum += lost
			most = max(most, lost)
		}
		fmt.Printf("| %d | digits, resized to %d×%d×%d | %.4fσ | %.4fσ | %.4fσ |\n", d, c.channels, c.side, c.side,
			sum/float64(data.Len()), most, math.Sqrt(float64(d))/float64(law.Gaussian.Ratios().Greatest))
	}
	return nil
}

// resize interpolates a square image to the side length 'to'. It also shifts each channel to the right, by a tenth of a
// pixel more than the previous channel.
func resize(image []float32, from, to, channels int) []float32 {
	at := func(y, x int) float32 {
		if y < 0 || x < 0 || y >= from || x >= from {
			return 0
		}
		return image[y*from+x]
	}
	var out []float32
	for c := range channels {
		for i := range to {
			y, v := math.Modf((float64(i)+.5)*float64(from)/float64(to) - .3)
			for j := range to {
				x, u := math.Modf((float64(j)+.5)*float64(from)/float64(to) - .3 - float64(c)/10)
				top := float32(1-u)*at(int(y), int(x)) + float32(u)*at(int(y), int(x)+1)
				bottom := float32(1-u)*at(int(y)+1, int(x)) + float32(u)*at(int(y)+1, int(x)+1)
				out = append(out, float32(1-v)*top+float32(v)*bottom)
			}
		}
	}
	return out
}
