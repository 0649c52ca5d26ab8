package calib

import (
	"fmt"
	"math"
)

// CheckPerturbed returns an error if Sech with bandwidth h cannot have made the scores.
//
// Perturbed scores have a density of at most D = 1/(h·atan sinh(1/h)). The reason is that sech is at most 1, and that Z
// in the density (see Sech) is smallest for an original score of 0 or 1. Therefore:
//   - 0 and 1 do not occur.
//   - Two rows share a score only by chance. The uniform numbers have 53 bits, and float64s in [0, 1] are at most 2⁻⁵³
//     apart, so there are at most n²·2⁻⁵³·(1+D) such pairs on average. CheckPerturbed allows twenty plus twice this
//     number of pairs. Scores that have few values, or that were rounded to some digits or to float32, exceed this
//     limit.
//   - An interval of length w has a probability of at most D·w. With probability at most 10⁻⁹, there is an interval, of
//     any length w, that contains more than the share D·w + 2√(ln(2·10⁹)/2n) of the scores (Dvoretzky, Kiefer &
//     Wolfowitz 1956; Massart 1990).
//
// Unperturbed scores can pass this check too.
func CheckPerturbed(s *Sample, bandwidth float64) error {
	if err := checkBandwidth(bandwidth); err != nil {
		return err
	}
	if s.N() == 0 {
		return errNoRows
	}
	first, _ := unpack(s.packed[0])
	last, _ := unpack(s.packed[len(s.packed)-1])
	for _, end := range []float64{0, 1} {
		if first == end || last == end {
			return fmt.Errorf("some scores are exactly %v, which the sech kernel never produces", end)
		}
	}
	distinct := 1
	for i := 1; i < len(s.packed); i++ {
		if s.packed[i]>>1 != s.packed[i-1]>>1 {
			distinct++
		}
	}
	n := float64(s.N())
	density := 1 / (bandwidth * math.Atan(math.Sinh(1/bandwidth)))
	if n-float64(distinct) > 20+2*n*n*0x1p-53*(1+density) || distinct == 1 && n > 1 {
		return fmt.Errorf("%d rows have %d distinct scores, but the sech kernel repeats none", s.N(), distinct)
	}
	slack := 2 * math.Sqrt(math.Log(2e9)/(2*n))
	for _, w := range []float64{bandwidth, bandwidth / 8, bandwidth / 64} {
		if share := s.crowd(w); share > density*w+slack {
			return fmt.Errorf("%.0f %% of the scores lie within %.3g of each other, and with bandwidth %g the sech kernel leaves "+
				"at most %.0f %% so near", 100*share, w, bandwidth, 100*density*w)
		}
	}
	return nil
}

// The method 'crowd' returns the largest share of the scores that lie in an interval of length w.
func (s *Sample) crowd(w float64) float64 {
	most, from := 0, 0
	for i, p := range s.packed {
		score, _ := unpack(p)
		for first, _ := unpack(s.packed[from]); score-first > w; first, _ = unpack(s.packed[from]) {
			from++
		}
		most = max(most, i-from+1)
	}
	return float64(most) / float64(s.N())
}
