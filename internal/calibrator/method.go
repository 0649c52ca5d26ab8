// Package calibrator fits maps from a classifier's outputs to calibrated probabilities.
//
// Methods lists temperature, vector, matrix, Platt, isotonic, beta and histogram calibration. Method.Fit fits one on
// Data (logits or probabilities, and labels) and returns a Map. Map.Apply computes probabilities, Map.ONNX writes the
// map as a graph to put behind the model, and its JSON is read by Parse. Identity is the map that changes nothing.
//
// Package calib measures what a map gains.
package calibrator

import (
	"fmt"
	"strings"

	"github.com/rscert/rscert/internal/choice"
)

// Method is a row of the table of methods.
type Method struct {
	Name string
	What string // one line of help
	// Papers are the keys of what it rests on, in docs/references.md, with spaces between.
	Papers string
	fit    func(d Data, o Options) (Map, error)
}

// Methods are all methods, in the order of help.
var Methods = []Method{
	{"temperature", "softmax(z/T), one parameter (Guo et al. 2017)", "guo2017", fitTemperature},
	{"vector", "softmax(w·z + b), a weight and a bias a class (Guo et al. 2017)", "guo2017", fitVector},
	{"matrix", "softmax(zW + b), a full matrix (Guo et al. 2017)", "guo2017", fitMatrix},
	{"platt", "σ(a·d + b) of the log-odds d, with Platt's (1999) softened labels", "platt1999", fitPlatt},
	{"isotonic", "the nearest nondecreasing function (Zadrozny & Elkan 2002)", "zadrozny2002 ayer1955", fitIsotonic},
	{"beta", "σ(a ln s − b ln(1−s) + c), a, b ≥ 0 (Kull et al. 2017)", "kull2017", fitBeta},
	{"histogram", "the share of the class in bins of equal count (Zadrozny & Elkan 2001)", "zadrozny2001", fitHistogram},
}

// Options are the settings of the methods that have some.
type Options struct {
	L2   float64 // vector, matrix: weight of the squared distance from the identity
	Bins int     // histogram
}

// String is the method's name.
func (m Method) String() string { return m.Name }

// Choices are Methods as a user chooses them.
func Choices() choice.List[Method] {
	return choice.Of("method", Methods...).Describe(func(m Method) string { return m.What })
}

// Fit fits the method's map on d.
func (m Method) Fit(d Data, o Options) (Map, error) {
	if err := d.check(); err != nil {
		return Map{}, err
	}
	f, err := m.fit(d, o)
	if err != nil {
		return Map{}, fmt.Errorf("%s: %w", m.Name, err)
	}
	f.Schema, f.Method, f.Input, f.Classes, f.Columns = Schema, m.Name, d.Input, d.Classes, d.Columns
	return f, f.check()
}

// Help is a line of help for each method.
func Help() string {
	var lines []string
	for _, m := range Methods {
		lines = append(lines, fmt.Sprintf("  %-12s %s", m.Name, m.What))
	}
	return strings.Join(lines, "\n")
}
