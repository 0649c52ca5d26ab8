package experiment

import (
	"math"
	"testing"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/law"
)

// In the worst pair of inputs, each coordinate of the first input is just below a rounding border, and the same
// coordinate of the second input is just above this border. The inputs nearly agree, but their lattice points differ by
// a step in every coordinate. The allowance must cover this pair. It must not be much larger than this pair requires.
func TestAllowanceIsTheWorstPair(t *testing.T) {
	for _, tt := range []struct {
		law  law.Law
		want func(step float64) float64
	}{
		{law.Gaussian, func(step float64) float64 { return step * 3 }},
		{law.Laplace, func(step float64) float64 { return step * 9 }},
	} {
		const dimensions = 9
		n := &noise{Arrangement: channelsLast, channel: func(int) int { return 0 }, data: dataset.Lattice{Low: -1, High: 2}}
		if err := n.prepare(tt.law, 0.5, []float64{0}, []float64{1}); err != nil {
			t.Fatal(err)
		}
		step, _ := n.step.Float64()
		var x, y [dimensions]float32
		for d := range dimensions {
			border := float32((float64(3*d) + 0.5) * step)
			x[d], y[d] = math.Nextafter32(border, -1), math.Nextafter32(border, 2)
			for range 3 { // move x and y further from the border, because the border is rounded to float32
				x[d], y[d] = math.Nextafter32(x[d], -1), math.Nextafter32(y[d], 2)
			}
		}
		var p, q [dimensions]int32
		n.quantise.Quantise(p[:], x[:])
		n.quantise.Quantise(q[:], y[:])
		apart, moved := 0., 0.
		norm := tt.law.Norm()
		for d := range dimensions {
			apart = norm.Add(apart, float64(q[d]-p[d])*step)
			moved = norm.Add(moved, float64(y[d])-float64(x[d]))
		}
		need, got := norm.Length(apart)-norm.Length(moved), n.allowance(dimensions)
		if want := tt.want(step); !(got >= need) || math.Abs(need-want) > 1e-3*want || math.Abs(got-want) > 1e-6*want {
			t.Errorf("%s: allowance %v, the pair needs %v, want about %v", tt.law.Name(), got, need, want)
		}
		n.data.Rounded = true // the numbers in the file are not float32
		if more, want := n.allowance(dimensions)-got, 2*n.data.ReadingRounding(norm, dimensions); math.Abs(more-want) > 1e-9*got {
			t.Errorf("%s: allowance for reading float64 %v, want %v", tt.law.Name(), more, want)
		}
	}
	n := &noise{Arrangement: channelsLast, channel: func(int) int { return 0 }, data: byteLattice(0, 1)}
	if err := n.prepare(law.Gaussian, 0.5, []float64{0}, []float64{1}); err != nil {
		t.Fatal(err)
	}
	if got := n.allowance(9); got != 0 {
		t.Errorf("allowance %v for bytes", got)
	}
}
