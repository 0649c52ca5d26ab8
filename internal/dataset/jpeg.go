package dataset

import "image"

// Models are trained on images that Pillow or OpenCV decoded with libjpeg. JPEG images may have colour planes of half
// the resolution, and the format does not say how a decoder enlarges these planes. Go's image/jpeg repeats each sample.
// libjpeg interpolates ("fancy upsampling", a triangle filter in integers). At edges between colours, these methods
// differ by tens of levels. rscert follows libjpeg.

// jpegRGB fills dst, [3,H,W], with the colours of a decoded JPEG image.
func jpegRGB(dst []float32, img *image.YCbCr) {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	cb, cr := enlarge(img, img.Cb), enlarge(img, img.Cr)
	for y := range h {
		for x := range w {
			p := y*w + x
			l, b, r := int(img.Y[y*img.YStride+x]), int(cb[p])-128, int(cr[p])-128
			// The formula is from JFIF 1.02, p. 4, with coefficients in units of 2⁻¹⁶. The result is rounded as in
			// libjpeg.
			dst[p] = unit[clamp(l+(91881*r+1<<15)>>16)]
			dst[p+w*h] = unit[clamp(l+(-22554*b-46802*r+1<<15)>>16)]
			dst[p+2*w*h] = unit[clamp(l+(116130*b+1<<15)>>16)]
		}
	}
}

func clamp(v int) uint8 { return uint8(min(max(v, 0), 255)) }

// enlarge returns a colour plane at the image's resolution, [H,W]. In a 4:2:2 image, the plane has half the image's
// width. In a 4:2:0 image, it has half the width and half the height. In these images, enlarge interpolates with the
// weights ¾ and ¼ in each direction in which the plane has half the resolution. Like libjpeg, it alternates the
// direction of rounding. Also like libjpeg, it repeats samples if the image is very narrow or has another subsampling
// ratio.
func enlarge(img *image.YCbCr, plane []uint8) []uint8 {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	out := make([]uint8, w*h)
	half := (w + 1) / 2 // samples per line of the plane
	ratio := img.SubsampleRatio
	if half <= 2 || ratio != image.YCbCrSubsampleRatio420 && ratio != image.YCbCrSubsampleRatio422 {
		for y := range h {
			for x := range w {
				out[y*w+x] = plane[img.COffset(img.Rect.Min.X+x, img.Rect.Min.Y+y)]
			}
		}
		return out
	}
	// the samples for one line of the image; in 4:2:0 they are sums with the weights 3 and 1, so 4 times too large
	column := make([]int, half)
	for y := range h {
		scale, down, up := enlargeColumn(column, img, plane, y)
		for x := range w {
			i := x / 2
			side, round := max(i-1, 0), up
			if x%2 == 1 {
				side, round = min(i+1, half-1), down
			}
			out[y*w+x] = uint8((3*column[i] + column[side] + round) >> scale)
		}
	}
	return out
}

// enlargeColumn fills the slice 'column' with the samples of line y. It returns three parameters for rounding. The sum
// of a pixel's weighted samples must be divided by 2^scale. Before the division, the term 'down' is added in columns of
// odd x and the term 'up' in columns of even x.
func enlargeColumn(column []int, img *image.YCbCr, plane []uint8, y int) (scale, down, up int) {
	if img.SubsampleRatio == image.YCbCrSubsampleRatio422 {
		for i := range column {
			column[i] = int(plane[y*img.CStride+i])
		}
		return 2, 2, 1
	}
	near := y / 2
	far := min(max(near+2*(y%2)-1, 0), (img.Rect.Dy()+1)/2-1)
	for i := range column {
		column[i] = 3*int(plane[near*img.CStride+i]) + int(plane[far*img.CStride+i])
	}
	return 4, 7, 8
}
