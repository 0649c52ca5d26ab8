package calibrator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/rscert/rscert/internal/calib"
)

// Input is the kind of a classifier's outputs.
type Input string

// These are the kinds of outputs.
const (
	Logits        Input = "logits"
	Probabilities Input = "probabilities"
)

// Data holds a classifier's outputs, [N×Columns] row-major, and the labels. If there are two classes, a single column
// may hold the log-odds or the probability of class 1.
type Data struct {
	Input   Input
	Columns int
	Classes int
	Values  []float64
	Label   []int
}

// N returns the number of rows.
func (d Data) N() int { return len(d.Values) / d.Columns }

func (d Data) check() error {
	if len(d.Label) == 0 || len(d.Label)*d.Columns != len(d.Values) {
		return fmt.Errorf("%d values for %d labels", len(d.Values), len(d.Label))
	}
	for i, y := range d.Label {
		if y < 0 || y >= d.Classes {
			return &calib.RowError{Row: i, Reason: fmt.Sprintf("label %d is outside 0 to %d", y, d.Classes-1)}
		}
	}
	return nil
}

// Schema is the version of the JSON that this program writes. Parse refuses a newer version.
const Schema = 2

// Map is a fitted calibration map. Its parameters depend on its method. Multinomial methods (temperature, vector,
// matrix, dirichlet, structured-vector, structured-matrix) have Weight and Bias. The other methods have Platt, Beta,
// Steps or VennAbers. With two classes, the other methods map only the probability of class 1. With more classes, they
// map each class separately and then divide the results by their sum.
type Map struct {
	Schema  int    `json:"schema"`
	Method  string `json:"method"`
	Input   Input  `json:"input"`
	Classes int    `json:"classes"`
	Columns int    `json:"columns"` // columns of the input: 1, or one for each class
	// Rows identifies the rows of the fit. It is nil in maps of schema 1.
	Rows *Fingerprint `json:"rows,omitempty"`

	Before *Before `json:"before,omitempty"` // nil if the logits are used as z in zW + b without change
	// W in zW + b: a matrix [classes×classes] row-major, a diagonal [classes], or one weight for all classes [1]
	Weight  []float64 `json:"weight,omitempty"`
	Bias    []float64 `json:"bias,omitempty"` // [classes]
	AtLimit bool      `json:"at_limit,omitempty"`

	Platt []PlattCurve `json:"platt,omitempty"`
	Beta  []BetaCurve  `json:"beta,omitempty"`
	Steps []StepCurve  `json:"steps,omitempty"`

	VennAbers []VennAbersCurve `json:"venn_abers,omitempty"`
}

// Before holds the parameters of a step that the dirichlet and structured methods take before they compute zW + b. This
// step replaces the logits z by ln((1−Uniform)·softmax(Slope·z) + Uniform/classes). A probability below the constant
// 'tiny' counts as equal to 'tiny'.
type Before struct {
	Slope   float64 `json:"slope"`
	Uniform float64 `json:"uniform"`
}

// apply replaces the logits z as the comment of the type Before describes. If b is nil, it changes nothing.
func (b *Before) apply(z []float64) {
	if b == nil {
		return
	}
	for j, p := range calib.Softmax(z, len(z), 1/b.Slope) {
		z[j] = math.Log(max(tiny, (1-b.Uniform)*p+b.Uniform/float64(len(z))))
	}
}

// PlattCurve is σ(A·d + B) for log-odds d.
type PlattCurve struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
}

// BetaCurve is σ(A ln s − B ln(1−s) + C) for a probability s.
type BetaCurve struct {
	A float64 `json:"a"`
	B float64 `json:"b"`
	C float64 `json:"c"`
}

// StepCurve is a piecewise linear function of x. From At[k] up to At[k+1] it is Value[k] + Slope[k]·(x − At[k]). Below
// At[0] it is Value[0]. If the outputs are probabilities, x is the probability s. If they are logits, x is the log-odds
// d, because different probabilities near 1 may be the same float32.
type StepCurve struct {
	At    []float64 `json:"at"` // float32 values, ascending
	Value []float64 `json:"value"`
	Slope []float64 `json:"slope"`
}

// The code clamps log-odds to ±maxOdds. It replaces probabilities below 'tiny' by 'tiny' before it takes their
// logarithms. float32 can represent both constants.
const (
	maxOdds = 30
	tiny    = 1e-30
)

// Parse parses a map from JSON.
func Parse(content []byte) (Map, error) {
	var version struct {
		Schema int `json:"schema"`
	}
	if err := json.Unmarshal(content, &version); err != nil {
		return Map{}, fmt.Errorf("not a calibration map: %w", err)
	}
	if version.Schema < 1 || version.Schema > Schema {
		return Map{}, fmt.Errorf("schema %d of a calibration map: this rscert reads 1 to %d", version.Schema, Schema)
	}
	var m Map
	d := json.NewDecoder(bytes.NewReader(content))
	d.DisallowUnknownFields()
	if err := d.Decode(&m); err != nil {
		return Map{}, fmt.Errorf("not a calibration map: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	return m, m.check()
}

// The method 'curves' returns the number of curves: 1 for two classes, and otherwise one for each class.
func (m Map) curves() int {
	if m.Classes == 2 {
		return 1
	}
	return m.Classes
}

// countCurves returns the number of curves of all kinds.
func (m Map) countCurves() int { return len(m.Platt) + len(m.Beta) + len(m.Steps) + len(m.VennAbers) }

func (m Map) check() error {
	if m.Input != Logits && m.Input != Probabilities {
		return fmt.Errorf("input %q of a calibration map: want logits or probabilities", m.Input)
	}
	if m.Classes < 2 || m.Columns != m.Classes && !(m.Columns == 1 && m.Classes == 2) {
		return fmt.Errorf("a calibration map of %d columns and %d classes", m.Columns, m.Classes)
	}
	if err := m.checkMethod(); err != nil {
		return err
	}
	if b := m.Before; b != nil && !(b.Slope > 0 && b.Uniform >= 0 && b.Uniform < 1) {
		return fmt.Errorf("slope %v and uniform %v of a calibration map", b.Slope, b.Uniform)
	}
	if !m.finite() {
		return errors.New("a parameter of the calibration map is not a finite number")
	}
	return m.checkSteps()
}

// checkMethod checks the method's name and the number of its parameters. A map of a multinomial method must have
// weights and biases, and no curves. A map of another method must have the curves of this method, and no other curves,
// weights or biases.
func (m Map) checkMethod() error {
	k, wide := m.Classes, len(m.Weight)
	switch m.Method {
	case "temperature", "vector", "matrix", "dirichlet", "structured-vector", "structured-matrix":
		if (wide != 1 && wide != k && wide != k*k) || len(m.Bias) != k || m.countCurves() > 0 {
			return fmt.Errorf("%d weights and %d biases for %d classes", wide, len(m.Bias), k)
		}
	case "platt", "beta", "isotonic", "histogram", "venn-abers":
		n := map[string]int{"platt": len(m.Platt), "beta": len(m.Beta), "venn-abers": len(m.VennAbers)}[m.Method]
		if m.Method == "isotonic" || m.Method == "histogram" {
			n = len(m.Steps)
		}
		if n != m.curves() || m.countCurves() > n || m.Weight != nil || m.Bias != nil {
			return fmt.Errorf("%d curves of %s for %d classes, or parameters of another method", n, m.Method, k)
		}
	default:
		return fmt.Errorf("method %q of a calibration map is unknown", m.Method)
	}
	return nil
}

// checkSteps checks the knots of the curves.
func (m Map) checkSteps() error {
	for _, s := range m.Steps {
		if len(s.At) == 0 || len(s.Value) != len(s.At) || len(s.Slope) != len(s.At) || !slices.IsSorted(s.At) {
			return errors.New("steps of a calibration map must ascend, with a value and a slope each")
		}
	}
	for _, v := range m.VennAbers {
		if len(v.P0) != len(v.At)+1 || len(v.P1) != len(v.P0) || !slices.IsSorted(v.At) {
			return errors.New("knots of a calibration map must ascend, with one more p0 and p1 than knots")
		}
		for k, p := range v.P0 {
			if !(p >= 0 && p < 1 && v.P1[k] > 0 && v.P1[k] <= 1 && p < v.P1[max(0, k-1)]) {
				return fmt.Errorf("p0 %v and p1 %v of a calibration map", p, v.P1[max(0, k-1)])
			}
		}
		if !slices.IsSorted(v.P0) || !slices.IsSorted(v.P1) {
			return errors.New("p0 and p1 of a calibration map must ascend")
		}
	}
	return nil
}

// Apply returns the probabilities [N×Classes] for outputs [N×Columns].
func (m Map) Apply(values []float64) []float64 {
	n := len(values) / m.Columns
	out := make([]float64, n*m.Classes)
	z := make([]float64, m.Classes)
	for i := range n {
		row, p := values[i*m.Columns:(i+1)*m.Columns], out[i*m.Classes:(i+1)*m.Classes]
		if m.Bias != nil {
			m.logits(z, row)
			m.multinomial(p, z)
		} else {
			m.classwise(p, row)
		}
	}
	return out
}

// Intervals returns the probabilities p₀ and p₁ of a Venn–Abers map for outputs [N×Columns]. For two classes, p₀ and p₁
// are about class 1 and have the shape [N]. For more classes, they have the shape [N×Classes]. For a map of another
// method, they are nil.
func (m Map) Intervals(values []float64) (p0, p1 []float64) {
	if m.VennAbers == nil {
		return nil, nil
	}
	for i := range len(values) / m.Columns {
		row := values[i*m.Columns : (i+1)*m.Columns]
		for j, c := range m.VennAbers {
			class := j
			if m.Classes == 2 {
				class = 1
			}
			low, high := c.interval(m.variable(odds(m.Input, m.Columns, row, class)))
			p0, p1 = append(p0, low), append(p1, high)
		}
	}
	return p0, p1
}

// The method 'logits' computes the logits z of a row. If m.Before is not nil, m.Before.apply then replaces z.
func (m Map) logits(z, row []float64) {
	defer m.Before.apply(z)
	switch {
	case m.Input == Logits && m.Columns == 1:
		z[0], z[1] = 0, row[0]
	case m.Input == Logits:
		copy(z, row)
	case m.Columns == 1:
		z[0], z[1] = math.Log(max(tiny, 1-row[0])), math.Log(max(tiny, row[0]))
	default:
		for k, x := range row {
			z[k] = math.Log(max(tiny, x))
		}
	}
}

// The method 'multinomial' writes softmax(zW + b) to p, for the logits z, the weights W and the biases b.
func (m Map) multinomial(p, z []float64) {
	m.affine(p, z)
	copy(p, calib.Softmax(p, m.Classes, 1))
}

// The method 'affine' writes zW + b to p, for the logits z, the weights W and the biases b.
func (m Map) affine(p, z []float64) {
	k := m.Classes
	for j := range k {
		switch len(m.Weight) {
		case 1:
			p[j] = m.Weight[0]*z[j] + m.Bias[j]
		case k:
			p[j] = m.Weight[j]*z[j] + m.Bias[j]
		default:
			p[j] = m.Bias[j]
			for i, x := range z {
				p[j] += x * m.Weight[i*k+j]
			}
		}
	}
}

// For two classes, the method 'classwise' maps only the probability of class 1. For more classes, it maps each class
// separately and normalises the results.
func (m Map) classwise(p, row []float64) {
	if m.Classes == 2 {
		s, d := odds(m.Input, m.Columns, row, 1)
		p[1] = m.curve(0, s, d)
		p[0] = 1 - p[1]
		return
	}
	sum := 0.0
	for k := range p {
		s, d := odds(m.Input, m.Columns, row, k)
		p[k] = m.curve(k, s, d)
		sum += p[k]
	}
	for k := range p {
		if sum > 0 {
			p[k] /= sum
		} else {
			p[k] = 1 / float64(len(p))
		}
	}
}

// The function 'odds' returns the probability s of class k and its log-odds d against all other classes.
func odds(input Input, columns int, row []float64, k int) (s, d float64) {
	if input == Probabilities {
		s = row[min(k, columns-1)]
		return s, min(maxOdds, max(-maxOdds, math.Log(s)-math.Log1p(-s)))
	}
	if columns == 1 {
		d = row[0]
	} else {
		top := math.Inf(-1)
		for j, z := range row {
			if j != k {
				top = max(top, z)
			}
		}
		sum := 0.0
		for j, z := range row {
			if j != k {
				sum += math.Exp(z - top)
			}
		}
		d = row[k] - (top + math.Log(sum))
		if math.IsInf(top, -1) { // all other classes have probability 0
			d = maxOdds
		}
	}
	d = min(maxOdds, max(-maxOdds, d))
	return sigmoid(d), d
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// softplus returns ln(1 + e^x) = −ln(1 − σ(x)).
func softplus(x float64) float64 { return max(0, x) + math.Log1p(math.Exp(-math.Abs(x))) }

// curve returns the value of the map's curve number k for a class with probability s and log-odds d.
func (m Map) curve(k int, s, d float64) float64 {
	switch {
	case m.Platt != nil:
		return sigmoid(m.Platt[k].A*d + m.Platt[k].B)
	case m.Beta != nil:
		b := m.Beta[k]
		return sigmoid(-b.A*softplus(-d) + b.B*softplus(d) + b.C)
	}
	if m.VennAbers != nil {
		return m.VennAbers[k].value(m.variable(s, d))
	}
	return m.Steps[k].value(m.variable(s, d))
}

// The method 'variable' returns x, the argument of a StepCurve or a VennAbersCurve. For logits, x is the log-odds d.
// For probabilities, x is the probability s.
func (m Map) variable(s, d float64) float64 {
	if m.Input == Logits {
		return d
	}
	return s
}

func (c StepCurve) value(x float64) float64 {
	k := sort.Search(len(c.At), func(k int) bool { return c.At[k] > x }) - 1
	if k < 0 {
		return c.Value[0]
	}
	return c.Value[k] + c.Slope[k]*(x-c.At[k])
}

// Identity returns the map that calibrates nothing. It returns probabilities unchanged, and it turns logits into their
// softmax.
func Identity(d Data) Map {
	return Map{Schema: Schema, Method: "temperature", Input: d.Input, Classes: d.Classes, Columns: d.Columns,
		Weight: []float64{1}, Bias: make([]float64, d.Classes)}
}

// Split returns the rows for the fit and the held-out rows.
func (d Data) Split(held []bool) (fitted, rest Data) {
	fitted, rest = d, d
	fitted.Values, fitted.Label, rest.Values, rest.Label = nil, nil, nil, nil
	for i, h := range held {
		part := &fitted
		if h {
			part = &rest
		}
		part.Values = append(part.Values, d.Values[i*d.Columns:(i+1)*d.Columns]...)
		part.Label = append(part.Label, d.Label[i])
	}
	return fitted, rest
}
