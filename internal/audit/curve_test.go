package audit

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rscert/rscert/internal/binomial"
)

func TestCurveByHand(t *testing.T) {
	inf := math.Inf(1)
	outcomes := []Outcome{{-1, 0, 0}, {.5, 1, 1}, {1, 2, .7}, {.2, inf, inf}}
	levels := Levels{Alpha: .001, Gamma: .002, Delta: .05}
	points := Curve(outcomes, []float64{0, .5, 1, 3}, levels)
	for i, want := range []struct {
		certified, unbroken, images int64
	}{{3, 3, 3}, {2, 3, 3}, {1, 2, 1}, {0, 1, 1}} {
		p := points[i]
		n := float64(len(outcomes))
		dkw := math.Sqrt(math.Log(20) / 8)
		for name, pair := range map[string][2]float64{
			"certified": {p.Certified, float64(want.certified) / n},
			"unbroken":  {p.Unbroken, float64(want.unbroken) / n},
			"images":    {p.Images, float64(want.images) / n},
			"lower":     {p.Lower, math.Max(0, binomial.LowerBound(want.certified, 4, .05)-.001)},
			"upper":     {p.Upper, math.Min(1, binomial.UpperBound(want.unbroken, 4, .05)+.002)},
			"lower all": {p.LowerAll, math.Max(0, float64(want.certified)/n-dkw-.001)},
			"upper all": {p.UpperAll, math.Min(1, float64(want.unbroken)/n+dkw+.002)},
		} {
			if math.Abs(pair[0]-pair[1]) > 1e-12 {
				t.Errorf("radius %v: %s is %v, want %v", p.Radius, name, pair[0], pair[1])
			}
		}
	}
}

// In a simulation with a fixed seed, each bound misses the robust accuracy of the population in at most 5 % of the
// trials. At least one bound must miss it: otherwise the bounds are far too wide for this test. The true robust radius
// is uniform on (0, 1). With probability 1−α the certified radius is the true radius, and otherwise it is too large.
// With probability 1−γ the attack's break is at the true radius. Otherwise the break is nearer than the true radius,
// and therefore wrong.
func TestCurveCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 0))
	const trials, n = 500, 60
	levels := Levels{Alpha: .02, Gamma: .03, Delta: .05}
	radii := []float64{.1, .3, .5, .7, .9}
	missed := map[string]int{}
	for range trials {
		outcomes := make([]Outcome, n)
		for i := range outcomes {
			radius := r.Float64()
			outcomes[i] = Outcome{radius, radius, radius}
			if r.Float64() < levels.Alpha {
				outcomes[i].Certified = 1
			}
			if r.Float64() < levels.Gamma {
				outcomes[i].Broken = 0
			}
		}
		points := Curve(outcomes, radii, levels)
		all := map[string]bool{}
		for _, p := range points {
			robust := 1 - p.Radius
			all["lower"] = all["lower"] || p.LowerAll > robust
			all["upper"] = all["upper"] || p.UpperAll < robust
		}
		if middle := points[2]; middle.Lower > .5 {
			missed["lower at .5"]++
		} else if middle.Upper < .5 {
			missed["upper at .5"]++
		}
		for side, bad := range all {
			if bad {
				missed[side]++
			}
		}
	}
	for side, k := range missed {
		if k > trials*5/100 {
			t.Errorf("%s: missed in %d of %d trials", side, k, trials)
		}
	}
	if len(missed) == 0 {
		t.Error("no bound ever missed: the bounds are far too wide for this test")
	}
}
