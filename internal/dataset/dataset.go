// Package dataset reads labelled examples from the files people have: MNIST IDX,
// CIFAR binary batches, folders of images, NumPy arrays and CSV.
//
// Values come out as float32 in the layout [C,H,W] (or flat), bytes scaled to
// [0,1]. A file that is truncated, does not fit its header or its labels, or
// holds something that is not a finite number is refused with an error that
// names the file and the place. What an example is read from, late in a run, is
// what was checked and hashed at the start, or an error.
package dataset

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/quote"
)

// Example is one labelled input.
type Example struct {
	Index  int       // position in the dataset
	Label  int       // true class
	Values []float32 // [C·H·W] in that order, or [D]
}

// Dataset is an opened dataset. Its methods may be called from several
// goroutines at once.
type Dataset struct {
	format string
	note   string
	shape  []int
	labels []int
	sum    string
	bytes  bool // the values are bytes over 255
	// values fills dst with example i, or says what is wrong with it and where.
	values func(i int, dst []float32) error
	// labelAt says where the label of example i is written.
	labelAt func(i int) string
	closer  io.Closer
}

// Options say what a path alone does not.
type Options struct {
	// Labels is the file of the labels, for formats that keep them apart (IDX,
	// .npy, .npz without labels). Empty: looked for beside the data.
	Labels string
}

// Open reads the dataset at path, a file or a folder; its format is told from
// the names and the first bytes. The whole dataset is read once, to check it
// and to compute its digest. Images, plain IDX and CIFAR files, .npy and uncompressed .npz
// files stay on the disk, with digests of their parts, until they are asked for;
// what is compressed, CSV and arrays in Fortran order are kept in memory, up to memory.Limit.
func Open(ctx context.Context, path string, opt Options) (*Dataset, error) {
	d, err := openChecking(ctx, path, opt)
	return d, quote.Error(err)
}

func openChecking(ctx context.Context, path string, opt Options) (*Dataset, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fileError(err)
	}
	d, err := open(ctx, path, info.IsDir(), opt)
	if err != nil {
		return nil, err
	}
	if len(d.labels) == 0 {
		err = fmt.Errorf("%s: no examples", path)
	} else if err = checkExample(d.shape); err != nil {
		err = fmt.Errorf("%s: an example of shape %v %w", path, d.shape, err)
	} else if d.sum == "" {
		err = d.read(ctx)
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// checkExample returns an error if one example, in the forms that it takes while it is read, does not fit in memory.
func checkExample(shape []int) error {
	const bytes = 32 // of a value: as read, as float64, its place, as float32
	size := int64(1)
	for _, n := range shape {
		if n > 0 && size > math.MaxInt64/bytes/int64(n) {
			return memory.Check(-1)
		}
		size *= int64(n)
	}
	return memory.Check(bytes * size)
}

func open(ctx context.Context, path string, dir bool, opt Options) (*Dataset, error) {
	name := strings.ToLower(filepath.Base(path))
	csv := strings.HasSuffix(name, ".csv") || strings.HasSuffix(name, ".csv.gz")
	cifar := strings.HasSuffix(name, ".bin")
	switch {
	case dir:
		return openFolder(ctx, path, opt)
	case (csv || cifar) && opt.Labels != "":
		return nil, fmt.Errorf("%s: holds its own labels, so %s has no use", path, opt.Labels)
	case csv:
		return openCSV(ctx, path)
	case cifar:
		return openCIFAR(ctx, path)
	case strings.HasSuffix(name, ".npz"):
		return openNPZ(ctx, path, opt.Labels)
	case strings.HasSuffix(name, ".npy"):
		return openNPY(ctx, path, opt.Labels)
	default:
		return openIDX(ctx, path, opt.Labels)
	}
}

// openFolder tells what a folder holds, looking also where torchvision and the
// published archives put the files.
func openFolder(ctx context.Context, path string, opt Options) (*Dataset, error) {
	for _, sub := range []string{"", "raw", "MNIST/raw", "FashionMNIST/raw"} {
		dir := filepath.Join(path, filepath.FromSlash(sub))
		file, err := idxImagesIn(dir)
		if err != nil {
			return nil, err
		}
		if file != "" {
			return openIDX(ctx, file, opt.Labels)
		}
	}
	if opt.Labels != "" {
		return nil, fmt.Errorf("%s: no IDX images in this folder for the labels in %s", path, opt.Labels)
	}
	for _, sub := range []string{"", "cifar-10-batches-bin", "cifar-100-binary"} {
		dir := filepath.Join(path, sub)
		for _, name := range []string{"test_batch.bin", "test.bin"} {
			if file := filepath.Join(dir, name); exists(file) {
				return openCIFAR(ctx, file)
			}
		}
	}
	if exists(filepath.Join(path, "data_batch_1.bin")) {
		return nil, fmt.Errorf("%s: has CIFAR-10 training batches but no test_batch.bin; name the batch to read", path)
	}
	return openImages(ctx, path)
}

func exists(file string) bool {
	info, err := os.Stat(file)
	return err == nil && !info.IsDir()
}

// read goes through all examples, so that what is wrong is found before the
// work starts, and sets the digest.
func (d *Dataset) read(ctx context.Context) error {
	hash := sha256.New()
	fmt.Fprintf(hash, "rscert data 1\n%d %v\n", len(d.labels), d.shape)
	values := make([]float32, d.size())
	row := make([]byte, 8+4*len(values))
	low, high := float32(math.Inf(1)), float32(math.Inf(-1))
	for i, label := range d.labels {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := d.values(i, values); err != nil {
			return err
		}
		binary.LittleEndian.PutUint64(row, uint64(label))
		for j, v := range values {
			low, high = min(low, v), max(high, v)
			binary.LittleEndian.PutUint32(row[8+4*j:], math.Float32bits(v))
		}
		hash.Write(row)
	}
	d.sum = hex.EncodeToString(hash.Sum(nil))
	d.addNote("values from %v to %v", low, high)
	return nil
}

func (d *Dataset) addNote(format string, args ...any) {
	if d.note != "" {
		d.note += "; "
	}
	d.note += fmt.Sprintf(format, args...)
}

// Len is the number of examples.
func (d *Dataset) Len() int { return len(d.labels) }

// Label returns the label of example i.
func (d *Dataset) Label(i int) int { return d.labels[i] }

// Shape is [C,H,W], or [D] for flat rows.
func (d *Dataset) Shape() []int { return slices.Clone(d.shape) }

func (d *Dataset) size() int {
	n := 1
	for _, s := range d.shape {
		n *= s
	}
	return n
}

// Format names the format, for people.
func (d *Dataset) Format() string { return d.format }

// Note says in a line, for people, what was decided in reading: which files were
// taken, whether values were scaled, their range.
func (d *Dataset) Note() string { return quote.Line(d.note) }

// SHA256 is the digest of what was read, in hex. It does not depend on where the
// files are, on their names or on their compression, and for all formats but
// image folders it is that of the number of examples, the shape, and of each
// example the label (int64) and the values (float32), little-endian: the same
// data as IDX, .npz or CSV have the same digest. For image folders, whose images
// are not all decoded, it is that of the labels and the images' files.
func (d *Dataset) SHA256() string { return d.sum }

// Classes is the least number of classes that the labels allow.
func (d *Dataset) Classes() int { return slices.Max(d.labels) + 1 }

// CheckLabels says where the first label is that a model of so many classes
// does not have.
func (d *Dataset) CheckLabels(classes int) error {
	for i, label := range d.labels {
		if label >= classes {
			return quote.Error(fmt.Errorf("%s: label %d, but the model has only classes 0 to %d", d.labelAt(i), label, classes-1))
		}
	}
	return nil
}

// Example reads example i, 0 ≤ i < Len. The values are the caller's to keep. They are
// those that SHA256 is of: it is an error if their file has changed.
func (d *Dataset) Example(i int) (Example, error) {
	e := Example{Index: i, Label: d.labels[i], Values: make([]float32, d.size())}
	return e, quote.Error(d.values(i, e.Values))
}

// Close closes the files that are still read from.
func (d *Dataset) Close() error {
	if d.closer == nil {
		return nil
	}
	return d.closer.Close()
}

// unit is the value of a byte, scaled to [0,1].
var unit = func() (u [256]float32) {
	for b := range u {
		u[b] = float32(b) / 255
	}
	return u
}()
