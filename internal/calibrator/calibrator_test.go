package calibrator

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/calib"
)

// goldenScores returns the 240 scores that the tests of internal/calib use.
func goldenScores() Data {
	d := Data{Input: Probabilities, Columns: 1, Classes: 2}
	for i := range 240 {
		c := (float64(i*37%101) + 0.5) / 101
		d.Values = append(d.Values, c)
		d.Label = append(d.Label, index(float64((i*i*7+i)%17)/17 < math.Pow(c, 1.5)))
	}
	return d
}

func goldenLogits() Data {
	d := Data{Input: Logits, Columns: 4, Classes: 4}
	for i := range 240 {
		row := make([]float64, 4)
		for k := range row {
			row[k] = float64((i*7+k*13)%23-11) / 4
			if k == i*i%4 {
				row[k] *= 2
			}
		}
		order := []int{0, 1, 2, 3}
		slices.SortStableFunc(order, func(a, b int) int { return int(math.Copysign(1, row[a]-row[b])) })
		d.Label = append(d.Label, order[3-(i*i*5+i)%7/3])
		d.Values = append(d.Values, row...)
	}
	return d
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s = %.17g, want %.17g", what, got, want)
	}
}

func fit(t *testing.T, name string, d Data) Map {
	t.Helper()
	m, err := Choices().Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := m.Fit(d, Options{L2: 1e-3, L2Bias: 1e-3, Penalty: ODIR, Bins: 7})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// The expected values come from other programs. For Platt scaling, the class _SigmoidCalibration of scikit-learn 1.9.1
// is fitted to the logits of the scores. Its parameters A and B are −a and −b in our notation.
// IsotonicRegression(out_of_bounds="clip") is also from scikit-learn 1.9.1. For these scores, BetaCalibration("abm") of
// betacal 1.1.0 sets the parameter a to 0. The function minimize(method="BFGS") of SciPy 1.17.1 minimises the penalised
// losses of vector and matrix scaling.
func TestFitsAgree(t *testing.T) {
	d := goldenScores()
	platt := fit(t, "platt", d).Platt[0]
	near(t, "Platt a", platt.A, 0.9142881842353322, 2e-5) // scikit-learn's solver stops early
	near(t, "Platt b", platt.B, -0.6754617299600906, 2e-5)
	beta := fit(t, "beta", d).Beta[0]
	near(t, "beta a", beta.A, 0, 0)
	near(t, "beta b", beta.B, 2.044962070424887, 2e-3) // scikit-learn's solver stops early
	near(t, "beta c", beta.C, -2.44344824, 3e-3)
	isotonic := fit(t, "isotonic", d)
	want := []float64{0.08333333333333333, 0.10526315789473684, 0.14285714285714285, 0.19047619047619047,
		0.22727272727272727, 0.3333333333333333, 0.5857142857142857, 0.7758333333333333, 1}
	for k, c := range []float64{0, .1, .25, .4, .5, .613, .7, .85, 1} {
		near(t, "isotonic", isotonic.Apply([]float64{c})[1], want[k], 1e-6) // the map rounds its knots to float32
	}
	logits := goldenLogits()
	for name, want := range map[string]struct{ loss, w0, w1 float64 }{
		"vector": {1.203805074786422, 0.28521374, 0.45244931}, "matrix": {1.1187700869460344, 0.60073504, 0.22319189},
	} {
		m := fit(t, name, logits)
		l := likelihood{d: logits, z: logits.allLogits(nil), weights: len(m.Weight), ridge: ridge{1e-3, 1e-3, 1e-3, true}}
		near(t, name+" loss", l.value(nil, append(slices.Clone(m.Weight), m.Bias...)), want.loss, 1e-10)
		near(t, name+" w0", m.Weight[0], want.w0, 1e-5)
		near(t, name+" w1", m.Weight[1], want.w1, 1e-5)
	}
}

// The test checks that no small change of the fitted parameters gives a larger likelihood.
func TestLogisticFitsAreBest(t *testing.T) {
	d := goldenScores()
	b := binary{s: d.Values}
	for i, s := range d.Values {
		b.d = append(b.d, math.Log(s/(1-s)))
		b.is = append(b.is, d.Label[i] == 1)
	}
	loss := func(c BetaCurve) float64 {
		m, sum := Map{Beta: []BetaCurve{c}}, 0.0
		for i := range b.s {
			p := m.curve(0, b.s[i], b.d[i])
			if !b.is[i] {
				p = 1 - p
			}
			sum -= math.Log(p)
		}
		return sum
	}
	best := fit(t, "beta", d).Beta[0]
	for _, h := range []float64{-1e-3, 1e-3} {
		for _, c := range []BetaCurve{{max(0, best.A+h), best.B, best.C}, {best.A, best.B + h, best.C}, {best.A, best.B, best.C + h}} {
			if c != best && !(loss(c) > loss(best)) {
				t.Errorf("%+v is better than %+v", c, best)
			}
		}
	}
}

// A classifier can give the same outputs in four forms: as logits or as probabilities, in one column or in two. The
// fitted map must give the same probabilities for each form.
func TestInputsAgree(t *testing.T) {
	scores := goldenScores()
	pairs, odds, wide := scores, scores, scores
	pairs.Columns, pairs.Values = 2, nil
	odds.Input, odds.Values = Logits, nil
	wide.Input, wide.Columns, wide.Values = Logits, 2, nil
	for _, s := range scores.Values {
		z := math.Log(s / (1 - s))
		pairs.Values = append(pairs.Values, 1-s, s)
		odds.Values = append(odds.Values, z)
		wide.Values = append(wide.Values, 5-z/2, 5+z/2)
	}
	for _, method := range Methods {
		if method.Name == "vector" || method.Name == "matrix" {
			continue // the penalty of these methods depends on the form of the logits
		}
		want := fit(t, method.Name, scores).Apply(scores.Values)
		for _, d := range []Data{pairs, odds, wide} {
			for i, p := range fit(t, method.Name, d).Apply(d.Values) {
				if !(math.Abs(p-want[i]) < 1e-5) {
					t.Fatalf("%s of %d %s: probability %d is %v, want %v", method.Name, d.Columns, d.Input, i, p, want[i])
				}
			}
		}
	}
}

// For logits and for probabilities, every method gives numbers in [0, 1]. A map that is saved as JSON and parsed again
// is the same map. Only the maps of the methods 'isotonic' and 'histogram' may raise the mean NLL of the labels by more
// than 1e-3.
func TestEveryMethod(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	three := Data{Input: Logits, Columns: 3, Classes: 3}
	probabilities := Data{Input: Probabilities, Columns: 3, Classes: 3}
	for range 400 {
		row := []float64{3 * rng.NormFloat64(), 3 * rng.NormFloat64(), 3 * rng.NormFloat64()}
		p := calib.Softmax(row, 3, 2.5) // the labels follow p, so the logits at temperature 1 are overconfident
		y, u := 0, rng.Float64()
		for u -= p[0]; u > 0 && y < 2; u -= p[y] {
			y++
		}
		three.Values, three.Label = append(three.Values, row...), append(three.Label, y)
		probabilities.Values = append(probabilities.Values, calib.Softmax(row, 3, 1)...)
	}
	probabilities.Label = three.Label
	for _, d := range []Data{three, probabilities, goldenScores(), goldenLogits()} {
		before := meanLog(Identity(d), d)
		for _, method := range Methods {
			m := fit(t, method.Name, d)
			for i, x := range m.Apply(d.Values) {
				if !(x >= 0 && x <= 1) {
					t.Fatalf("%s: probability %d is %v", method.Name, i, x)
				}
			}
			if after := meanLog(m, d); method.Name != "isotonic" && method.Name != "histogram" && !(after <= before+1e-3) {
				t.Errorf("%s of %d %s: NLL %v, before %v", method.Name, d.Columns, d.Input, after, before)
			}
			content, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			again, err := Parse(content)
			if err != nil || !reflect.DeepEqual(again, m) {
				t.Errorf("%s: JSON gave %+v, %v", method.Name, again, err)
			}
		}
	}
}

func meanLog(m Map, d Data) float64 {
	p, sum := m.Apply(d.Values), 0.0
	for i, y := range d.Label {
		sum -= math.Log(p[i*d.Classes+y]) / float64(len(d.Label))
	}
	return sum
}

func TestSeparable(t *testing.T) {
	d := Data{Input: Probabilities, Columns: 1, Classes: 2, Values: []float64{0.1, 0.2, 0.8, 0.9}, Label: []int{0, 0, 1, 1}}
	beta, err := Choices().Parse("beta")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := beta.Fit(d, Options{}); err == nil || !strings.Contains(err.Error(), "no maximum") {
		t.Errorf("beta: %v", err)
	}
	platt := fit(t, "platt", d).Platt[0] // the data are symmetric around 0.5
	near(t, "b", platt.B, 0, 1e-9)
	// Platt's fit replaces the labels by 1/4 and 3/4. So the probability at the score 0.9 (log-odds ln 9) is near 3/4.
	if p := (Map{Platt: []PlattCurve{platt}}).curve(0, 0, math.Log(9)); !(p > 0.7 && p < 0.85) {
		t.Error(p)
	}
	if m := fit(t, "temperature", d); !m.AtLimit {
		t.Error("a temperature for what is separable")
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		`x`:            "not a calibration map",
		`{"schema":3}`: "schema 3 of a calibration map: this rscert reads 1 to 2",
		`{}`:           "schema 0",
		`{"schema":1,"method":"platt","input":"logits","classes":2,"columns":1,"x":1}`:                                                                `unknown field "x"`,
		`{"schema":1,"method":"platt","input":"logits","classes":2,"columns":1}`:                                                                      "0 curves of platt for 2 classes",
		`{"schema":1,"method":"platt","input":"x","classes":2,"columns":1}`:                                                                           `input "x"`,
		`{"schema":1,"method":"platt","input":"logits","classes":3,"columns":1}`:                                                                      "1 columns and 3 classes",
		`{"schema":1,"method":"y","input":"logits","classes":2,"columns":1}`:                                                                          `method "y"`,
		`{"schema":1,"method":"vector","input":"logits","classes":2,"columns":2,"weight":[1,2,3],"bias":[0,0]}`:                                       "3 weights and 2 biases",
		`{"schema":1,"method":"isotonic","input":"logits","classes":2,"columns":1,"steps":[{"at":[1,0],"value":[0,0],"slope":[0,0]}]}`:                "must ascend",
		`{"schema":2,"method":"venn-abers","input":"logits","classes":2,"columns":1,"venn_abers":[{"at":[1,0],"p0":[0,0,0],"p1":[1,1,1]}]}`:           "knots of a calibration map must ascend",
		`{"schema":2,"method":"venn-abers","input":"logits","classes":2,"columns":1,"venn_abers":[{"at":[1],"p0":[0,0,0],"p1":[1,1]}]}`:               "one more p0 and p1",
		`{"schema":2,"method":"venn-abers","input":"logits","classes":2,"columns":1,"venn_abers":[{"at":[1],"p0":[0,1],"p1":[1,0]}]}`:                 "p0 1 and p1 1",
		`{"schema":2,"method":"dirichlet","input":"logits","classes":2,"columns":2,"weight":[1,0,0,1],"bias":[0,0],"before":{"slope":0,"uniform":0}}`: "slope 0",
		`{"schema":1,"method":"isotonic","input":"logits","classes":2,"columns":1,"steps":[{"at":[],"value":[],"slope":[]}]}`:                         "must ascend",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// The test exchanges the labels 0 and 1, so that the share of label 1 falls as the score grows. Beta calibration is
// nondecreasing, so the best map is constant: the share of class 1.
func TestBetaOfReversedScores(t *testing.T) {
	d := goldenScores()
	for i := range d.Label {
		d.Label[i] = 1 - d.Label[i]
	}
	share := 0.0
	for _, y := range d.Label {
		share += float64(y) / float64(len(d.Label))
	}
	m := fit(t, "beta", d)
	if m.Beta[0].A != 0 || m.Beta[0].B != 0 {
		t.Errorf("%+v", m.Beta[0])
	}
	near(t, "p", m.Apply([]float64{0.3})[1], share, 1e-9)
}
