package grad

import (
	"math"
	"slices"

	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// resize is the rule of interpolations. Along each axis the result is a matrix times the input. So the gradient with
// respect to the input is the transposed matrix times the gradient with respect to the result. The matrices hold the
// weights of nearest-neighbour, linear or cubic interpolation.
func resize(t *tape, n *node) error {
	x, xs, ys := n.input(0), t.shape(n.input(0)), t.shape(n.output())
	r, err := t.resizing(n)
	if err != nil {
		return err
	}
	t.give(n, 0, func() string {
		d := n.d[0]
		for i := len(xs) - 1; i >= 0; i-- {
			if xs[i] == ys[i] {
				continue
			}
			var weights []float64
			for j := range ys[i] {
				weights = append(weights, r.row(j, xs[i], ys[i])...)
			}
			d = t.productAlong(x, d, len(xs), i, t.numbers(x, []int64{ys[i], xs[i]}, weights...))
		}
		return d
	})
	return nil
}

// resizing describes how a node interpolates.
type resizing struct {
	mode, coordinates, nearest string
	cubic                      float64 // the coefficient a of the cubic weights
	exclude                    bool    // drop the weights of elements beyond the ends of the input
}

// The method 'resizing' reads from a node's attributes how the node interpolates.
func (t *tape) resizing(n *node) (r resizing, err error) {
	r = resizing{
		mode: n.text("mode", "nearest"), coordinates: n.text("coordinate_transformation_mode", "half_pixel"),
		nearest: n.text("nearest_mode", "round_prefer_floor"), cubic: n.float("cubic_coeff_a", -.75), exclude: n.integer("exclude_outside", 0) != 0,
	}
	if n.GetOpType() == "Upsample" || t.opset < 11 {
		r.coordinates, r.nearest = "asymmetric", "floor"
	}
	modes := []string{"nearest", "linear", "cubic"}
	transformations := []string{"half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"}
	if !slices.Contains(modes, r.mode) || !slices.Contains(transformations, r.coordinates) || n.integer("antialias", 0) != 0 ||
		n.text("keep_aspect_ratio_policy", "stretch") != "stretch" {
		return r, n.refuse("no gradient is known for mode '%s', '%s'", r.mode, r.coordinates)
	}
	if !t.wholeScales(n) {
		return r, n.refuse("no gradient is known for scales other than the quotients of the sizes")
	}
	return r, nil
}

// wholeScales reports whether each of the node's scales equals the size of the result divided by the size of the input.
// It returns true if the node has no scales.
func (t *tape) wholeScales(n *node) bool {
	k := 2
	if n.GetOpType() == "Upsample" || t.opset < 11 {
		k = 1
	}
	v := n.input(k)
	if v == "" || product(t.shape(v)) == 0 {
		return true // the node gives sizes and no scales
	}
	c := t.constants[v]
	if c == nil || c.GetDataLocation() == onnxpb.TensorProto_EXTERNAL {
		return false
	}
	scales, xs, ys := float32sOf(c), t.shape(n.input(0)), t.shape(n.output())
	for i, s := range scales {
		if len(scales) != len(xs) || math.Abs(s*float64(xs[i])-float64(ys[i])) > 1e-4 {
			return false
		}
	}
	return true
}

// Element j of the result is a weighted sum of the input's elements. The method 'row' returns the weights of this
// sum.
func (r resizing) row(j, in, out int64) []float64 {
	at := r.source(float64(j), float64(in), float64(out))
	weights := make([]float64, in)
	add := func(i int64, w float64) {
		if r.exclude && (i < 0 || i >= in) {
			return
		}
		weights[min(max(i, 0), in-1)] += w
	}
	floor := math.Floor(at)
	rest := at - floor
	switch i := int64(floor); r.mode {
	case "nearest":
		add(int64(r.round(at)), 1)
	case "linear":
		add(i, 1-rest)
		add(i+1, rest)
	case "cubic":
		for k := int64(-1); k <= 2; k++ {
			add(i+k, r.cubicWeight(math.Abs(rest-float64(k))))
		}
	}
	total := 0.
	for _, w := range weights {
		total += w
	}
	for i := range weights {
		weights[i] /= total
	}
	return weights
}

// The method 'source' returns the coordinate in the input that corresponds to coordinate j of the result.
func (r resizing) source(j, in, out float64) float64 {
	switch {
	case r.coordinates == "asymmetric":
		return j * in / out
	case r.coordinates == "align_corners" && out > 1:
		return j * (in - 1) / (out - 1)
	case r.coordinates == "align_corners", r.coordinates == "pytorch_half_pixel" && out == 1:
		return 0
	}
	return (j+.5)*in/out - .5
}

func (r resizing) round(at float64) float64 {
	switch r.nearest {
	case "floor":
		return math.Floor(at)
	case "ceil":
		return math.Ceil(at)
	case "round_prefer_ceil":
		return math.Floor(at + .5)
	}
	return math.Ceil(at - .5)
}

// cubicWeight returns the value of the cubic convolution kernel of Keys (1981) at the distance x.
func (r resizing) cubicWeight(x float64) float64 {
	a := r.cubic
	switch {
	case x <= 1:
		return (a+2)*x*x*x - (a+3)*x*x + 1
	case x < 2:
		return a*x*x*x - 5*a*x*x + 8*a*x - 4*a
	}
	return 0
}
