package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/hint"
)

// describeBoundMethods lists the methods for the help text.
func describeBoundMethods() string {
	assumption := map[calib.Assumption]string{calib.BoundedVariation: "variation", calib.PerturbedScores: "perturbed",
		calib.BoundedWeightedVariation: "weights"}
	var b strings.Builder
	for _, m := range calib.BoundMethods {
		fmt.Fprintf(&b, "  %-18s %-10s %s\n", m.Name, assumption[m.Assumption], nameMethod(m.What, m.Sound))
	}
	return b.String()
}

// defaultBoundMethods returns the methods that ce uses if the user does not give --method.
func defaultBoundMethods() (methods []calib.BoundMethod) {
	for _, m := range calib.BoundMethods {
		if m.Default {
			methods = append(methods, m)
		}
	}
	return methods
}

const perturbHint = "'rscert perturb' or --perturb perturbs scores; 'rscert perturb --auroc' shows the cost of a bandwidth"

// The method 'supported' returns the bound methods whose assumption is made: a flag states the assumption, or the input
// file records it.
func (o ceOptions) supported(path string) (methods []calib.BoundMethod, err error) {
	for _, m := range o.methods {
		made := o.varies
		if m.Assumption == calib.PerturbedScores {
			made = o.Bandwidth > 0
		}
		if m.Assumption == calib.BoundedWeightedVariation && o.Weighted == nil {
			return nil, badInputf("%s: --method %s needs a column weight, and --weight-bound", displayPath(path), m.Name)
		}
		switch {
		case made:
			methods = append(methods, m)
		case o.chosen && m.Assumption == calib.PerturbedScores:
			return nil, hint.Add(badInputf("--method %s needs --bandwidth", m.Name), perturbHint)
		case o.chosen:
			return nil, hint.Add(badInputf("--method %s needs --monotone or --variation", m.Name),
				"--monotone assumes that P(y=1|s) only increases or only decreases in s")
		}
	}
	if len(methods) == 0 {
		return nil, hint.Add(badInputf("%s: without an assumption, data cannot bound the calibration error from above: "+
			"want --monotone, --variation V, or perturbed scores", displayPath(path)),
			"--monotone if P(y=1|s) only increases or only decreases in s; "+
				"--perturb --bandwidth 0.015625 assumes nothing and bounds the error of the perturbed scores")
	}
	return methods, nil
}

// assume reports whether any of the methods needs the assumption.
func assume(methods []calib.BoundMethod, a calib.Assumption) bool {
	return slices.ContainsFunc(methods, func(m calib.BoundMethod) bool { return m.Assumption == a })
}
