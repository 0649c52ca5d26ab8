package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/rscert/rscert/internal/admm"
	"github.com/rscert/rscert/internal/calib"
)

// settingsSize is the number of predictions in an instance of the study of settings. It is smaller than in the paper,
// so that the study takes minutes.
const settingsSize = 1000

// An ascent is a group of settings of dECE.
type ascent struct {
	name string
	runs []admm.DECEParams
}

// ascents returns groups of settings of dECE. The study adds one group after the other to the search. Appendix M.2 of
// the paper varies the same settings, but does not give their values.
func ascents() []ascent {
	starts := []admm.DECEParams{{}}
	random := admm.DECEParams{Random: 4, Gaussian: 4, Seed: 1}
	var search []admm.DECEParams
	for _, rate := range []float64{0.001, 0.01, 0.1} {
		for _, schedule := range []admm.Schedule{admm.Cosine, admm.Constant, admm.Plateau} {
			for _, momentum := range []float64{0, 0.9} {
				search = append(search, admm.DECEParams{Gaussian: 1, Seed: 1, Rate: rate, Schedule: schedule, Momentum: momentum})
			}
		}
	}
	clean := admm.DECEParams{Starts: []admm.Start{admm.FromClean}}
	return []ascent{{"clean start only", []admm.DECEParams{clean}}, {"clean and Brier starts", starts},
		{"and uniform and Gaussian starts", []admm.DECEParams{random}}, {"and rates, schedules and momentum", search}}
}

// best runs dECE with each of the settings, and returns the largest calibration error that these runs find.
func (a ascent) best(p *admm.Problem) (float64, error) {
	top := 0.0
	for _, par := range a.runs {
		e, err := p.DECE(context.Background(), par, admm.Watch{})
		if err != nil {
			return 0, err
		}
		top = max(top, e.ECE)
	}
	return top, nil
}

// The function 'settings' compares two searches: ADMM with a single setting, and the best run of dECE. It counts the
// instances in which ADMM finds an error at least as large as that of the best run of dECE. It counts them for each
// ratio R/σ and for each number of groups that the search with dECE uses.
func settings(instances int) error {
	ratios := []float64{0.1, 0.2, 0.4, 0.6, 0.8, 1}
	groups := ascents()
	wins := make([][]int, len(groups)) // by group and ratio
	for g := range groups {
		wins[g] = make([]int, len(ratios))
	}
	for k, ratio := range ratios {
		for i := range instances {
			intervals, clean := instance(rand.New(rand.NewPCG(2026, uint64(1000*k+i))), settingsSize, ratio)
			b, err := calib.NewBins(bins)
			if err != nil {
				return err
			}
			p, err := admm.NewProblem(intervals, clean, b)
			if err != nil {
				return err
			}
			one := p.Best(context.Background(), oneSetting(), admm.Watch{}).ECE
			top := 0.0
			for g, a := range groups {
				found, err := a.best(p)
				if err != nil {
					return err
				}
				if top = max(top, found); one >= top-5e-5 { // a tie to four decimals counts as a win of ADMM
					wins[g][k]++
				}
			}
		}
	}
	end := marked("settings", "settings")
	fmt.Printf("| settings of dECE | R/σ = %g", ratios[0])
	for _, ratio := range ratios[1:] {
		fmt.Printf(" | %g", ratio)
	}
	fmt.Printf(" | all |\n| --- |%s\n", strings.Repeat(" --- |", len(ratios)+1))
	for g, a := range groups {
		fmt.Printf("| %s |", a.name)
		sum := 0
		for _, n := range wins[g] {
			fmt.Printf(" %d of %d |", n, instances)
			sum += n
		}
		fmt.Printf(" %d of %d |\n", sum, instances*len(ratios))
	}
	end()
	return nil
}
