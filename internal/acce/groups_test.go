package acce

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/table"
)

// solveGroups makes a study of a table, and returns the results of Study.Solve. For each of the given columns, the rows
// with the same value form a group.
func solveGroups(t *testing.T, text string, o Options, columns ...string) ([]Result, error) {
	t.Helper()
	read := Columns()
	read.Input, read.Texts = strings.NewReader(text), columns
	tab, err := table.Read(t.Context(), table.Stdin, read)
	if err != nil {
		t.Fatal(err)
	}
	if o.Groups, err = predictions.GroupRows(tab, columns); err != nil {
		t.Fatal(err)
	}
	s, err := NewStudy(tab, o)
	if err != nil {
		return nil, err
	}
	return s.Solve(t.Context())
}

// exampleRow is a row of the test tables. It is certified at radius 2 if the field 'also' is true.
type exampleRow struct {
	calib.Bounded
	group  int
	weight float64
	also   bool
}

func randomRows(r *rand.Rand, n int) []exampleRow {
	rows := make([]exampleRow, n)
	for i := range rows {
		l := r.Float64()
		rows[i] = exampleRow{calib.Bounded{Lower: l, Upper: l + (1-l)*r.Float64(), Correct: r.IntN(3) > 0}, r.IntN(3), float64(1 + r.IntN(4)), r.IntN(2) == 0}
	}
	return rows
}

// write writes all rows at radius 1. At radius 2, it writes only the rows whose field 'also' is true.
func write(rows []exampleRow, weighted bool) string {
	var b strings.Builder
	b.WriteString("index,radius,lower,upper,correct,g,h" + map[bool]string{true: ",weight"}[weighted] + "\n")
	for radius := 1; radius <= 2; radius++ {
		for i, row := range rows {
			if radius == 2 && !row.also {
				continue
			}
			correct := map[bool]int{true: 1}[row.Correct]
			fmt.Fprintf(&b, "%d,%d,%v,%v,%d,group %d,%d", 2*i, radius, row.Lower, row.Upper, correct, row.group, i%2)
			if weighted {
				fmt.Fprintf(&b, ",%v", row.weight)
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// The test recomputes each value in the results of a group from the group's rows. The number of allowed failures
// follows from δ/G, where G is the constant 'counted'.
func TestByGroup(t *testing.T) {
	const n, examples, alpha, delta, groups = 90, 200, 0.01, 0.05, 5
	const counted = groups + 2*(examples-n) // in each of the two columns, each missing example may form a further group
	rows := randomRows(rand.New(rand.NewPCG(29, 1)), n)
	bins, err := calib.NewBins(10)
	if err != nil {
		t.Fatal(err)
	}
	for _, weighted := range []bool{false, true} {
		o := Options{Bins: 10, Solvers: solvers(t, "exact"), Dataset: &Dataset{Delta: delta, Alpha: alpha, Examples: examples}}
		results, err := solveGroups(t, write(rows, weighted), o, "g", "h")
		if err != nil || len(results) != 2 {
			t.Fatalf("%d results (%v)", len(results), err)
		}
		for k, r := range results {
			if len(r.ByGroup.Groups) != groups || r.ByGroup.Of != groups || r.ByGroup.Without != nil {
				t.Fatalf("groups %+v", r.ByGroup)
			}
			worst := WorstGroup{CCE: new(float64), Certified: &WorstCertified{CCE: new(float64)}}
			for j, got := range r.ByGroup.Groups {
				in := func(i int) bool { return j < 3 && rows[i].group == j || j >= 3 && i%2 == j-3 }
				var intervals []calib.Bounded
				var weights []float64
				others, total, largest := 0, 0.0, []float64{}
				for i, row := range rows {
					if !in(i) {
						others++
						continue
					}
					if k == 1 && !row.also {
						continue
					}
					w := 1.0
					if weighted {
						w = row.weight
					}
					intervals, weights = append(intervals, row.Bounded), append(weights, w)
					total += w
					largest = append(largest, w)
				}
				units, err := calib.NewRowWeights(weights)
				if err != nil {
					t.Fatal(err)
				}
				cbs, _ := calib.WeightedCBS(intervals, units)
				cce, _ := calib.WeightedCCE(intervals, bins, units)
				failures, err := binomial.FailureQuantile(int64(examples-others), alpha, delta/counted)
				if err != nil {
					t.Fatal(err)
				}
				share := 0.0
				for range failures {
					at := 0
					for i, w := range largest {
						if w > largest[at] {
							at = i
						}
					}
					share += largest[at] / total
					largest[at] = 0
				}
				c := got.Certified
				if got.N != len(intervals) || got.CBS != cbs || *got.CCE != cce.Value || c.Failures != failures || c.Examples != examples-others ||
					c.Delta != delta/counted || math.Abs(c.CBS-min(1, cbs+share)) > 1e-12 || math.Abs(*c.CCE-min(1, cce.Value+2*share)) > 1e-12 {
					t.Errorf("%s: %+v, certified %+v; want CBS %v, CCE %v, %d failures with the share %v", got.Name(), got, *c, cbs, cce.Value, failures, share)
				}
				worst.CBS, worst.Certified.CBS = max(worst.CBS, cbs), max(worst.Certified.CBS, c.CBS)
				*worst.CCE, *worst.Certified.CCE = max(*worst.CCE, *got.CCE), max(*worst.Certified.CCE, *c.CCE)
			}
			w := r.ByGroup.Worst
			if w.CBS != worst.CBS || *w.CCE != *worst.CCE || w.Certified.CBS != worst.Certified.CBS || *w.Certified.CCE != *worst.Certified.CCE || w.Certified.Delta != delta {
				t.Errorf("worst %+v %+v, want %+v %+v", w, w.Certified, worst, worst.Certified)
			}
			if effective := r.EffectiveSize; weighted != (effective > 0) || effective > float64(r.N) {
				t.Errorf("effective sample size %v of %d", effective, r.N)
			}
		}
	}
}

// If SameExamples is set, a group must count only the examples that are certified at both radii. The field Without must
// list the group in which no example is certified at both radii.
func TestByGroupOfSameExamples(t *testing.T) {
	rows := randomRows(rand.New(rand.NewPCG(29, 2)), 40)
	counts := [3]int{}
	for i := range rows {
		rows[i].also = rows[i].also && rows[i].group != 1
		if rows[i].also {
			counts[rows[i].group]++
		}
	}
	o := Options{Bins: 5, Solvers: solvers(t, "exact"), SameExamples: true}
	results, err := solveGroups(t, write(rows, true), o, "g")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		b := r.ByGroup
		if len(b.Groups) != 2 || b.Groups[0].N != counts[0] || b.Groups[1].N != counts[2] || b.Of != 3 || b.Worst.Certified != nil {
			t.Errorf("groups %+v, want %v examples", b, counts)
		}
		if len(b.Without) != 1 || b.Without[0].Name() != "g = group 1" {
			t.Errorf("without a certified class: %v", b.Without)
		}
	}
}

// Each row says that the classifier is certain and right. In a row whose bounds fail, the classifier is in truth
// certain and wrong. The table leaves out most of the examples whose bounds hold. The probability that the bound of
// some group is too small must be at most δ. If the number of sampled examples did not include the examples without a
// row, the bounds would fail often.
func TestByGroupCoverage(t *testing.T) {
	const sampled, groups, alpha, delta, trials = 120, 4, 0.08, 0.2, 400
	r := rand.New(rand.NewPCG(29, 3))
	wrong := 0
	for range trials {
		text := "index,lower,upper,correct,g\n"
		var failed, listed [groups]int
		for i := range sampled {
			g := i % groups
			fails := r.Float64() < alpha
			if !fails && i%5 > 0 { // of the examples whose bounds hold, only every fifth has a row
				continue
			}
			listed[g]++
			if fails {
				failed[g]++
			}
			text += fmt.Sprintf("%d,1,1,1,%d\n", i, g)
		}
		o := Options{Bins: 5, Solvers: solvers(t, "exact"), Dataset: &Dataset{Delta: delta, Alpha: alpha, Examples: sampled}}
		results, err := solveGroups(t, text, o, "g")
		if err != nil {
			t.Fatal(err)
		}
		miss := false
		for _, g := range results[0].ByGroup.Groups {
			k := int(g.Value.Value)
			miss = miss || float64(failed[k])/float64(listed[k]) > g.Certified.CBS
		}
		if miss {
			wrong++
		}
	}
	if most, err := binomial.FailureQuantile(trials, delta, 1e-6); err != nil || int64(wrong) > most {
		t.Errorf("the bounds failed in %d of %d trials (%v)", wrong, trials, err)
	}
}

func TestBadGroups(t *testing.T) {
	const head = "index,radius,lower,upper,correct,g,weight,prediction\n"
	exact := Options{Bins: 2, Solvers: solvers(t, "exact")}
	adaptive, brier, tau := exact, exact, exact
	adaptive.Adaptive, brier.Solvers, tau.Thresholds = true, solvers(t, "exact", "brier"), []float64{0.5}
	for _, c := range []struct {
		rows, column string
		o            Options
		want         string
	}{
		{"0,1,0,1,1,a,1,0\n0,2,0,1,1,b,1,0\n", "g", exact, `stdin:3: the example with index 0 is in the groups a and b of the column g`},
		{"0,1,0,1,1,a,1,0\n", "prediction", exact, `stdin: group prediction: the noise can change this column, or it is the radius`},
		{"0,1,0,1,1,a,1,0\n1,1,0,1,1,a,2,0\n", "g", adaptive, `stdin: the weights of the rows differ: adaptive counts every row once`},
		{"0,1,0,1,1,a,1,0\n1,1,0,1,1,a,2,0\n", "g", brier, `stdin: the weights of the rows differ: want solver exact, because a search counts every row once`},
		{"0,1,0,1,1,a,1,0\n1,1,0,1,1,a,2,0\n", "g", tau, `stdin: the weights of the rows differ: tau counts every row once`},
		{"0,1,0,1,1,a,1,0\n1,1,0,1,1,a,-1,0\n", "g", exact, `stdin:3: weight -1 is negative or not a number`},
		{"0,1,0,1,1,a,0,0\n1,1,0,1,1,b,1,0\n", "g", exact, `stdin: g = a: the sum of the weights is 0 or too large`},
	} {
		if _, err := solveGroups(t, head+c.rows, c.o, c.column); err == nil || err.Error() != c.want {
			t.Errorf("%q: error %v, want %s", c.rows, err, c.want)
		}
	}
	o := exact
	o.Dataset = &Dataset{Delta: 0.05, Alpha: 0.1, Examples: 3}
	if _, err := solveGroups(t, "radius,lower,upper,correct,g\n1,0,1,1,a\n1,0,1,1,a\n1,0,1,1,b\n2,0,1,1,a\n2,0,1,1,b\n2,0,1,1,b\n", o, "g"); err == nil ||
		!strings.Contains(err.Error(), "has 2 examples at one radius, and fewer at another one: want the column index") {
		t.Errorf("rows without an index change their group: %v", err)
	}
}

// If δ were divided only by the number of groups that the table shows, the statement for at least one group would be
// false with probability 0.0718. One example, alone in its group, is certified only if its bound fails (probability
// 0.0249). The 188 other examples are always certified. So the noise decides whether the table shows one group or two.
func TestGroupsTheTableHides(t *testing.T) {
	const n, alpha, delta = 188, 0.0249, 0.05
	chance := func(k, n int) float64 { // P(Bin(n, alpha) > k)
		return 1 - distuv.Binomial{N: float64(n), P: alpha}.CDF(float64(k))
	}
	failures := func(alone bool) []int64 {
		text := "index,lower,upper,correct,g\n"
		for i := range n {
			text += fmt.Sprintf("%d,0.5,1,1,0\n", i)
		}
		if alone {
			text += fmt.Sprintf("%d,0.5,1,1,1\n", n)
		}
		results, err := solveGroups(t, text, Options{Bins: 2, Solvers: Solvers[:1], Dataset: &Dataset{Delta: delta, Alpha: alpha, Examples: n + 1}}, "g")
		if err != nil {
			t.Fatal(err)
		}
		var all []int64
		for _, g := range results[0].ByGroup.Groups {
			all = append(all, g.Certified.Failures)
		}
		return all
	}
	one, two := failures(false), failures(true)
	// The probability 'wrong' has two terms. The first term is for a table that shows one group. The second term is for
	// a table that shows two groups. In this table, the bound of the second group has failed.
	wrong := (1 - alpha) * chance(int(one[0]), n)
	if two[1] == 0 {
		wrong += alpha
	} else {
		wrong += alpha * chance(int(two[0]), n)
	}
	if wrong > delta {
		t.Errorf("the statement fails with probability %v > %v (failures %v, %v)", wrong, delta, one, two)
	}
}
