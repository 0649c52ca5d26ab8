package calib

import (
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// MonteCarloTest returns a p-value of the hypothesis of CalibrationTest, and the number of simulations. The hypothesis
// says: given all confidences c_i, every example is correct with probability c_i, independently of the others. Under
// the hypothesis the outcomes can be simulated. So the p-value is exact for every number of examples: P(p ≤ α) ≤ α,
// with equality if α is a multiple of 1/(draws+1) and no two statistics are equal (Barnard 1963). CalibrationTest has
// the same guarantee, but far less power.
//
// The first statistic is |Z| of Spiegelhalter. The other statistics also find calibration errors that are positive for
// some confidences and negative for others (Neyman 1937). The sorted confidences are cut into 2^k ≤ 256 bins of about
// equal count, each with at least four examples. If some confidences are equal, there can be more bins or fewer (see
// cutLevels). For a bin b, let D_b = Σ(correct_i − c_i) and V_b = Σc_i(1−c_i), and let V = ΣV_b. The bin lies at t_b =
// (Σ_{a<b}V_a + V_b/2)/V. There is one statistic for J = 1, and one for each J = 2, 4, …, 64 that is at most 2^k/2:
//
//	T_J = Σ_{j<J} d_j²,  d_j = Σ_b φ_j(t_b)D_b/√V,  φ_0 = 1, φ_j(t) = √2·cos(πjt).
//
// Under the hypothesis, the d_j are nearly uncorrelated and have variance near 1. So noise alone gives T_J an
// expectation near J, and T_J − J estimates the part of the squared calibration error that the first J functions can
// represent. This is the statistic of T-Cal (Lee et al. 2023) with cosines in place of J bins. Cosines have more power
// than bins against smooth errors.
//
// Each statistic ranks all data sets, simulated and observed; the data set with the largest value has rank 1. The data
// sets are ordered by their smallest rank. Suppose that two data sets have the same smallest rank. For each of them,
// take the statistic that lies the most standard deviations above its mean. The data set for which this distance is
// larger comes first. The p-value is the share of data sets that come before the observed data set or tie with it. Each
// data set is thus judged by its most extreme statistic. The p-value is valid nevertheless, because under the
// hypothesis the data sets are exchangeable.
//
// The argument 'wanted' is the number of simulations. If it is 0, the number depends on the number of examples. More
// simulations allow smaller p-values: the smallest one is 1/(draws+1).
//
// Choose the seed and the number of simulations before you see a p-value. The p-value is NaN if the predictions have
// weights or there are no examples.
func MonteCarloTest(p *Predictions, seed uint64, wanted int) (pValue float64, draws int) {
	if p.Weight != nil || p.N() == 0 {
		return math.NaN(), 0
	}
	null := newNullModel(p)
	if draws = wanted; draws == 0 {
		draws = min(mostDraws, max(leastDraws, drawnLabels/p.N()))
	}
	statistics := make([]nullStatistics, draws+1)
	statistics[0] = null.observed()
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wg.Go(func() {
			sums := make([]float64, len(null.expected))
			for j := 1 + w; j <= draws; j += workers {
				statistics[j] = null.simulate(newStream(seed+mix64(uint64(j)), streamNull), sums)
			}
		})
	}
	wg.Wait()
	return jointRank(statistics), draws
}

// The default number of simulations is drawnLabels divided by the number of examples, but at least leastDraws and at
// most mostDraws.
const (
	leastDraws  = 99
	mostDraws   = 999
	drawnLabels = 200_000_000
)

// nullLevels limits the number of bins of MonteCarloTest. If all confidences differ, there are at most 2^(nullLevels−1)
// = 2⁸ bins.
const nullLevels = 9

// mostWaves is the largest number J of functions φ_j in a statistic T_J of MonteCarloTest.
const mostWaves = 64

// nullStatistics holds |Z| and T_J for J = 1, 2, 4, …, mostWaves. A T_J that MonteCarloTest does not use is 0.
type nullStatistics [8]float64

// nullModel holds sorted confidences and the numbers that the statistics of MonteCarloTest need.
type nullModel struct {
	sample    *Sample
	threshold []uint64  // c_i·2⁵³
	slope     []float64 // 1 − 2c_i
	bin       []int32   // index of the bin that holds c_i
	// The next three slices hold a value for each bin.
	expected []float64   // Σc
	variance []float64   // V_b
	waves    [][]float64 // φ_j(t_b)/√V for all j
	// Spiegelhalter's Z is (Σ slope·correct − offset)/scale.
	offset, scale float64
}

func newNullModel(p *Predictions) *nullModel {
	packed := make([]uint64, p.N())
	for i, c := range p.Confidence {
		packed[i] = math.Float64bits(c+0)<<1 | uint64(indicator(p.Correct[i]))
	}
	sortRadix(packed)
	m := &nullModel{sample: &Sample{packed}}
	finest := min(nullLevels, partitions(p.N()))
	level, squares := m.sample.cutLevels(), 0.0
	for i, x := range packed {
		c, _ := unpack(x)
		if int(level[i]) < finest {
			m.expected, m.variance = append(m.expected, 0), append(m.variance, 0)
		}
		b := len(m.expected) - 1
		slope := 1 - 2*c
		m.bin = append(m.bin, int32(b))
		m.threshold = append(m.threshold, uint64(c*(1<<53)))
		m.slope = append(m.slope, slope)
		m.expected[b] += c
		m.variance[b] += c * (1 - c)
		m.offset += slope * c
		squares += slope * slope * c * (1 - c)
	}
	m.scale = math.Sqrt(squares)
	m.addWaves(min(mostWaves, max(1, 1<<(finest-1)/2)))
	return m
}

// addWaves computes φ_j(t_b)/√V for all j below the argument 'functions'. If V is 0, all values are 0.
func (m *nullModel) addWaves(functions int) {
	total := 0.0
	for _, v := range m.variance {
		total += v
	}
	before := 0.0
	for _, v := range m.variance {
		wave := make([]float64, functions)
		if total > 0 {
			wave[0] = 1 / math.Sqrt(total)
			for j := 1; j < functions; j++ {
				wave[j] = math.Sqrt2 * math.Cos(math.Pi*float64(j)*(before+v/2)/total) / math.Sqrt(total)
			}
		}
		m.waves = append(m.waves, wave)
		before += v
	}
}

// The method 'observed' returns the statistics of the data. If an outcome has probability 0, all statistics are
// infinite. Without this rule the sums of a bin could hide the outcome. Simulated outcomes never have probability 0.
func (m *nullModel) observed() nullStatistics {
	sums, slopes := make([]float64, len(m.expected)), 0.0
	for i, x := range m.sample.packed {
		c, correct := unpack(x)
		if c == 1-float64(correct) {
			return nullStatistics(slices.Repeat([]float64{math.Inf(1)}, len(nullStatistics{})))
		}
		if correct == 1 {
			sums[m.bin[i]]++
			slopes += m.slope[i]
		}
	}
	return m.statistics(sums, slopes)
}

// simulate draws outcomes under the hypothesis and returns their statistics. It overwrites the argument 'sums'.
func (m *nullModel) simulate(r *splitMix, sums []float64) nullStatistics {
	clear(sums)
	slopes := 0.0
	for i, t := range m.threshold {
		if r.next()>>11 < t {
			sums[m.bin[i]]++
			slopes += m.slope[i]
		}
	}
	return m.statistics(sums, slopes)
}

// The method 'statistics' returns the statistics of MonteCarloTest, where 'sums' holds the number of correct examples
// of each bin, and 'slopes' is Σ(1−2c_i)·correct_i.
func (m *nullModel) statistics(sums []float64, slopes float64) (t nullStatistics) {
	if m.scale > 0 {
		t[0] = math.Abs(slopes-m.offset) / m.scale
	}
	var d [mostWaves]float64
	components := d[:len(m.waves[0])]
	for b, wave := range m.waves {
		floats.AddScaled(components, sums[b]-m.expected[b], wave)
	}
	total := 0.0
	for j, x := range components {
		total += x * x
		if j&(j+1) == 0 {
			t[1+bits.Len(uint(j))] = total
		}
	}
	return t
}

// extremity says how extreme a data set is among all data sets.
type extremity struct {
	// Each statistic ranks the data set: its rank is the number of data sets whose statistic is at least as large. The
	// field 'rank' is the smallest of these ranks.
	rank int
	// The field 'score' is the largest of the values (statistic − mean)/(standard deviation). The mean and the standard
	// deviation of a statistic are over all data sets.
	score float64
}

// jointRank returns the p-value of the data set 0 among all data sets: the share of data sets that are at least as
// extreme as data set 0. The smallest rank of a data set under the eight statistics decides how extreme the data set
// is. Between data sets with the same smallest rank, the score (see extremity) decides. Without the score, each of the
// eight statistics could give the rank 1 to a different data set. Then up to eight data sets would tie, and p could not
// be small if there are few data sets. The rank and the score treat all data sets alike.
func jointRank(statistics []nullStatistics) float64 {
	all := make([]extremity, len(statistics))
	for j := range all {
		all[j] = extremity{len(statistics), math.Inf(-1)}
	}
	sorted := make([]float64, len(statistics))
	for which := range statistics[0] {
		for j, t := range statistics {
			sorted[j] = t[which]
		}
		slices.Sort(sorted) // sorted, so that the rounding of the mean does not depend on the order of the data sets
		mean, deviation := stat.MeanStdDev(sorted, nil)
		for j, t := range statistics {
			below, _ := slices.BinarySearch(sorted, t[which])
			all[j].rank = min(all[j].rank, len(sorted)-below)
			if deviation > 0 && !math.IsInf(mean, 0) {
				all[j].score = max(all[j].score, (t[which]-mean)/deviation)
			}
		}
	}
	atLeast := 0
	for _, e := range all {
		if e.rank < all[0].rank || e.rank == all[0].rank && e.score >= all[0].score {
			atLeast++
		}
	}
	return float64(atLeast) / float64(len(statistics))
}
