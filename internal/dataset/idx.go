package dataset

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rscert/rscert/internal/memory"
)

// An IDX file (Y. LeCun's MNIST page) consists of two zero bytes, the type (8 means unsigned byte), the number of
// dimensions, each dimension as a big-endian uint32, and the data.

var idxImagesName = regexp.MustCompile(`^(.*)images([-.])idx\d-ubyte(\.gz)?$`)

// idxImagesIn returns the path of the IDX images in a folder. It prefers test images to training images, and returns ""
// if there are no images.
func idxImagesIn(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fileError(err)
	}
	found := map[string]string{} // path for each prefix; if a file also exists as .gz, the path without .gz
	var prefixes []string
	for _, e := range entries {
		if m := idxImagesName.FindStringSubmatch(e.Name()); m != nil && found[m[1]] == "" {
			found[m[1]] = filepath.Join(dir, e.Name())
			prefixes = append(prefixes, m[1])
		}
	}
	if len(prefixes) == 1 {
		return found[prefixes[0]], nil
	}
	for _, want := range []string{"t10k", "test"} {
		var is []string
		for _, p := range prefixes {
			if strings.Contains(p, want) {
				is = append(is, p)
			}
		}
		if len(is) == 1 {
			return found[is[0]], nil
		}
	}
	if len(prefixes) > 1 {
		return "", fmt.Errorf("%s: several files of images (%s…); name the one to read", dir, found[prefixes[0]])
	}
	return "", nil
}

// idxLabelsFor returns the path of the labels that belong to a file of images.
func idxLabelsFor(images string) (string, error) {
	dir, name := filepath.Split(images)
	m := idxImagesName.FindStringSubmatch(name)
	if m == nil {
		return "", fmt.Errorf("%s: cannot tell the labels file from this name; name it", images)
	}
	other := "."
	if m[2] == "." {
		other = "-"
	}
	for _, sep := range []string{m[2], other} {
		for _, gz := range []string{"", ".gz"} {
			if file := filepath.Join(dir, m[1]+"labels"+sep+"idx1-ubyte"+gz); exists(file) {
				return file, nil
			}
		}
	}
	return "", fmt.Errorf("%s: no labels file %s beside it", images, m[1]+"labels"+m[2]+"idx1-ubyte")
}

func openIDX(ctx context.Context, images string, opt Options) (_ *Dataset, err error) {
	labels := opt.Labels
	pixels, err := openIDXFile(ctx, images)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = pixels.Close()
		}
	}()
	dims := pixels.dims
	if len(dims) < 2 || len(dims) > 4 {
		return nil, fmt.Errorf("%s: byte 3: %d dimensions; images have 2 to 4", images, len(dims))
	}
	if labels == "" {
		if labels, err = idxLabelsFor(images); err != nil {
			return nil, err
		}
	}
	y, labelAt, noted := make([]int, dims[0]), unplaced, "labels not read"
	if !opt.unlabelled() {
		noted = "labels of " + filepath.Base(labels)
		y, labelAt, err = readLabels(ctx, labels)
	}
	if err != nil {
		return nil, err
	}
	if len(y) != dims[0] {
		return nil, fmt.Errorf("%s: byte 4: %d labels for the %d images of %s", labels, len(y), dims[0], images)
	}
	shape := dims[1:]
	if len(shape) == 2 {
		shape = []int{1, shape[0], shape[1]}
	}
	d := &Dataset{format: "IDX", shape: shape, labels: y, labelAt: labelAt, closer: pixels}
	d.values = func(i int, dst []float32) error {
		data := make([]byte, len(dst))
		if err := pixels.read(data, int64(i)*int64(len(dst))); err != nil {
			return err
		}
		for j, b := range data {
			dst[j] = unit[b]
		}
		return nil
	}
	d.bytes = true
	d.addNote("images of %s, %s, bytes scaled to [0,1]", filepath.Base(images), noted)
	return d, nil
}

// readLabels reads a file of labels. The returned function describes the location of label i, for use in errors.
func readLabels(ctx context.Context, path string) ([]int, func(i int) string, error) {
	if strings.HasSuffix(strings.ToLower(path), ".npy") {
		return readLabelsNPY(ctx, path)
	}
	f, err := openIDXFile(ctx, path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if len(f.dims) != 1 {
		return nil, nil, fmt.Errorf("%s: byte 3: %d dimensions; labels have 1", path, len(f.dims))
	}
	const bytes = 9 // bytes per label: one in the file, and eight as an int
	if err := memory.Check(bytes * int64(f.dims[0])); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	data := make([]byte, f.dims[0])
	if err := f.read(data, 0); err != nil {
		return nil, nil, err
	}
	labels := make([]int, len(data))
	for i, b := range data {
		labels[i] = int(b)
	}
	return labels, func(i int) string { return fmt.Sprintf("%s: byte %d", path, f.header+int64(i)) }, nil
}

// idxFile is an open IDX file. Its elements are bytes, and the file is as long as the header implies.
type idxFile struct {
	contents
	idxHeader
	path string
}

func openIDXFile(ctx context.Context, path string) (*idxFile, error) {
	data, err := openContents(ctx, path, func(r io.Reader) (int64, error) {
		h, err := readIDXHeader(r)
		return h.end(), err
	})
	if err != nil {
		return nil, err
	}
	h, err := readIDXHeader(io.NewSectionReader(data, 0, data.size()))
	if err == nil {
		err = h.check(data.size())
	}
	if err != nil {
		_ = data.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &idxFile{data, h, path}, nil
}

// The method 'read' fills dst with bytes of the data, beginning at offset. Offset 0 is the first byte after the header.
func (f *idxFile) read(dst []byte, offset int64) error {
	if _, err := f.ReadAt(dst, f.header+offset); err != nil {
		return fmt.Errorf("%s: byte %d: %w", f.path, f.header+offset, err)
	}
	return nil
}

// idxHeader holds the header's length in bytes and the dimensions. No dimension is 0.
type idxHeader struct {
	header int64
	dims   []int
}

// readIDXHeader reads the header at the beginning of r. It reads no byte after the header.
func readIDXHeader(r io.Reader) (h idxHeader, err error) {
	var start [4]byte
	if n, err := io.ReadFull(r, start[:]); err != nil {
		return h, endsWithinIDX(n, err)
	}
	if start[0] != 0 || start[1] != 0 {
		return h, fmt.Errorf("byte 0: % x is not how a known data file begins (IDX begins with 00 00 08)", start)
	}
	if start[2] != 8 {
		return h, fmt.Errorf("byte 2: IDX type %#02x; only unsigned bytes (0x08) are read", start[2])
	}
	h.header = 4 + 4*int64(start[3])
	dims := make([]byte, h.header-4)
	if n, err := io.ReadFull(r, dims); err != nil {
		return h, endsWithinIDX(4+n, err)
	}
	for k := range int(start[3]) {
		n := binary.BigEndian.Uint32(dims[4*k:])
		if n == 0 {
			return h, fmt.Errorf("byte %d: dimension %d is 0", 4+4*k, k)
		}
		h.dims = append(h.dims, int(n))
	}
	return h, nil
}

func endsWithinIDX(at int, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("byte %d: ends within the header of an IDX file", at)
	}
	return fmt.Errorf("byte %d: %w", at, err)
}

// end returns the length of the whole file according to the header, or math.MaxInt64 if this length overflows.
func (h idxHeader) end() int64 {
	n := int64(1)
	for _, d := range h.dims {
		if n > (math.MaxInt64-h.header)/int64(d) {
			return math.MaxInt64
		}
		n *= int64(d)
	}
	return h.header + n
}

// check returns an error if the file's length differs from the length that the header implies.
func (h idxHeader) check(length int64) error {
	switch end := h.end(); {
	case length < end:
		return fmt.Errorf("byte %d: ends before the data of dimensions %v that its header promises", length, h.dims)
	case length > end:
		return fmt.Errorf("byte %d: %d bytes more than its header promises", end, length-end)
	}
	return nil
}
