package calib

import (
	"math"
	"runtime"
	"slices"
	"sync"
)

// MonteCarloTest returns a p-value of the hypothesis of CalibrationTest, and the number of simulations. The hypothesis
// says: given all confidences c_i, every example is correct with probability c_i, independently of the others. Under
// the hypothesis the outcomes can be simulated. So the p-value is exact for every number of examples: P(p ≤ α) ≤ α,
// with equality if α is a multiple of 1/(draws+1) and no two statistics are equal (Barnard 1963). CalibrationTest has
// the same guarantee, but far less power.
//
// There are two statistics. The first is |Z| of Spiegelhalter. The second finds errors that change sign. It uses
// partitions of the sorted confidences into B = 1, 2, 4, …, 256 bins of at least four examples. With the sums D_b =
// Σ(correct_i − c_i) and V_b = Σc_i(1−c_i) over the n_b examples of a bin, the second statistic is
//
//	max_B  Σ_b (D_b² − V_b)/n_b / √(2Σ_b (V_b/n_b)²).
//
// The mean of (D_b² − V_b)/n_b² is 0 for a calibrated classifier, and otherwise close to the squared gap of the bin
// (compare Lee et al. 2023). The division makes the partitions comparable. Each data set, simulated or observed, has a
// rank by each statistic among all data sets. The p-value is the share of data sets whose smaller rank is at most the
// smaller rank of the observed data. This p-value allows for the choice between the two statistics, because under the
// hypothesis the data sets are exchangeable.
//
// Choose the seed before you see a p-value. The p-value is NaN if the predictions have weights or there are no examples.
func MonteCarloTest(p *Predictions, seed uint64) (pValue float64, draws int) {
	if p.Weight != nil || p.N() == 0 {
		return math.NaN(), 0
	}
	null := newNullModel(p)
	draws = min(mostDraws, max(leastDraws, drawnLabels/p.N()))
	statistics := make([][2]float64, draws+1)
	statistics[0] = null.observed()
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wg.Go(func() {
			sums := make([]float64, len(null.count))
			for j := 1 + w; j <= draws; j += workers {
				statistics[j] = null.simulate(newStream(seed+mix64(uint64(j)), streamNull), sums)
			}
		})
	}
	wg.Wait()
	return jointRank(statistics), draws
}

// The number of simulations is drawnLabels divided by the number of examples, within two limits.
const (
	leastDraws  = 99
	mostDraws   = 999
	drawnLabels = 200_000_000
)

// nullLevels is the number of partitions of MonteCarloTest: 1, 2, 4, …, 256 bins.
const nullLevels = 9

// nullModel holds sorted confidences and the numbers that the statistics of MonteCarloTest need.
type nullModel struct {
	sample    *Sample
	threshold []uint64  // c_i·2⁵³
	slope     []float64 // 1 − 2c_i
	bin       []int32   // number of the bin in the finest partition
	// The next four slices hold a value for each bin of the finest partition.
	level    []uint8
	count    []float64 // n_b
	expected []float64 // Σc
	variance []float64 // V_b
	// Spiegelhalter's Z is (Σ slope·correct − offset)/scale.
	offset, scale float64
	partitions    int
}

func newNullModel(p *Predictions) *nullModel {
	packed := make([]uint64, p.N())
	for i, c := range p.Confidence {
		packed[i] = math.Float64bits(c+0)<<1 | uint64(indicator(p.Correct[i]))
	}
	sortRadix(packed)
	m := &nullModel{sample: &Sample{packed}, partitions: min(nullLevels, partitions(p.N()))}
	level, squares := m.sample.cutLevels(), 0.0
	for i, x := range packed {
		c, _ := unpack(x)
		if int(level[i]) < m.partitions {
			m.level = append(m.level, level[i])
			m.count, m.expected, m.variance = append(m.count, 0), append(m.expected, 0), append(m.variance, 0)
		}
		b := len(m.level) - 1
		slope := 1 - 2*c
		m.bin = append(m.bin, int32(b))
		m.threshold = append(m.threshold, uint64(c*(1<<53)))
		m.slope = append(m.slope, slope)
		m.count[b]++
		m.expected[b] += c
		m.variance[b] += c * (1 - c)
		m.offset += slope * c
		squares += slope * slope * c * (1 - c)
	}
	m.scale = math.Sqrt(squares)
	return m
}

// observed returns the statistics of the data. They are infinite if an outcome has probability 0, because the sums of a
// bin can hide such outcomes. No simulation has them.
func (m *nullModel) observed() [2]float64 {
	sums, slopes := make([]float64, len(m.count)), 0.0
	for i, x := range m.sample.packed {
		c, correct := unpack(x)
		if c == 1-float64(correct) {
			return [2]float64{math.Inf(1), math.Inf(1)}
		}
		if correct == 1 {
			sums[m.bin[i]]++
			slopes += m.slope[i]
		}
	}
	return m.statistics(sums, slopes)
}

// simulate returns the statistics of outcomes that the hypothesis generates. It overwrites sums.
func (m *nullModel) simulate(r *splitMix, sums []float64) [2]float64 {
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

// statistics returns the two statistics of MonteCarloTest, where sums holds the number of correct examples of each bin,
// and slopes is Σ(1−2c_i)·correct_i.
func (m *nullModel) statistics(sums []float64, slopes float64) [2]float64 {
	var z float64
	if m.scale > 0 {
		z = math.Abs(slopes-m.offset) / m.scale
	}
	most := math.Inf(-1)
	for k := range m.partitions {
		total, square := 0.0, 0.0
		for b := 0; b < len(sums); {
			d, v, n := sums[b]-m.expected[b], m.variance[b], m.count[b]
			for b++; b < len(sums) && int(m.level[b]) > k; b++ {
				d += sums[b] - m.expected[b]
				v += m.variance[b]
				n += m.count[b]
			}
			total += (d*d - v) / n
			square += 2 * v * v / (n * n)
		}
		if square > 0 {
			most = max(most, total/math.Sqrt(square))
		} else if total > 0 {
			most = math.Inf(1) // an outcome of probability 0
		}
	}
	return [2]float64{z, most}
}

// jointRank returns the p-value of the data set 0 among all data sets: the share of data sets whose smaller rank is at
// most the smaller rank of the data set 0. The rank of a data set by a statistic is the number of data sets whose
// statistic is at least as large.
func jointRank(statistics [][2]float64) float64 {
	smaller := make([]int, len(statistics))
	for which := range 2 {
		sorted := make([]float64, len(statistics))
		for j, t := range statistics {
			sorted[j] = t[which]
		}
		slices.Sort(sorted)
		for j, t := range statistics {
			below, _ := slices.BinarySearch(sorted, t[which])
			if rank := len(sorted) - below; which == 0 || rank < smaller[j] {
				smaller[j] = rank
			}
		}
	}
	atMost := 0
	for _, rank := range smaller {
		if rank <= smaller[0] {
			atMost++
		}
	}
	return float64(atMost) / float64(len(statistics))
}
