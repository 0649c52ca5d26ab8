package dataset

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

const cifarPixels = 3 * 32 * 32

// openCIFAR reads a batch of CIFAR-10 or CIFAR-100 in the binary format that Krizhevsky's page describes. A CIFAR-10
// record is a label and 3·32·32 bytes [C,H,W]. A CIFAR-100 record begins with a coarse and a fine label, and openCIFAR
// takes the fine label.
func openCIFAR(ctx context.Context, path string, _ Options) (*Dataset, error) {
	data, err := openContents(ctx, path, func(io.Reader) (int64, error) { return -1, nil })
	if err != nil {
		return nil, err
	}
	d, err := readCIFAR(ctx, path, data)
	if err != nil {
		_ = data.Close()
	}
	return d, err
}

func readCIFAR(ctx context.Context, path string, data contents) (*Dataset, error) {
	format, classes, header := "CIFAR-10", 10, 1
	size := data.size()
	ten, hundred := size%(cifarPixels+1) == 0, size%(cifarPixels+2) == 0
	if hundred && (!ten || !strings.Contains(filepath.Base(path), "batch")) {
		format, classes, header = "CIFAR-100", 100, 2
	}
	if !ten && !hundred {
		return nil, fmt.Errorf("%s: byte %d: ends within a record (CIFAR-10 records have %d bytes, CIFAR-100 records %d)",
			path, size, cifarPixels+1, cifarPixels+2)
	}
	record := int64(cifarPixels + header)
	read := func(dst []byte, i, first int) error {
		offset := int64(i)*record + int64(first)
		if _, err := data.ReadAt(dst, offset); err != nil {
			return fmt.Errorf("%s: byte %d: %w", path, offset, err)
		}
		return nil
	}
	labelAt := func(i int) string { return fmt.Sprintf("%s: byte %d", path, int64(i)*record+int64(header)-1) }
	var labels []int
	for i := range int(size / record) {
		var label [1]byte
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := read(label[:], i, header-1); err != nil {
			return nil, err
		}
		if int(label[0]) >= classes {
			return nil, fmt.Errorf("%s: label %d, but %s has classes 0 to %d", labelAt(i), label[0], format, classes-1)
		}
		labels = append(labels, int(label[0]))
	}
	d := &Dataset{format: format + " binary", shape: []int{3, 32, 32}, labels: labels, labelAt: labelAt, closer: data}
	d.values = func(i int, dst []float32) error {
		var bytes [cifarPixels]byte
		if err := read(bytes[:], i, header); err != nil {
			return err
		}
		for j, b := range bytes {
			dst[j] = unit[b]
		}
		return nil
	}
	d.bytes = true
	if header == 2 {
		d.addNote("fine labels, not coarse")
	}
	d.addNote("%s, bytes scaled to [0,1]", filepath.Base(path))
	return d, nil
}
