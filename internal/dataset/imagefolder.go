package dataset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/warning"
)

// openImages reads a folder with one subfolder of images for every class, or a folder of images with a file of labels.
// If Options.Labels is NoLabels, openImages also reads a folder of images without a file of labels.
//
// If Options.ClassNames names a file, the order of the names in this file gives each class its number. Without
// ClassNames, the names of the folders are the labels if all these names are numbers. Otherwise the folders are
// numbered in the order of their names (bytewise, like Python's sorted).
func openImages(ctx context.Context, root string, opt Options) (*Dataset, error) {
	if opt.Labels != "" && !opt.unlabelled() {
		return openFlatImages(ctx, root, opt)
	}
	names, err := readClassNames(opt.ClassNames)
	if err != nil {
		return nil, err
	}
	folders, err := classFolders(root)
	if err != nil {
		return nil, err
	}
	order, err := orderClasses(root, folders, names)
	if err != nil {
		return nil, err
	}
	var images []encoded
	for k, folder := range folders {
		if images, err = appendImages(images, filepath.Join(root, folder), order.labels[k]); err != nil {
			return nil, err
		}
	}
	if len(images) == 0 && opt.unlabelled() {
		if images, err = appendImages(nil, root, 0); err == nil && len(images) > 0 {
			return assemble(ctx, "images", images, opt)
		}
	}
	if len(images) == 0 {
		flat, err := imagesIn(root)
		if err == nil && len(flat) > 0 {
			return nil, param.Errorf("%s: no data in this folder: its images are in no class folders, so they have no labels; %s FILE gives labels (a table of file names and labels, or one label per line), and %s none says that there are none", root, param.Labels, param.Labels)
		}
		return nil, fmt.Errorf("%s: no data in this folder: neither IDX files, CIFAR batches, x.npy and y.npy, Parquet or tar files, nor a subfolder of images for each class", root)
	}
	d, err := assemble(ctx, "image folder", images, opt)
	if err != nil {
		return nil, err
	}
	d.root, d.folders, d.names, d.byName = root, order.counted, names, names != nil
	if order.ambiguity != nil {
		d.warnings = append(d.warnings, warning.New(warning.FolderOrder, "%s: %s", quote.Line(root), *order.ambiguity))
	}
	scaled := "channels scaled to [0,1]"
	switch {
	case names != nil:
		d.addNote("%d class folders, numbered as in %s, %s", len(folders), names.source, scaled)
	case order.counted > 0:
		d.addNote("%d classes, numbered in the order of their folders' names: %s; %s", len(folders), numbering(folders), scaled)
	default:
		d.addNote("%d classes from %s to %s, numbered by their folders, %s", len(folders), folders[0], folders[len(folders)-1], scaled)
	}
	return d, nil
}

// splitNames lists usual names of folders that hold a part of a dataset.
var splitNames = []string{"test", "validation", "val", "valid", "dev", "train", "training", "testing"}

// refuseSplits returns an error if the names of all folders are in splitNames. These folders are parts of a dataset,
// for example train and test, and not classes.
func refuseSplits(root string, folders []string) error {
	first, at := "", len(splitNames)
	for _, folder := range folders {
		k := slices.Index(splitNames, strings.ToLower(folder))
		if k < 0 {
			return nil
		}
		if k < at {
			first, at = folder, k
		}
	}
	if len(folders) == 0 {
		return nil
	}
	return param.Errorf("%s: has the parts %s of a dataset, and no class folders; name the part to read: %s %s",
		root, strings.Join(folders, ", "), param.Data, quote.Name(filepath.Join(root, first)))
}

// The function 'numbering' lists the classes with their numbers, for messages. It lists up to ten classes completely.
// If there are more, it lists the first three and the last.
func numbering(folders []string) string {
	var list []string
	for k, name := range folders {
		if len(folders) <= 10 || k < 3 || k == len(folders)-1 {
			list = append(list, fmt.Sprintf("%d %s", k, quote.Name(name)))
		} else if k == 3 {
			list = append(list, "…")
		}
	}
	return strings.Join(list, ", ")
}

func fileImage(path string, label int) encoded {
	return encoded{name: path, label: label, open: func() (io.ReadCloser, int64, error) {
		f, size, err := openRegular(path)
		if err != nil {
			err = withoutPath(path, err)
		}
		return f, size, err
	}}
}

// withoutPath removes the path from the front of an error. The caller adds the path again.
func withoutPath(path string, err error) error {
	if inner := errors.Unwrap(err); inner != nil && err.Error() == path+": "+inner.Error() {
		return inner
	}
	return errors.New(strings.TrimPrefix(err.Error(), path+": "))
}

// classFolders returns the names of the folders in the folder 'root', sorted.
func classFolders(root string) (folders []string, err error) {
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, fileError(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		// Use Stat, not e.IsDir, because a class may be a link to a folder.
		if info, err := os.Stat(filepath.Join(root, e.Name())); err != nil {
			return nil, fileError(err)
		} else if info.IsDir() {
			folders = append(folders, e.Name())
		}
	}
	slices.Sort(folders)
	return folders, nil
}

// imagesIn returns the images in a folder, sorted by name.
func imagesIn(dir string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fileError(err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		is, err := isImage(path)
		if err != nil {
			return nil, err
		}
		if is {
			files = append(files, path)
		}
	}
	return files, nil
}

// classOrder holds the numbers of the class folders.
type classOrder struct {
	labels    []int // label of each folder
	counted   int   // number of folders if the order of the folders gives the labels; otherwise 0
	ambiguity *param.Text
}

func orderClasses(root string, folders []string, names *classNames) (o classOrder, err error) {
	o.labels = make([]int, len(folders))
	if names != nil {
		for k, folder := range folders {
			if o.labels[k], err = names.label(folder); err != nil {
				return o, fmt.Errorf("%s: folder %w", root, err)
			}
		}
		return o, nil
	}
	if err := refuseSplits(root, folders); err != nil {
		return o, err
	}
	numbered := true
	for k, folder := range folders {
		n, err := strconv.ParseUint(folder, 10, 31)
		numbered = numbered && err == nil && strconv.FormatUint(n, 10) == folder
		o.labels[k] = int(n)
	}
	if numbered {
		if !slices.IsSorted(o.labels) {
			ambiguity := param.Textf("the names of the folders are numbers, and rscert takes these numbers as the labels; torchvision's ImageFolder counts the folders in another order (10 before 2): if the model follows ImageFolder, give this order by %s FILE", param.ClassNames)
			o.ambiguity = &ambiguity
		}
		return o, nil
	}
	for k := range folders {
		o.labels[k] = k
	}
	o.counted = len(folders)
	if a, b := unnatural(folders); a != "" {
		ambiguity := param.Textf("%s is numbered before %s, as torchvision does; if the model counts otherwise, %s FILE gives its order",
			quote.Name(a), quote.Name(b), param.ClassNames)
		o.ambiguity = &ambiguity
	}
	return o, nil
}

// The function 'unnatural' looks for two neighbouring names that differ only in the number at the end. It returns the
// first pair whose numbers descend, for example class10 and class2. If it finds no pair, it returns "".
func unnatural(folders []string) (a, b string) {
	split := func(name string) (string, int) {
		stem := strings.TrimRight(name, "0123456789")
		n, err := strconv.Atoi(name[len(stem):])
		if err != nil {
			n = -1
		}
		return stem, n
	}
	for k := 1; k < len(folders); k++ {
		before, m := split(folders[k-1])
		after, n := split(folders[k])
		if before == after && n >= 0 && m > n {
			return folders[k-1], folders[k]
		}
	}
	return "", ""
}

// appendImages appends the images of a folder to the slice 'images'. The appended images get the given label.
func appendImages(images []encoded, folder string, label int) ([]encoded, error) {
	files, err := imagesIn(folder)
	for _, path := range files {
		images = append(images, fileImage(path, label))
	}
	return images, err
}

// openFlatImages reads a folder of images with a file of labels. The file of labels has one of two forms. Either it is
// a table of file names and labels, or each line has one label. In the second form, the lines follow the order of the
// images' names, as in ImageNet's validation labels.
func openFlatImages(ctx context.Context, root string, opt Options) (*Dataset, error) {
	files, err := imagesIn(root)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no images in this folder for the labels in %s", root, opt.Labels)
	}
	table, err := readImageLabels(ctx, opt.Labels, opt.LabelColumn)
	if err != nil {
		return nil, err
	}
	var images []encoded
	if table.names == nil {
		if len(table.cells) != len(files) {
			return nil, fmt.Errorf("%s: %d labels for the %d images of %s", opt.Labels, len(table.cells), len(files), root)
		}
		if table.devkit() {
			return nil, param.Errorf("%s: labels from 1 to 1000 are the ImageNet development kit's numbers, not the models' numbers; use a list of synsets (n01440764 …), and give the model's list of classes by %s", opt.Labels, param.ClassNames)
		}
		for _, path := range files {
			images = append(images, fileImage(path, 0))
		}
	} else if images, err = table.match(root, files); err != nil {
		return nil, err
	}
	d := &Dataset{labelAt: func(i int) string { return fmt.Sprintf("%s: line %d", opt.Labels, table.lines[i]) }}
	if err := d.setLabels(cellList(table.cells), opt); err != nil {
		return nil, err
	}
	for i := range images {
		images[i].label = d.labels[i]
	}
	whole, err := assemble(ctx, "images and labels", images, opt)
	if err != nil {
		return nil, err
	}
	whole.names, whole.byName, whole.labelAt, whole.table = d.names, d.byName, d.labelAt, true
	whole.addNote("labels of %s, channels scaled to [0,1]", filepath.Base(opt.Labels))
	return whole, nil
}

// imageLabels holds the labels of a flat folder.
type imageLabels struct {
	path  string
	names []string // file names; nil if the labels are in the order of the files
	cells []cell
	lines []int
}

// devkit reports whether the least label is 1 and the largest is 1000, as in ILSVRC2012_validation_ground_truth.txt.
func (l imageLabels) devkit() bool {
	low, high := math.Inf(1), math.Inf(-1)
	for _, c := range l.cells {
		low, high = min(low, c.number), max(high, c.number)
	}
	return low == 1 && high == 1000
}

// fileColumns lists the usual names of a column of file names.
var fileColumns = []string{"file", "filename", "file_name", "image", "image_id", "imageid", "path", "name", "id", "img", "image_path"}

// readImageLabels reads a table with columns of file names and labels, or lines that hold one label each.
func readImageLabels(ctx context.Context, path, column string) (imageLabels, error) {
	l := imageLabels{path: path}
	file, records, err := openText(ctx, path)
	if err != nil {
		return l, err
	}
	defer file.Close()
	limit, fileColumn, labelColumn := memory.Limit(), 0, -1
	for {
		record, line, err := records.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return l, fmt.Errorf("%s: %w", path, err)
		}
		if labelColumn < 0 {
			header := false
			if fileColumn, labelColumn, header, err = imageColumns(record, column); err != nil {
				return l, fmt.Errorf("%s: line %d: %w", path, line, err)
			}
			if header {
				continue
			}
		}
		const overhead = 128
		if limit -= overhead + int64(len(strings.Join(record, ""))); limit < 0 {
			return l, fmt.Errorf("%s: line %d: %w", path, line, memory.Check(-1))
		}
		if fileColumn >= 0 {
			l.names = append(l.names, strings.Clone(strings.TrimSpace(record[fileColumn])))
		}
		l.cells, l.lines = append(l.cells, textCell(record[labelColumn])), append(l.lines, line)
	}
	if len(l.cells) == 0 {
		return l, fmt.Errorf("%s: no labels", path)
	}
	return l, nil
}

// textCell converts the text of a label to a cell. If other text follows a synset (the ID of a class in ImageNet), the
// cell holds only the synset. For example, a bounding box follows the synset in Kaggle's "n03995372 85 1 499 272".
func textCell(field string) cell {
	field = strings.TrimSpace(field)
	if m := synset.FindStringSubmatch(field); m != nil {
		field = m[1]
	}
	c := cell{text: strings.Clone(field)}
	var err error
	if c.number, err = strconv.ParseFloat(field, 64); err != nil {
		c.number = math.NaN()
	}
	return c
}

// imageColumns reads the first line of a labels file. It finds the column of file names and the column of labels. If
// this line has only one field, there are no file names, and the result 'file' is −1. The result 'header' reports
// whether the line names the columns.
func imageColumns(record []string, chosen string) (file, label int, header bool, err error) {
	if len(record) == 1 {
		return -1, 0, named(strings.TrimSpace(record[0]), labelNames), nil
	}
	file, label = -1, -1
	var fields []string
	for k, field := range record {
		field = strings.TrimSpace(field)
		fields = append(fields, field)
		if is, _ := isImage(field); is {
			return 0, 1, false, twoColumns(k, record, chosen)
		}
		if file < 0 && named(field, fileColumns) {
			file = k
		}
		if label < 0 && (named(field, labelNames) || strings.EqualFold(field, "PredictionString") || strings.EqualFold(field, "wnid") || strings.EqualFold(field, "synset")) {
			label = k
		}
	}
	if chosen != "" {
		if label, err = chosenColumn(fields, len(fields), chosen); err != nil {
			return 0, 0, false, err
		}
	}
	if file < 0 || label < 0 {
		return 0, 0, false, errors.New("want a header with the columns filename and label")
	}
	return file, label, true, nil
}

// twoColumns checks the first line of a table without a header. The line must be a file name and a label, in this
// order, and the user must have chosen no column. Otherwise, twoColumns returns an error.
func twoColumns(file int, record []string, chosen string) error {
	if file != 0 || len(record) != 2 || chosen != "" {
		return errors.New("want a file name and a label, or a header with the columns filename and label")
	}
	return nil
}

// match returns the images that a table names, in the order of the table. The table may omit the suffixes of the names.
func (l imageLabels) match(root string, files []string) ([]encoded, error) {
	byName := map[string]string{}
	for _, path := range files {
		base := filepath.Base(path)
		byName[base] = path
		stem := strings.TrimSuffix(base, filepath.Ext(base))
		if _, twice := byName[stem]; twice {
			byName[stem] = ""
		} else {
			byName[stem] = path
		}
	}
	var images []encoded
	seen := map[string]bool{}
	for i, name := range l.names {
		path := byName[filepath.Base(filepath.FromSlash(name))]
		if path == "" {
			return nil, fmt.Errorf("%s: line %d: no image %s in %s", l.path, l.lines[i], quote.Field(name), root)
		}
		if seen[path] {
			return nil, fmt.Errorf("%s: line %d: image %s appears twice", l.path, l.lines[i], quote.Field(name))
		}
		seen[path] = true
		images = append(images, fileImage(path, 0))
	}
	if len(images) < len(files) {
		return nil, fmt.Errorf("%s: %d labels for the %d images of %s", l.path, len(images), len(files), root)
	}
	return images, nil
}
