package calib

import "math"

// FitPoint is a point of an estimate η̂ of the calibration function η(s) = P(y=1|s).
type FitPoint struct{ Score, Eta float64 }

// Fit returns points of the estimate η̂ of the calibration function. To compute the bound b, the method compares each
// score with η̂ at this score. The bound b must come from Compute with the same sample and parameters. The points have
// ascending scores. If η̂ is a constant or a line in each bin, Fit returns a point at the first score and a point at
// the last score of each bin. If the method uses folds, Fit takes up to fitPoints (1001) scores of the sample, spaced
// evenly by rank. At each of these scores, it returns the mean of the folds' estimates. It omits scores at which no
// fold has an estimate. The bound is guaranteed, but nothing is promised about η̂.
func (m BoundMethod) Fit(s *Sample, p BoundParams, b Bound) []FitPoint {
	p.Delta = b.Delta
	return m.fit(s, p, b)
}

const fitPoints = 1001

// fitGrid returns up to fitPoints scores of the sample. It packs them like the points of Sample.packed, and every label
// is 0.
func (s *Sample) fitGrid() []uint64 {
	var grid []uint64
	count := min(fitPoints, s.N())
	for k := range count {
		p := s.packed[k*(s.N()-1)/max(1, count-1)] &^ 1
		if len(grid) == 0 || grid[len(grid)-1] != p {
			grid = append(grid, p)
		}
	}
	return grid
}

// chosenPartition finds the partition that the bound b uses, and passes its bins to the function 'visit'. The number of
// bins is enough to find the partition: partition k+1 has all cuts of partition k, so two partitions with the same
// number of bins are equal.
func (s *Sample) chosenPartition(b Bound, visit func(bins []bin)) {
	done := false
	s.eachPartition(func(_ int, bins []bin) {
		if !done && len(bins) == int(b.Chosen.Get("bins")) {
			done = true
			visit(bins)
		}
	})
}

// fitLines returns the lines of the second-order bound of BinnedLipschitz: one line in each bin, through the bin's mean
// score and mean label.
func fitLines(s *Sample, _ BoundParams, b Bound) (points []FitPoint) {
	s.chosenPartition(b, func(bins []bin) {
		for i := range bins {
			slope := 0.0
			if !bins[i].narrow() {
				slope = bins[i].cross / bins[i].m2
			}
			points = s.appendEnds(points, &bins[i], slope)
		}
	})
	return points
}

// appendEnds adds a point at the first score and a point at the last score of a bin. Both lie on the line that has the
// given slope and passes through the bin's mean score and mean label.
func (s *Sample) appendEnds(points []FitPoint, b *bin, slope float64) []FitPoint {
	first, _ := unpack(s.packed[b.from])
	last, _ := unpack(s.packed[b.to-1])
	mean := b.labels / b.n
	points = append(points, FitPoint{first, mean + slope*(first-b.score)})
	if last > first {
		points = append(points, FitPoint{last, mean + slope*(last-b.score)})
	}
	return points
}

// fitMeans returns the bin means of a binned method.
func fitMeans(s *Sample, _ BoundParams, b Bound) (points []FitPoint) {
	s.chosenPartition(b, func(bins []bin) {
		for i := range bins {
			points = s.appendEnds(points, &bins[i], 0)
		}
	})
	return points
}

// fitSmooth returns the estimate of BinnedLipschitz: its lines if the bound is of second order, otherwise its bin
// means.
func fitSmooth(s *Sample, p BoundParams, b Bound) []FitPoint {
	if b.Chosen.Get("order") == 2 {
		return fitLines(s, p, b)
	}
	return fitMeans(s, p, b)
}

// fitWeighted returns the weighted bin means of WeightedVariation. It omits bins without weight.
func fitWeighted(_ *Sample, p BoundParams, b Bound) (points []FitPoint) {
	s := p.Weighted
	s.chosenPartition(b, func(bins []bin) {
		for i := range bins {
			weight, labels := 0.0, 0.0
			for k := bins[i].from; k < bins[i].to; k++ {
				_, label := unpack(s.packed[k])
				weight += s.share[k]
				labels += s.share[k] * float64(label)
			}
			if weight > 0 {
				weighted := bins[i]
				weighted.labels = labels / weight * weighted.n
				points = s.appendEnds(points, &weighted, 0)
			}
		}
	})
	return points
}

// fitBuckets returns the mean label of each bucket of the method Lipschitz.
func fitBuckets(s *Sample, _ BoundParams, b Bound) (points []FitPoint) {
	width := fineCells / int(b.Chosen.Get("buckets"))
	offset := int(math.Round(b.Chosen.Get("shift") * float64(width)))
	bucket := func(p uint64) int {
		score, _ := unpack(p)
		return (min(int(score*fineCells), fineCells-1) + offset) / width
	}
	for from := 0; from < s.N(); {
		to, labels := from, 0.0
		for ; to < s.N() && bucket(s.packed[to]) == bucket(s.packed[from]); to++ {
			labels += float64(s.packed[to] & 1)
		}
		points = s.appendEnds(points, &bin{from: from, to: to, n: float64(to - from), labels: labels}, 0)
		from = to
	}
	return points
}

// foldMeans returns the mean of the folds' estimates at the scores of the grid. The function 'estimate' calls the
// function 'visit' for each score of the grid at which the fold has an estimate.
func foldMeans(
	s *Sample, cf CrossFit, estimate func(part split, grid []uint64, visit func(i int, eta float64)),
) (points []FitPoint) {
	grid := s.fitGrid()
	sum, count := make([]float64, len(grid)), make([]float64, len(grid))
	assigned := assignFolds(s.N(), cf.Folds, cf.Seed)
	for k := range cf.Folds {
		estimate(s.split(assigned, uint8(k)), grid, func(i int, eta float64) {
			sum[i] += eta
			count[i]++
		})
	}
	for i, p := range grid {
		if count[i] > 0 {
			score, _ := unpack(p)
			points = append(points, FitPoint{score, sum[i] / count[i]})
		}
	}
	return points
}

// fitDenoised returns the estimate of TotalVariation: the denoised labels, averaged over the folds.
func fitDenoised(s *Sample, p BoundParams, _ Bound) []FitPoint {
	return foldMeans(s, p.CrossFit, func(part split, grid []uint64, visit func(int, float64)) {
		values := denoise(part.train, p.noiseLimit(len(part.train))).evaluator()
		for i, at := range grid {
			visit(i, values.value(at))
		}
	})
}

// fitSmoother returns the fit function of NadarayaWatson. The fit function returns the mean of the folds' smoothers.
func fitSmoother(kind NadarayaWatsonKind) func(*Sample, BoundParams, Bound) []FitPoint {
	return func(s *Sample, p BoundParams, _ Bound) []FitPoint {
		return foldMeans(s, p.CrossFit, func(part split, grid []uint64, visit func(int, float64)) {
			sm := newSmoother(part.train, p.Bandwidth, kind)
			if kind == Printed {
				newTempered(sm).each(grid, func(i int, at printedPoint) { visit(i, at.estimate) })
				return
			}
			kappa := sm.chooseKappa(len(part.valid), p.partShare())
			sm.each(grid, func(i int, w *window) {
				if sm.uses(grid[i], w, kappa) {
					visit(i, w.estimate())
				}
			})
		})
	}
}
