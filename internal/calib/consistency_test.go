package calib

import (
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"
)

// coverageOf returns the exact probability that all accuracies lie in the bands. It assumes that every example is
// correct with a probability equal to its confidence, independently of the others. It enumerates all outcomes.
func coverageOf(p *Predictions, bins []Bin, bands [][2]float64) float64 {
	total := 0.0
	for outcome := range 1 << p.N() {
		probability := 1.0
		right := make([]float64, len(bins))
		for i, c := range p.Confidence {
			correct := outcome >> i & 1
			probability *= 1 - c + float64(correct)*(2*c-1)
			right[UpperClosed.bin(c, len(bins))] += float64(correct)
		}
		inside := true
		for k, b := range bins {
			if share := right[k] / float64(b.N); b.N > 0 && (share < bands[k][0] || share > bands[k][1]) {
				inside = false
			}
		}
		if inside {
			total += probability
		}
	}
	return total
}

// The probability that all accuracies lie in their bands is exactly Level if the confidences in a bin are equal, and at
// least Level if they differ. The bands are not wider than necessary: if another β gives a smaller Level, that Level is
// below the argument 'level'.
func TestConsistencyBandsHoldTogether(t *testing.T) {
	for name, confidence := range map[string][]float64{
		"equal":   {0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.4, 0.4, 0.4, 0.4, 0.4, 0.9, 0.9, 0.9, 0.9},
		"sure":    {0, 0, 0, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5},
		"unequal": {0.01, 0.05, 0.1, 0.15, 0.2, 0.24, 0.3, 0.35, 0.49, 0.55, 0.6, 0.62, 0.9, 0.95, 0.99},
	} {
		p := &Predictions{Confidence: confidence, Correct: make([]bool, len(confidence))}
		bins, err := EqualWidth(p, 4, UpperClosed)
		if err != nil {
			t.Fatal(err)
		}
		for _, level := range []float64{0.5, 0.8, 0.9, 0.95, 0.99} {
			c, err := ConsistencyBands(p, bins, level)
			if err != nil {
				t.Fatal(err)
			}
			exact := coverageOf(p, bins, c.Bands)
			if c.Level < level || exact < c.Level-1e-12 || name != "unequal" && exact > c.Level+1e-12 {
				t.Errorf("%s at %v: level %v, exactly %v", name, level, c.Level, exact)
			}
			// No β on a grid gives bands that are narrower than the result and still reach the level.
			for beta := 1e-6; beta < 1; beta *= 1.01 {
				if narrow := consistencyAt(bins, beta); narrow.Level < c.Level-1e-12 && narrow.Level >= level {
					t.Errorf("%s at %v: bands of level %v would do, not %v", name, level, narrow.Level, c.Level)
					break
				}
			}
		}
	}
}

// Each tail is at most β/2, and a narrower band would have a tail above β/2. The tails come from gonum.
func TestConsistencyTails(t *testing.T) {
	for _, mean := range []float64{0.03, 0.3, 0.5, 0.97} {
		const n = 40
		p := &Predictions{Confidence: slices.Repeat([]float64{mean}, n), Correct: make([]bool, n)}
		bins, _ := EqualWidth(p, 1, UpperClosed)
		law := distuv.Binomial{N: n, P: mean}
		for _, beta := range []float64{0.4, 0.1, 0.01, 1e-4} {
			c := consistencyAt(bins, beta)
			first, last := math.Round(n*c.Bands[0][0]), math.Round(n*c.Bands[0][1])
			below, above := law.CDF(first-1), 1-law.CDF(last)
			if !(below <= beta/2 && above <= beta/2) ||
				first < math.Floor(n*mean) && law.CDF(first) <= beta/2 || last > math.Ceil(n*mean) && 1-law.CDF(last-1) <= beta/2 {
				t.Errorf("mean %v, β %v: [%v, %v] with tails %v and %v", mean, beta, first, last, below, above)
			}
			same(t, "level", c.Level, 1-below-above, 1e-9)
			for right := range n + 1 {
				for i := range p.Correct {
					p.Correct[i] = i < right
				}
				counted, _ := EqualWidth(p, 1, UpperClosed)
				outside := float64(right) < first || float64(right) > last
				if got := consistencyAt(counted, beta).Outside; (got == 1) != outside {
					t.Errorf("%d of %d right: %d bins outside [%v, %v]", right, n, got, first, last)
				}
			}
		}
	}
}

func TestConsistencyBandsOutside(t *testing.T) {
	p := &Predictions{Confidence: make([]float64, 100), Correct: make([]bool, 100)}
	for i := range p.Confidence {
		p.Confidence[i] = []float64{0.25, 0.75}[i%2]
		p.Correct[i] = i%8 < 4 // both accuracies are about 0.5
	}
	bins, _ := EqualWidth(p, 10, UpperClosed)
	c, err := ConsistencyBands(p, bins, 0.95)
	if err != nil || c.Outside != 2 {
		t.Errorf("%d outside, %v", c.Outside, err)
	}
	if b := c.Bands[0]; b != [2]float64{0, 1} {
		t.Errorf("empty bin: %v", b)
	}
	// Two independent bins of 50 examples: each tail of a band is near (1−√0.95)/2.
	for k, mean := range map[int]float64{2: 0.25, 7: 0.75} {
		half := 2.236 * math.Sqrt(mean*(1-mean)/50)
		if b := c.Bands[k]; math.Abs(b[0]-(mean-half)) > 0.03 || math.Abs(b[1]-(mean+half)) > 0.03 {
			t.Errorf("bin %d: %v, want about %v ± %v", k, b, mean, half)
		}
	}
	p.Weight = p.Confidence
	if _, err := ConsistencyBands(p, bins, 0.95); err == nil {
		t.Error("weights accepted")
	}
}
