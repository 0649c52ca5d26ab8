package calibrator

import (
	"fmt"
	"slices"
	"testing"
)

// The fits must agree with the fits of other programs. The script scripts/calibrators_golden.py computed the expected
// values. It uses VennAbers of venn-abers 1.5.4. It uses SVSCalibrator and SMSCalibrator of probmetrics 1.3.0 with the
// solver saga, which rounds to float32. It uses FullDirichletCalibrator of dirichletcal 0.3.dev4 with reg_lambda =
// 1e-3, ref_row = False, and either reg_mu = 2e-3 or reg_mu = None.
func TestNewerFitsAgree(t *testing.T) {
	curve := fit(t, "venn-abers", goldenScores())
	p0 := []float64{0.0, 0.1, 0.13513513513513514, 0.18181818181818182, 0.21739130434782608, 0.3, 0.5, 0.6521739130434783,
		0.9583333333333334}
	p1 := []float64{0.125, 0.14285714285714285, 0.1724137931034483, 0.22857142857142856, 0.2608695652173913, 0.36363636363636365,
		0.6666666666666666, 0.9230769230769231, 1.0}
	merged := []float64{0.1111111111111111, 0.136986301369863, 0.16621743036837375, 0.2183622828784119, 0.25, 0.34188034188034194,
		0.5714285714285715, 0.7263157894736842, 0.9600000000000002}
	tests := []float64{0, .1, .25, .4, .5, .613, .7, .85, 1}
	low, high := curve.Intervals(tests)
	for k, s := range tests {
		near(t, "p0", low[k], p0[k], 1e-12)
		near(t, "p1", high[k], p1[k], 1e-12)
		near(t, "merged", curve.Apply([]float64{s})[1], merged[k], 1e-12)
	}

	d := goldenLogits()
	for _, c := range []struct {
		method    string
		penalty   Penalty
		tolerance float64
		want      []float64 // probabilities of the rows 0, 100, 200
	}{
		{"structured-vector", "", 5e-6, []float64{
			0.0456086779218582, 0.2565898081911997, 0.21137686037999118, 0.48642465350695085, 0.2441074518862709, 0.08719621262642728,
			0.43715440112890536, 0.23154193435839648, 0.5604247530045714, 0.09126078941212032, 0.10660531162713514, 0.2417091459561731}},
		{"structured-matrix", "", 5e-6, []float64{
			0.037681389936904924, 0.2635361626551138, 0.26964073206253897, 0.4291417153454423, 0.2529812047951102, 0.06846819270175199,
			0.42813296032453724, 0.25041764217860046, 0.5189292815265375, 0.1273267954414089, 0.07640252734400363, 0.27734139568805}},
		{"dirichlet", ODIR, 1e-6, []float64{
			0.0077664282731041675, 0.18287204704323395, 0.361712948411489, 0.44764857627217275, 0.2803972705623147, 0.018210890506385174,
			0.45496511841942217, 0.24642672051187814, 0.45051900353405644, 0.21819261883184038, 0.036074028020223074, 0.2952143496138801}},
		{"dirichlet", All, 1e-6, []float64{
			0.007829927520916114, 0.1876582559836604, 0.3607651483783644, 0.4437466681170591, 0.2816114287587987, 0.018010900715766043,
			0.45192127458472975, 0.24845639594070543, 0.4474590997291598, 0.2236837410117346, 0.03698773914769512, 0.2918694201114103}},
	} {
		method, err := Choices().Parse(c.method)
		if err != nil {
			t.Fatal(err)
		}
		m, err := method.Fit(d, Options{L2: 1e-3, L2Bias: 2e-3, Penalty: c.penalty})
		if err != nil {
			t.Fatal(err)
		}
		var rows []float64
		for _, i := range []int{0, 100, 200} {
			rows = append(rows, d.Values[4*i:4*i+4]...)
		}
		for i, p := range m.Apply(rows) {
			near(t, fmt.Sprintf("%s %s, probability %d", c.method, c.penalty, i), p, c.want[i], c.tolerance)
		}
	}
}

// These rows separate the classes. ODIR does not penalise the diagonal of W, so the penalised likelihood has no
// maximum. With the penalty All, it has a maximum. The structured methods and Venn–Abers can also fit these rows.
func TestDirichletOfSeparableRows(t *testing.T) {
	d := Data{Input: Logits, Columns: 3, Classes: 3, Values: []float64{2, 0, 0, 0, 3, 1, 0, 1, 2}, Label: []int{0, 1, 2}}
	method, err := Choices().Parse("dirichlet")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := method.Fit(d, Options{L2: 1e-3, L2Bias: 1e-3, Penalty: ODIR}); err == nil {
		t.Error("a Dirichlet map of separable rows")
	}
	if _, err := method.Fit(d, Options{L2: 1e-3, Penalty: All}); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"structured-vector", "structured-matrix", "venn-abers"} {
		p := fit(t, name, d).Apply(d.Values)
		if !(p[0] > 0.4 && p[4] > 0.4 && p[8] > 0.4 && slices.Max(p) < 1) {
			t.Errorf("%s: %v", name, p)
		}
	}
}
