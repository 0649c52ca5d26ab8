package calib

import (
	"math"
	"math/rand/v2"
	"testing"
)

// boundMethod returns the method with this name.
func boundMethod(t *testing.T, name string) *BoundMethod {
	t.Helper()
	for i := range BoundMethods {
		if BoundMethods[i].Name == name {
			return &BoundMethods[i]
		}
	}
	t.Fatalf("no method %s", name)
	return nil
}

// valueAt interpolates between the points around s.
func valueAt(points []FitPoint, s float64) float64 {
	for k, p := range points {
		switch {
		case p.Score == s:
			return p.Eta
		case k > 0 && points[k-1].Score < s && s < p.Score:
			a := points[k-1]
			return a.Eta + (p.Eta-a.Eta)*(s-a.Score)/(p.Score-a.Score)
		}
	}
	return math.NaN()
}

// The term 'gap' of a binned bound is the mean of |s − η̂(s)| over the scores s, where η̂ is the estimate of Fit.
func TestFitOfBins(t *testing.T) {
	for _, c := range []struct {
		method string
		n      int
		lines  bool
	}{{"binned-tv", 900, false}, {"binned-bentkus", 900, false}, {"binned-lipschitz", 900, false}, {"binned-lipschitz", 12_000, true}} {
		s := draw(c.n, 5, (*rand.Rand).Float64, func(s float64) float64 { return s * s })
		p := BoundParams{CrossFit: CrossFit{Delta: 0.05, Folds: 2, Seed: 1}, Variation: 1, Bandwidth: 0.02}
		m := boundMethod(t, c.method)
		b, err := m.Compute(s, p)
		if err != nil {
			t.Fatal(err)
		}
		if lines := b.Chosen.Get("order") == 2; lines != c.lines {
			t.Errorf("%s, n = %d: lines %v", c.method, c.n, lines)
		}
		points := m.Fit(s, p, b)
		sum := 0.0
		for _, packed := range s.packed {
			score, _ := unpack(packed)
			sum += math.Abs(score - valueAt(points, score))
		}
		if want := b.Terms.Get("gap"); math.Abs(sum/float64(c.n)-want) > 1e-9 {
			t.Errorf("%s: mean distance %v, want %v", c.method, sum/float64(c.n), want)
		}
		if want := int(b.Chosen.Get("bins")); len(points) != 2*want {
			t.Errorf("%s: %d points for %d bins", c.method, len(points), want)
		}
	}
}

// The estimates of BinnedBest and BinnedQuadratic are the bin means of the partition that each bound uses.
func TestFitOfBest(t *testing.T) {
	s := draw(2000, 5, (*rand.Rand).Float64, uniform01)
	p := BoundParams{CrossFit: CrossFit{Delta: 0.05, Folds: 2, Seed: 1}, Variation: 1}
	for _, name := range []string{"binned-best", "binned-quadratic"} {
		m := boundMethod(t, name)
		b, err := m.Compute(s, p)
		if err != nil {
			t.Fatal(err)
		}
		points, bins := m.Fit(s, p, b), int(b.Chosen.Get("bins"))
		if len(points) != 2*bins {
			t.Fatalf("%s: %d points for %d bins", name, len(points), bins)
		}
		labels := 0.0
		for k := range bins {
			for i := k * 2000 / bins; i < (k+1)*2000/bins; i++ {
				labels += points[2*k].Eta - float64(s.packed[i]&1)
			}
		}
		if math.Abs(labels) > 1e-9 {
			t.Errorf("%s: the bin means miss %v labels", name, labels)
		}
	}
}

// The term 'gap' of Lipschitz is Σ n_j|s̄_j − η̂_j|/n over the buckets j. Bucket j has n_j scores with the mean s̄_j,
// and the estimate in it is η̂_j.
func TestFitOfBuckets(t *testing.T) {
	s := draw(3000, 5, (*rand.Rand).Float64, func(s float64) float64 { return s * s })
	p := BoundParams{CrossFit: CrossFit{Delta: 0.05, Folds: 2, Seed: 1}, Bandwidth: 0.1}
	m := boundMethod(t, "lipschitz")
	b, err := m.Compute(s, p)
	if err != nil {
		t.Fatal(err)
	}
	points := m.Fit(s, p, b)
	total, k, sum := 0.0, 0, 0.0
	for _, packed := range s.packed {
		score, _ := unpack(packed)
		for points[k+1].Score < score {
			total, sum, k = total+math.Abs(sum), 0, k+2
		}
		sum += score - points[k].Eta
	}
	total += math.Abs(sum)
	if want := b.Terms.Get("gap"); math.Abs(total/3000-want) > 1e-9 {
		t.Errorf("gap %v, want %v", total/3000, want)
	}
	if buckets := b.Chosen.Get("buckets"); math.Abs(float64(len(points)/2)-buckets) > 1 {
		t.Errorf("%d points for %v buckets", len(points), buckets)
	}
}

// The estimate of a method with folds is the mean of the estimates of the folds.
func TestFitOfFolds(t *testing.T) {
	const n = 400
	score, label := make([]float64, n), make([]float64, n)
	r := rand.New(rand.NewPCG(4, 4))
	for i := range score {
		score[i] = r.Float64()
		label[i] = indicator(r.Float64() < score[i]*score[i])
	}
	s, err := NewSample(score, label)
	if err != nil {
		t.Fatal(err)
	}
	p := BoundParams{CrossFit: CrossFit{Delta: 0.05, Folds: 4, Seed: 9}, Variation: 1, Bandwidth: 0.25}
	assigned := assignFolds(n, p.Folds, p.Seed)
	for _, name := range []string{"tv", "nw"} {
		m := boundMethod(t, name)
		b, err := m.Compute(s, p)
		if err != nil {
			t.Fatal(err)
		}
		points := m.Fit(s, p, b)
		if len(points) != n {
			t.Fatalf("%s: %d points", name, len(points))
		}
		// The loop begins at point 37, because some folds of the method "nw" have no estimate near the score 0.
		for k := 37; k < n; k += 37 {
			at, want := points[k].Score, 0.0
			for fold := range p.Folds {
				train := s.split(assigned, uint8(fold)).train
				if name == "tv" {
					want += stepAt(denoise(train, p.noiseLimit(len(train))), at) / float64(p.Folds)
				} else {
					want += smoothAt(newSmoother(train, p.Bandwidth, Repaired), at) / float64(p.Folds)
				}
			}
			if math.Abs(points[k].Eta-want) > 1e-9 {
				t.Errorf("%s at %v: %v, want %v", name, at, points[k].Eta, want)
			}
		}
	}
}

// stepAt returns the value at the nearest training score at or below s, or the value at the first training score if s
// is below all of them.
func stepAt(d denoised, s float64) float64 {
	below := 0
	for i, p := range d.train {
		if t, _ := unpack(p); t <= s {
			below = i + 1
		}
	}
	for _, piece := range d.path {
		if piece.end >= float64(below) {
			return piece.value
		}
	}
	return math.NaN()
}

// smoothAt returns the Nadaraya–Watson estimate at s.
func smoothAt(sm smoother, s float64) float64 {
	var sum, labels float64
	for _, p := range sm.train {
		t, y := unpack(p)
		k := max(0, 1-(t-s)*(t-s)/(sm.h*sm.h))
		sum, labels = sum+k, labels+k*float64(y)
	}
	return labels / sum
}

// In each bin, the estimate is the weighted mean of the labels. A bin without weight has no estimate.
func TestFitOfWeights(t *testing.T) {
	score := []float64{0.1, 0.2, 0.3, 0.4, 0.6, 0.7, 0.8, 0.9}
	label := []float64{1, 0, 0, 0, 1, 1, 0, 1}
	weight := []float64{2, 1, 1, 0, 0, 0, 0, 0}
	w, err := NewWeightedSample(score, label, weight, Weighting{Bound: 2, Sensitivity: 1})
	if err != nil {
		t.Fatal(err)
	}
	m := boundMethod(t, "binned-tv-weighted")
	points := m.Fit(nil, BoundParams{Weighted: w}, Bound{Chosen: Terms{{"bins", 2}}})
	want := []FitPoint{{0.1, 0.5}, {0.4, 0.5}}
	if len(points) != 2 || points[0] != want[0] || points[1] != want[1] {
		t.Errorf("%v, want %v", points, want)
	}
}
