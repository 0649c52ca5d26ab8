package certify

import (
	"bufio"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/law"
)

// A stepModel is a classifier of two classes. Its score f_0 is a nondecreasing step function of one coordinate u:
// levels[0] up to the first edge, levels[k] beyond the k-th edge. The smoothed score after a shift by δ is z(u+δ) =
// levels[0] + Σ (levels[k] − levels[k−1]) Φ((u + δ − edges[k])/σ). For |δ| ≤ R it is smallest at δ = −R and largest at
// δ = R. The method 'cdf' computes its bounds from the survival function of the scores. For a stepModel, these bounds
// can come close to z(u−R) and z(u+R).
type stepModel struct {
	name          string
	levels, edges []float64
}

var stepModels = []stepModel{
	{"linear classifier", []float64{0, 1}, []float64{-0.8}},
	{"atoms on thresholds", []float64{thresholds[40], 0.5, thresholds[200], 1}, []float64{-0.9, -0.4, 0.1}},
	{"never below 0.6", []float64{0.6, 0.9, 0.99}, []float64{-0.5, 0}},
	{"nearly always 1", []float64{0, 1}, []float64{-1.6}},
	{"many steps", func() (l []float64) {
		for i := range 41 {
			l = append(l, 1/(1+math.Exp(-float64(i-20)/4)))
		}
		return l
	}(), func() (e []float64) {
		for i := range 40 {
			e = append(e, float64(i-35)/15)
		}
		return e
	}()},
}

func (s stepModel) score(u float64) float64 {
	level := s.levels[0]
	for k, e := range s.edges {
		if u > e {
			level = s.levels[k+1]
		}
	}
	return level
}

// The method 'smoothed' returns the smoothed score z(u+δ) at u = 0.
func (s stepModel) smoothed(delta, sigma float64) float64 {
	z := s.levels[0]
	for k, e := range s.edges {
		p, _ := normalCDF((delta - e) / sigma)
		z += (s.levels[k+1] - s.levels[k]) * p
	}
	return z
}

var confidenceRadii = []float64{0, 0.1, 0.25, 0.5}

// The method 'bounds' draws samples from the model and returns the bounds at all radii, including radii at which the
// class is not certified.
func (s stepModel) bounds(t testing.TB, c *ScoreCertifier, r *rand.Rand, n0, n int) []ConfidenceBound {
	t.Helper()
	sigma := c.params.Sigma
	rows := func(k int) []float32 {
		out := make([]float32, 2*k)
		for i := range k {
			f := float32(s.score(sigma * r.NormFloat64()))
			out[2*i], out[2*i+1] = f, 1-f
		}
		return out
	}
	a, err := c.Start(ScoreExample{Label: 0, Classes: 2, N0: int64(n0), N: int64(n)})
	if err == nil {
		err = a.Selection(rows(n0))
	}
	if err == nil {
		err = a.Estimation(rows(n))
	}
	if err != nil {
		t.Fatal(err)
	}
	return a.Confidence(Certificate{Prediction: 0, Radius: 10})
}

func everyConfidence() []ConfidenceParams {
	var all []ConfidenceParams
	for _, b := range []MeanBound{Betting, Hoeffding, Bernstein} {
		all = append(all,
			ConfidenceParams{Radii: confidenceRadii, Method: ConfidenceStandard, Bound: b},
			ConfidenceParams{Radii: confidenceRadii, Method: ConfidenceTangent, Bound: b})
	}
	return append(all,
		ConfidenceParams{Radii: confidenceRadii, Method: ConfidenceCDF, Band: BandDKW},
		ConfidenceParams{Radii: confidenceRadii, Method: ConfidenceCDF, Band: BandBinomial})
}

// For the methods 'standard' and 'cdf', the probability that the interval is wrong at one or more radii is at most α/2.
// For the method 'tangent', the interval at each single radius is wrong with probability at most α/2.
func TestConfidenceCoverage(t *testing.T) {
	trials := int64(200)
	if testing.Short() {
		trials = 50
	}
	const alpha = 0.4
	allowed := failuresAllowed(trials, alpha/2)
	type experiment struct {
		ConfidenceParams
		n0, n int
	}
	var experiments []experiment
	for _, method := range everyConfidence() {
		experiments = append(experiments, experiment{method, 20, 50})
		if method.Method == ConfidenceTangent {
			experiments = append(experiments, experiment{method, 0, 60}) // the first 3 samples fix the tangent
		}
	}
	worst := map[string]float64{} // for each method and n0, the largest share of failures divided by α/2
	for _, method := range experiments {
		c, err := NewScoreCertifier(ScoreParams{Target: Target{Class: Label, Alpha: alpha, Sigma: 0.5}, Confidence: method.ConfidenceParams})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range stepModels {
			r := rand.New(rand.NewPCG(1, 5))
			// The last element counts the trials that fail at one or more radii. Each other element counts the failures
			// at one radius.
			failures := make([]int64, len(confidenceRadii)+1)
			for range trials {
				failed := false
				for i, b := range s.bounds(t, c, r, method.n0, method.n) {
					low, high := s.smoothed(-b.Radius, 0.5), s.smoothed(b.Radius, 0.5)
					if b.Lower > low+1e-7 || b.Upper < high-1e-7 { // scores are float32
						failures[i]++
						failed = true
					}
				}
				if failed {
					failures[len(confidenceRadii)]++
				}
			}
			if method.Method == ConfidenceTangent {
				failures = failures[:len(confidenceRadii)]
			}
			key := fmt.Sprintf("%v, n0 = %d", method, method.n0)
			worst[key] = max(worst[key], float64(slices.Max(failures))/float64(trials)/(alpha/2))
			if k := slices.Max(failures); k > allowed {
				t.Errorf("%v, n0 = %d, %s: %d of %d intervals fail, α allows %d", method, method.n0, s.name, k, trials, allowed)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(worst)) {
		t.Logf("%-40s worst share of failures over α/2: %.2f", key, worst[key])
	}
}

// With 50,000 samples, the bounds of "cdf+binomial" and "tangent+betting" are near the true values. The bounds of every
// method enclose the true values.
func TestConfidenceTightness(t *testing.T) {
	const n, sigma = 50000, 0.5
	widest := map[string]float64{}
	for _, method := range everyConfidence() {
		c, err := NewScoreCertifier(ScoreParams{Target: Target{Class: Label, Alpha: 0.001, Sigma: sigma}, Confidence: method})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range stepModels {
			for _, b := range s.bounds(t, c, rand.New(rand.NewPCG(3, 5)), 1000, n) {
				low, high := s.smoothed(-b.Radius, sigma), s.smoothed(b.Radius, sigma)
				if b.Lower > low || b.Upper < high {
					t.Errorf("%v, %s, R = %v: [%v, %v], the truth is [%v, %v]", method, s.name, b.Radius, b.Lower, b.Upper, low, high)
				}
				excess := (b.Upper - b.Lower) - (high - low)
				key := fmt.Sprint(method, " ", s.name)
				widest[key] = max(widest[key], excess)
			}
		}
	}
	for _, s := range stepModels {
		for _, m := range []string{"cdf+binomial ", "tangent+betting "} {
			if w := widest[m+s.name]; w > 0.05 {
				t.Errorf("%s%s: wider than the truth by %v", m, s.name, w)
			}
		}
	}
	// The standard bound does not use the fact that the scores of the model "never below 0.6" are at least 0.6.
	if s := "never below 0.6"; widest["standard+betting "+s] < 0.05 {
		t.Errorf("standard is as tight as cdf on %q: %v", s, widest["standard+betting "+s])
	}
	for k, w := range widest {
		t.Logf("%-45s %.4f", k, w)
	}
}

// Equation (13) of Emde et al. omits the interval [0, s_1) from the upper sum. If all scores are above s_1, the true
// confidence at R = 0 is above that sum. The bound of this implementation is not below the true confidence.
func TestConfidenceUpperSumHasFirstInterval(t *testing.T) {
	always := func(x float64) (lower, upper float64) {
		b := newSurvivalBand(ScoreParams{Target: Target{Alpha: 0.001, Sigma: 1}, Confidence: ConfidenceParams{Radii: []float64{0}, Band: BandDKW}}, 100000, 0.00025)
		for range b.n {
			b.add(x)
		}
		return b.bounds(0)
	}
	if _, upper := always(1); upper != 1 {
		t.Errorf("upper bound %v for a score that is always 1", upper)
	}
	if lower, upper := always(0); lower != 0 || upper < thresholds[0] {
		t.Errorf("[%v, %v] for a score that is always 0", lower, upper)
	}
}

// Every radius has a row, and the row says whether the class is certified at this radius. The certificate and the
// intervals share α.
func TestConfidenceRows(t *testing.T) {
	p := ScoreParams{Target: Target{Alpha: 0.002, Sigma: 0.5}, Confidence: ConfidenceParams{Radii: []float64{0, 0.3, 5}}}
	c, err := NewScoreCertifier(p)
	if err != nil {
		t.Fatal(err)
	}
	a, cert := certifyScoreModel(t, c, scoreModels[1], rand.New(rand.NewPCG(1, 1)), 50, 2000)
	if cert.Alpha != 0.001 {
		t.Errorf("the certificate's α is %v, want half of 0.002", cert.Alpha)
	}
	p.Confidence.Radii, p.Alpha = nil, 0.001
	alone, err := NewScoreCertifier(p)
	if err != nil {
		t.Fatal(err)
	}
	if _, want := certifyScoreModel(t, alone, scoreModels[1], rand.New(rand.NewPCG(1, 1)), 50, 2000); want.Radius != cert.Radius {
		t.Errorf("radius %v, %v without intervals at half the α", cert.Radius, want.Radius)
	}
	rows := a.Confidence(cert)
	if len(rows) != 3 || rows[1].Radius != 0.3 || !rows[0].Certified || !rows[1].Certified || rows[2].Certified {
		t.Fatalf("rows %+v for a radius of %v", rows, cert.Radius)
	}
	for _, row := range rows {
		if !(row.Lower <= row.Confidence && row.Confidence <= row.Upper) || row.Alpha != 0.002 || !row.Correct {
			t.Errorf("row %+v", row)
		}
	}
	if rows[1].Lower > rows[0].Lower || rows[1].Upper < rows[0].Upper {
		t.Errorf("the interval shrinks with the radius: %+v", rows)
	}
	cert.Prediction = Abstained
	for i, row := range a.Confidence(cert) {
		if rows[i].Certified = false; row != rows[i] {
			t.Errorf("row %+v of a class that is not certified, want %+v", row, rows[i])
		}
	}
	a.example.Label = UnknownLabel
	if a.Confidence(cert) != nil {
		t.Error("bounds for an example without a class or label")
	}
}

// The test uses the published figures of Kumar et al. (2020) for σ = 0.25. Their Hoeffding columns follow from the
// column at R = 0, to the three published digits. Their cdf columns are never below their Hoeffding columns (Jensen).
// Let p be the published value at R = 0, and g(p) = Φ(Φ⁻¹(p) − R/σ). The cdf columns are also never above
// p·g(1−ε)/(1−ε). For a lower confidence band whose largest possible value is 1−ε, this limit follows from the
// convexity of g. The band is the one-sided DKW band with n = 10⁵ and α = 0.001. Its largest possible value is 1−ε =
// 0.994. The largest published value is the same number.
func TestConfidenceKumar(t *testing.T) {
	file, err := os.Open("../../../shared/data/kumar2020/cifar10-pred_score-sigma0.25.tsv")
	if err != nil {
		t.Skip("needs ../shared: ", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Scan()
	columns := strings.Split(lines.Text(), "\t")
	radii := []string{"00", "25", "50", "75", "100", "125", "150"}
	rows := 0
	for lines.Scan() {
		row := map[string]float64{}
		for i, f := range strings.Split(lines.Text(), "\t") {
			row[columns[i]], _ = strconv.ParseFloat(f, 64) // the last column is a running time
		}
		if row["predict"] < 0 {
			continue
		}
		rows++
		// A published figure is rounded: 0.704 stands for any number from 0.7035 to 0.7045.
		span := func(x float64) (low, high float64) {
			half := 0.5001 * math.Pow(10, math.Floor(math.Log10(x))-2)
			return x - half, min(x+half, 1-1e-9)
		}
		atLow, atHigh := span(row["exp_00"])
		cdfLow, cdfHigh := span(row["exp_cdf_00"])
		if cdfLow > atHigh || atLow > cdfHigh {
			t.Errorf("example %v: %v and %v at R = 0", row["idx"], row["exp_00"], row["exp_cdf_00"])
		}
		epsilon := math.Sqrt(math.Log(1/0.001) / 2e5)
		for k, r := range radii[1:] {
			shift := float64(k + 1) // R/σ
			low, high := span(row["exp_"+r])
			if shiftDown(law.Gaussian, atHigh, shift) < low || shiftDown(law.Gaussian, atLow, shift) > high {
				t.Errorf("example %v, R = %s: %v published, between %v and %v here", row["idx"], r, row["exp_"+r], shiftDown(law.Gaussian, atLow, shift), shiftDown(law.Gaussian, atHigh, shift))
			}
			cLow, cHigh := span(row["exp_cdf_"+r])
			if cHigh < shiftDown(law.Gaussian, cdfLow, shift)*0.99 || cLow > cdfHigh*shiftDown(law.Gaussian, 1-epsilon, shift)/(1-epsilon) {
				t.Errorf("example %v, R = %s: cdf %v", row["idx"], r, row["exp_cdf_"+r])
			}
		}
	}
	if rows < 300 {
		t.Errorf("%d rows", rows)
	}
}

// TestTangentFarAway checks that the bounds still hold at radii of tens of σ, where slopes underflow. At such radii the
// bounds are trivial.
func TestTangentFarAway(t *testing.T) {
	p := ScoreParams{Target: Target{Alpha: 0.01, Sigma: 0.5}}
	p.Confidence = ConfidenceParams{Radii: []float64{10, 21, 40, 1e3, 1e6}, Method: ConfidenceTangent}
	c, err := NewScoreCertifier(p)
	if err != nil {
		t.Fatal(err)
	}
	a, err := c.Start(ScoreExample{Classes: 2, N0: 20, N: 200})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 220 {
		row := []float32{0.75 + 0.25*float32(i%2), 0.25 - 0.25*float32(i%2)}
		take := a.Estimation
		if i < 20 {
			take = a.Selection
		}
		if err := take(row); err != nil {
			t.Fatal(err)
		}
	}
	for i := range p.Confidence.Radii {
		if lower, upper := a.intervals[0].bounds(i); lower != 0 || upper != 1 {
			t.Errorf("radius %v: [%v, %v], want [0, 1]", p.Confidence.Radii[i], lower, upper)
		}
	}
}
