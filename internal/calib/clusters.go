package calib

import (
	"fmt"
	"slices"
)

// Clusters divides rows into clusters, such as the rows of one patient, of one site or of one video. The rows of one
// cluster may depend on each other in any way. The clusters are independent draws from one distribution of clusters.
type Clusters struct {
	of    []int // the cluster of each row, from 0
	rank  []int // the position of each row in a random order
	count int
}

// NewClusters makes clusters from lists of rows. Every row from 0 to n−1 must be in exactly one list. The seed
// determines a random order of the rows. From each cluster, KeepOne keeps the row that comes first in this order.
func NewClusters(rows [][]int, seed uint64) Clusters {
	n := 0
	for _, members := range rows {
		n += len(members)
	}
	c := Clusters{of: make([]int, n), rank: make([]int, n), count: len(rows)}
	for k, members := range rows {
		for _, i := range members {
			c.of[i] = k
		}
	}
	r := newStream(seed, streamClusters)
	for i := range n { // Fisher–Yates, inside out: all orders are equally likely
		j := r.uniformBelow(i + 1)
		c.rank[i] = c.rank[j]
		c.rank[j] = i
	}
	return c
}

// KeepOne keeps one of the given rows of each cluster, at random: the row that comes first in a random order of all
// rows. It returns the kept rows in ascending order. If no row of a cluster is given, KeepOne keeps none of its rows.
//
// If all rows are given, the kept pairs (s, y) are independent draws of "a random row of a random cluster":
//
//	P((s, y) ∈ A) = E[(number of rows of C with (s, y) in A) / (number of rows of C)]
//
// Here C is a random cluster. The proof: Let C₁, …, C_K be the clusters. Every order of the rows is equally likely, and
// the order does not depend on the data. So, given the clusters, each row of cluster k is equally likely to be its
// first row J_k. The orders within different clusters are independent, so J₁, …, J_K are independent. C_k and J_k
// determine the pair that cluster k keeps, by the same rule for every k. The pairs (C_k, J_k) are independent and have
// one distribution. Therefore the kept pairs are also independent and have one distribution. Given C_k, the kept pair
// is in A with the probability (number of rows of C_k with (s, y) in A) / (number of rows of C_k).
//
// The proof also covers calls with only some of the rows. The condition is that the caller's choice of rows in a
// cluster depends only on the values of the rows in this cluster. Now let C_k be the given rows of cluster k. This
// cluster alone determines whether at least one of its rows is given. Let L be the number of clusters with at least one
// row given. Conditional on L, these L clusters are independent draws from the distribution of the clusters with at
// least one row given. So the proof above holds for them. Suppose that a bound fails with probability at most δ for
// every number of independent rows. Then it also fails with probability at most δ for the random number of kept rows.
func (c Clusters) KeepOne(rows []int) []int {
	first := make([]int, c.count) // 1 + the kept row of each cluster; 0 if no row of the cluster is kept yet
	for _, i := range rows {
		k := c.of[i]
		if first[k] == 0 || c.rank[i] < c.rank[first[k]-1] {
			first[k] = i + 1
		}
	}
	var kept []int
	for _, next := range first {
		if next > 0 {
			kept = append(kept, next-1)
		}
	}
	slices.Sort(kept)
	return kept
}

// Holdout chooses a share of the clusters at random. It chooses at least one cluster, but not all clusters. It returns
// which rows are in these clusters. A row inside and a row outside never share a cluster, so the rows inside are
// independent of the rows outside.
func (c Clusters) Holdout(share float64, seed uint64) ([]bool, error) {
	if c.count < 2 {
		return nil, fmt.Errorf("%d clusters are too few to hold some out: at least 2 are needed", c.count)
	}
	chosen, err := Holdout(c.count, share, seed)
	if err != nil {
		return nil, err
	}
	held := make([]bool, len(c.of))
	for i, k := range c.of {
		held[i] = chosen[k]
	}
	return held, nil
}

// Within returns the number of clusters that have at least one row i for which rows[i] is true.
func (c Clusters) Within(rows []bool) (count int) {
	seen := make([]bool, c.count)
	for i, in := range rows {
		if in && !seen[c.of[i]] {
			seen[c.of[i]] = true
			count++
		}
	}
	return count
}
