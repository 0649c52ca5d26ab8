package conformal

// sizeWeights returns nondecreasing numbers W(0), …, W(m) with B_W(p) ≥ H(F(Q(p) + ρ)) for all p in [0, 1]. The package
// comment defines B and H. F and Q are the distribution function and the quantile function of the noise's law. Let p be
// the probability that a noisy score of a class at a clean input reaches the threshold. An attack can raise p to at
// most F(Q(p) + ρ). Then the class is in the attacked set with probability at most B_W(p) = E W(N), where N ~ Bin(m, p)
// is the count from m clean draws. So the mean of ΣW(N_y) over clean queries is an unbiased estimate of an upper bound
// on the expected size of sets under attack.
//
// Let q = 1−p, H̃(q) = P(Bin(m′, q) ≥ m′−t′+1) and W(k) = 1 − w(m−k). Because the law is symmetric, the condition
// becomes B_w(q) ≤ H̃(g(q)). This is the condition of the theorem with m′−t′+1 in place of t′. So the linear program
// that finds the theorem's weights also finds w, and the proof for the theorem's weights also holds for w.
//
// For most classes, the probability p that a noisy score reaches the threshold is close to 0. So sizeWeights chooses
// the weights for a population (see the type 'population') in which p is uniformly distributed on [0, 1] for one class
// and is 0 for all other classes.
func (d *Design) sizeWeights(labels int) ([]float64, error) {
	if d.QueryT < 1 {
		all := make([]float64, d.M+1) // every class is in every set
		for k := range all {
			all[k] = 1
		}
		return all, nil
	}
	g := newTarget(d.Attack.law(), d.Shift, d.QueryM, d.QueryM-d.QueryT+1, 1)
	b, _, err := bestWeights(g, int(min(DefaultDegree, d.M)), population{c: 0.5 / float64(labels)})
	if err != nil {
		return nil, err
	}
	w := b.elevated(d.M).weights()
	size := make([]float64, d.M+1)
	for k := range size {
		size[k] = 1 - w[int(d.M)-k]
	}
	return size, nil
}
