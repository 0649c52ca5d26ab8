package dataset

import "image"

// webpRGB fills dst, [3,H,W], with the colours of a decoded lossy WebP image. It computes exactly the same colours as
// libwebp (src/dsp/yuv.h and upsampling.c), which Pillow and OpenCV use. The colours of WebP have the studio range of
// BT.601. The type image.YCbCr assumes another range, the full range of JPEG. webpRGB enlarges colour planes with the
// weights 9/16, 3/16, 3/16 and 1/16, and rounds twice.
func webpRGB(dst []float32, img *image.YCbCr) {
	w, h := img.Rect.Dx(), img.Rect.Dy()
	clip := func(v int) float32 { return unit[clamp(v>>6)] }
	for y := range h {
		for x := range w {
			p := y*w + x
			u, v := webpColour(img.Cb, img.CStride, w, h, x, y), webpColour(img.Cr, img.CStride, w, h, x, y)
			l := int(img.Y[y*img.YStride+x]) * 19077 >> 8
			dst[p] = clip(l + v*26149>>8 - 14234)
			dst[p+w*h] = clip(l - u*6419>>8 - v*13320>>8 + 8708)
			dst[p+2*w*h] = clip(l + u*33050>>8 - 17685)
		}
	}
}

// webpColour returns the value of a colour plane at the image's pixel x, y. The plane has half the image's width and
// height, so webpColour interpolates.
func webpColour(plane []uint8, stride, w, h, x, y int) int {
	column, line := x/2, y/2
	nextLine := line + 2*(y%2) - 1
	if nextLine < 0 || nextLine >= (h+1)/2 {
		nextLine = line
	}
	nextColumn := column + 2*(x%2) - 1
	sample := func(line, column int) int { return int(plane[line*stride+column]) }
	near, below := sample(line, column), sample(nextLine, column)
	if nextColumn < 0 || nextColumn >= (w+1)/2 {
		return (3*near + below + 2) >> 2
	}
	beside, across := sample(line, nextColumn), sample(nextLine, nextColumn)
	return ((near+3*beside+3*below+across+8)>>3 + near) >> 1
}
