package calib

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Over many seeds, each row of a cluster is kept about equally often, and the choices in two clusters are independent.
// The same is true if only some rows are given.
func TestKeepOneUniform(t *testing.T) {
	clusters := [][]int{{0, 4}, {1, 3, 5}, {2}}
	const seeds = 60_000
	for _, test := range []struct {
		given []int
		pairs map[[2]int]float64 // pair of rows that the first two clusters keep → its probability
	}{
		{[]int{0, 1, 2, 3, 4, 5}, map[[2]int]float64{{0, 1}: 1. / 6, {0, 3}: 1. / 6, {0, 5}: 1. / 6, {4, 1}: 1. / 6, {4, 3}: 1. / 6, {4, 5}: 1. / 6}},
		{[]int{0, 2, 3, 4, 5}, map[[2]int]float64{{0, 3}: .25, {0, 5}: .25, {4, 3}: .25, {4, 5}: .25}},
	} {
		count := map[[2]int]int{}
		for seed := range uint64(seeds) {
			kept := NewClusters(clusters, seed).KeepOne(test.given)
			if len(kept) != 3 || !slices.IsSorted(kept) {
				t.Fatalf("kept %v", kept)
			}
			var pair [2]int
			for _, i := range kept {
				for k := range pair {
					if slices.Contains(clusters[k], i) {
						pair[k] = i
					}
				}
			}
			count[pair]++
		}
		for pair, p := range test.pairs {
			sd := math.Sqrt(p * (1 - p) / seeds)
			if got := float64(count[pair]) / seeds; math.Abs(got-p) > 5*sd {
				t.Errorf("given %v: rows %v are kept with frequency %.4f, want %.4f", test.given, pair, got, p)
			}
		}
		if len(count) != len(test.pairs) {
			t.Errorf("given %v: kept %v", test.given, count)
		}
	}
	c := NewClusters(clusters, 1)
	if got := c.KeepOne([]int{4, 2}); !slices.Equal(got, []int{2, 4}) {
		t.Errorf("the cluster without a given row keeps a row: %v", got)
	}
	if order := slices.Sorted(slices.Values(c.rank)); !slices.Equal(order, []int{0, 1, 2, 3, 4, 5}) {
		t.Errorf("the order of the rows is %v", c.rank)
	}
}

// Holdout holds out whole clusters. The argument 'share' determines their number, and the seed decides which clusters
// they are.
func TestClusterHoldout(t *testing.T) {
	var clusters [][]int
	n := 0
	for k := range 20 {
		var rows []int
		for range k + 1 {
			rows = append(rows, n)
			n++
		}
		clusters = append(clusters, rows)
	}
	chosen := map[int]bool{}
	for seed := range uint64(50) {
		c := NewClusters(clusters, seed)
		held, err := c.Holdout(0.3, seed)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Within(held); got != 6 {
			t.Fatalf("%d of 20 clusters are held out, want 6", got)
		}
		for k, rows := range clusters {
			for _, i := range rows {
				if held[i] != held[rows[0]] {
					t.Fatalf("cluster %d is on both sides", k)
				}
			}
			chosen[k] = chosen[k] || held[rows[0]]
		}
	}
	if len(chosen) != 20 || slices.Contains([]bool{chosen[0], chosen[19]}, false) {
		t.Errorf("some clusters are never held out: %v", chosen)
	}
	if _, err := NewClusters([][]int{{0, 1, 2}}, 1).Holdout(0.5, 1); err == nil {
		t.Error("one cluster is divided")
	}
}

// clusterLaw draws a cluster: its scores and its labels.
type clusterLaw struct {
	name  string
	error float64 // the calibration error of a random row of a random cluster is in [error, error+slack]
	slack float64
	draw  func(r *rand.Rand) (score, label []float64)
}

var clusterLaws = []clusterLaw{
	// All rows of a cluster have one label, and nearly the same score. The calibration error of the scores is at most
	// 0.002.
	{"copies", 0, 0.002, func(r *rand.Rand) (score, label []float64) {
		s := r.Float64()
		y := 0.0
		if r.Float64() < s {
			y = 1
		}
		for range 50 {
			score = append(score, clamp01(s+0.002*(2*r.Float64()-1)))
			label = append(label, y)
		}
		return score, label
	}},
	// Half of the clusters have 99 rows and are calibrated. The other clusters have one row, and their error is 0.4. So
	// the error is 0.2 for a random row of a random cluster, and 0.004 for a random row of the data set.
	{"sizes", 0.2, 0, func(r *rand.Rand) (score, label []float64) {
		n, s, eta := 1, 0.8, 0.4
		if r.IntN(2) == 0 {
			n, s, eta = 99, 0.2, 0.2
		}
		for range n {
			y := 0.0
			if r.Float64() < eta {
				y = 1
			}
			score, label = append(score, s), append(label, y)
		}
		return score, label
	}},
}

// The bounds from one row of each cluster hold with the probability they state. The bounds from all rows do not.
func TestClusterCoverage(t *testing.T) {
	const trials, delta = 200, 0.05
	for l, law := range clusterLaws {
		r := rand.New(rand.NewPCG(29, uint64(l)))
		var wrong, wrongByRow int
		for trial := range trials {
			var score, label []float64
			var rows [][]int
			for range 200 {
				s, y := law.draw(r)
				var members []int
				for i := range s {
					members = append(members, len(score)+i)
				}
				score, label, rows = append(score, s...), append(label, y...), append(rows, members)
			}
			all := make([]int, len(score))
			for i := range all {
				all[i] = i
			}
			kept := NewClusters(rows, uint64(trial)).KeepOne(all)
			if missesError(t, law, pick(score, kept), pick(label, kept), delta) {
				wrong++
			}
			if missesError(t, law, score, label, delta) {
				wrongByRow++
			}
		}
		if tooMany(wrong, trials, 2*delta) {
			t.Errorf("%s: %d of %d pairs of bounds from one row of each cluster are wrong", law.name, wrong, trials)
		}
		if wrongByRow < trials/2 {
			t.Errorf("%s: only %d of %d pairs of bounds from all rows are wrong, so the law tests nothing", law.name, wrongByRow, trials)
		}
		t.Logf("%s: wrong %d with clusters, %d without, of %d", law.name, wrong, wrongByRow, trials)
	}
}

// missesError reports whether the lower or the upper bound is false.
func missesError(t *testing.T, law clusterLaw, score, label []float64, delta float64) bool {
	t.Helper()
	s, err := NewSample(score, label)
	if err != nil {
		t.Fatal(err)
	}
	upper, err := BinnedVariation(s, delta, 1)
	if err != nil {
		t.Fatal(err)
	}
	lower, err := BettingLower(s, delta, 1)
	if err != nil {
		t.Fatal(err)
	}
	return lower.Value > law.error+law.slack || upper.Value < law.error
}

func pick(x []float64, rows []int) (out []float64) {
	for _, i := range rows {
		out = append(out, x[i])
	}
	return out
}
