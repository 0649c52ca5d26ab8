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
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// imageFile is what is known of an image before it is decoded.
type imageFile struct {
	path   string
	label  int
	width  int
	height int
	grey   bool
	size   int64             // of the file
	digest [sha256.Size]byte // of the file
}

// The most that an image may have: a damaged header must not claim all memory. No encoder writes a file larger than
// its pixels, of at most 8 bytes, and a little more.
const (
	maxPixels    = 1 << 26
	maxImageFile = 8*maxPixels + 1<<20
)

// openImages reads a folder with a subfolder of PNG or JPEG images for every
// class. Classes are numbered in the order of their names (bytewise, as Python's
// sorted does), or by their names where all of these are numbers. If all images
// are grey, they have one channel, otherwise three. As Pillow's convert("RGB")
// does, grey is repeated and transparency dropped. Values are divided by 255, in
// 16-bit images by 65,535.
//
// Files are read once to check their sizes and for the digest; an image is
// decoded each time it is asked for, from bytes of the same digest.
func openImages(ctx context.Context, root string) (*Dataset, error) {
	files, classes, err := listImages(root)
	if err != nil {
		return nil, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.NumCPU())
	for i := range files {
		group.Go(func() error {
			if err := groupCtx.Err(); err != nil {
				return err
			}
			return files[i].inspect()
		})
	}
	if err := group.Wait(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, err
	}

	first, grey := files[0], true
	hash := sha256.New()
	fmt.Fprintf(hash, "rscert images 1\n%d\n", len(files))
	labels := make([]int, len(files))
	for i, f := range files {
		if f.width != first.width || f.height != first.height {
			return nil, fmt.Errorf("%s: %d×%d pixels, but %s has %d×%d; resize and crop the images as the model was trained",
				f.path, f.width, f.height, first.path, first.width, first.height)
		}
		grey = grey && f.grey
		labels[i] = f.label
		hash.Write(binary.LittleEndian.AppendUint64(nil, uint64(f.label)))
		hash.Write(f.digest[:])
	}
	d := &Dataset{
		format:  "image folder",
		shape:   []int{3, first.height, first.width},
		labels:  labels,
		labelAt: func(i int) string { return files[i].path },
		sum:     hex.EncodeToString(hash.Sum(nil)),
	}
	if grey {
		d.shape[0] = 1
	}
	d.values = func(i int, dst []float32) error { return files[i].decode(dst, d.shape) }
	d.bytes = true
	d.addNote("%d classes from %s to %s, channels scaled to [0,1]", len(classes), classes[0], classes[len(classes)-1])
	return d, nil
}

// listImages finds the classes, in order, and the images, by class and name.
func listImages(root string) (files []imageFile, classes []string, err error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, nil, fileError(err)
	}
	numbered := true
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		// Stat, not e.IsDir: a class may be a link to a folder.
		if info, err := os.Stat(filepath.Join(root, e.Name())); err != nil {
			return nil, nil, fileError(err)
		} else if info.IsDir() {
			classes = append(classes, e.Name())
			n, err := strconv.ParseUint(e.Name(), 10, 31)
			numbered = numbered && err == nil && strconv.FormatUint(n, 10) == e.Name()
		}
	}
	slices.Sort(classes)
	for k, class := range classes {
		label := k
		if numbered {
			label, _ = strconv.Atoi(class)
		}
		entries, err := os.ReadDir(filepath.Join(root, class))
		if err != nil {
			return nil, nil, fileError(err)
		}
		for _, e := range entries { // sorted by name
			path := filepath.Join(root, class, e.Name())
			if strings.HasPrefix(e.Name(), ".") {
				continue
			}
			switch strings.ToLower(filepath.Ext(e.Name())) {
			case ".png", ".jpg", ".jpeg":
				files = append(files, imageFile{path: path, label: label})
			case ".bmp", ".gif", ".tif", ".tiff", ".webp", ".ppm", ".pgm":
				return nil, nil, fmt.Errorf("%s: only PNG and JPEG images are read", path)
			}
		}
	}
	if len(files) == 0 {
		return nil, nil, fmt.Errorf("%s: no data in this folder: neither IDX files, nor CIFAR batches, nor a subfolder of PNG or JPEG images for each class", root)
	}
	return files, classes, nil
}

// inspect reads the file and fills in what its first bytes say.
func (f *imageFile) inspect() error {
	r, size, err := openRegular(f.path)
	if err != nil {
		return err
	}
	defer r.Close()
	if size > maxImageFile {
		return fmt.Errorf("%s: %d bytes; at most %d are read of an image", f.path, size, maxImageFile)
	}
	hash := sha256.New()
	all := io.TeeReader(io.LimitReader(r, size), hash)
	config, _, err := image.DecodeConfig(all)
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	f.width, f.height = config.Width, config.Height
	if f.width <= 0 || f.height <= 0 || f.width > maxPixels/f.height {
		return fmt.Errorf("%s: %d×%d pixels; at most %d are read", f.path, f.width, f.height, maxPixels)
	}
	f.grey = config.ColorModel == color.GrayModel || config.ColorModel == color.Gray16Model
	f.size = size
	if _, err := io.Copy(io.Discard, all); err != nil {
		return fileError(err)
	}
	hash.Sum(f.digest[:0])
	return nil
}

// read returns the file, which must be the one that was inspected.
func (f *imageFile) read() ([]byte, error) {
	r, size, err := openRegular(f.path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if size != f.size {
		return nil, fmt.Errorf("%s: %w", f.path, errChanged)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		return nil, fileError(err)
	}
	if sha256.Sum256(data) != f.digest {
		return nil, fmt.Errorf("%s: %w", f.path, errChanged)
	}
	return data, nil
}

// decode fills dst with the image, [C,H,W].
func (f *imageFile) decode(dst []float32, shape []int) error {
	data, err := f.read()
	if err != nil {
		return err
	}
	img, _, err := image.Decode(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	b := img.Bounds()
	if b.Dx() != shape[2] || b.Dy() != shape[1] {
		return fmt.Errorf("%s: has not the %d×%d pixels that its header says", f.path, shape[2], shape[1])
	}
	if ycc, ok := img.(*image.YCbCr); ok && shape[0] == 3 {
		jpegRGB(dst, ycc)
		return nil
	}
	plane := shape[1] * shape[2]
	p := 0
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			red, green, blue := rgb(img, x, y)
			dst[p] = red
			if shape[0] == 3 {
				dst[p+plane], dst[p+2*plane] = green, blue
			}
			p++
		}
	}
	return nil
}

// rgb returns a pixel's channels without regard to its transparency, which
// color.Color's RGBA would multiply in.
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
	default: // opaque: RGBA64
		r, g, b, _ := c.RGBA()
		return float32(r) / 65535, float32(g) / 65535, float32(b) / 65535
	}
}
