package selection

import (
	"fmt"
	"math"
	"testing"

	"github.com/rscert/rscert/internal/report/summary"
)

// emdeRadii are the radii of tables 2 and 4 of Emde et al. 2025.
var emdeRadii = []float64{0.05, 0.20, 0.50, 1.00}

var none = math.NaN()

// table4 is table 4 of Emde et al. 2025. It holds three measures of the best models of Salman et al. 2019 on CIFAR-10:
// ACCE, certified accuracy and CBS. The measures are in %. ACCE is the paper's estimate of the CCE. The tests use ACCE
// in place of CCE.
var table4 = []struct {
	steps, samples int
	sigma, epsilon float64
	acce, ca, cbs  [4]float64 // at emdeRadii
}{
	{2, 2, 0.25, 1.00, [4]float64{15.95, 29.22, 49.90, none}, [4]float64{70.34, 65.60, 55.66, 0.00}, [4]float64{16.75, 18.97, 31.14, none}},
	{2, 2, 0.50, 2.00, [4]float64{20.77, 26.78, 44.99, 64.24}, [4]float64{52.16, 49.71, 44.92, 37.03}, [4]float64{25.15, 26.70, 30.96, 45.93}},
	{2, 4, 0.12, 0.25, [4]float64{11.06, 27.94, none, none}, [4]float64{84.31, 76.50, 0.00, 0.00}, [4]float64{9.12, 11.21, none, none}},
	{2, 4, 0.25, 0.50, [4]float64{17.85, 21.39, 42.89, none}, [4]float64{76.00, 70.16, 55.71, 0.00}, [4]float64{12.64, 13.88, 21.21, none}},
	{2, 4, 1.00, 2.00, [4]float64{24.60, 26.36, 36.52, 50.66}, [4]float64{44.93, 42.44, 38.00, 30.87}, [4]float64{28.32, 29.55, 32.39, 37.46}},
	{2, 8, 0.12, 0.50, [4]float64{12.09, 30.43, none, none}, [4]float64{83.44, 76.67, 0.00, 0.00}, [4]float64{9.54, 13.56, none, none}},
	{10, 1, 0.12, 0.50, [4]float64{17.14, 35.30, none, none}, [4]float64{77.76, 71.34, 0.00, 0.00}, [4]float64{12.84, 18.71, none, none}},
	{10, 1, 0.50, 0.50, [4]float64{18.26, 31.00, 38.13, 53.38}, [4]float64{62.31, 58.07, 48.17, 32.64}, [4]float64{18.50, 20.41, 23.34, 32.17}},
	{10, 1, 0.50, 1.00, [4]float64{15.98, 31.13, 44.16, 59.81}, [4]float64{57.27, 54.32, 47.06, 35.10}, [4]float64{22.04, 23.93, 28.16, 41.36}},
	{10, 1, 0.50, 2.00, [4]float64{19.93, 24.94, 45.73, 64.35}, [4]float64{48.48, 46.08, 41.42, 33.89}, [4]float64{25.74, 27.11, 31.18, 46.18}},
	{10, 2, 0.50, 0.50, [4]float64{17.98, 30.26, 33.59, 50.97}, [4]float64{64.11, 59.08, 49.40, 32.62}, [4]float64{17.06, 18.61, 20.94, 28.67}},
	{10, 2, 0.50, 1.00, [4]float64{16.21, 30.61, 39.51, 56.36}, [4]float64{61.02, 57.43, 49.50, 36.10}, [4]float64{19.66, 21.40, 24.97, 36.25}},
	{10, 2, 0.50, 2.00, [4]float64{22.34, 29.03, 45.76, 64.59}, [4]float64{52.59, 50.16, 44.88, 37.20}, [4]float64{25.92, 27.38, 31.53, 46.52}},
	{10, 2, 1.00, 2.00, [4]float64{22.70, 24.18, 35.11, 46.71}, [4]float64{43.10, 41.01, 36.90, 30.40}, [4]float64{27.53, 28.62, 31.05, 36.13}},
	{10, 4, 0.12, 0.25, [4]float64{11.32, 28.50, none, none}, [4]float64{83.41, 75.96, 0.00, 0.00}, [4]float64{9.63, 12.06, none, none}},
	{10, 4, 0.25, 1.00, [4]float64{15.21, 27.25, 49.30, none}, [4]float64{72.13, 67.24, 56.98, 0.00}, [4]float64{15.45, 17.52, 28.96, none}},
	{10, 4, 0.50, 0.25, [4]float64{19.29, 27.93, 29.87, 44.96}, [4]float64{66.23, 60.10, 47.07, 26.89}, [4]float64{15.04, 16.40, 16.79, 22.00}},
	{10, 4, 0.50, 1.00, [4]float64{16.28, 29.62, 37.69, 52.78}, [4]float64{63.46, 58.87, 49.54, 34.30}, [4]float64{18.97, 20.57, 23.51, 32.90}},
	{10, 8, 0.12, 0.25, [4]float64{10.90, 27.83, none, none}, [4]float64{84.00, 75.78, 0.00, 0.00}, [4]float64{8.70, 10.94, none, none}},
	{10, 8, 0.25, 0.50, [4]float64{17.20, 20.53, 41.34, none}, [4]float64{76.78, 70.45, 55.20, 0.00}, [4]float64{12.01, 12.94, 19.51, none}},
	{10, 8, 0.25, 1.00, [4]float64{15.21, 28.68, 49.65, none}, [4]float64{73.43, 68.58, 57.62, 0.00}, [4]float64{15.22, 17.25, 28.88, none}},
	{10, 8, 1.00, 2.00, [4]float64{26.14, 28.13, 41.08, 50.96}, [4]float64{46.36, 44.03, 39.32, 31.35}, [4]float64{28.36, 29.52, 32.34, 37.40}},
}

// baselines are the rows of table 4 that the paper chose as baselines at each of emdeRadii, because they are "on (or
// very close to) the Pareto curve between certified accuracy and ACCE" (appendix I.2).
var baselines = [4][]int{{2}, {2}, {3, 10, 20}, {12, 13, 17}}

// modelOf returns the summary of a run on 10,000 examples. The arguments hold the certified accuracy, the ACCE and the
// CBS of the run at each of emdeRadii, in %.
func modelOf(name string, sigma float64, ca, acce, cbs [4]float64) summary.Summary {
	const examples = 10_000
	s := summary.Summary{Name: name, Path: name, Examples: examples, Selected: examples, Labelled: examples, Level: 0.95}
	s.Conditions.Sigma = &sigma
	s.Rows = make([]summary.Row, examples)
	for k, radius := range emdeRadii {
		for i := range int(math.Round(100 * ca[k])) {
			s.Rows[i].Correct, s.Rows[i].Radius = true, radius
		}
		if !math.IsNaN(acce[k]) {
			s.Calibration = append(s.Calibration, summary.Calibration{Radius: &radius, N: 1, CCE: acce[k], CBS: cbs[k]})
		}
	}
	for i := range s.Rows {
		s.Rows[i].Index = i
	}
	return s
}

// adversarial returns the models of table 4. The name of a model is the number of its row, counted from 0.
func adversarial() (runs []summary.Summary) {
	for k, m := range table4 {
		runs = append(runs, modelOf(fmt.Sprint(k), m.sigma, m.ca, m.acce, m.cbs))
	}
	return runs
}

// Table 2 compares the models whose certified accuracy is within 3 points of the largest certified accuracy of any
// model. The paper prints this largest accuracy as the upper end of an interval. It belongs to a model of another
// family, so the test adds a family with this accuracy. The rule must reproduce the row 'AT' of Table 2 exactly. CCE
// and CBS are minimised separately: at radius 0.5, the smallest CCE and the smallest CBS belong to different models.
func TestTable2(t *testing.T) {
	want := map[Measure][4]float64{CCE: {10.90, 27.83, 49.30, 56.36}, CBS: {8.70, 10.94, 28.88, 36.25}}
	unknown := [4]float64{none, none, none, none}
	runs := append(adversarial(), modelOf("upper ends of the intervals in table 2", 0.5, [4]float64{86, 78, 59, 38}, unknown, unknown))
	families := make([]string, len(runs))
	for k := range families {
		families[k] = "AT"
	}
	families[len(families)-1] = "ACT"
	within := 0.03
	c, err := Compare(runs, Options{Radii: emdeRadii, Families: families, Within: &within, Delta: 0.05})
	if err != nil {
		t.Fatal(err)
	}
	for k, at := range c.Radii {
		if len(at.Choices) != 2 {
			t.Fatalf("radius %v: choices %+v", at.Radius, at.Choices)
		}
		for _, choice := range at.Choices {
			if choice.Family != "AT" || choice.Value != want[choice.By][k] {
				t.Errorf("radius %v, %s: %+v, want %v", at.Radius, choice.By, choice, want[choice.By][k])
			}
		}
	}
	if at := c.Radii[2]; at.Choices[0].Model == at.Choices[1].Model {
		t.Errorf("at radius 0.5, one model has the smallest CCE and the smallest CBS: %+v", at.Choices)
	}

	// Without the models of the other families, the largest certified accuracy is smaller. So models with a lower
	// accuracy but a better calibration are candidates, too.
	alone, err := Compare(adversarial(), Options{Radii: emdeRadii, Within: &within, Delta: 0.05})
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range [][2]float64{{10.90, 8.70}, {27.83, 10.94}, {41.34, 19.51}, {52.78, 32.90}} {
		if got := alone.Radii[k].Choices; got[0].Value != want[0] || got[1].Value != want[1] {
			t.Errorf("radius %v: %+v, want %v", emdeRadii[k], got, want)
		}
	}
}

// The baselines of the paper must be on the Pareto front. A row must be on the front exactly if it has an ACCE and no
// other row dominates it. The test finds these rows by comparing the numbers of the table.
func TestFront(t *testing.T) {
	c, err := Compare(adversarial(), Options{Radii: emdeRadii, Delta: 0.05})
	if err != nil {
		t.Fatal(err)
	}
	for k, at := range c.Radii {
		front := map[string]bool{}
		for _, row := range at.Rows {
			front[row.Model] = row.Front
		}
		for _, b := range baselines[k] {
			if !front[fmt.Sprint(b)] {
				t.Errorf("radius %v: row %d is not on the front", at.Radius, b)
			}
		}
		for i, m := range table4 {
			want := !math.IsNaN(m.acce[k])
			for _, o := range table4 {
				if o.ca[k] >= m.ca[k] && o.acce[k] < m.acce[k] || o.ca[k] > m.ca[k] && o.acce[k] <= m.acce[k] {
					want = false
				}
			}
			if front[fmt.Sprint(i)] != want {
				t.Errorf("radius %v, row %d: on the front %v, want %v", at.Radius, i, front[fmt.Sprint(i)], want)
			}
		}
	}
}

// The oracle of the rank correlations is SciPy 1.17.1 (spearmanr, kendalltau) on the columns of table 4.
func TestCorrelationsOfTable4(t *testing.T) {
	c, err := Compare(adversarial(), Options{Radii: emdeRadii, Delta: 0.05})
	if err != nil {
		t.Fatal(err)
	}
	for k, want := range []struct {
		models               int
		caCBS, caCCE, cbsCCE [2]float64 // Spearman, Kendall
	}{
		{22, [2]float64{-0.979672501411632, -0.896103896103896}, [2]float64{-0.833662840360276, -0.659437560143082}, [2]float64{0.799774107012298, 0.659437560143082}},
		{22, [2]float64{-0.941276115189159, -0.818181818181818}, [2]float64{0.148503670242801, 0.0909090909090909}, [2]float64{0.0321852060982496, 0.038961038961039}},
		{17, [2]float64{-0.531862745098039, -0.382352941176471}, [2]float64{0.404411764705882, 0.294117647058823}, [2]float64{0.382352941176471, 0.294117647058823}},
		{12, [2]float64{0.615384615384615, 0.484848484848485}, [2]float64{0.909090909090909, 0.818181818181818}, [2]float64{0.734265734265734, 0.606060606060606}},
	} {
		found := map[[2]Measure]Correlation{}
		for _, r := range c.Radii[k].Correlations {
			found[r.Of] = r
		}
		for pair, w := range map[[2]Measure][2]float64{{Accuracy, CBS}: want.caCBS, {Accuracy, CCE}: want.caCCE, {CBS, CCE}: want.cbsCCE} {
			r := found[pair]
			if r.Models != want.models || !near(*r.Spearman, w[0]) || !near(*r.Kendall, w[1]) {
				t.Errorf("radius %v, %v: %d models, %v and %v, want %d models and %v", emdeRadii[k], pair, r.Models, *r.Spearman, *r.Kendall, want.models, w)
			}
		}
	}
}

func near(x, y float64) bool { return math.Abs(x-y) <= 1e-14*max(1, math.Abs(y)) }
