// Package calibrator fits maps from a classifier's outputs to calibrated probabilities.
//
// Methods lists temperature, vector, matrix, Dirichlet, structured, Platt, isotonic, beta, Venn–Abers and histogram
// calibration. Method.Fit fits a map to Data (logits or probabilities, and labels) and returns it as a Map. Map.Apply
// computes probabilities. Map.ONNX writes the map as an ONNX graph. The input of this graph is the classifier's
// outputs. Parse parses the map's JSON. Identity returns a map that does not calibrate: it returns probabilities
// unchanged, and it turns logits into their softmax.
//
// Package calib measures the calibration before and after the map.
package calibrator

import (
	"fmt"
	"strings"

	"github.com/rscert/rscert/internal/choice"
)

// Method is a method of calibration.
type Method struct {
	Name string
	What string // one line of help
	// Papers holds the keys of the method's papers in docs/references.md, separated by spaces.
	Papers string
	fit    func(d Data, o Options) (Map, error)
}

// Methods lists all methods, in the order in which the help text names them.
var Methods = []Method{
	{"temperature", "softmax(z/T), one parameter (Guo et al. 2017)", "guo2017", fitTemperature},
	{"vector", "softmax(w·z + b), one weight and one bias per class (Guo et al. 2017)", "guo2017", fitVector},
	{"matrix", "softmax(zW + b), a full matrix (Guo et al. 2017)", "guo2017", fitMatrix},
	{"dirichlet", "softmax(W ln p + b), with penalties on W and b (Kull et al. 2019)", "kull2019", fitDirichlet},
	{"structured-vector", "softmax(w·ln q + b) of the probabilities q after temperature scaling (SVS; Berta et al. 2025)", "berta2025", fitStructuredVector},
	{"structured-matrix", "softmax(W ln q + b) of the probabilities q after temperature scaling (SMS; Berta et al. 2025)", "berta2025", fitStructuredMatrix},
	{"platt", "σ(a·d + b) of the log-odds d, fitted to softened labels (Platt 1999)", "platt1999", fitPlatt},
	{"isotonic", "the nondecreasing function nearest to the labels (Zadrozny & Elkan 2002)", "zadrozny2002 ayer1955", fitIsotonic},
	{"beta", "σ(a ln s − b ln(1−s) + c), a, b ≥ 0 (Kull et al. 2017)", "kull2017", fitBeta},
	{"venn-abers", "p₁/(1 − p₀ + p₁), where p₀ and p₁ are the values of two isotonic maps: one fitted with the new example labelled 0, the other with the new example labelled 1 (Vovk et al. 2015)", "vovk2015 ayer1955", fitVennAbers},
	{"histogram", "the share of the class among the rows in the same bin; the bins have equal counts (Zadrozny & Elkan 2001)", "zadrozny2001", fitHistogram},
}

// Options holds settings that only some methods use.
type Options struct {
	L2      float64 // for vector and matrix: weight of ‖W − I‖² + ‖b‖²; for dirichlet: see Penalty
	L2Bias  float64 // for dirichlet with ODIR: weight of the squared biases
	Penalty Penalty // for dirichlet
	Bins    int     // for histogram
}

// String returns the method's name.
func (m Method) String() string { return m.Name }

// Choices lists Methods under the names that a user types.
func Choices() choice.List[Method] {
	return choice.Of("method", Methods...).Describe(func(m Method) string { return m.What })
}

// Fit fits the method's map to d.
func (m Method) Fit(d Data, o Options) (Map, error) {
	if err := d.check(); err != nil {
		return Map{}, err
	}
	f, err := m.fit(d, o)
	if err != nil {
		return Map{}, fmt.Errorf("%s: %w", m.Name, err)
	}
	rows := d.Fingerprint()
	f.Rows = &rows
	f.Schema, f.Method, f.Input, f.Classes, f.Columns = Schema, m.Name, d.Input, d.Classes, d.Columns
	return f, f.check()
}

// Help returns a line of help for each method.
func Help() string {
	var lines []string
	for _, m := range Methods {
		lines = append(lines, fmt.Sprintf("  %-17s %s", m.Name, m.What))
	}
	return strings.Join(lines, "\n")
}
