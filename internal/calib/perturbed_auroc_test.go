package calib

import (
	"math"
	"math/rand/v2"
	"testing"
)

// rocLaw draws rows whose AUROC falls when their scores are perturbed.
func rocLaw(n int, seed uint64) (score, label []float64) {
	r := rand.New(rand.NewPCG(seed, 7))
	score, label = make([]float64, n), make([]float64, n)
	for i := range score {
		label[i] = indicator(r.IntN(3) == 0)
		score[i] = (2*r.Float64() + label[i]) / 3
	}
	return score, label
}

// The fields 'After' and 'SD' are the mean and the standard deviation of the AUROCs of the repeats. Repeat 0 uses the
// given seed.
func TestAUROCAfterRepeats(t *testing.T) {
	score, label := rocLaw(300, 1)
	k := Sech{Bandwidth: 0.25, Seed: 5}
	perturbed := make([]float64, len(score))
	for i, s := range score {
		perturbed[i] = k.Perturb(s, 40+i)
	}
	sample, err := NewSample(perturbed, label)
	if err != nil {
		t.Fatal(err)
	}
	want, err := sample.AUROC()
	if err != nil {
		t.Fatal(err)
	}
	one, err := AUROCAfter(score, label, k, 40, 1, 0.05)
	if err != nil || one.After != want || one.SD != 0 {
		t.Errorf("one repeat: %+v, want %v: %v", one, want, err)
	}
	two, err := AUROCAfter(score, label, k, 40, 2, 0.05)
	if err != nil {
		t.Fatal(err)
	}
	// the AUROC of the second repeat is 2·After − want
	if second := 2*two.After - want; math.Abs(two.SD-math.Abs(second-want)/math.Sqrt2) > 1e-12 || two.SD == 0 {
		t.Errorf("two repeats: %+v, the first has %v", two, want)
	}
}

// With probability at most δ, the interval misses the change of the AUROC in the population. With more rows the
// interval is shorter.
func TestAUROCAfterCovers(t *testing.T) {
	const delta, trials, bandwidth = 0.2, 400, 0.25
	score, label := rocLaw(400_000, 99)
	exact, err := AUROCAfter(score, label, Sech{Bandwidth: bandwidth, Seed: 3}, 0, 1, delta)
	if err != nil {
		t.Fatal(err)
	}
	before, err := NewSample(score, label)
	if err != nil {
		t.Fatal(err)
	}
	a, err := before.AUROC()
	if err != nil {
		t.Fatal(err)
	}
	change := exact.After - a
	if change > -0.02 || exact.High-exact.Low > 0.02 || exact.Low > change || exact.High < change {
		t.Errorf("change %v, %+v", change, exact)
	}
	missed := 0
	for seed := range uint64(trials) {
		score, label := rocLaw(100, seed)
		got, err := AUROCAfter(score, label, Sech{Bandwidth: bandwidth, Seed: seed + 1}, 0, 2, delta)
		if err != nil {
			t.Fatal(err)
		}
		missed += int(indicator(got.Low > change || got.High < change))
	}
	if tooMany(missed, trials, delta) {
		t.Errorf("%d of %d intervals miss", missed, trials)
	}
}

func TestMatchLabels(t *testing.T) {
	label := []float64{1, 0, 0, 1, 0, 0, 0}
	counts := map[[2]int]int{}
	for seed := range uint64(5000) {
		pairs := matchLabels(label, seed)
		if len(pairs) != 2 || pairs[0][0] == pairs[1][0] || pairs[0][1] == pairs[1][1] {
			t.Fatalf("%v", pairs)
		}
		for _, p := range pairs {
			if label[p[0]] != 1 || label[p[1]] != 0 {
				t.Fatalf("%v", pairs)
			}
			counts[p]++
		}
	}
	// matchLabels returns two of the ten possible pairs, so each pair occurs with probability 1/5
	for p, n := range counts {
		if n < 850 || n > 1150 {
			t.Errorf("pair %v: %d of 5000", p, n)
		}
	}
}
