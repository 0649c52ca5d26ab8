package dataset

import (
	"fmt"
	"path/filepath"
	"strings"
)

const cifarPixels = 3 * 32 * 32

// openCIFAR reads a binary batch of CIFAR-10, records of a label and 3·32·32
// bytes [C,H,W], or of CIFAR-100, where a coarse label comes before the fine one,
// which is the one used. Krizhevsky's page describes both.
func openCIFAR(path string) (*Dataset, error) {
	data, err := contents(path)
	if err != nil {
		return nil, err
	}
	format, classes, header := "CIFAR-10", 10, 1
	ten, hundred := len(data)%(cifarPixels+1) == 0, len(data)%(cifarPixels+2) == 0
	if hundred && (!ten || !strings.Contains(filepath.Base(path), "batch")) {
		format, classes, header = "CIFAR-100", 100, 2
	}
	if !ten && !hundred {
		return nil, fmt.Errorf("%s: byte %d: ends within a record (CIFAR-10 records have %d bytes, CIFAR-100 records %d)",
			path, len(data), cifarPixels+1, cifarPixels+2)
	}
	record := cifarPixels + header
	at := func(i int) string { return fmt.Sprintf("%s: byte %d", path, i*record+header-1) }
	labels := make([]int, len(data)/record)
	for i := range labels {
		labels[i] = int(data[i*record+header-1])
		if labels[i] >= classes {
			return nil, fmt.Errorf("%s: label %d, but %s has classes 0 to %d", at(i), labels[i], format, classes-1)
		}
	}
	d := &Dataset{format: format + " binary", shape: []int{3, 32, 32}, labels: labels, labelAt: at}
	d.values = func(i int, dst []float32) error {
		for j, b := range data[i*record+header : (i+1)*record] {
			dst[j] = unit[b]
		}
		return nil
	}
	d.addNote("%s, bytes scaled to [0,1]", filepath.Base(path))
	return d, nil
}
