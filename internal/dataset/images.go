package dataset

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"image"
	"image/color"
	_ "image/jpeg"
	_ "image/png"
	"io"
	"path/filepath"
	"runtime"
	"strings"

	_ "golang.org/x/image/bmp"
	_ "golang.org/x/image/webp"
	"golang.org/x/sync/errgroup"

	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/warning"
)

// The type 'encoded' is an image that is not yet decoded. It also holds the information from the image's header.
type encoded struct {
	name  string
	label int
	// The function 'open' returns a reader of the encoded image, and the length of the encoded image in bytes.
	open func() (r io.ReadCloser, size int64, err error)

	width, height int               // size of the upright image in pixels
	orientation   int               // Exif orientation of the stored image, 1 to 8
	grey, deep    bool              // 'deep' means more than 8 bits per channel
	size          int64             // size of the file
	digest        [sha256.Size]byte // digest of the file
}

// These limits on an image prevent a damaged header from claiming all memory. An encoder writes at most 8 bytes per
// pixel, plus a small header, so no image of maxPixels pixels needs a larger file than maxImageFile.
const (
	maxPixels    = 1 << 26
	maxImageFile = 8*maxPixels + 1<<20
)

// imageSuffixes lists the suffixes of the formats that this package decodes. unreadSuffixes lists common suffixes of
// other formats.
var (
	imageSuffixes  = []string{".png", ".jpg", ".jpeg", ".bmp", ".webp"}
	unreadSuffixes = []string{".gif", ".tif", ".tiff", ".ppm", ".pgm", ".avif", ".heic", ".jp2", ".jxl", ".npy", ".tga"}
)

// isImage reports whether the name has an image's suffix. It returns an error for image formats that this package does
// not decode.
func isImage(name string) (bool, error) {
	lower := strings.ToLower(filepath.Base(name))
	if strings.HasPrefix(lower, ".") {
		return false, nil
	}
	if hasSuffix(lower, unreadSuffixes) {
		return false, fmt.Errorf("%s: only PNG, JPEG, BMP and WebP images are read; Pillow converts it: Image.open(FILE).save(FILE + \".png\")", name)
	}
	return hasSuffix(lower, imageSuffixes), nil
}

// assemble makes a dataset of images. The dataset has one channel if all images are grey, otherwise three. Like
// Pillow's convert("RGB"), a dataset with three channels repeats grey values in all channels and drops transparency.
// Values are divided by 255, or by 65,535 in 16-bit images.
//
// assemble reads the files once, to check their sizes and to compute the digest. Each later request for an image reads
// the image's file again, and fails if the digest of the file has changed.
func assemble(ctx context.Context, format string, images []encoded, opt Options) (*Dataset, error) {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for i := range images {
		group.Go(func() error {
			if err := groupCtx.Err(); err != nil {
				return err
			}
			if err := images[i].inspect(); err != nil {
				return fmt.Errorf("%s: %w", images[i].name, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}
	return join(format, images, opt)
}

// join makes a dataset of inspected images.
func join(format string, images []encoded, opt Options) (*Dataset, error) {
	first, grey, deep, oriented := &images[0], true, false, 0
	height, width, err := finalSize(first, opt)
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "rscert images 1\n%d\n", len(images))
	labels := make([]int, len(images))
	for i := range images {
		f := &images[i]
		if h, w, err := finalSize(f, opt); err != nil {
			return nil, err
		} else if h != height || w != width {
			return nil, param.Errorf("%s: %d×%d pixels, but %s has %d×%d; resize and crop the images as the model was trained: %s 256 %s 224",
				f.name, w, h, first.name, width, height, param.Resize, param.Crop)
		}
		grey, deep = grey && f.grey, deep || f.deep
		if f.orientation > 1 {
			oriented++
		}
		labels[i] = f.label
		hash.Write(binary.LittleEndian.AppendUint64(nil, uint64(f.label)))
		hash.Write(f.digest[:])
	}
	d := &Dataset{
		format:  format,
		shape:   []int{3, height, width},
		labels:  labels,
		labelAt: func(i int) string { return images[i].name },
		bytes:   !deep,
		cropped: true, pictures: true,
	}
	if grey {
		d.shape[0] = 1
	}
	if opt.resizes() {
		fmt.Fprintf(hash, "resize %s %s crop %s\n", opt.Resize, opt.Interpolation, opt.Crop)
		d.addNote("%s", opt.resizing())
	}
	if oriented > 0 {
		fmt.Fprintln(hash, "upright by Exif")
		d.warnings = append(d.warnings, warning.New(warning.ExifOrientation, "%d of %d images have an Exif orientation: rscert turns them upright, as Hugging Face's datasets, OpenCV and browsers do; torchvision's ImageFolder and Keras do not",
			oriented, len(images)))
	}
	d.sum = hex.EncodeToString(hash.Sum(nil))
	channels := d.shape[0] // a copy, because FitChannels may change d.shape later
	d.values = func(i int, dst []float32) error {
		if err := images[i].decode(dst, channels, opt); err != nil {
			return fmt.Errorf("%s: %w", images[i].name, err)
		}
		return nil
	}
	return d, nil
}

// finalSize returns the size of an image after Resize and Crop, in pixels.
func finalSize(f *encoded, opt Options) (height, width int, err error) {
	if opt.resizes() && f.deep {
		return 0, 0, fmt.Errorf("%s: has more than 8 bits a channel; only images of bytes are resized and cropped", f.name)
	}
	height, width, err = opt.finalSize(f.height, f.width)
	if err != nil {
		err = fmt.Errorf("%s: %w", f.name, err)
	}
	return height, width, err
}

// inspect reads the image's bytes and sets the fields 'width', 'height', 'orientation', 'grey', 'deep', 'size' and
// 'digest'.
func (f *encoded) inspect() error {
	r, size, err := f.open()
	if err != nil {
		return err
	}
	defer r.Close()
	if size > maxImageFile {
		return fmt.Errorf("%d bytes; at most %d are read of an image", size, maxImageFile)
	}
	file, err := io.ReadAll(io.LimitReader(r, size))
	if err != nil {
		return fileError(err)
	}
	config, _, err := image.DecodeConfig(bytes.NewReader(file))
	if err != nil {
		return err
	}
	f.width, f.height = config.Width, config.Height
	if f.width <= 0 || f.height <= 0 || f.width > maxPixels/f.height {
		return fmt.Errorf("%d×%d pixels; at most %d are read", f.width, f.height, maxPixels)
	}
	switch config.ColorModel {
	case color.GrayModel:
		f.grey = true
	case color.Gray16Model:
		f.grey, f.deep = true, true
	case color.RGBA64Model, color.NRGBA64Model:
		f.deep = true
	}
	if f.orientation = orientation(file); turned(f.orientation) {
		f.width, f.height = f.height, f.width
	}
	f.size, f.digest = size, sha256.Sum256(file)
	return nil
}

// read returns the image's bytes, or errChanged if they differ from the bytes that the method 'inspect' read.
func (f *encoded) read() ([]byte, error) {
	r, size, err := f.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if size != f.size {
		return nil, errChanged
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, fileError(err)
	}
	if sha256.Sum256(data) != f.digest {
		return nil, errChanged
	}
	return data, nil
}

// decode fills dst with the image, [C,H,W], resized and cropped.
func (f *encoded) decode(dst []float32, channels int, opt Options) error {
	data, err := f.read()
	if err != nil {
		return err
	}
	img, format, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return err
	}
	width, height := f.width, f.height
	if turned(f.orientation) {
		width, height = height, width
	}
	if b := img.Bounds(); b.Dx() != width || b.Dy() != height {
		return fmt.Errorf("does not have the %d×%d pixels of its header", width, height)
	}
	values := dst
	if opt.resizes() {
		values = make([]float32, channels*width*height)
	}
	f.upright(values, img, format, channels)
	if !opt.resizes() {
		return nil
	}
	return opt.apply(dst, values, channels, f.height, f.width)
}

// The method 'upright' fills dst with the upright image, [C,H,W].
func (f *encoded) upright(dst []float32, img image.Image, format string, channels int) {
	if f.orientation <= 1 {
		pixelValues(dst, img, format, channels)
		return
	}
	b := img.Bounds()
	stored := make([]float32, channels*b.Dx()*b.Dy())
	pixelValues(stored, img, format, channels)
	turn(dst, stored, channels, b.Dy(), b.Dx(), f.orientation)
}

// pixelValues fills dst with an image, [C,H,W].
func pixelValues(dst []float32, img image.Image, format string, channels int) {
	if transparent, ok := img.(*image.NYCbCrA); ok {
		img = &transparent.YCbCr
	}
	if ycc, ok := img.(*image.YCbCr); ok && channels == 3 {
		if format == "webp" {
			webpRGB(dst, ycc)
		} else {
			jpegRGB(dst, ycc)
		}
		return
	}
	b := img.Bounds()
	plane := b.Dx() * b.Dy()
	p := 0
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			red, green, blue := rgb(img, x, y)
			dst[p] = red
			if channels == 3 {
				dst[p+plane], dst[p+2*plane] = green, blue
			}
			p++
		}
	}
}

// rgb returns a pixel's channels without regard to the pixel's transparency. The method RGBA of color.Color would
// multiply the channels by the transparency.
func rgb(img image.Image, x, y int) (r, g, b float32) {
	switch img := img.(type) {
	case *image.Gray:
		v := unit[img.GrayAt(x, y).Y]
		return v, v, v
	case *image.Gray16:
		v := float32(img.Gray16At(x, y).Y) / 65535
		return v, v, v
	}
	switch c := img.At(x, y).(type) {
	case color.NRGBA:
		return unit[c.R], unit[c.G], unit[c.B]
	case color.RGBA:
		return unit[c.R], unit[c.G], unit[c.B]
	case color.NRGBA64:
		return float32(c.R) / 65535, float32(c.G) / 65535, float32(c.B) / 65535
	case color.CMYK:
		r, g, b := color.CMYKToRGB(c.C, c.M, c.Y, c.K)
		return unit[r], unit[g], unit[b]
	default: // here the image is opaque: the PNG decoder returns RGBA64 only for opaque images
		r, g, b, _ := c.RGBA()
		return float32(r) / 65535, float32(g) / 65535, float32(b) / 65535
	}
}
