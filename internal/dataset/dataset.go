// Package dataset reads labelled examples from common file formats: MNIST IDX, CIFAR batches, folders of images, NumPy
// arrays, CSV, Parquet and WebDataset archives.
//
// Open finds the format, checks the whole dataset once and computes its digest. Example reads one example. Values are
// float32 in the layout [C,H,W], or flat. Bytes are scaled to [0,1]. Open returns an error if a file is truncated, if
// it contradicts its header or its labels, or if it holds a value that is not finite. The error names the file and the
// location in the file. If a file changes after Open, Example returns the unchanged example or an error, never other
// data.
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
	"slices"

	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/warning"
)

// Example is one labelled input.
type Example struct {
	Index  int       // position in the dataset
	Label  int       // true class
	Values []float32 // [C·H·W] in that order, or [D]
	// Rounding is an upper bound on ‖x − Values‖₂ for the float64 numbers x in the file. It is 0 for files of float32
	// or bytes.
	Rounding float64
	// RoundingL1 is an upper bound on ‖x − Values‖₁ for the float64 numbers x in the file.
	RoundingL1 float64
}

// Dataset is an open dataset. Several goroutines may call its methods at the same time.
type Dataset struct {
	format string
	note   string
	shape  []int
	labels []int
	sum    string
	bytes  bool // the values are bytes divided by 255

	pictures bool // the data are image files of 8 or 16 bits per channel
	table    bool // Options.LabelColumn is allowed
	// labelColumn describes the column of a CSV table that holds the labels. It is empty for other data.
	labelColumn string
	columns     []string    // names of the value columns, from the header
	cropped     bool        // the options Resize and Crop are already applied
	names       *classNames // names of the model's classes; nil if they are not given
	byName      bool        // the labels are written as names
	root        string      // folder that contains the class folders
	folders     int         // number of class folders if the labels follow from their order; 0 if the data give the labels
	warnings    []warning.Warning
	// The function 'values' fills dst with example i. Its errors name the location in the data.
	values func(i int, dst []float32) error
	// The function 'roundings' fills dst with bounds on |number in the file − value|, one for each value of example i.
	// The order of these bounds does not matter. The result 'named' is true if each number that the file holds for
	// example i is a usual spelling of the float32 that Example.Values holds for it (see isNamed). The field
	// 'roundings' is nil if the file holds float32 or bytes.
	roundings func(i int, dst []float64) (named bool, err error)
	// labelAt describes the location of label i in the data, for use in errors.
	labelAt func(i int) string
	closer  io.Closer
}

// Open opens the dataset at path, which is a file or a folder. Open finds the format by the names and the first bytes
// of the files. It reads the whole dataset once, to check the data and to compute their digest. Images, plain IDX and
// CIFAR files, .npy and uncompressed .npz files stay on the disk. When the Dataset reads a part of these files again,
// it compares the part's digest with the digest from the first reading. Compressed files, CSV and arrays in Fortran
// order are held in memory, up to memory.Limit.
func Open(ctx context.Context, path string, opt Options) (*Dataset, error) {
	d, err := openChecking(ctx, path, opt)
	return d, quote.Error(err)
}

func openChecking(ctx context.Context, path string, opt Options) (*Dataset, error) {
	if err := opt.validate(); err != nil {
		return nil, err
	}
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
	} else if err = d.settle(opt); err == nil && d.sum == "" {
		err = d.read(ctx)
	}
	if err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// dropLabels sets all labels to −1 and forgets the classes.
func (d *Dataset) dropLabels() {
	for i := range d.labels {
		d.labels[i] = -1
	}
	d.names, d.folders, d.byName, d.labelAt = nil, 0, false, unplaced
	d.addNote("without labels")
}

// The function 'unplaced' is the value of the field labelAt for data without labels. Errors never contain its result,
// because only data with labels can have a wrong label.
func unplaced(int) string { return "no label" }

// checkExample returns an error if the memory is too small to read one example. Reading needs memory for the example
// and for its intermediate forms.
func checkExample(shape []int) error {
	const bytes = 32 // for each value: its bytes in the file, their offset, its float64 and its float32
	size := int64(1)
	for _, n := range shape {
		if n > 0 && size > math.MaxInt64/bytes/int64(n) {
			return memory.Check(-1)
		}
		size *= int64(n)
	}
	return memory.Check(bytes * size)
}

// read reads all examples, so that errors in the data appear before the caller starts to sample. It also sets the
// digest of d.
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

// Len returns the number of examples.
func (d *Dataset) Len() int { return len(d.labels) }

// Label returns the label of example i.
func (d *Dataset) Label(i int) int { return d.labels[i] }

// Shape returns the shape of an example: [C,H,W], or [D] for flat rows.
func (d *Dataset) Shape() []int { return slices.Clone(d.shape) }

func (d *Dataset) size() int {
	n := 1
	for _, s := range d.shape {
		n *= s
	}
	return n
}

// Columns returns a name for each value of an example, in the order of the values. It returns nil unless the data are a
// CSV table with a header.
func (d *Dataset) Columns() []string { return slices.Clone(d.columns) }

// LabelColumn describes the label column of a CSV table, such as "the last column (y)". It is empty for other data.
func (d *Dataset) LabelColumn() string { return d.labelColumn }

// Bytes reports whether the values are bytes that were scaled to [0,1].
func (d *Dataset) Bytes() bool { return d.bytes }

// Format returns the name of the format, for messages.
func (d *Dataset) Format() string { return d.format }

// Note returns one line that tells the user what Open decided: the chosen files, the scaling, and the range of values.
func (d *Dataset) Note() string { return quote.Line(d.note) }

// SHA256 returns the digest of the data, in hex. The digest does not depend on the names, the compression or the folder
// of the files. For all formats except images it covers the number of examples, the shape, and the label (int64) and
// values (float32) of each example, little-endian. So the same data in the same shape have the same digest, whether
// they are stored as IDX, .npz or CSV. Open does not decode all images, so the digest of images covers the labels and
// the image files.
func (d *Dataset) SHA256() string { return d.sum }

// settle applies the options that all formats share.
func (d *Dataset) settle(opt Options) (err error) {
	if opt.LabelColumn != "" && !d.table {
		return param.Errorf("%s %s: %s data have no columns", param.LabelColumn, quote.Name(opt.LabelColumn), d.format)
	}
	if d.names == nil {
		if d.names, err = readClassNames(opt.ClassNames); err != nil {
			return err
		}
	}
	if !d.cropped {
		if err := d.resize(opt); err != nil {
			return err
		}
	}
	if opt.unlabelled() {
		d.dropLabels()
		return nil
	}
	d.renumber(opt)
	return d.subtractFirst(opt.FirstLabel)
}

// subtractFirst subtracts the argument 'first' from all labels. If this argument is 0 but the labels seem to count from
// 1, subtractFirst adds a warning.
func (d *Dataset) subtractFirst(first int) error {
	low := slices.Min(d.labels)
	switch {
	case first == 0 && low == 1 && !d.byName && d.folders == 0 && slices.Max(d.labels) > 1:
		d.warnings = append(d.warnings, warning.New(warning.SuspectLabels, "no label is 0; if 1 is the first class, %s 1 says so", param.FirstLabel))
		return nil
	case first == 0:
		return nil
	case d.byName || d.folders > 0:
		return param.Errorf("%s %d: the labels are names, so there is no first label", param.FirstLabel, first)
	}
	for i := range d.labels {
		if d.labels[i] -= first; d.labels[i] < 0 {
			return param.Errorf("%s: label %d, but %s is %d", d.labelAt(i), d.labels[i]+first, param.FirstLabel, first)
		}
	}
	d.addNote("labels count from %d", first)
	return nil
}

// Classes returns the smallest number of classes that a model for these labels can have.
func (d *Dataset) Classes() int {
	classes := max(slices.Max(d.labels)+1, d.folders)
	if d.names != nil {
		classes = max(classes, d.names.count)
	}
	return classes
}

// CheckLabels returns an error if the labels do not fit a model with this number of classes. The error names the
// location of the first label that is too large. If class names are given, their number must equal the number of
// classes. If the labels follow from the order of the class folders, the number of folders must equal the number of
// classes, because a missing folder would shift the labels.
func (d *Dataset) CheckLabels(classes int) error {
	if d.names != nil && d.names.count != classes {
		return quote.Error(fmt.Errorf("%s: %d class names, but the model has %d classes", d.names.source, d.names.count, classes))
	}
	if d.folders > 0 && d.folders != classes {
		return quote.Error(param.Errorf("%s: %d class folders, but the model has %d classes: labels follow the order of the folders, so every label after a missing folder is wrong; "+
			"%s FILE gives the names of the model's classes in its order", d.root, d.folders, classes, param.ClassNames))
	}
	for i, label := range d.labels {
		if label < classes {
			continue
		}
		err := fmt.Errorf("%s: label %d, but the model has only classes 0 to %d", d.labelAt(i), label, classes-1)
		if label == classes && slices.Max(d.labels) == classes && slices.Min(d.labels) == 1 {
			err = param.Errorf("%w; labels run from 1 to %d: if they count from 1, %s 1 says so", err, classes, param.FirstLabel)
		}
		return quote.Error(err)
	}
	return nil
}

// Warnings returns lines about choices that the user may not have intended.
func (d *Dataset) Warnings() []warning.Warning { return slices.Clone(d.warnings) }

// ClassNames returns the source of the model's class names and the SHA-256 of their file, in hex. Both are empty for
// data without labels. Both are also empty if Options.ClassNames is empty and Options.ModelClasses does not determine
// the labels. If ModelClasses determines them, only the SHA-256 is empty.
func (d *Dataset) ClassNames() (source, sum string) {
	if d.names == nil {
		return "", ""
	}
	return d.names.source, d.names.sum
}

// SortedByLabel reports whether the examples belong to several classes and are grouped by class, in any order of the
// classes. If they are, the first n examples are not a fair sample.
func (d *Dataset) SortedByLabel() bool {
	begun := map[int]bool{d.labels[0]: true}
	for i, label := range d.labels[1:] {
		if label != d.labels[i] && begun[label] {
			return false
		}
		begun[label] = true
	}
	return len(begun) > 1
}

// Example returns example i, 0 ≤ i < Len. The caller owns the values. If the file has changed since Open computed the
// digest, Example returns the unchanged example or an error.
func (d *Dataset) Example(i int) (Example, error) {
	e := Example{Index: i, Label: d.labels[i], Values: make([]float32, d.size())}
	if err := d.values(i, e.Values); err != nil {
		return e, quote.Error(err)
	}
	var err error
	e.Rounding, e.RoundingL1, err = d.rounding(i)
	return e, quote.Error(err)
}

// Close closes the open files.
func (d *Dataset) Close() error {
	if d.closer == nil {
		return nil
	}
	return d.closer.Close()
}

// unit[b] is byte b scaled to [0,1].
var unit = func() (u [256]float32) {
	for b := range u {
		u[b] = float32(b) / 255
	}
	return u
}()
