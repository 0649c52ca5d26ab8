package dataset

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"unicode/utf8"

	"github.com/rscert/rscert/internal/npy"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/pickle"
	"github.com/rscert/rscert/internal/quote"
)

// pickledLabels lists the keys of the labels in CIFAR's pickled batches (Krizhevsky's page). Each entry also gives the
// number of classes, and the key of the class names in another file of the same folder. Without Options.LabelColumn,
// rscert uses the first of these keys that the batch has.
var pickledLabels = []struct {
	key, format string
	classes     int
	names       string
}{
	{"labels", "CIFAR-10", 10, "label_names"},
	{"fine_labels", "CIFAR-100", 100, "fine_label_names"},
	{"coarse_labels", "CIFAR-100", 20, "coarse_label_names"},
}

// pickledNames lists the names of the files that hold class names, in the same folder as the batches.
var pickledNames = []string{"batches.meta", "meta"}

const notPickle = `a pickle, which is a program; load it in Python and numpy.savez("data.npz", x=x, y=y)`

// pickleMagic begins every pickle of protocol 2 or later.
const pickleMagic = "\x80"

// isPickle reports whether a file begins like a pickle of protocol 2 to 5. Package dataset does not support older
// pickles.
func isPickle(path string) bool {
	f, _, err := openRegular(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var head [2]byte
	_, err = io.ReadFull(f, head[:])
	return err == nil && head[0] == pickleMagic[0] && head[1] >= 2 && head[1] <= 5
}

// openPickle reads a batch of the Python version of CIFAR-10 or CIFAR-100. The batch is a dictionary. Its entry "data"
// is a uint8 array [N,3072], whose rows are images [3,32,32]. Another entry is a list of N labels. The images stay in
// the file, with two exceptions: images in Fortran order, and images that Python 3 wrote with protocol 2. openPickle
// holds these in memory.
func openPickle(ctx context.Context, path string, opt Options) (_ *Dataset, err error) {
	f, err := openChecked(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	b := batch{path: path, file: f}
	if b.Dict, err = readPickle(ctx, path, f); err != nil {
		return nil, err
	}
	x, ok := b.Get("data").(*pickle.Array)
	if !ok {
		return nil, b.noImages()
	}
	if len(x.Shape) != 2 || x.Shape[1] != cifarPixels || x.Type != (npy.Type{Kind: 'u', Width: 1}) {
		return nil, fmt.Errorf("%s: data of NumPy type %c%d and shape %v; CIFAR's are u1 and [N,%d]; numpy.savez keeps other arrays",
			path, x.Kind, x.Width, x.Shape, cifarPixels)
	}
	images, err := b.array(ctx, "data", x)
	if err != nil {
		return nil, err
	}
	var y Dataset
	if err := b.labels(ctx, &y, opt); err != nil {
		return nil, err
	}
	if len(y.labels) != x.Shape[0] {
		return nil, fmt.Errorf("%s: %d labels for the %d images of its data", path, len(y.labels), x.Shape[0])
	}
	d, err := images.dataset(y.format, y.labels, y.labelAt)
	if err != nil {
		return nil, err
	}
	d.shape = []int{3, 32, 32}
	d.names, d.byName, d.table, d.closer = y.names, y.byName, true, f
	d.note = fmt.Sprintf("%s, %sbytes scaled to [0,1]", filepath.Base(path), y.noteBefore())
	return d, nil
}

// readPickle returns the dictionary in a pickled file.
func readPickle(ctx context.Context, path string, file contents) (*pickle.Dict, error) {
	v, err := pickle.Read(ctx, file, file.size())
	if errors.Is(err, pickle.ErrOther) {
		return nil, fmt.Errorf("%s: not read by rscert: %s (%w)", path, notPickle, err)
	} else if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	d, ok := v.(*pickle.Dict)
	if !ok {
		return nil, fmt.Errorf("%s: not read by rscert: %s (it holds no dictionary, as a batch of CIFAR is)", path, notPickle)
	}
	return d, nil
}

// batch is the dictionary in a pickled file.
type batch struct {
	*pickle.Dict
	path string
	file contents
}

// noImages returns the error for a batch whose dictionary has no images.
func (b *batch) noImages() error {
	for _, l := range pickledLabels {
		if b.Get(l.names) != nil {
			return fmt.Errorf("%s: holds the names of CIFAR's classes and no images; name a batch or its folder", b.path)
		}
	}
	return fmt.Errorf("%s: not read by rscert: %s (it has no array called data, as a batch of CIFAR has)", b.path, notPickle)
}

// array returns p as an array whose elements can be accessed in any order.
func (b *batch) array(ctx context.Context, key string, p *pickle.Array) (*array, error) {
	a := &array{name: b.path, Header: &p.Header, data: b.file}
	n, ok := a.Len()
	length := int64(n) * int64(a.Width)
	section := io.NewSectionReader(b.file, p.Data.At, p.Data.Len)
	var data io.Reader = section
	switch {
	case !ok || length > p.Data.Len || !p.Data.Latin1 && length < p.Data.Len:
		return nil, fmt.Errorf("%s: byte %d: %s has %d bytes, which is not an array of shape %v", b.path, p.Data.At, key, p.Data.Len, a.Shape)
	case p.Data.Latin1:
		data = &latin1{bufio.NewReader(section)}
	case !a.Fortran:
		a.Offset = p.Data.At
		return a, nil
	}
	held, err := hold(contextReader{ctx, data}, length)
	if err == nil && held.size() < length {
		err = fmt.Errorf("ends before the data of an array of shape %v", a.Shape)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: byte %d: %s: %w", b.path, p.Data.At, key, err)
	}
	a.name, a.data = b.path+": "+key, held
	return a, nil
}

// latin1 reads UTF-8 text whose characters are U+0000 to U+00FF, and returns one byte for each character.
type latin1 struct{ text *bufio.Reader }

func (l *latin1) Read(p []byte) (int, error) {
	for i := range p {
		b, err := l.text.ReadByte()
		if err != nil {
			return i, err
		}
		if b >= utf8.RuneSelf { // U+0080 to U+00FF are encoded as c2 80 to c3 bf
			next, err := l.text.ReadByte()
			if err != nil {
				return i, err
			}
			if b&^1 != 0xc2 || next&0xc0 != 0x80 {
				return i, fmt.Errorf("a text that stands for bytes has %#x where no character up to U+00FF begins", b)
			}
			b = b<<6 | next&0x3f
		}
		p[i] = b
	}
	return len(p), nil
}

// The method 'labels' takes the labels from a batch. It sets d.labels, and the fields of d that describe the labels:
// format, labelAt, note, names and byName.
func (b *batch) labels(ctx context.Context, d *Dataset, opt Options) error {
	var have []string
	for _, l := range pickledLabels {
		v := b.Get(l.key)
		if v == nil {
			continue
		}
		have = append(have, l.key)
		if opt.LabelColumn != "" && opt.LabelColumn != l.key {
			continue
		}
		cells, err := b.cells(ctx, d, l.key, v)
		if err != nil {
			return err
		}
		for i, c := range cells {
			if c.number >= float64(l.classes) {
				return fmt.Errorf("%s: label %s, but %s of %s are 0 to %d", d.labelAt(i), c.text, l.key, l.format, l.classes-1)
			}
		}
		d.format = l.format + " pickle"
		d.addNote("%s", l.key)
		names, err := namesBeside(ctx, b.path, l.names, opt)
		if err != nil {
			return err
		}
		return d.setNumberedLabels(cells, names, opt)
	}
	if opt.LabelColumn != "" && len(have) > 0 {
		return param.Errorf("%s %s: no such labels; %s has %q", param.LabelColumn, quote.Name(opt.LabelColumn), b.path, have)
	}
	return fmt.Errorf("%s: has data but no labels, fine_labels or coarse_labels", b.path)
}

// The method 'cells' returns the labels in v, which must be a list or an array. It also sets the field 'labelAt' of d.
func (b *batch) cells(ctx context.Context, d *Dataset, key string, v any) (cells []cell, err error) {
	var labels []int
	switch v := v.(type) {
	case *pickle.List:
		d.labelAt = func(i int) string { return fmt.Sprintf("%s: byte %d", b.path, v.Items[i].(pickle.Int).At) }
		for i, item := range v.Items {
			label, ok := item.(pickle.Int)
			if !ok {
				return nil, fmt.Errorf("%s: %s: label %d is not a whole number", b.path, key, i)
			}
			labels = append(labels, int(label.Value))
		}
	case *pickle.Array:
		var a *array
		if a, err = b.array(ctx, key, v); err == nil {
			d.labelAt = a.labelAt
			labels, err = a.labels()
		}
	default:
		err = fmt.Errorf("%s: %s is neither a list nor an array", b.path, key)
	}
	for _, label := range labels {
		cells = append(cells, cell{text: strconv.Itoa(label), number: float64(label)})
	}
	return cells, err
}

// namesBeside returns the class names from the file of names in a batch's folder. It returns nil if this file does not
// exist. It also returns nil if Options.ClassNames is empty, because only ClassNames needs the names.
func namesBeside(ctx context.Context, path, key string, opt Options) ([]string, error) {
	if opt.ClassNames == "" {
		return nil, nil
	}
	for _, name := range pickledNames {
		file := filepath.Join(filepath.Dir(path), name)
		if !exists(file) || !isPickle(file) {
			continue
		}
		f, err := openChecked(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return readPickledNames(ctx, file, f, key)
	}
	return nil, nil
}

// readPickledNames reads a file of class names and returns the names under the given key. If the key is empty, it tries
// the keys of class names in pickledLabels, and uses the first one that the file has.
func readPickledNames(ctx context.Context, path string, file contents, key string) (names []string, err error) {
	d, err := readPickle(ctx, path, file)
	if err != nil {
		return nil, err
	}
	for _, l := range pickledLabels {
		list, ok := d.Get(l.names).(*pickle.List)
		if !ok || key != "" && key != l.names {
			continue
		}
		for i, item := range list.Items {
			t, ok := item.(pickle.Text)
			if !ok || t.Len > maxPickledName {
				return nil, fmt.Errorf("%s: %s: name %d is not a text of at most %d bytes", path, l.names, i, maxPickledName)
			}
			name := make([]byte, t.Len)
			if _, err := file.ReadAt(name, t.At); err != nil {
				return nil, fmt.Errorf("%s: byte %d: %w", path, t.At, err)
			}
			names = append(names, string(name))
		}
		return names, nil
	}
	return nil, fmt.Errorf("%s: has no list of the names of CIFAR's classes", path)
}

// maxPickledName is the maximum length of a class name, in bytes.
const maxPickledName = 256
