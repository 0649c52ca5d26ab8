package smoothing

import (
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/rscert/rscert/internal/law"
)

// fitTable tests whether the counts of draws fit a table's exact masses. It applies a χ² test to the counts of the
// labels. In the χ² test, the rare labels of each tail form one cell. The method also tests the mean and the variance.
func (f *fit) fitTable(table *Table, counts []int64, name string) {
	n := int64(0)
	for _, c := range counts {
		n += c
	}
	chi2, cells, expected, observed := 0., 0, 0., 0.
	sum, square, mean, variance, fourth := 0., 0., 0., 0., 0.
	add := func() {
		chi2 += (observed - expected) * (observed - expected) / expected
		cells++
		expected, observed = 0, 0
	}
	masses := cellsOf(table.entries, 64)[:len(counts)]
	share := func(label int) float64 {
		p, _ := masses[label].Float64()
		return math.Ldexp(p, -64)
	}
	tail := 0. // probability of the labels that are not yet in a cell
	for label := range counts {
		tail += share(label)
	}
	for label, c := range counts {
		p, j := share(label), float64(table.First+label)
		tail -= p
		expected += p * float64(n)
		observed += float64(c)
		if expected >= 20 && tail*float64(n) >= 20 || label == len(counts)-1 {
			add()
		}
		sum += j * float64(c)
		square += j * j * float64(c)
		mean += j * p
		variance += j * j * p
		fourth += j * j * j * j * p
	}
	d := distuv.ChiSquared{K: float64(cells - 1)}
	f.add(2*min(d.CDF(chi2), d.Survival(chi2)), "%s: χ² = %.1f over %d cells", name, chi2, cells)
	f.normal((sum-float64(n)*mean)/math.Sqrt(float64(n)*variance), "%s: mean", name)
	f.normal((square-float64(n)*variance)/math.Sqrt(float64(n)*(fourth-variance*variance)), "%s: variance", name)
}

// fitDraws tests n draws from each of three tables. The draws come from several seeds, examples, phases and samples.
func fitDraws(t *testing.T, f *fit, n int) {
	const d = 3 * 32 * 32
	words := make([]uint64, d)
	for _, ratio := range []int64{30, 255, 3640} {
		table := gaussianTable(t, ratio, 1)
		counts := make([]int64, table.Last-table.First+1)
		for i := range n / d {
			s := NewStream(uint64(ratio), i/64, Phase(i/32%2))
			s.Words(words, int64(i%32))
			for _, w := range words {
				counts[draw(table.entries, w)]++
			}
		}
		f.fitTable(table, counts, fmt.Sprintf("σ/g = %d, %d draws", ratio, n/d*d))
	}
}

// fitSeries tests whether draws at neighbouring addresses are uncorrelated. Neighbouring addresses differ in
// coordinate, sample, phase, example or seed. The draws are divided by σ/g = 3640, where g is the lattice's step. Their
// moments then equal the moments of N(0, 1) within 1e-8.
func fitSeries(t *testing.T, f *fit, samples int) {
	const d = 3 * 32 * 32
	table := gaussianTable(t, greatestRatio, 1)
	words := make([]uint64, d)
	var streams [][]float32
	var names []string
	var all []float32
	for seed := uint64(1); seed <= 2; seed++ {
		for example := range 3 {
			for phase := Selection; phase <= Estimation; phase++ {
				s := NewStream(seed, example, phase)
				x := make([]float32, 0, samples*d)
				for i := range samples {
					s.Words(words, int64(i))
					for _, w := range words {
						x = append(x, float32(table.Integer(w))/greatestRatio)
					}
				}
				streams, all = append(streams, x), append(all, x...)
				names = append(names, fmt.Sprintf("seed %d example %d %v", seed, example, phase))
			}
		}
	}
	for i, x := range streams {
		for j := range i {
			f.uncorrelated(x, streams[j], names[i]+" and "+names[j])
		}
	}
	for _, lag := range []int{1, 2, 3, 4, 8, 32, d / 3, d, 2 * d, d + 1} {
		f.uncorrelated(all[:len(all)-lag], all[lag:], fmt.Sprint("lag ", lag))
	}
	x := make([]float32, samples*d)
	var one [1]uint64
	for name, address := range map[string]func(i int){
		"across samples":  func(i int) { NewStream(3, 0, Estimation).Words(one[:], int64(i)) },
		"across examples": func(i int) { NewStream(3, i, Estimation).Words(one[:], 0) },
		"across seeds":    func(i int) { NewStream(uint64(i), 0, Estimation).Words(one[:], 0) },
	} {
		for i := range x {
			address(i)
			x[i] = float32(table.Integer(one[0])) / greatestRatio
		}
		f.uncorrelated(x[:len(x)-1], x[1:], name)
	}
}

// TestLatticeFit makes about 2·10⁷ draws. TestAuditLatticeFit makes the same tests with about 3·10⁹ draws.
func TestLatticeFit(t *testing.T) {
	n, samples := 5_000_000, 100
	if testing.Short() {
		n, samples = 500_000, 10
	}
	var f fit
	fitDraws(t, &f, n)
	fitSeries(t, &f, samples)
	fitWords64(&f, n/5)
	f.judge(t)
}

// The tests in fitTable must detect faults. There are four faults. In the first, the table is for another σ. In the
// second, each column of the table exchanges its own label and its alias (see Table). In the third, the integers are
// too large by one. In the fourth, the draws use only 30 bits of the random word.
func TestLatticeFitFindsFaults(t *testing.T) {
	const n = 3_000_000
	table := gaussianTable(t, 30, 1)
	other, err := NewLawTable(law.Gaussian, 30.05, one)
	if err != nil {
		t.Fatal(err)
	}
	words := make([]uint64, 3000)
	labels := table.Last - table.First + 1
	for name, wrong := range map[string]func(w uint64) int{
		"σ larger by 1/600":     func(w uint64) int { return other.Integer(w) - table.First },
		"thresholds without −1": func(w uint64) int { return int(max(w, table.entries[w%1024])%1024) % labels },
		"off by one":            func(w uint64) int { return (table.Integer(w) - table.First + 1) % labels },
		"30 bits of the word":   func(w uint64) int { return table.Integer(w&(1<<30-1)) - table.First },
	} {
		counts := make([]int64, labels)
		for i := range n / len(words) {
			NewStream(8, 0, Selection).Words(words, int64(i))
			for _, w := range words {
				if label := wrong(w); label >= 0 && label < labels {
					counts[label]++
				}
			}
		}
		var f fit
		f.fitTable(table, counts, name)
		if least := min(f.ps[0], f.ps[1], f.ps[2]); least > 0.001/3 {
			t.Errorf("%s: not found out, p-values %v", name, f.ps)
		}
	}
}
