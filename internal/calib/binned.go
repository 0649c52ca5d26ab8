package calib

import (
	"math"
	"math/bits"
)

// A bin is a set of neighbouring scores of a sample; equal scores share a bin. The binned bounds use the sums that the
// struct holds. s̄ and ȳ are the mean score and the mean label of the bin. Two neighbouring bins merge into one bin in
// constant time (Chan, Golub & LeVeque 1983; Pébay 2008), so that all partitions together cost O(n).
type bin struct {
	from, to   int   // positions in the sample
	level      uint8 // number of the coarsest partition with a cut just before this bin
	tie        int   // size of the largest set of equal scores
	n          float64
	score      float64 // s̄
	labels     float64 // Σy
	m2, m3, m4 float64 // Σ(s−s̄)², Σ(s−s̄)³, Σ(s−s̄)⁴
	cross      float64 // Σ(s−s̄)(y−ȳ)
	pairs      float64 // Σ_{i<j} |s_i − s_j|
}

// merge adds r, the bin to the right of b, to b.
func (b *bin) merge(r *bin) {
	n := b.n + r.n
	d := r.score - b.score
	w := b.n * r.n / n
	b.cross += r.cross + d*(r.labels/r.n-b.labels/b.n)*w
	b.pairs += r.pairs + b.n*r.n*d
	b.m4 += r.m4 + d*d*d*d*w*(b.n*b.n-b.n*r.n+r.n*r.n)/(n*n) +
		6*d*d*(b.n*b.n*r.m2+r.n*r.n*b.m2)/(n*n) + 4*d*(b.n*r.m3-r.n*b.m3)/n
	b.m3 += r.m3 + d*d*d*w*(b.n-r.n)/n + 3*d*(b.n*r.m2-r.n*b.m2)/n
	b.m2 += r.m2 + d*d*w
	b.score += d * (r.n / n)
	b.labels += r.labels
	b.n, b.to, b.tie = n, r.to, max(b.tie, r.tie)
}

// newBin returns the bin of the points at the positions from, from+1, …, to−1. eachPartition calls newBin only for the
// bins of the finest partition. Such a bin has few points, or its scores are equal.
func newBin(points []uint64, from, to int, level uint8) bin {
	b := bin{from: from, to: to, level: level, n: float64(to - from)}
	first, _ := unpack(points[from])
	offset, tie := 0.0, 0
	for i := from; i < to; i++ {
		s, y := unpack(points[i])
		offset += s - first
		b.labels += float64(y)
		if i == from || points[i]>>1 != points[i-1]>>1 {
			tie = 0
		}
		tie++
		b.tie = max(b.tie, tie)
	}
	b.score = first + offset/b.n
	if b.tie == to-from {
		b.score = first
		return b
	}
	mean, before := b.labels/b.n, 0.0 // the variable 'before' is Σ_{j<i} (s_j − s̄)
	for i := from; i < to; i++ {
		s, y := unpack(points[i])
		d := s - b.score
		d2 := d * d
		b.m2 += d2
		b.m3 += d2 * d
		b.m4 += d2 * d2
		b.cross += d * (float64(y) - mean)
		b.pairs += float64(i-from)*d - before
		before += d
	}
	return b
}

// partitions returns how many partitions a sample of n points gets. If no scores are equal and n ≥ 4, these partitions
// have 1, 2, 4, … bins, each of at least four points.
func partitions(n int) int { return max(1, bits.Len(uint(n))-2) }

const uncut = math.MaxUint8

// cutLevels returns, for each position of the sample, the number of the coarsest partition that has a cut before this
// position. Partition 0 is undivided. For each j, partition k has a cut at the n·j/2ᵏ-th point. If this point is one of
// several equal scores, the cut moves to the nearer end of their range. Partition k also has a cut before and after
// each set of at least n/2ᵏ equal scores. Cuts depend on the scores alone, and partition k+1 has all cuts of partition
// k.
func (s *Sample) cutLevels() []uint8 {
	n := len(s.packed)
	level := make([]uint8, n+1)
	for i := range level {
		level[i] = uncut
	}
	level[0] = 0
	finest := partitions(n) - 1
	j, all := 1, 1<<finest
	cut := func(j int) int {
		hi, lo := bits.Mul64(uint64(n), uint64(j))
		q, _ := bits.Div64(hi, lo, uint64(all))
		return int(q)
	}
	next := cut(j)
	for a := 0; a < n; {
		b := a + 1
		for b < n && s.packed[b]>>1 == s.packed[a]>>1 {
			b++
		}
		for ; j < all && next < b; next = cut(j) {
			at := a
			if next-a > b-next {
				at = b
			}
			level[at] = min(level[at], uint8(finest-bits.TrailingZeros(uint(j))))
			j++
		}
		if b-a > 1 {
			// Partition k has a cut before and after the set of b−a equal scores if n/2ᵏ ≤ b−a. The code computes the
			// smallest such k.
			if k := bits.Len(uint((n - 1) / (b - a))); k <= finest {
				level[a], level[b] = min(level[a], uint8(k)), min(level[b], uint8(k))
			}
		}
		a = b
	}
	return level
}

// eachPartition calls the function 'visit' with the bins of every partition. It begins with the finest partition and
// ends with the undivided one.
func (s *Sample) eachPartition(visit func(partition int, bins []bin)) {
	level := s.cutLevels()
	n := len(s.packed)
	cuts := 0
	for _, l := range level[:n] {
		if l != uncut {
			cuts++
		}
	}
	bins := make([]bin, 0, cuts)
	for from := 0; from < n; {
		to := from + 1
		for to < n && level[to] == uncut {
			to++
		}
		bins = append(bins, newBin(s.packed, from, to, level[from]))
		from = to
	}
	for k := partitions(n) - 1; k >= 0; k-- {
		merged := bins[:1]
		for i := 1; i < len(bins); i++ {
			if int(bins[i].level) <= k {
				merged = append(merged, bins[i])
			} else {
				merged[len(merged)-1].merge(&bins[i])
			}
		}
		bins = merged
		visit(k, bins)
	}
}

// meanGap returns (1/n)Σ|s_i − ȳ_b|, where b is the bin of point i, and ȳ_b is the mean label of the bin.
func (s *Sample) meanGap(bins []bin) float64 {
	total := 0.0
	for i := range bins {
		b := &bins[i]
		mean, sum := b.labels/b.n, 0.0
		for _, p := range s.packed[b.from:b.to] {
			score, _ := unpack(p)
			sum += math.Abs(score - mean)
		}
		total += sum
	}
	return total / float64(len(s.packed))
}

// brier returns the mean of (s−y)².
func (s *Sample) brier() float64 {
	sum := 0.0
	for _, p := range s.packed {
		score, label := unpack(p)
		d := score - float64(label)
		sum += d * d
	}
	return sum / float64(len(s.packed))
}
