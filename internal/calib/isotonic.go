package calib

// Isotonic fits a nondecreasing function of the confidence to the values of Correct, by weighted least squares (pool
// adjacent violators, Ayer et al. 1955). It returns the confidences where a constant piece of the function begins or
// ends, in ascending order, and the values of the function at these confidences.
func (r *Ranked) Isotonic() (confidence, accuracy []float64) {
	type pool struct{ from, to, right, all float64 }
	var pools []pool
	r.steps(func(s step) {
		next := pool{s.confidence, s.confidence, s.right, s.right + s.wrong}
		for k := len(pools) - 1; k >= 0 && pools[k].right*next.all >= next.right*pools[k].all; k-- {
			next = pool{pools[k].from, next.to, pools[k].right + next.right, pools[k].all + next.all}
			pools = pools[:k]
		}
		pools = append(pools, next)
	})
	for _, p := range pools {
		confidence, accuracy = append(confidence, p.from), append(accuracy, p.right/p.all)
		if p.to > p.from {
			confidence, accuracy = append(confidence, p.to), append(accuracy, p.right/p.all)
		}
	}
	return confidence, accuracy
}
