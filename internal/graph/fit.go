package graph

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/choice"
)

// Layout is the order of the values of a flat image.
type Layout int

// PyTorch uses CHW. TensorFlow uses HWC.
const (
	CHW Layout = iota // channel by channel
	HWC               // pixel by pixel, with the channels of a pixel adjacent
)

// Layouts lists all layouts.
var Layouts = choice.Of("layout", CHW, HWC).Describe(func(l Layout) string {
	return [...]string{CHW: "channel, height, width", HWC: "height, width, channel"}[l]
})

func (l Layout) String() string {
	if l == HWC {
		return "hwc"
	}
	return "chw"
}

// Arrangement maps a data example onto a model's input.
type Arrangement struct {
	Perm     []int // value j of the input is value Perm[j] of the example; nil leaves the order unchanged
	Channels int   // number of colour channels; 1 if the input has no channel dimension
	Layout   Layout
	size     int
}

// Arrange copies the example's values to the argument 'in', in the order of the model's input.
func (a Arrangement) Arrange(in, example []float32) {
	if a.Perm == nil {
		copy(in, example)
		return
	}
	for j, i := range a.Perm {
		in[j] = example[i]
	}
}

// Reindexed returns an arrangement for images [C,H,W] of the given shape. Where the arrangement 'a' copies the value at
// the coordinates p of an image, the new arrangement copies the value at the coordinates from(p).
func (a Arrangement) Reindexed(shape []int, from func(c, row, column int) (int, int, int)) Arrangement {
	h, w := shape[1], shape[2]
	perm := make([]int, a.size)
	for j := range perm {
		i := j
		if a.Perm != nil {
			i = a.Perm[j]
		}
		c, row, column := from(i/(h*w), i/w%h, i%w)
		perm[j] = (c*h+row)*w + column
	}
	a.Perm = perm
	return a
}

// Channel returns the colour channel of value j of the input.
func (a Arrangement) Channel(j int) int {
	if a.Layout == HWC {
		return j % a.Channels
	}
	return j / (a.size / a.Channels)
}

// Fit maps an example of the given shape onto a model's input, and returns the shape of one sample of the input. The
// argument 'dims' holds the dimensions of a sample, fixed or free. Images are [C,H,W], [H,W,C] or [H,W]. If either the
// example or the input is flat and the other is an image, the argument 'layout' gives the order of the flat values.
func Fit(dims []Dim, example []int, layout Layout) (sample []int, a Arrangement, ok bool) {
	size := Product(example)
	if size == 0 {
		return nil, a, false
	}
	a = Arrangement{Channels: 1, size: size}
	if len(example) == 2 {
		example = []int{1, example[0], example[1]}
	}
	sizes := SizesOf(dims)
	flat := Product(sizes) == size && len(WithoutOnes(sizes)) <= 1 || len(dims) == 1 && dims[0].Size < 0
	if flat && sizes == nil {
		sizes = []int{size}
	}
	switch {
	case len(example) == 3:
		if sample, ok := a.fitImage(dims, example); ok {
			return sample, a, true
		}
		if flat {
			from, pixels := layoutOf(example), size/a.Channels
			a.Layout, a.Perm = layout, reorder(from, layout, a.Channels, pixels)
			return sizes, a, true
		}
	case len(example) == 1 && len(sizes) == 3 && !flat && Product(sizes) == size:
		a.Layout = layoutOf(sizes)
		a.Channels = channels(sizes, a.Layout)
		a.Perm = reorder(layout, a.Layout, a.Channels, size/a.Channels)
		return sizes, a, true
	case len(example) == 1 && (flat || Product(sizes) == size):
		return sizes, a, true
	default:
		if sample, ok := fill(dims, example); ok {
			return sample, a, true
		}
	}
	// An example also fits if its shape and the sample's shape are equal after dimensions of size 1 are removed, as for
	// [1,28,28] and [28,28].
	if sizes != nil && slices.Equal(WithoutOnes(sizes), WithoutOnes(example)) {
		return sizes, a, true
	}
	return nil, a, false
}

// fitImage maps an image onto a model's input for images. If the input's dimensions fit the image's own layout,
// fitImage keeps this layout.
func (a *Arrangement) fitImage(dims []Dim, image []int) (sample []int, ok bool) {
	from := layoutOf(image)
	c := channels(image, from)
	h, w := image[1], image[2]
	if from == HWC {
		h, w = image[0], image[1]
	}
	a.Channels = c
	shapes := [][]int{CHW: {c, h, w}, HWC: {h, w, c}}
	for _, to := range []Layout{from, 1 - from} {
		if sample, ok := fill(dims, shapes[to]); ok {
			a.Layout, a.Perm = to, reorder(from, to, c, h*w)
			return sample, true
		}
	}
	return nil, false
}

// LayoutOf returns the layout of an input with the given sizes. The result 'ok' reports whether the input is an image
// of several channels.
func LayoutOf(sizes []int) (l Layout, ok bool) {
	if len(sizes) != 3 || len(WithoutOnes(sizes)) < 2 {
		return CHW, false
	}
	l = layoutOf(sizes)
	return l, channels(sizes, l) > 1
}

// layoutOf derives the layout from an image's shape. The layout is [H,W,C] if the last size is a number of colours (1,
// 3 or 4) and the first size is not. Otherwise it is [C,H,W].
func layoutOf(sizes []int) Layout {
	colours := func(n int) bool { return n == 1 || n == 3 || n == 4 }
	if !colours(sizes[0]) && colours(sizes[2]) {
		return HWC
	}
	return CHW
}

// channels returns the number of colour channels of an image.
func channels(sizes []int, l Layout) int {
	if l == HWC {
		return sizes[2]
	}
	return sizes[0]
}

// The function 'reorder' returns the permutation from one layout to another, for n pixels of c channels. It returns nil
// if the order does not change.
func reorder(from, to Layout, c, n int) []int {
	if from == to || c == 1 {
		return nil
	}
	if from == HWC {
		c, n = n, c
	}
	perm := make([]int, 0, c*n)
	for i := range n {
		for j := range c {
			perm = append(perm, j*n+i)
		}
	}
	return perm
}

// The function 'fill' returns a copy of the argument 'sizes' if there is one size per dimension and each size fits its
// dimension. Otherwise it returns false. A fixed dimension fits only its own size. A free dimension fits every size.
func fill(dims []Dim, sizes []int) ([]int, bool) {
	if len(dims) != len(sizes) {
		return nil, false
	}
	for i, d := range dims {
		if d.Size >= 0 && d.Size != sizes[i] {
			return nil, false
		}
	}
	return slices.Clone(sizes), true
}

// SizesOf returns the sizes of the dimensions, or nil if any dimension is free.
func SizesOf(dims []Dim) []int {
	sizes := make([]int, len(dims))
	for i, d := range dims {
		if d.Size < 0 {
			return nil
		}
		sizes[i] = d.Size
	}
	return sizes
}

// WithoutOnes returns the sizes other than 1.
func WithoutOnes(sizes []int) []int {
	return slices.DeleteFunc(slices.Clone(sizes), func(n int) bool { return n == 1 })
}

// maxSample limits the number of values in a sample. A shape with more values indicates a mistake.
const maxSample = 1 << 28

// Product returns the number of values in a tensor of the given sizes, or 0 if this number is unknown or above
// maxSample.
func Product(sizes []int) int {
	if sizes == nil {
		return 0
	}
	n := 1
	for _, s := range sizes {
		if s < 1 || s > maxSample/n {
			return 0
		}
		n *= s
	}
	return n
}

func shapeString(sizes []int) string {
	return "[" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(sizes)), ","), "[]") + "]"
}
