package gate

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/report/summary"
)

// The oracle is the closed test, which is equivalent to the method of Holm 1979. Each set S of hypotheses has the
// Bonferroni p-value min(1, |S|·min p). The adjusted p-value of a hypothesis is the largest Bonferroni p-value of the
// sets that contain the hypothesis.
func TestHolm(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		m := 1 + random.IntN(6)
		var rows []*AccuracyChange
		for range m {
			rows = append(rows, &AccuracyChange{P: math.Round(20*random.Float64()*random.Float64()) / 20})
		}
		holm(rows)
		for i, row := range rows {
			want := 0.0
			for set := range 1 << m {
				if set&(1<<i) == 0 {
					continue
				}
				size, least := 0, 1.0
				for k := range m {
					if set&(1<<k) != 0 {
						size, least = size+1, min(least, rows[k].P)
					}
				}
				want = max(want, min(1, float64(size)*least))
			}
			if math.Abs(row.Adjusted-want) > 1e-12 {
				t.Fatalf("p-value %v of %d: adjusted %v, want %v", row.P, m, row.Adjusted, want)
			}
		}
	}
}

// For the level 0.05, the result is 6, as in benchstat, because 2·2⁻⁵ = 0.0625 is above 0.05 and 2·2⁻⁶ = 0.03125 is
// below it.
func TestFewestDifferences(t *testing.T) {
	for level, want := range map[float64]int64{0.05: 6, 0.1: 5, 0.01: 8, 0.0626: 5, 0.0624: 6} {
		if got := fewestDifferences(level); got != want {
			t.Errorf("level %v: %d, want %d", level, got, want)
		}
	}
}

// At radius 0.5, the run 'b' certifies 9 examples more than the run 'a', and the run 'c' certifies 2 examples fewer
// than 'a'. So McNemar's p-values at this radius are 2·2⁻⁹ and 2·2⁻². At radius 0.6, both p-values are 1. The p-values
// of these 4 tests are adjusted together.
func TestDifferences(t *testing.T) {
	runs := []summary.Summary{sumAt(t, source("a", 100, 50, 0.5)), sumAt(t, source("b", 100, 59, 0.5)), sumAt(t, source("c", 100, 48, 0.5))}
	all, err := Differences(runs)
	if err != nil || len(all) != 2 {
		t.Fatalf("%v, %v", all, err)
	}
	b, c := all[0].Accuracy, all[1].Accuracy
	if all[0].Baseline != "a" || all[0].Run != "b" || all[1].Run != "c" {
		t.Errorf("%s against %s, %s", all[0].Run, all[0].Baseline, all[1].Run)
	}
	near := func(x, y float64) bool { return math.Abs(x-y) < 1e-9 }
	if p := math.Exp2(-8); !near(b[0].P, p) || !near(b[0].Adjusted, 4*p) || !b[0].Differs || b[0].Change != 0.09 {
		t.Errorf("b at 0.5: %+v", b[0])
	}
	if !near(c[0].P, 0.5) || c[0].Adjusted != 1 || c[0].Differs || c[0].Change != -0.02 || c[0].Lost != 2 {
		t.Errorf("c at 0.5: %+v", c[0])
	}
	if b[1].P != 1 || b[1].Differs {
		t.Errorf("b at 0.6: %+v", b[1])
	}
	codes := func(k int) (codes []string) {
		for _, caution := range all[k].Cautions {
			codes = append(codes, caution.Code)
		}
		return codes
	}
	if got := codes(0); !slices.Equal(got, []string{summary.IntervalTooWide}) {
		t.Errorf("cautions of b: %+v", all[0].Cautions)
	}
	if got := codes(1); !slices.Equal(got, []string{summary.FewDifferences, summary.IntervalTooWide}) || !strings.Contains(all[1].Cautions[0].Says, "at radius 0.5, fewer than 6 examples differ") {
		t.Errorf("cautions of c: %+v", all[1].Cautions)
	}
	five, err := Differences([]summary.Summary{sumAt(t, source("a", 5, 5, 0.5)), sumAt(t, source("b", 5, 0, 0.5))})
	if err != nil || five[0].Accuracy[0].Differs || len(five[0].Cautions) != 1 || !strings.Contains(five[0].Cautions[0].Says, "at least 6 are needed") {
		t.Errorf("five examples: %+v, %v", five, err)
	}
	unfinished := runs[1]
	unfinished.Selected++
	if _, err := Differences([]summary.Summary{runs[0], unfinished}); err == nil {
		t.Error("an unfinished run is compared")
	}
}

// sumAt summarises a source at the radii 0.5 and 0.6.
func sumAt(t *testing.T, s summary.Source) summary.Summary {
	t.Helper()
	o := summary.Default()
	o.Radii = []float64{0.5, 0.6}
	out, err := summary.New(s, o)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Compare must adjust the p-values of all rows together.
func TestCompareAdjusts(t *testing.T) {
	c, err := Compare(sumAt(t, source("a", 100, 50, 0.5)), sumAt(t, source("b", 100, 56, 0.5)))
	if err != nil {
		t.Fatal(err)
	}
	if a := c.Accuracy[0]; math.Abs(a.P-math.Exp2(-5)) > 1e-9 || math.Abs(a.Adjusted-math.Exp2(-4)) > 1e-9 || a.Differs {
		t.Errorf("%+v", a)
	}
}

// Measure must round a value down, or up if a smaller value is better. With probability 0.95, at most one of the 300
// certificates is wrong, because P(Bin(300, 0.001) > 1) = 0.037. So the certified value is 58 of 300.
func TestMeasure(t *testing.T) {
	s := sumAt(t, source("run", 300, 59, 0.5))
	for text, want := range map[string]float64{"certified-accuracy@0.5": 59. / 300, "certified:certified-accuracy@0.5": 58. / 300, "abstain-rate": 241. / 300} {
		q, err := ParseQuantity(text)
		if err != nil {
			t.Fatal(err)
		}
		got, nothing, err := q.Measure(s)
		if err != nil || nothing != "" || math.Abs(*got-want) > 1e-15 {
			t.Errorf("%s: %v, %q, %v; want %v", text, got, nothing, err, want)
		}
		if up := text == "abstain-rate"; q.Upper() != up || up && *got*300 < 241 || !up && *got*300 > want*300 {
			t.Errorf("%s: %v is rounded to the wrong side", text, *got)
		}
	}
	for _, text := range []string{"", "acr>=1", "best:certified:acr", "certified:clean-accuracy", "certified-accuracy", "acr@0.5"} {
		if _, err := ParseQuantity(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
