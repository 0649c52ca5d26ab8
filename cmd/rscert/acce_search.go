package main

import (
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/admm"
	"github.com/rscert/rscert/internal/hint"
)

// searchOptions are the flags of admm and dece, the searches of acce.
type searchOptions struct {
	admm       admm.ParamGrid
	dece       admm.DECEParams
	trace      string
	traceEvery int
}

// addSearchFlags adds the flags of searchOptions.
func addSearchFlags(cmd *cobra.Command, o *searchOptions) {
	f := cmd.Flags()
	paper, dece := admm.PaperGrid(), admm.DECEParams{}.Complete()
	first := paper.Runs(true)[0]
	choiceListVar(f, &o.admm.Starts, "admm-starts", paper.Starts, admm.Starts, "`confidences` at which 'admm' starts: "+admm.Starts.Described())
	f.Float64SliceVar(&o.admm.RatesZ, "admm-learning-rate-z", paper.RatesZ, "learning `rates` of 'admm' for the confidences")
	f.Float64SliceVar(&o.admm.RatesA, "admm-learning-rate-a", paper.RatesA, "learning `rates` of 'admm' for the assignment of confidences to bins")
	f.Float64Var(&o.admm.Rho, "admm-rho", first.Rho, "initial penalty ρ of 'admm'")
	f.Float64SliceVar(&o.admm.Growths, "admm-rho-growth", paper.Growths, "growth `factors` of the penalty ρ: each run of 'admm' multiplies ρ by one of them after each step")
	f.Float64Var(&o.admm.MaxRho, "admm-rho-max", first.MaxRho, "largest penalty ρ of 'admm'")
	integerVar(f, &o.admm.Steps, "admm-steps", paper.Steps, "number of steps of 'admm' in each of its runs")
	choiceListVar(f, &o.dece.Starts, "dece-starts", dece.StartsFrom(true), admm.Starts, "`confidences` at which 'dece' starts: "+admm.Starts.Described())
	integerVar(f, &o.dece.Random, "dece-random-starts", 0, "number of random starts of the search 'dece' in addition to --dece-starts; each of these starts draws its confidences uniformly between their bounds")
	integerVar(f, &o.dece.Gaussian, "dece-gaussian-starts", 0, "number of additional random starts of 'dece', normally distributed around the middle of the bounds")
	integerVar(f, &o.dece.Seed, "dece-seed", 1, "seed of the random starts of 'dece'")
	f.Float64Var(&o.dece.Rate, "dece-learning-rate", dece.Rate, "initial learning rate of 'dece'")
	choiceVar(f, &o.dece.Schedule, "dece-schedule", admm.Cosine, admm.Schedules, "`schedule` of the learning rate of 'dece': "+admm.Schedules.Described())
	f.Float64Var(&o.dece.Momentum, "dece-momentum", 0, "`momentum` of the search 'dece', from 0 to below 1: the share of the previous step that 'dece' adds to each step")
	integerVar(f, &o.dece.Steps, "dece-steps", dece.Steps, "number of steps of 'dece' per start")
	f.StringVar(&o.trace, "trace", "", "CSV `file` for the calibration error at every k-th step of 'admm' and 'dece'; --trace-every sets k")
	integerVar(f, &o.traceEvery, "trace-every", 10, "write only every `k`-th step to the file of --trace")
}

// mostRandomStarts is the maximum of --dece-random-starts and the maximum of --dece-gaussian-starts. More starts would
// take too long.
const mostRandomStarts = 10_000

// check refuses invalid values. It also refuses a flag of a search (admm or dece) if --solver does not name this
// search.
func (o searchOptions) check(cmd *cobra.Command, solvers []acce.Solver) error {
	asks := func(name string) bool {
		return slices.ContainsFunc(solvers, func(s acce.Solver) bool { return s.Name == name })
	}
	var idle error
	cmd.Flags().Visit(func(f *pflag.Flag) {
		solver, _, _ := strings.Cut(f.Name, "-")
		if (solver == "admm" || solver == "dece") && !asks(solver) && idle == nil {
			idle = hint.Add(badInputf("--%s is for the solver %s", f.Name, solver), "add --solver exact,%s", solver)
		}
	})
	if idle != nil {
		return idle
	}
	if (o.trace != "" || cmd.Flags().Changed("trace-every")) && !asks("admm") && !asks("dece") {
		return hint.Add(badInputf("--trace is for the solvers admm and dece"), "add --solver exact,admm,dece")
	}
	if err := o.checkNumbers(); err != nil {
		return err
	}
	switch {
	case o.admm.MaxRho < o.admm.Rho:
		return hint.Add(badInputf("--admm-rho-max %v is below --admm-rho %v", o.admm.MaxRho, o.admm.Rho), "ρ grows from --admm-rho to --admm-rho-max")
	case o.dece.Gaussian < 0 || o.dece.Gaussian > mostRandomStarts:
		return badInputf("--dece-gaussian-starts %d: want 0 to %d", o.dece.Gaussian, mostRandomStarts)
	case !(o.dece.Momentum >= 0 && o.dece.Momentum < 1):
		return badInputf("--dece-momentum %v: want at least 0 and below 1", o.dece.Momentum)
	case o.dece.Random < 0 || o.dece.Random > mostRandomStarts:
		return badInputf("--dece-random-starts %d: want 0 to %d", o.dece.Random, mostRandomStarts)
	}
	for flag, x := range map[string]int{"admm-steps": o.admm.Steps, "dece-steps": o.dece.Steps, "trace-every": o.traceEvery} {
		if x < 1 {
			return badInputf("--%s %d: want at least 1", flag, x)
		}
	}
	return nil
}

// checkNumbers refuses rates, penalties and growth factors out of range.
func (o searchOptions) checkNumbers() error {
	for _, c := range []struct {
		flag   string
		values []float64
	}{
		{"admm-learning-rate-z", o.admm.RatesZ}, {"admm-learning-rate-a", o.admm.RatesA}, {"dece-learning-rate", []float64{o.dece.Rate}},
		{"admm-rho", []float64{o.admm.Rho}}, {"admm-rho-max", []float64{o.admm.MaxRho}}, {"admm-rho-growth", o.admm.Growths},
	} {
		if len(c.values) == 0 {
			return badInputf("--%s: want at least one number", c.flag)
		}
		for _, x := range c.values {
			switch {
			case !(x > 0) || math.IsInf(x, 1):
				return badInputf("--%s %v: want a number above 0", c.flag, x)
			case c.flag == "admm-rho-growth" && x < 1:
				return hint.Add(badInputf("--%s %v: want a factor of at least 1", c.flag, x), "a factor of 1 keeps ρ as it is")
			}
		}
	}
	return nil
}
