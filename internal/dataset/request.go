package dataset

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"io"
	"slices"
)

// Requests returns a dataset for inputs that come one by one in requests. The dataset has two examples, which only show
// the range of the values. All values of the first example equal the argument 'low', and all values of the second
// example equal the argument 'high'. If the argument 'bytes' is true, the values are bytes divided by 255.
func Requests(shape []int, bytes bool, low, high float32) (*Dataset, error) {
	if err := checkExample(shape); err != nil {
		return nil, fmt.Errorf("an input of shape %v %w", shape, err)
	}
	d := &Dataset{format: "requests", shape: slices.Clone(shape), labels: []int{0, 0}, bytes: bytes, labelAt: func(i int) string { return fmt.Sprint(i) }}
	d.values = func(i int, dst []float32) error {
		for j := range dst {
			dst[j] = [2]float32{low, high}[i]
		}
		return nil
	}
	return d, nil
}

// Holds reports whether all values lie on l. A lattice of kind NoLattice holds all finite values.
func (l Lattice) Holds(values []float32) bool {
	if l.Kind == ByteLattice { // the same answer as the code below gives, but faster
		for _, x := range values {
			if _, ok := byteRounding(x); !ok {
				return false
			}
		}
		return len(values) > 0
	}
	var r recogniser
	r.add(values)
	return r.on(l)
}

// maxRequestPixels is the maximum number of pixels of an image in a request. Without this limit, a small file could
// claim much memory.
const maxRequestPixels = 1 << 24

// The variable 'decoding' is a lock: the program decodes the images of all requests one after another. This limits the
// memory.
var decoding = make(chan struct{}, 1)

// DecodeImage decodes, resizes and crops an image in the same way as Open does with an image of a folder. It returns
// the image's values in the given shape [C,H,W].
func DecodeImage(ctx context.Context, data []byte, shape []int, opt Options) ([]float32, error) {
	select {
	case decoding <- struct{}{}:
		defer func() { <-decoding }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	config, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	if config.Width <= 0 || config.Height <= 0 || config.Width > maxRequestPixels/config.Height {
		return nil, fmt.Errorf("%d×%d pixels; at most %d are read", config.Width, config.Height, maxRequestPixels)
	}
	f := encoded{name: "image", open: func() (io.ReadCloser, int64, error) {
		return io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
	}}
	d, err := assemble(ctx, "image", []encoded{f}, opt)
	if err != nil {
		return nil, err
	}
	if len(shape) != 3 {
		return nil, errors.New("the model takes no images")
	}
	d.FitChannels(shape[0])
	if !slices.Equal(d.shape, shape) {
		return nil, fmt.Errorf("the image has the shape %v, the model takes %v", d.shape, shape)
	}
	e, err := d.Example(0)
	return e.Values, err
}
