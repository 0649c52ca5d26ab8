package calib

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rscert/rscert/internal/binomial"
)

func mustBins(t testing.TB, m int) Bins {
	t.Helper()
	b, err := NewBins(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The function 'reaches' reports whether the interval v reaches bin m. It follows the definition and does not use
// Index.
func reaches(b Bins, v Bounded, m int) bool {
	below := v.Lower < b.edge[m+1] || m == b.Len()-1
	return below && v.Upper >= b.edge[m]
}

// byAssignment is the oracle for few samples. It tries every assignment of samples to reachable bins. Within a bin,
// |Σw(c−z)| is largest if all z are as low as possible, or if all z are as high as possible. Unlike CCE, this oracle
// does not choose a sign for each bin. The weights are 1 if w is nil.
func byAssignment(b Bins, intervals []Bounded, w []float64) float64 {
	n, m := len(intervals), b.Len()
	if w == nil {
		w = slices.Repeat([]float64{1}, n)
	}
	all := 0.0
	for _, x := range w {
		all += x
	}
	bin := make([]int, n)
	var best float64
	var assignFrom func(i int)
	assignFrom = func(i int) {
		if i < n {
			for bin[i] = 0; bin[i] < m; bin[i]++ {
				if reaches(b, intervals[i], bin[i]) {
					assignFrom(i + 1)
				}
			}
			return
		}
		low, high := make([]float64, m), make([]float64, m)
		for j, v := range intervals {
			k := bin[j]
			c := 0.0
			if v.Correct {
				c = 1
			}
			low[k] += w[j] * (c - max(v.Lower, b.edge[k]))
			high[k] += w[j] * (c - min(v.Upper, b.edge[k+1]))
		}
		var sum float64
		for k := range m {
			sum += max(math.Abs(low[k]), math.Abs(high[k]))
		}
		best = max(best, sum/all)
	}
	assignFrom(0)
	return best
}

// bySigns is an oracle for few bins: it computes the largest calibration error by trying every sign vector. A sign
// vector gives the gap of each bin the sign + or −. For every sign vector, bySigns puts each sample in the reachable
// bin where it contributes most.
func bySigns(b Bins, intervals []Bounded) float64 {
	m := b.Len()
	var best float64
	for signs := range 1 << m {
		var sum float64
		for _, v := range intervals {
			top := math.Inf(-1)
			for k := range m {
				if !reaches(b, v, k) {
					continue
				}
				c, s, z := 0.0, -1.0, min(v.Upper, b.edge[k+1])
				if v.Correct {
					c = 1
				}
				if signs>>k&1 == 1 {
					s, z = 1, max(v.Lower, b.edge[k])
				}
				top = max(top, s*(c-z))
			}
			sum += top
		}
		best = max(best, sum/float64(len(intervals)))
	}
	return best
}

// rounding is a bound on the error of the oracles' float64 sums.
const rounding = 1e-12

// checkWorst checks the CCE against the argument 'want', whose error is at most the constant 'rounding'. It also checks
// that the result of Worst.Confidences lies in the intervals and attains the CCE.
func checkWorst(t *testing.T, b Bins, intervals []Bounded, want float64) {
	t.Helper()
	w, err := CCE(intervals, b)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(w.Value-want) > rounding {
		t.Fatalf("M = %d, %v: %v, want %v", b.Len(), intervals[:min(30, len(intervals))], w.Value, want)
	}
	checkAttained(t, b, intervals, w)
}

func checkAttained(t *testing.T, b Bins, intervals []Bounded, w Worst) {
	t.Helper()
	z := w.Confidences(intervals)
	for i, v := range intervals {
		if !(z[i] >= v.Lower && z[i] <= v.Upper) {
			t.Fatalf("confidence %v outside %v", z[i], v)
		}
	}
	ece := b.ECE(z, correctness(intervals))
	if ece > w.Value || w.Value-ece > 0x1p-52 {
		t.Fatalf("M = %d, N = %d: value %v, its confidences have ECE %v", b.Len(), len(intervals), w.Value, ece)
	}
}

func correctness(intervals []Bounded) func(int) bool {
	return func(n int) bool { return intervals[n].Correct }
}

// The function 'certified' draws n predictions that resemble those of a certified classifier. A prediction with the
// confidence z is correct with probability z − 0.05. Its interval is that of the standard certificate, Φ(Φ⁻¹(z) ± 0.4).
func certified(r *rand.Rand, n int) (samples []Bounded, clean []float64) {
	samples, clean = make([]Bounded, n), make([]float64, n)
	for i := range samples {
		x := 1 + 1.2*r.NormFloat64()
		phi := func(x float64) float64 { return math.Erfc(-x/math.Sqrt2) / 2 }
		clean[i] = phi(x)
		samples[i] = Bounded{Lower: phi(x - 0.4), Upper: phi(x + 0.4), Correct: r.Float64() < clean[i]-0.05}
	}
	return samples, clean
}

func TestCCETable(t *testing.T) {
	third := 1.0 / 3
	for _, tt := range []struct {
		name      string
		bins      int
		intervals []Bounded
		want      float64
	}{
		// In Emde et al., appendix E.2 (Table 3), sample 1 has its lowest confidence 0.1 in bin 1, and sample 2 has its
		// highest confidence 0.9 in bin 3. The calibration error is then (0.9 + 0.9)/2.
		{"appendix E.2", 3, []Bounded{{Lower: 0.1, Upper: 0.6, Correct: true}, {Lower: 0.5, Upper: 0.9}}, 0.9},
		// With one bin the worst case has both confidences at their highest, which gives |1 − 0.6 − 0.9|/2.
		{"appendix E.2, one bin", 1, []Bounded{{Lower: 0.1, Upper: 0.6, Correct: true}, {Lower: 0.5, Upper: 0.9}}, 0.25},
		{"one sample, free", 15, []Bounded{{Lower: 0, Upper: 1, Correct: true}}, 1},
		{"one wrong sample, free", 15, []Bounded{{Lower: 0, Upper: 1}}, 1},
		{"certain and correct", 15, []Bounded{{Lower: 1, Upper: 1, Correct: true}}, 0},
		{"0 and correct", 15, []Bounded{{Lower: 0, Upper: 0, Correct: true}}, 1},
		{"certain and wrong", 15, []Bounded{{Lower: 1, Upper: 1}}, 1},
		// Both samples are on the edge ⅔ between bins 2 and 3 and belong to bin 3. The calibration error is then |1 −
		// 2·⅔|/2.
		{"points on an edge", 3, []Bounded{{Lower: 2 * third, Upper: 2 * third, Correct: true}, {Lower: 2 * third, Upper: 2 * third}}, third / 2},
		// The wrong sample can stay below ⅔ and be alone in bin 2. The supremum of the wrong sample's gap is ⅔, so the
		// calibration error is (⅓ + ⅔)/2.
		{"supremum at an open edge", 3, []Bounded{{Lower: 2 * third, Upper: 2 * third, Correct: true}, {Lower: 0.5, Upper: 2 * third}}, 0.5},
		{"both points in one bin cancel", 2, []Bounded{{Lower: 0.75, Upper: 0.75, Correct: true}, {Lower: 0.75, Upper: 0.75}}, 0.25},
	} {
		t.Run(tt.name, func(t *testing.T) {
			checkWorst(t, mustBins(t, tt.bins), tt.intervals, tt.want)
		})
	}
}

func TestCCEBadInput(t *testing.T) {
	b := mustBins(t, 15)
	if _, err := CCE(nil, b); err == nil {
		t.Error("no samples: no error")
	}
	var row *RowError
	if _, err := CCE([]Bounded{{Upper: 1}, {Lower: 0.5, Upper: 0.4}}, b); !errors.As(err, &row) || row.Row != 1 {
		t.Errorf("lower above upper: %v", err)
	}
	for _, m := range []int{-1, 0, MaxBins + 1} {
		if _, err := NewBins(m); err == nil {
			t.Errorf("%d bins: no error", m)
		}
	}
}

// For every number of bins, at every edge and at the floats next to it, Index must return the bin that the edges
// determine. The formula floor(x·M) disagrees at some of these floats.
func TestIndex(t *testing.T) {
	var disagree int
	for m := 1; m <= MaxBins; m++ {
		if testing.Short() && m > 300 && m%17 != 0 {
			continue
		}
		b := mustBins(t, m)
		for k, e := range b.edge {
			if k > 0 && k < m && e < 0x1p-11 {
				t.Fatalf("edge %d of %d is below 2⁻¹¹", k, m)
			}
			for _, x := range []float64{math.Nextafter(e, 0), e, math.Nextafter(e, 1)} {
				if x < 0 || x > 1 {
					continue
				}
				got := b.Index(x)
				if !(b.edge[got] <= x && (x < b.edge[got+1] || got == m-1)) {
					t.Fatalf("M = %d: %v in bin %d", m, x, got)
				}
				if got != min(int(x*float64(m)), m-1) {
					disagree++
				}
			}
		}
	}
	if disagree == 0 {
		t.Error("x·M never rounds across an edge: the correction is not tested")
	}
}

// randomSamples draws wide, narrow and degenerate intervals. In many calls, ends lie on edges of bins or on the floats
// next to an edge.
func randomSamples(r *rand.Rand, b Bins, n int) []Bounded {
	kind := r.IntN(3)
	end := func() float64 {
		if kind > 0 && r.IntN(3) > 0 {
			e := b.edge[r.IntN(len(b.edge))]
			switch r.IntN(3) {
			case 0:
				return math.Nextafter(e, 0)
			case 1:
				return math.Nextafter(e, 1)
			}
			return e
		}
		return r.Float64()
	}
	out := make([]Bounded, n)
	for i := range out {
		x, y := end(), end()
		switch r.IntN(4) {
		case 0:
			y = x
		case 1:
			y = min(1, x+r.Float64()*0.2)
		}
		out[i] = Bounded{Lower: min(x, y), Upper: max(x, y), Correct: r.IntN(2) == 0}
	}
	return out
}

func TestCCEIsTheEnumeration(t *testing.T) {
	rounds := 4000
	if testing.Short() {
		rounds = 500
	}
	r := rand.New(rand.NewPCG(5, 1))
	for range rounds {
		b := mustBins(t, 1+r.IntN(8))
		intervals := randomSamples(r, b, 1+r.IntN(20))
		checkWorst(t, b, intervals, bySigns(b, intervals))
	}
	for range rounds / 4 {
		b := mustBins(t, 1+r.IntN(4))
		intervals := randomSamples(r, b, 1+r.IntN(6))
		checkWorst(t, b, intervals, byAssignment(b, intervals, nil))
	}
}

func FuzzCCE(f *testing.F) {
	f.Add(uint8(3), []byte{0, 20, 60, 1, 50, 90})
	f.Add(uint8(0), []byte{0, 0, 0})
	f.Add(uint8(9), []byte{1, 128, 255, 0, 255, 255, 5, 7, 250, 4, 51, 51})
	f.Fuzz(func(t *testing.T, bins uint8, data []byte) {
		b := mustBins(t, 1+int(bins)%10)
		var intervals []Bounded
		for ; len(data) >= 3 && len(intervals) < 30; data = data[3:] {
			// The ends are multiples of 1/255. Because 255 = 3·5·17, all edges of 3 and of 5 bins are such multiples.
			// In each group of three bytes, one bit of the first byte says whether x moves to the next lower float, and
			// another bit says whether y moves to the next higher float.
			x, y := float64(data[1])/255, float64(data[2])/255
			if data[0]&2 != 0 {
				x = math.Nextafter(x, 0)
			}
			if data[0]&4 != 0 {
				y = math.Nextafter(y, 1)
			}
			x, y = max(0, x), min(1, y)
			intervals = append(intervals, Bounded{Lower: min(x, y), Upper: max(x, y), Correct: data[0]&1 == 1})
		}
		if len(intervals) == 0 {
			return
		}
		checkWorst(t, b, intervals, bySigns(b, intervals))
	})
}

// TestCCEProperties checks properties on instances that are too large to enumerate.
func TestCCEProperties(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 30
	}
	r := rand.New(rand.NewPCG(5, 2))
	value := func(b Bins, intervals []Bounded) float64 {
		w, err := CCE(intervals, b)
		if err != nil {
			t.Fatal(err)
		}
		return w.Value
	}
	for round := range rounds {
		b := mustBins(t, 1+r.IntN(40))
		intervals := randomSamples(r, b, 1+r.IntN(500))
		n := len(intervals)
		w, err := CCE(intervals, b)
		if err != nil {
			t.Fatal(err)
		}
		checkAttained(t, b, intervals, w)

		// For all confidences in the intervals, the calibration error is at most the CCE. The test tries random
		// confidences and the ends of intervals.
		z := make([]float64, n)
		for range 20 {
			for i, v := range intervals {
				switch r.IntN(3) {
				case 0:
					z[i] = v.Lower
				case 1:
					z[i] = v.Upper
				default:
					z[i] = v.Lower + r.Float64()*(v.Upper-v.Lower)
				}
			}
			if ece := b.ECE(z, correctness(intervals)); ece > w.Value {
				t.Fatalf("round %d: confidences with ECE %v above %v", round, ece, w.Value)
			}
		}

		// The value is bit for bit the same if the samples are reordered, or if every sample is repeated.
		shuffled := slices.Clone(intervals)
		r.Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if again := value(b, shuffled); again != w.Value {
			t.Fatalf("%v in one order, %v in another", w.Value, again)
		}
		if twice := value(b, append(shuffled, intervals...)); twice != w.Value {
			t.Fatalf("%v once, %v twice", w.Value, twice)
		}

		// Cut the samples into two parts, and multiply the value of each part by its share of the samples. The value of
		// all samples is at most the sum of these two products and at least their difference.
		if cut := r.IntN(n + 1); cut > 0 && cut < n {
			x := value(b, intervals[:cut]) * float64(cut) / float64(n)
			y := value(b, intervals[cut:]) * float64(n-cut) / float64(n)
			if w.Value > x+y+rounding || w.Value < math.Abs(x-y)-rounding {
				t.Fatalf("parts %v and %v, whole %v", x, y, w.Value)
			}
		}

		// Wider intervals allow larger errors.
		wide := slices.Clone(intervals)
		for i := range wide {
			if r.IntN(2) == 0 {
				wide[i].Lower *= r.Float64()
				wide[i].Upper += (1 - wide[i].Upper) * r.Float64()
			}
		}
		if widened := value(b, wide); widened < w.Value {
			t.Fatalf("%v, with wider intervals %v", w.Value, widened)
		}
	}
}

// The value is never below the supremum, even if float64 sums would be below it. The test uses copies of one wrong
// sample, so the supremum is the gap of this sample.
func TestCCERoundsUp(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 3))
	b := mustBins(t, 15)
	for range 200 {
		u := r.Float64() * math.Exp2(-float64(r.IntN(60)))
		intervals := make([]Bounded, 1+r.IntN(3000))
		for i := range intervals {
			intervals[i] = Bounded{Lower: u, Upper: u}
		}
		w, err := CCE(intervals, b)
		if err != nil {
			t.Fatal(err)
		}
		if w.Value < u || w.Value > math.Nextafter(u+0x1p-63, 1) {
			t.Fatalf("%d × %v: %v", len(intervals), u, w.Value)
		}
	}
}

// If k samples may have any confidence and any correctness, the largest calibration error is at most the bound of
// CCEWithFailures. The last case attains the bound: one of two samples fails, and its gap changes sign.
func TestCCEWithFailures(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 300 {
		b := mustBins(t, 1+r.IntN(6))
		n := 1 + r.IntN(12)
		k := r.IntN(min(n, 3) + 1)
		intervals := randomSamples(r, b, n)
		w, err := CCE(intervals, b)
		if err != nil {
			t.Fatal(err)
		}
		bound := CCEWithFailures(w.Value, RowWeights{}.LargestShare(int64(k), n))
		failed := slices.Clone(intervals)
		for range 1 << k {
			for i := range k {
				failed[i] = Bounded{Lower: 0, Upper: 1, Correct: r.IntN(2) == 0}
			}
			if at := bySigns(b, failed); at > bound+rounding {
				t.Fatalf("%d of %d fail: ECE %v, bound %v", k, n, at, bound)
			}
		}
	}
	// Two predictions in one bin have known confidences, and their gaps 1 and −1 cancel. If the second prediction turns
	// out to be correct at confidence 0, both gaps are 1 and the error is 1. The bound of CCEWithFailures is also 1:
	// the CCE, 0, plus twice the failed share ½.
	b := mustBins(t, 1)
	w, err := CCE([]Bounded{{Correct: true}, {Lower: 1, Upper: 1}}, b)
	if err != nil || w.Value != 0 {
		t.Fatalf("%v, %v", w.Value, err)
	}
	if at := bySigns(b, []Bounded{{Correct: true}, {Correct: true}}); at != 1 || CCEWithFailures(0, RowWeights{}.LargestShare(1, 2)) != 1 {
		t.Errorf("ECE %v, bound %v, want 1", at, CCEWithFailures(0, RowWeights{}.LargestShare(1, 2)))
	}
}

// The statement about a whole dataset fails with probability at most δ. Each interval fails with probability α,
// independently. If an interval fails, the prediction may have any confidence and any correctness. Without the
// allowance for failures the statement fails nearly always, so the simulation detects a missing allowance.
func TestDatasetWideCoverage(t *testing.T) {
	const n, alpha, delta = 100, 0.05, 0.1
	trials := 2000
	if testing.Short() {
		trials = 300
	}
	k, err := binomial.FailureQuantile(n, alpha, delta)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(5, 7))
	b := mustBins(t, 10)
	var above, plain int
	for range trials {
		intervals, _ := certified(r, n)
		stated, err := CCE(intervals, b)
		if err != nil {
			t.Fatal(err)
		}
		for i := range intervals {
			if r.Float64() < alpha {
				intervals[i] = Bounded{Lower: 0, Upper: 1, Correct: !intervals[i].Correct}
			}
		}
		attack, err := CCE(intervals, b)
		if err != nil {
			t.Fatal(err)
		}
		if attack.Value > CCEWithFailures(stated.Value, RowWeights{}.LargestShare(k, n)) {
			above++
		}
		if attack.Value > stated.Value {
			plain++
		}
	}
	// The count 'above' is the number of trials in which the statement failed. If the statement fails with probability
	// at most δ, this number exceeds 'limit' with probability at most 10⁻⁶.
	if limit, err := binomial.FailureQuantile(int64(trials), delta, 1e-6); err != nil || int64(above) > limit {
		t.Errorf("the bound failed in %d of %d trials, at most %d may (%v)", above, trials, limit, err)
	}
	if plain < trials*9/10 {
		t.Errorf("the plug-in value failed in only %d of %d trials: failures do not matter here", plain, trials)
	}
}

func TestCCEManyBins(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second and 300 MB")
	}
	r := rand.New(rand.NewPCG(5, 4))
	b := mustBins(t, MaxBins)
	intervals := randomSamples(r, b, 5000)
	w, err := CCE(intervals, b)
	if err != nil {
		t.Fatal(err)
	}
	checkAttained(t, b, intervals, w)
}

func BenchmarkCCE(b *testing.B) {
	for _, m := range []int{15, 100} {
		b.Run(fmt.Sprintf("N=1e6/M=%d", m), func(b *testing.B) {
			r := rand.New(rand.NewPCG(5, 5))
			intervals := make([]Bounded, 1_000_000)
			for i := range intervals {
				x, y := r.Float64(), r.Float64()
				intervals[i] = Bounded{Lower: min(x, y), Upper: max(x, y), Correct: r.Float64() < 0.7}
			}
			bins := mustBins(b, m)
			for b.Loop() {
				if _, err := CCE(intervals, bins); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N), "ms/CCE")
		})
	}
}

func BenchmarkCCE7000(b *testing.B) {
	samples, _ := certified(rand.New(rand.NewPCG(5, 14)), 7000)
	bins := mustBins(b, 15)
	for b.Loop() {
		if _, err := CCE(samples, bins); err != nil {
			b.Fatal(err)
		}
	}
}
