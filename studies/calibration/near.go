package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/report"
)

// A law is a function η with a distribution of scores.
type law struct {
	name string
	function
	score func(r *rand.Rand) float64
}

// laws returns six laws: two of calibrated classifiers, and one for each of the four functions in the list 'functions'.
// The other tables use these functions, too.
func laws() []law {
	calibrated := function{"s", func(s float64) float64 { return s }}
	uniform := func(r *rand.Rand) float64 { return r.Float64() }
	steep := func(r *rand.Rand) float64 { return math.Pow(r.Float64(), 1./8) } // beta(8, 1)
	all := []law{{"calibrated, uniform scores", calibrated, uniform}, {"calibrated, beta(8,1) scores", calibrated, steep}}
	for _, f := range functions {
		all = append(all, law{"η(s) = " + f.name, f, uniform})
	}
	return all
}

// nearMethods are the columns of the table: upper bounds, which assume that the total variation is at most V, and two
// lower bounds, which assume nothing.
var nearMethods = []string{"binned-tv", "binned-bentkus", "binned-quadratic", "binned-best", "betting", "mixture"}

// nearGaps computes the bounds on one sample and returns their distances from CE, in the order of nearMethods.
func (l law) nearGaps(n int, seed uint64, ce, variation float64) ([]float64, error) {
	rng := rand.New(rand.NewPCG(seed, 17))
	score, label := make([]float64, n), make([]float64, n)
	for i := range score {
		score[i] = l.score(rng)
		if rng.Float64() < l.eta(score[i]) {
			label[i] = 1
		}
	}
	s, err := calib.NewSample(score, label)
	if err != nil {
		return nil, err
	}
	var gaps []float64
	for _, bound := range []func(*calib.Sample, float64, float64) (calib.Bound, error){
		calib.BinnedVariation, calib.BinnedBentkus, calib.BinnedQuadratic, calib.BinnedBest} {
		b, err := bound(s, delta, variation)
		if err != nil {
			return nil, err
		}
		gaps = append(gaps, b.Value-ce)
	}
	for _, bound := range []func(*calib.Sample, float64, uint64) (calib.LowerBound, error){calib.BettingLower, calib.MixtureLower} {
		b, err := bound(s, delta, seed)
		if err != nil {
			return nil, err
		}
		gaps = append(gaps, ce-b.Value)
	}
	return gaps, nil
}

// nearRepeats is the number of samples that meanGaps draws for each mean.
const nearRepeats = 16

// meanGaps returns the mean of nearGaps over nearRepeats samples.
func (l law) meanGaps(n int, seed uint64, ce, variation float64) ([]float64, error) {
	all := make([][]float64, nearRepeats)
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for r := range all {
		g.Go(func() (err error) {
			all[r], err = l.nearGaps(n, seed+uint64(r), ce, variation)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	mean := make([]float64, len(nearMethods))
	for _, gaps := range all {
		for m, gap := range gaps {
			mean[m] += gap / nearRepeats
		}
	}
	return mean, nil
}

// nearCalibration prints one table of the mean gaps for calibrated and miscalibrated classifiers.
func nearCalibration(minPower, maxPower int) error {
	fmt.Print("<!-- made: near -->\n\n| law | CE | V | n |")
	for _, m := range nearMethods {
		fmt.Printf(" %s |", m)
	}
	fmt.Printf("\n|%s\n", repeat(" --- |", 4+len(nearMethods)))
	for _, l := range laws() {
		ce, variation := l.truth()
		if l.function.name == "s" {
			ce, variation = 0, 1 // the exact values, because truth() has rounding errors
		}
		for power := max(3, minPower); power <= min(6, maxPower); power++ {
			n := int(math.Pow10(power))
			mean, err := l.meanGaps(n, uint64(1000*power), ce, variation)
			if err != nil {
				return err
			}
			fmt.Printf("| %s | %.4f | %.2g | 10^%d |", l.name, ce, variation, power)
			for _, g := range mean {
				fmt.Printf(" %s |", report.Round(g, report.Up, 0, 4))
			}
			fmt.Println()
		}
	}
	fmt.Print("\n<!-- end: near -->\n\n")
	return nil
}
