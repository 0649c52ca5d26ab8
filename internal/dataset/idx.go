package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// IDX files (Y. LeCun's MNIST page): two zero bytes, the type (8 = unsigned byte),
// the number of dimensions, each dimension as a big-endian uint32, the data.

var idxImagesName = regexp.MustCompile(`^(.*)images([-.])idx\d-ubyte(\.gz)?$`)

// idxImagesIn returns the file of images to read in a folder, or "" if it has
// none. Test images are preferred to training images.
func idxImagesIn(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fileError(err)
	}
	found := map[string]string{} // by prefix; the uncompressed file comes first
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

// idxLabelsFor returns the file of labels that belongs to a file of images.
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

func openIDX(images, labels string) (*Dataset, error) {
	data, err := contents(images)
	if err != nil {
		return nil, err
	}
	dims, pixels, err := parseIDX(images, data)
	if err != nil {
		return nil, err
	}
	if len(dims) < 2 || len(dims) > 4 {
		return nil, fmt.Errorf("%s: byte 3: %d dimensions; images have 2 to 4", images, len(dims))
	}
	if labels == "" {
		if labels, err = idxLabelsFor(images); err != nil {
			return nil, err
		}
	}
	y, at, err := readLabels(labels)
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
	d := &Dataset{format: "IDX", shape: shape, labels: y, labelAt: at}
	size := d.size()
	d.values = func(i int, dst []float32) error {
		for j, b := range pixels[i*size : (i+1)*size] {
			dst[j] = unit[b]
		}
		return nil
	}
	d.addNote("images of %s, labels of %s, bytes scaled to [0,1]", filepath.Base(images), filepath.Base(labels))
	return d, nil
}

// readLabels reads a file that holds labels only, and says where label i is.
func readLabels(path string) ([]int, func(i int) string, error) {
	if strings.HasSuffix(strings.ToLower(path), ".npy") {
		return readLabelsNPY(path)
	}
	data, err := contents(path)
	if err != nil {
		return nil, nil, err
	}
	dims, bytes, err := parseIDX(path, data)
	if err != nil {
		return nil, nil, err
	}
	if len(dims) != 1 {
		return nil, nil, fmt.Errorf("%s: byte 3: %d dimensions; labels have 1", path, len(dims))
	}
	labels := make([]int, len(bytes))
	for i, b := range bytes {
		labels[i] = int(b)
	}
	header := len(data) - len(bytes)
	return labels, func(i int) string { return fmt.Sprintf("%s: byte %d", path, header+i) }, nil
}

// parseIDX checks the header of an IDX file of bytes against its length, and
// returns the dimensions, none of them 0, and the data.
func parseIDX(path string, file []byte) (dims []int, data []byte, err error) {
	if len(file) < 4 {
		return nil, nil, fmt.Errorf("%s: byte %d: ends within the header of an IDX file", path, len(file))
	}
	if file[0] != 0 || file[1] != 0 {
		return nil, nil, fmt.Errorf("%s: byte 0: % x is not how a known data file begins (IDX begins with 00 00 08)", path, file[:4])
	}
	if file[2] != 8 {
		return nil, nil, fmt.Errorf("%s: byte 2: IDX type %#02x; only unsigned bytes (0x08) are read", path, file[2])
	}
	rank := int(file[3])
	header := 4 + 4*rank
	if len(file) < header {
		return nil, nil, fmt.Errorf("%s: byte %d: ends within the header of an IDX file", path, len(file))
	}
	data = file[header:]
	product := 1
	for k := range rank {
		n := binary.BigEndian.Uint32(file[4+4*k:])
		if n == 0 {
			return nil, nil, fmt.Errorf("%s: byte %d: dimension %d is 0", path, 4+4*k, k)
		}
		// Compared by division: the product of what the header says may be
		// anything.
		if int64(n) > int64(len(data)/product) {
			return nil, nil, fmt.Errorf("%s: byte %d: ends before the data that its header promises (dimension %d is %d)", path, len(file), k, n)
		}
		product *= int(n)
		dims = append(dims, int(n))
	}
	if product != len(data) {
		return nil, nil, fmt.Errorf("%s: byte %d: %d bytes more than its header promises", path, header+product, len(data)-product)
	}
	return dims, data, nil
}
