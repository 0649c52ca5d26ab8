package summary

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mathext"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/decimal"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/table"
)

// groupTable reads a table of groups.
func groupTable(t *testing.T, text string, columns ...string) *Grouping {
	t.Helper()
	of, err := table.Read(t.Context(), table.Stdin, table.Options{Required: append([]string{"index"}, columns...), Texts: columns, Input: strings.NewReader(text)})
	if err != nil {
		t.Fatal(err)
	}
	return &Grouping{Columns: columns, Table: of}
}

// quantile returns the smallest k with P(Bin(n, alpha) > k) ≤ delta. It uses the incomplete beta function.
func quantile(n int, alpha, delta float64) int {
	for k := range n {
		if mathext.RegIncBeta(float64(k+1), float64(n-k), alpha) <= delta {
			return k
		}
	}
	return n
}

// lowerBound returns the lower Clopper–Pearson bound. It uses the inverse of the incomplete beta function.
func lowerBound(count, n int, alpha float64) float64 {
	if count == 0 {
		return 0
	}
	return mathext.InvRegIncBeta(float64(count), float64(n-count+1), alpha)
}

// The values are computed by hand from the ten examples of the function 'small'. For label 0, the correct radii are
// 0.25, 0.75 and 1. For label 1, they are 0.1, 0.25 and 0.5. Each group has five examples.
func TestByLabel(t *testing.T) {
	o := Default()
	o.Radii = []float64{0, 0.5, 1}
	o.Groups = &Grouping{Columns: []string{"label"}}
	run := small()
	run.Run = &runfolder.Run{Data: runfolder.Data{Selected: 10}}
	s := mustNew(t, run, o)
	b := s.ByGroup
	if b == nil || len(b.Groups) != 2 || b.Delta != 0.05 {
		t.Fatalf("%+v", b)
	}
	k := quantile(5, 0.01, 0.05/2)
	level := 1 - 0.05/2
	for j, want := range [][]int{{3, 2, 1}, {3, 1, 0}} {
		g := b.Groups[j]
		if g.Name() != fmt.Sprintf("label = %d", j) || g.Examples != 5 || int(*g.Failures) != k || k != 1 {
			t.Errorf("group %+v, want %d failures", g, k)
		}
		for i, p := range g.Curve {
			certified := float64(max(0, want[i]-k)) / 5
			population := max(0, (lowerBound(want[i], 5, 0.025)-0.01)/0.99)
			low := lowerBound(want[i], 5, (1-level)/2)
			if p.Accuracy.Count != want[i] || p.Accuracy.Of != 5 || math.Abs(*p.Certified-certified) > 1e-12 || *p.Certified > certified ||
				math.Abs(*p.Population-population) > 1e-8 || *p.Population > population || math.Abs(p.Accuracy.Low-low) > 1e-9 {
				t.Errorf("group %d at %v: %+v %v %v, want %d, %v and %v from %v", j, p.Radius, p.Accuracy, *p.Certified, *p.Population, want[i], certified, population, low)
			}
		}
	}
	for i, w := range b.Worst {
		of := b.Groups[1].Curve[i] // label 1 is never better than label 0; at radius 0 they are equal
		if w.Accuracy.Count != of.Accuracy.Count || *w.Certified != *of.Certified || *w.Population != *of.Population {
			t.Errorf("worst at %v: %+v", w.Radius, w)
		}
	}
	worst, ok := s.WorstGroupAt(decimal.Of(0.3), true)
	if !ok || worst.Name != "label = 1" || worst.Rat().Cmp(decimal.Of(0)) != 0 || worst.Count != 1 || worst.Failures != 1 || worst.Of != 5 {
		t.Errorf("worst at 0.3: %+v", worst)
	}
	if worst, _ = s.WorstGroupAt(decimal.Of(0.3), false); worst.Failures != 0 || worst.Count != 1 {
		t.Errorf("worst at 0.3 without failures: %+v", worst)
	}
	if p := mustNew(t, small(), o).ByGroup.Groups[0].Curve[0]; p.Population != nil {
		t.Error("a bound for the population from a file that does not say how many examples were sampled")
	}
	if _, ok := mustNew(t, small(), Default()).WorstGroupAt(decimal.Of(0.3), false); ok {
		t.Error("a worst group without groups")
	}
}

// Groups of different columns may overlap. Examples that are in the file of groups but not in the run do not count.
func TestByGroupOfFile(t *testing.T) {
	o := Default()
	o.Radii = []float64{0.25}
	text := "index,site,old\n11,c,1\n"
	for i := 9; i >= 0; i-- {
		text += fmt.Sprintf("%d,%c,%d\n", i, 'a'+rune(i%2), i/8)
	}
	o.Groups = groupTable(t, text, "site", "old")
	s := mustNew(t, small(), o)
	got := ""
	for _, g := range s.ByGroup.Groups {
		got += fmt.Sprintf("%s %d/%d, ", g.Name(), g.Curve[0].Accuracy.Count, g.Examples)
	}
	// The correct examples with a radius of at least 0.25 are 1, 4, 5, 6 and 7.
	if want := "site = a 2/5, site = b 3/5, old = 0 5/8, old = 1 0/2, "; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if k := *s.ByGroup.Groups[2].Failures; int(k) != quantile(8, 0.01, 0.05/4) {
		t.Errorf("%d failures of old = 0", k)
	}
	o.Groups = groupTable(t, "index,site\n0,a\n", "site")
	if _, err := New(small(), o); err == nil || !strings.Contains(err.Error(), "stdin has no group of the example with index 1") {
		t.Errorf("examples without a group: %v", err)
	}
	o.Groups = &Grouping{Columns: []string{"sex"}}
	if _, err := New(small(), o); err == nil || err.Error() != "dir/small: group sex: the certificates state no group but the label" {
		t.Errorf("no file: %v", err)
	}
}

// The examples that an unfinished run lacks may belong to any group, also to a group without rows. So each group counts
// all of them as sampled, δ is divided by more groups, and there is no bound for the population. The accuracy in
// another norm must be stated for each group, too.
func TestByGroupOfUnfinishedRun(t *testing.T) {
	o := Default()
	o.Radii = []float64{0.24}
	o.Groups = &Grouping{Columns: []string{"label"}}
	o.Norms = []law.Norm{law.LInf}
	source := ofBytes()
	s := mustNew(t, source, o)
	if in := s.Norms[0].Whole().ByGroup; in.Groups[1].Curve[0].Accuracy.Count != 1 || s.ByGroup.Groups[1].Curve[0].Accuracy.Count != 2 {
		t.Errorf("label 1 in L∞: %+v", in.Groups[1])
	}
	source.Run.Data.Selected = 500
	b := mustNew(t, source, o).ByGroup
	if *b.Groups[0].Failures != int64(quantile(495, 0.01, 0.05/(2+490))) || b.Groups[0].Curve[0].Population != nil || b.Worst[0].Population != nil {
		t.Errorf("unfinished: %+v, %d failures", b.Groups[0], *b.Groups[0].Failures)
	}
	for i := range source.Certificates {
		source.Certificates[i].Sound = false
	}
	if b := mustNew(t, source, o).ByGroup; b.Groups[0].Failures != nil || b.Groups[0].Curve[0].Certified != nil || b.Worst[0].Certified != nil {
		t.Errorf("not sound: %+v", b.Groups[0])
	}
}

// An example of group g resists every attack with probability a_g. An example that resists gets a certificate with
// probability 0.9. Any other example gets a wrong certificate with probability α. The bounds GroupPoint.Certified of
// all groups must hold at once with probability at least 1 − δ, and so must the bounds GroupPoint.Population.
func TestGroupAccuracyCoverage(t *testing.T) {
	const n, groups, alpha, delta, trials = 50, 3, 0.1, 0.2, 400
	accuracy := [groups]float64{0.2, 0.5, 0.05}
	r := rand.New(rand.NewPCG(29, 29))
	examples, population := 0, 0
	for range trials {
		var certificates []certify.Certificate
		var robust [groups]int
		for i := range n * groups {
			g := i % groups
			resists := r.Float64() < accuracy[g]
			c := cert(i, g, -1, 0)
			c.Alpha = alpha
			if resists {
				robust[g]++
			}
			if r.Float64() < map[bool]float64{true: 0.9, false: alpha}[resists] {
				c.Prediction, c.Correct, c.Radius = g, true, 1
			}
			certificates = append(certificates, c)
		}
		o := Default()
		o.Delta, o.Radii, o.Groups = delta, []float64{1}, &Grouping{Columns: []string{"label"}}
		run := &runfolder.Run{Data: runfolder.Data{Selected: n * groups}}
		s := mustNew(t, Source{Path: "run", Kind: RunKind, Run: run, Certificates: certificates}, o)
		missExamples, missPopulation := false, false
		for g, found := range s.ByGroup.Groups {
			p := found.Curve[0]
			missExamples = missExamples || *p.Certified > float64(robust[g])/n
			missPopulation = missPopulation || *p.Population > accuracy[g]
		}
		if missExamples {
			examples++
		}
		if missPopulation {
			population++
		}
	}
	most, err := binomial.FailureQuantile(trials, delta, 1e-6)
	if err != nil || int64(examples) > most || int64(population) > most {
		t.Errorf("of %d trials, the bounds for the examples failed in %d, for the population in %d (%v)", trials, examples, population, err)
	}
}

// The noise decides the columns 'correct', 'prediction' and 'radius', so New must refuse to group the examples by these
// columns.
func TestNoisyGroups(t *testing.T) {
	for _, column := range []string{"correct", "prediction", "radius"} {
		o := Default()
		o.Groups = groupTable(t, "index,"+column+"\n0,1\n", column)
		if _, err := New(small(), o); err == nil || !strings.Contains(err.Error(), "the noise can change this column") {
			t.Errorf("%s: %v", column, err)
		}
	}
}

// Examples that the rows omit may be in groups that the rows do not show.
func TestMissingGroups(t *testing.T) {
	s := Summary{Selected: 40, Examples: 30, Dataset: &Statement{Alpha: 0.05}}
	s.grouped = &grouped{delta: 0.05, columns: 2, groups: []predictions.RowGroup{{Value: table.Group{Rows: make([]int, 20)}}, {}}}
	got, err := s.groupFailures(0)
	if want := quantile(30, 0.05, 0.05/22); err != nil || got != int64(want) || want == quantile(30, 0.05, 0.05/2) {
		t.Errorf("%d, %v; want %d", got, err, want)
	}
}
