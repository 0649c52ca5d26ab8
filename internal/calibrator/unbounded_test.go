package calibrator

import (
	"math/rand/v2"
	"testing"

	"github.com/rscert/rscert/internal/calib"
)

// The penalty ODIR does not limit the weights on the diagonal. So there is no best map if a class does not occur among
// the labels. There is also no best map if the probabilities separate the labels of the rows. Rows in which all classes
// have the same probability do not count for this condition. If all weights have a penalty, every data set has a best
// map.
func TestDirichletWithoutMaximum(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	draw := func(label func(p []float64) int) Data {
		d := Data{Input: Probabilities, Columns: 3, Classes: 3}
		for range 300 {
			p := calib.Softmax([]float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64()}, 3, 1)
			d.Values, d.Label = append(d.Values, p...), append(d.Label, label(p))
		}
		return d
	}
	ties := Data{Input: Probabilities, Columns: 1, Classes: 2}
	for i := range 300 {
		ties.Values = append(ties.Values, []float64{0.2, 0.5, 0.9}[i%3])
		ties.Label = append(ties.Label, []int{0, i / 3 % 2, 1}[i%3])
	}
	flat := Data{Input: Probabilities, Columns: 1, Classes: 2}
	for i := range 300 {
		flat.Values, flat.Label = append(flat.Values, float64(1+i/2%9)/10), append(flat.Label, i%2)
	}
	for _, c := range []struct {
		name string
		d    Data
		want bool // whether ODIR has a best map
	}{
		{"labels of all classes", draw(func([]float64) int { return rng.IntN(3) }), true},
		{"a class without labels", draw(func([]float64) int { return rng.IntN(2) }), false},
		{"only one label", draw(func([]float64) int { return 0 }), false},
		{"the label has the largest probability", draw(func(p []float64) int {
			return index(p[1] > p[0] && p[1] > p[2]) + 2*index(p[2] > p[0] && p[2] > p[1])
		}), false},
		{"separate labels except for ties", ties, false},
		{"equal probabilities", Data{Probabilities, 1, 2, []float64{0.5, 0.5, 0.5, 0.5}, []int{0, 1, 0, 1}}, true},
		{"labels that do not depend on the probabilities", flat, true},
	} {
		_, err := fitDirichlet(c.d, Options{L2: 1e-3, L2Bias: 1e-3, Penalty: ODIR})
		if (err == nil) != c.want {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := fitDirichlet(c.d, Options{L2: 1e-3, Penalty: All}); err != nil {
			t.Errorf("%s, all penalised: %v", c.name, err)
		}
	}
}

// A loss near 0 must not make the fit fail.
func TestSmallLossIsAllowed(t *testing.T) {
	d := Data{Input: Probabilities, Columns: 1, Classes: 2, Values: []float64{0.001, 0.999}, Label: []int{0, 1}}
	for range 20 {
		d.Values, d.Label = append(d.Values, d.Values...), append(d.Label, d.Label...)
		if d.N() > 1_100_000 {
			break
		}
	}
	if _, err := fitStructuredVector(d, Options{}); err != nil {
		t.Error(err)
	}
}

// Parse must refuse a map with parameters of another method, and a map with contradictory values of p₀ and p₁.
func TestParseOfMixedParameters(t *testing.T) {
	const start = `{"schema":2,"input":"probabilities","classes":2,"columns":1,`
	const good = `"venn_abers":[{"at":[0.5],"p0":[0.1,0.2],"p1":[0.3,0.4]}]}`
	if _, err := Parse([]byte(start + `"method":"venn-abers",` + good)); err != nil {
		t.Error(err)
	}
	for _, rest := range []string{
		`"method":"venn-abers","platt":[{"a":1,"b":0}]}`,
		`"method":"platt",` + good,
		`"method":"venn-abers","bias":[0],` + good,
		`"method":"temperature","weight":[1],"bias":[0,0],` + good,
		`"method":"venn-abers","venn_abers":[{"at":[0.5],"p0":[0.9,0.9],"p1":[0.1,0.2]}]}`,
		`"method":"venn-abers","venn_abers":[{"at":[0.5],"p0":[0.2,0.1],"p1":[0.3,0.4]}]}`,
		`"method":"venn-abers","venn_abers":[{"at":[0.5],"p0":[0.1,0.2],"p1":[0.4,0.3]}]}`,
		`"method":"venn-abers","venn_abers":[{"at":[0.5],"p0":[0.1,0.35],"p1":[0.3,0.4]}]}`,
	} {
		if _, err := Parse([]byte(start + rest)); err == nil {
			t.Errorf("parsed %s", rest)
		}
	}
}
