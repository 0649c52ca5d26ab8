package certify

// bonferroniClasses bounds the margin by Algorithm 3 of Moutaouakil 2024. It bounds the probability of each of the m
// classes at level 1−α/m: p_A from below, and p_j from above for every other class j.
//
// The Clopper–Pearson upper bound grows with the count, so the largest upper bound belongs to the runner-up. So the
// method is bonferroni with 2α/m in place of α. It is sound because m ≥ 2, so that 2α/m ≤ α. It is looser than
// bonferroni if m > 2.
//
// A stopping rule plans its checkpoints before it sees votes. It then assumes m = 2. This assumption affects the
// positions of the checkpoints, but not the certificates' validity.
func (c *VoteCertifier) bonferroniClasses(o observation) marginBound {
	o.alpha *= 2 / float64(max(2, o.classes))
	return c.bonferroni(o)
}
