package dataset

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"

	"github.com/rscert/rscert/internal/param"
)

// rscert resizes and crops images of bytes exactly as torchvision resizes and crops Pillow images. The results are
// bytes again. So rscert certifies the model at the image that torchvision gives to the model in training and in tests,
// and this image lies on the lattice of bytes.

func (o Options) resizes() bool { return !o.Resize.IsZero() || !o.Crop.IsZero() }

// The method 'resizing' describes Resize and Crop, for messages.
func (o Options) resizing() string {
	text := ""
	if !o.Resize.IsZero() {
		text = fmt.Sprintf("resized to %s (%s)", o.Resize, o.Interpolation)
	}
	if !o.Crop.IsZero() {
		if text != "" {
			text += " and "
		}
		text += fmt.Sprintf("cropped to %s", o.Crop)
	}
	return text
}

// The method 'resized' returns the size after Resize. If Resize is one number, this number is the shorter side. The
// longer side follows in proportion, rounded down.
func (o Options) resized(h, w int) (int, int) {
	switch r := o.Resize; {
	case r.IsZero():
		return h, w
	case r.W > 0:
		return r.H, r.W
	case h <= w:
		return r.H, r.H * w / h
	default:
		return r.H * h / w, r.H
	}
}

// finalSize returns the size after Resize and Crop.
func (o Options) finalSize(h, w int) (int, int, error) {
	h, w = o.resized(h, w)
	if h > maxPixels/w {
		return 0, 0, fmt.Errorf("resized to %d×%d pixels; at most %d are read", w, h, maxPixels)
	}
	crop := o.Crop
	if crop.IsZero() {
		return h, w, nil
	}
	if crop.W == 0 {
		crop.W = crop.H
	}
	if crop.H > h || crop.W > w {
		return 0, 0, param.Errorf("%s %s: the image has only %d×%d pixels; %s makes it larger", param.Crop, o.Crop, w, h, param.Resize)
	}
	return crop.H, crop.W, nil
}

// apply resizes and crops an image of values k/255, [C,h,w]. It writes the result to dst.
func (o Options) apply(dst, values []float32, channels, h, w int) error {
	finalH, finalW, err := o.finalSize(h, w)
	if err != nil {
		return err
	}
	height, width := o.resized(h, w)
	// torchvision rounds half to even, as Python does.
	top, left := int(math.RoundToEven(float64(height-finalH)/2)), int(math.RoundToEven(float64(width-finalW)/2))
	plane := make([]uint8, h*w)
	for c := range channels {
		for i := range plane {
			plane[i] = clamp(int(math.RoundToEven(255 * float64(values[c*h*w+i]))))
		}
		out := resizePlane(plane, h, w, height, width, o.Interpolation)
		for y := range finalH {
			for x := range finalW {
				dst[(c*finalH+y)*finalW+x] = unit[out[(y+top)*width+x+left]]
			}
		}
	}
	return nil
}

// resize applies Resize and Crop to a dataset whose images have one size.
func (d *Dataset) resize(opt Options) error {
	if !opt.resizes() {
		return nil
	}
	if len(d.shape) != 3 || !d.bytes {
		return param.Errorf("%s and %s are for images of bytes, not for examples of shape %v in %s", param.Resize, param.Crop, d.shape, d.format)
	}
	channels, h, w := d.shape[0], d.shape[1], d.shape[2]
	finalH, finalW, err := opt.finalSize(h, w)
	if err != nil {
		return err
	}
	if err := checkExample([]int{channels, finalH, finalW}); err != nil {
		return err
	}
	read := d.values
	d.shape = []int{channels, finalH, finalW}
	d.values = func(i int, dst []float32) error {
		values := make([]float32, channels*h*w)
		if err := read(i, values); err != nil {
			return err
		}
		return opt.apply(dst, values, channels, h, w)
	}
	d.addNote("%s", opt.resizing())
	return nil
}

// FitChannels converts images of bytes between one and three channels to fit the model. To make three channels from
// one, it repeats the grey channel. It also does this for image files with 16 bits per channel. To make one channel
// from three, it computes Pillow's L = (19595·R + 38470·G + 7471·B)/65536, rounded. It reports whether it converted the
// images.
func (d *Dataset) FitChannels(channels int) bool {
	if len(d.shape) != 3 {
		return false
	}
	repeats, mixes := d.shape[0] == 1 && channels == 3, d.shape[0] == 3 && channels == 1
	if !(repeats && (d.bytes || d.pictures) || mixes && d.bytes) {
		return false
	}
	read, from, plane := d.values, d.shape[0], d.shape[1]*d.shape[2]
	d.shape = []int{channels, d.shape[1], d.shape[2]}
	sum := sha256.Sum256(fmt.Appendf(nil, "rscert channels 1\n%d %s\n", channels, d.sum))
	d.sum = hex.EncodeToString(sum[:])
	if from == 1 {
		d.addNote("grey repeated for the model's 3 channels")
		d.values = func(i int, dst []float32) error {
			err := read(i, dst[:plane])
			copy(dst[plane:], dst[:plane])
			copy(dst[2*plane:], dst[:plane])
			return err
		}
		return true
	}
	d.addNote("colours made grey for the model's 1 channel")
	d.values = func(i int, dst []float32) error {
		values := make([]float32, 3*plane)
		if err := read(i, values); err != nil {
			return err
		}
		level := func(p int) uint32 { return uint32(math.RoundToEven(255 * float64(values[p]))) }
		for p := range dst {
			dst[p] = unit[uint8((19595*level(p)+38470*level(p+plane)+7471*level(p+2*plane)+1<<15)>>16)]
		}
		return nil
	}
	return true
}

// resizePlane resizes [h,w] to [height,width] like Pillow's ImagingResample for bytes (src/libImaging/Resample.c). To
// shrink an image, resizePlane stretches the filter by the ratio of the old size to the new size. It rounds the weights
// of the filter to 22 bits. First it resizes the rows to the new width, then the columns to the new height. After each
// of these two steps, it rounds to bytes.
func resizePlane(in []uint8, h, w, height, width int, by Interpolation) []uint8 {
	if width != w {
		in = resample(in, h, taps(w, width, by), func(line, at int) int { return line*w + at }, func(line, at int) int { return line*width + at })
	}
	if height != h {
		in = resample(in, width, taps(h, height, by), func(line, at int) int { return at*width + line }, func(line, at int) int { return at*width + line })
	}
	return in
}

// weightBits is the number of fractional bits of a weight: 32, minus 8 for the byte and 2 for the overshoot of the
// bicubic filter.
const weightBits = 32 - 8 - 2

// resample computes the output samples of each line. A line is a row or a column of the image. Each output sample has a
// tap, which holds the weights of the input samples. The function 'source' maps a line and an input sample of this line
// to an index of the slice 'in'. The function 'target' maps a line and an output sample of this line to an index of the
// result.
func resample(in []uint8, lines int, taps []tap, source, target func(line, at int) int) []uint8 {
	out := make([]uint8, lines*len(taps))
	for at, tap := range taps {
		for line := range lines {
			sum := 1 << (weightBits - 1)
			for k, weight := range tap.weights {
				sum += weight * int(in[source(line, tap.first+k)])
			}
			out[target(line, at)] = clamp(sum >> weightBits)
		}
	}
	return out
}

// A tap holds the weights of one output sample. The first weight belongs to the input sample with the index 'first'.
type tap struct {
	first   int
	weights []int
}

func taps(in, out int, by Interpolation) []tap {
	filter, support := triangle, 1.0
	if by == Bicubic {
		filter, support = cubic, 2.0
	}
	scale := float64(in) / float64(out)
	stretch := max(scale, 1)
	support *= stretch
	list := make([]tap, out)
	for i := range list {
		center := (float64(i) + 0.5) * scale
		first, end := max(int(center-support+0.5), 0), min(int(center+support+0.5), in)
		weights, total := make([]float64, end-first), 0.0
		for k := range weights {
			// The outer conversion to float64 keeps compilers from fusing the product with a sum in the filter. So
			// every machine computes the same weights.
			weights[k] = filter(float64((float64(k+first) - center + 0.5) * (1 / stretch)))
			total += weights[k]
		}
		list[i] = tap{first: first, weights: make([]int, len(weights))}
		for k, v := range weights {
			if total != 0 {
				v /= total
			}
			list[i].weights[k] = int(math.Round(float64(v * (1 << weightBits))))
		}
	}
	return list
}

func triangle(x float64) float64 { return max(0, 1-math.Abs(x)) }

// cubic is the Catmull-Rom spline, a = −1/2 (Keys 1981), as Pillow evaluates it.
func cubic(x float64) float64 {
	const a = -0.5
	x = math.Abs(x)
	switch {
	case x < 1:
		return float64(float64(float64((a+2)*x)-(a+3))*x*x) + 1
	case x < 2:
		return float64(float64(float64(float64((x-5)*x)+8)*x)-4) * a
	}
	return 0
}
