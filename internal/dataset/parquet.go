package dataset

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/table"
)

// openParquet reads one Parquet file.
func openParquet(ctx context.Context, path string, opt Options) (*Dataset, error) {
	return openParquets(ctx, []string{path}, opt)
}

// openParquets reads the Parquet files of a Hugging Face dataset. These files have a column of images and a column of
// labels. An image is stored as bytes, or as a struct {bytes, path}. A label is a number or a name. If the files name
// their classes (ClassLabel), Options.ClassNames can give these classes another order. The images stay in the files.
func openParquets(ctx context.Context, paths []string, opt Options) (_ *Dataset, err error) {
	var files closers
	defer func() {
		if err != nil {
			_ = files.Close()
		}
	}()
	var images []encoded
	var cells []cell
	var own []string
	var column string
	for _, path := range paths {
		f, err := openChecked(path)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
		t := parquetTable{path: path, ctx: ctx}
		if err := table.Guard(func() error { return t.open(f, opt) }); err != nil {
			if ctx.Err() != nil {
				err = ctx.Err()
			}
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if len(images) > 0 && !slices.Equal(own, t.classes) {
			return nil, fmt.Errorf("%s: has other class names than %s", path, paths[0])
		}
		column = t.labels
		own, images, cells = t.classes, append(images, t.images...), append(cells, t.cells...)
	}
	if len(images) == 0 {
		return nil, fmt.Errorf("%s: no rows", paths[0])
	}
	labels := &Dataset{labelAt: func(i int) string { return images[i].name }}
	if err := labels.setNumberedLabels(cells, own, opt); err != nil {
		return nil, err
	}
	for i := range images {
		images[i].label = labels.labels[i]
	}
	d, err := join("Parquet", images, opt)
	if err != nil {
		return nil, err
	}
	d.names, d.byName, d.closer, d.table = labels.names, labels.byName, files, true
	d.warnings = append(d.warnings, labels.warnings...)
	d.addNote("labels of the column %s; %s, %schannels scaled to [0,1]", column, filepath.Base(paths[0]), labels.noteBefore())
	return d, nil
}

// noteBefore returns d.note followed by a comma, so that more text can follow it. If d.note is empty, it returns "".
func (d *Dataset) noteBefore() string {
	if d.note == "" {
		return ""
	}
	return d.note + ", "
}

// setNumberedLabels sets the labels from the numbers in the argument 'cells'. The argument 'own' lists the class names
// of the file by number, and is empty if the file has none. If both 'own' and Options.ClassNames are given, the classes
// get new numbers in the order of ClassNames.
func (d *Dataset) setNumberedLabels(cells []cell, own []string, opt Options) error {
	names, err := readClassNames(opt.ClassNames)
	if err != nil {
		return err
	}
	if names == nil || len(own) == 0 {
		return d.setLabelsBy(cellList(cells), names)
	}
	for i, c := range cells {
		label, err := c.label()
		if err == nil && label >= len(own) {
			err = fmt.Errorf("%d, but only %d classes have names", label, len(own))
		}
		if err != nil {
			return fmt.Errorf("%s: label %w", d.labelAt(i), err)
		}
		cells[i] = cell{text: own[label], number: math.NaN()}
	}
	return d.setLabelsBy(cellList(cells), names)
}

// parquetTable holds the images and labels of a Parquet file.
type parquetTable struct {
	path string
	ctx  context.Context // for reads during Open; later reads of images do not use it
	file *table.Parquet

	image, imagePath, label int      // numbers of the leaf columns; imagePath is −1 if no column has paths
	classes                 []string // class names in the metadata (ClassLabel); nil: none
	// name of the column of labels, as messages show it; a list of similar columns may follow the name
	labels string

	images []encoded
	cells  []cell
	limit  int64
}

func (t *parquetTable) open(f contents, opt Options) (err error) {
	if t.file, err = table.OpenParquet(f, f.size()); err != nil {
		return fmt.Errorf("not a whole Parquet file: %w", err)
	}
	t.limit = memory.Limit()
	if err := t.chooseColumns(opt.LabelColumn); err != nil {
		return err
	}
	if rows := t.file.NumRows(); rows < 0 || rows > t.limit/rowOverhead {
		return fmt.Errorf("%d rows: %w", rows, memory.Check(-1))
	}
	columns := slices.DeleteFunc([]int{t.image, t.imagePath, t.label}, func(k int) bool { return k < 0 })
	if err := t.file.CheckPages(t.ctx, columns...); err != nil {
		return err
	}
	return t.read()
}

// imageColumnNames lists usual names of the column of images, in the order in which chooseImages tries them. If no
// column has one of these names, chooseImages takes the first column that is a struct with a field "bytes".
var imageColumnNames = []string{"image", "img", "images", "pixels", "jpg", "png", "bytes", "image_bytes", "content"}

func (t *parquetTable) chooseColumns(chosen string) error {
	byPath := map[string]int{}
	var columns []string
	for k, path := range t.file.Schema().Columns() {
		byPath[strings.Join(path, ".")] = k
		columns = append(columns, path[0])
	}
	columns = slices.Compact(columns)
	all := quote.Name(strings.Join(columns, ", "))
	t.chooseImages(byPath, columns)
	if t.image < 0 {
		return fmt.Errorf(`no column of images among %s; if it is a table of numbers, pandas.read_parquet(FILE).to_csv("data.csv", index=False) makes CSV of it`, all)
	}
	wanted := slices.Concat(labelNames, []string{"fine_label", "cls"})
	if chosen != "" {
		wanted = []string{chosen}
	}
	var found []string
	for _, name := range columns {
		if k, ok := byPath[name]; ok && (name == chosen || chosen == "" && named(name, wanted)) {
			t.label = k
			found = append(found, name)
		}
	}
	switch {
	case len(found) == 0 && chosen != "":
		return param.Errorf("%s %s: no such column among %s", param.LabelColumn, quote.Name(chosen), all)
	case len(found) != 1:
		return param.Errorf("cannot tell the column of the labels among %s; %s NAME says which", all, param.LabelColumn)
	}
	t.classes, t.labels = t.classLabel(found[0]), quote.Name(found[0])+notOtherColumns(columns, slices.Index(columns, found[0]))
	return nil
}

// chooseImages sets the column of images and, if there is one, the column of their paths.
func (t *parquetTable) chooseImages(byPath map[string]int, columns []string) {
	t.image, t.imagePath = -1, -1
	for _, name := range slices.Concat(imageColumnNames, columns) {
		if k, ok := byPath[name+".bytes"]; ok {
			t.image = k
			if p, ok := byPath[name+".path"]; ok {
				t.imagePath = p
			}
			return
		}
		if k, ok := byPath[name]; ok && slices.Contains(imageColumnNames, name) && t.kind(k) == parquet.ByteArray {
			t.image = k
			return
		}
	}
}

func (t *parquetTable) kind(column int) parquet.Kind {
	leaf, _ := t.file.Schema().Lookup(t.file.Schema().Columns()[column]...)
	return leaf.Node.Type().Kind()
}

// classLabel returns the class names that Hugging Face's metadata give for a column, or nil if there are no such
// metadata.
func (t *parquetTable) classLabel(column string) []string {
	text, _ := t.file.Lookup("huggingface")
	var description struct {
		Info struct {
			Features map[string]json.RawMessage `json:"features"`
		} `json:"info"`
	}
	var feature struct {
		Names []string `json:"names"`
	}
	if json.Unmarshal([]byte(text), &description) != nil || json.Unmarshal(description.Info.Features[column], &feature) != nil {
		return nil
	}
	return feature.Names
}

// read reads all rows once.
func (t *parquetTable) read() error {
	for g := range t.file.RowGroups() {
		rows := len(t.images)
		err := t.file.Each(t.ctx, g, t.image, func(row int, v parquet.Value) error { return t.addImage(g, row, v) })
		if err == nil && t.imagePath >= 0 {
			err = t.file.Each(t.ctx, g, t.imagePath, func(row int, v parquet.Value) error { return t.addPath(rows+row, v) })
		}
		if err == nil {
			err = t.file.Each(t.ctx, g, t.label, func(_ int, v parquet.Value) error { return t.addLabel(v) })
		}
		if err != nil {
			return err
		}
		if len(t.cells) != len(t.images) {
			return fmt.Errorf("row group %d: %d images, but %d labels", g, len(t.images)-rows, len(t.cells)-rows)
		}
	}
	for i := range t.images {
		if t.images[i].open == nil {
			return fmt.Errorf("row %d: neither bytes nor path of an image", i)
		}
	}
	return nil
}

// rowOverhead is roughly the number of bytes that a row takes in memory, without the text of its label.
const rowOverhead = 256

func (t *parquetTable) addImage(group, row int, v parquet.Value) error {
	if t.limit -= rowOverhead; t.limit < 0 {
		return memory.Check(-1)
	}
	image := encoded{name: fmt.Sprintf("%s: row %d", t.path, len(t.images))}
	if !v.IsNull() {
		data := v.ByteArray()
		image.open = func() (io.ReadCloser, int64, error) {
			return io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
		}
		if err := image.inspect(); err != nil {
			return fmt.Errorf("row %d: %w", len(t.images), err)
		}
		image.open = func() (io.ReadCloser, int64, error) { return t.reopen(group, row) }
	}
	t.images = append(t.images, image)
	return nil
}

// reopen reads an image again.
func (t *parquetTable) reopen(group, row int) (io.ReadCloser, int64, error) {
	var data []byte
	err := table.Guard(func() error {
		v, err := t.file.Value(group, t.image, row)
		data = v.ByteArray()
		return err
	})
	return io.NopCloser(bytes.NewReader(data)), int64(len(data)), err
}

// If the row of image i holds no bytes of the image, addPath opens the image by its path. The path must lead to a file
// in the folder of the Parquet file or in its subfolders.
func (t *parquetTable) addPath(i int, v parquet.Value) error {
	if i >= len(t.images) {
		return fmt.Errorf("row %d: a path without a row", i)
	}
	image := &t.images[i]
	if image.open != nil || v.IsNull() {
		return nil
	}
	name := filepath.FromSlash(string(v.ByteArray()))
	if !filepath.IsLocal(name) {
		return fmt.Errorf("row %d: the image %s is not beside the Parquet file or below", i, quote.Field(name))
	}
	file := fileImage(filepath.Join(filepath.Dir(t.path), name), 0)
	if err := file.inspect(); err != nil {
		return fmt.Errorf("row %d: %s: %w", i, file.name, err)
	}
	file.name = image.name
	*image = file
	return nil
}

func (t *parquetTable) addLabel(v parquet.Value) error {
	x, ok := table.Number(v)
	c := cell{text: v.String(), number: x}
	if v.Kind() == parquet.ByteArray {
		c = textCell(string(v.ByteArray()))
	} else if !ok {
		return fmt.Errorf("row %d: the label is missing, or neither a number nor a name", len(t.cells))
	}
	if t.limit -= int64(len(c.text)) + 48; t.limit < 0 {
		return fmt.Errorf("row %d: label %s: %w", len(t.cells), c, memory.Check(-1))
	}
	t.cells = append(t.cells, c)
	return nil
}
