package calib

import "math"

// WeightedLower returns a lower bound on the calibration error CE_Q of the population Q that the weights describe:
// CE_Q ≥ Value with probability ≥ 1−δ. It needs no assumption about η_Q.
//
// WeightedLower uses the bets of BettingLower, with X = σ(s)·w·(s−y)/(ΓW) in place of σ(s)·(s−y). X is at least −1.
// Given the earlier pairs, the mean of X is E[σ(s)g(s)]/(ΓW) ≤ CE_Q/(ΓW), where g is the function in WeightedVariation.
// So CE_Q is at least ΓW times the bound that BettingLower computes from X, with probability ≥ 1−δ. The comment of the
// type Weighting explains w, W, Γ and the given weights ŵ. If Γ > 1, w can be any number from ŵ/Γ to Γŵ, and the code
// takes the w that makes X smallest. The wealth grows with X, so this choice can only lower the wealth.
//
// The function σ guesses the sign of s − η_Q(s). The weighted residual of a pair is s−y times the weight of the pair.
// The guess is the sum of the weighted residuals of the earlier pairs in the bin, divided by the root of the sum of
// their squares, and clipped to [−1, 1]. For Γ > 1, σ uses s−y without weights. The reason is that σ must not depend on
// later pairs, but estimated weights may depend on the features of all pairs.
func WeightedLower(s *WeightedSample, delta float64, seed uint64) (LowerBound, error) {
	if err := s.check(delta); err != nil {
		return LowerBound{}, err
	}
	if err := s.checkRatios(); err != nil {
		return LowerBound{}, err
	}
	lower := refutedByBets(s.placeBets(seed), s.N(), delta)
	value := math.Nextafter(lower*s.top(), 0)
	return LowerBound{Value: max(0, min(1, value)), Delta: delta, Sound: true}, nil
}

// pastResiduals holds two sums over the earlier pairs of a bin: the sum of the residuals and the sum of their squares.
type pastResiduals struct{ sum, squares float64 }

// dealEpochs puts the pairs into a random order and divides them into epochs. It returns the positions of the pairs of
// each epoch.
func (s *WeightedSample) dealEpochs(seed uint64) [][]int {
	order := make([]int, s.N())
	for i := range order {
		order[i] = i
	}
	r := newStream(seed, streamBets)
	for i := len(order) - 1; i > 0; i-- {
		j := r.uniformBelow(i + 1)
		order[i], order[j] = order[j], order[i]
	}
	var epochs [][]int
	for _, size := range epochSizes(s.N()) {
		epochs = append(epochs, order[:size])
		order = order[size:]
	}
	return epochs
}

// placeBets computes X for every pair and for each of the signKinds functions σ, and adds it to a grid on [−1, 1]. For
// X and σ, see the comment of WeightedLower. For the grid, see the comment of BettingLower.
func (s *WeightedSample) placeBets(seed uint64) *[signKinds][gridCells + 1]float64 {
	var bets [signKinds][gridCells + 1]float64
	var past [signBins]pastResiduals
	least := 1 / (s.sensitivity * s.sensitivity)
	for _, members := range s.dealEpochs(seed) {
		sigma := s.guessSigns(&past)
		for _, i := range members {
			at, z := s.residual(i)
			for kind := range signKinds {
				x := sigma[kind][at] * z
				if x > 0 {
					x *= least
				}
				spread(&bets[kind], x, 1)
			}
		}
		for _, i := range members {
			at, z := s.residual(i)
			if s.sensitivity > 1 {
				score, label := unpack(s.packed[i])
				z = score - float64(label)
			}
			p := &past[at]
			p.sum += z
			p.squares += z * z
		}
	}
	return &bets
}

// residual returns the bin of pair i, and the residual ŵ(s−y)/W of this pair.
func (s *WeightedSample) residual(i int) (at int, z float64) {
	score, label := unpack(s.packed[i])
	return min(int(score*signBins), signBins-1), s.share[i] * (score - float64(label))
}

// guessSigns computes all functions σ. There are signKinds of them. The result sigma[kind][at] is the value of function
// 'kind' in bin 'at'. The index 'at' is the number of one of the narrowest bins, of which there are signBins.
func (s *WeightedSample) guessSigns(past *[signBins]pastResiduals) (sigma [signKinds][signBins]float64) {
	for kind := range signKinds {
		width := signBins >> kind
		for from := 0; from < signBins; from += width {
			var p pastResiduals
			for _, q := range past[from : from+width] {
				p.sum += q.sum
				p.squares += q.squares
			}
			if p.squares == 0 {
				continue
			}
			guess := max(-1, min(1, p.sum/math.Sqrt(p.squares)))
			for at := from; at < from+width; at++ {
				sigma[kind][at] = guess
			}
		}
	}
	return sigma
}
