package dataset

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/quote"
)

// The header or Options.LabelColumn can determine the column of labels. If neither does, the labels are in the first
// column, provided that this column looks like labels and the last column does not. Open refuses all other tables,
// because the user would not notice a wrong guess.

// labelNames lists the usual names of a column of labels.
var labelNames = []string{"label", "labels", "class", "target", "y"}

// indexNames lists the usual names of a column that counts the rows. For example, pandas writes such a column.
var indexNames = []string{"", "unnamed: 0", "index", "idx", "id"}

func named(header string, names []string) bool {
	return slices.Contains(names, strings.ToLower(header))
}

// isHeader reports whether the first line names the columns. In a header, either no field is a number, or the numbers
// are consecutive from 0 or 1, as in headers that pandas writes. So the line of an example is not taken for a header,
// even if its label is damaged or is a name.
func isHeader(record []string) (bool, error) {
	names, numbers := 0, 0
	counting := true
	next := -1
	for _, field := range record {
		field = strings.TrimSpace(field)
		if _, err := strconv.ParseFloat(field, 64); err != nil {
			names++
			continue
		}
		v, err := strconv.Atoi(field)
		if numbers == 0 && err == nil {
			next = v
		}
		counting = counting && err == nil && v == next
		next++
		numbers++
	}
	first := next - numbers
	counting = counting && (first == 0 || first == 1)
	const clear = 8 // smallest number of fields for which a line 0, 1, 2, … is clearly a header
	switch {
	case numbers == 0:
		return true, nil
	case names > 0:
		return counting && numbers+names > 2, nil
	case counting && first == 0 && numbers > 2 && numbers < clear:
		return false, errors.New("0, 1, 2, … may be the columns' names or an example; if this line is an example, write a header with names above it; if not, remove this line")
	}
	return counting && first == 0 && numbers >= clear, nil
}

// watchedColumns returns the columns that may hold the labels, ascending.
func watchedColumns(header []string, columns int, chosen string) ([]int, error) {
	last := columns - 1
	switch {
	case chosen == "none":
		return nil, nil
	case chosen == "first":
		return []int{0}, nil
	case chosen == "last":
		return []int{last}, nil
	case chosen != "":
		k, err := chosenColumn(header, columns, chosen)
		return []int{k}, err
	}
	var labels []int
	for k, name := range header {
		if named(name, labelNames) {
			labels = append(labels, k)
		}
	}
	switch {
	case len(labels) == 1:
		return labels, nil
	case len(labels) > 1:
		return nil, param.Errorf("columns %s and %s may both be the labels; choose by %s NAME",
			quote.Field(header[labels[0]]), quote.Field(header[labels[1]]), param.LabelColumn)
	case len(oneHot(header)) > 0:
		return nil, nil
	}
	for _, k := range []int{0, last} {
		if (header == nil || !isNumbered(header, k)) && !slices.Contains(labels, k) {
			labels = append(labels, k)
		}
	}
	if len(labels) == 0 || len(labels) == 1 && header != nil && named(header[labels[0]], indexNames) {
		return nil, param.Errorf("no column is called label, class, target or y, and %s and %s are not names of labels; %s NAME says which column holds the labels, and %s none says that there are none",
			quote.Field(header[0]), quote.Field(header[last]), param.LabelColumn, param.Labels)
	}
	return labels, nil
}

func chosenColumn(header []string, columns int, chosen string) (int, error) {
	if k := slices.Index(header, chosen); k >= 0 {
		return k, nil
	}
	if k := slices.IndexFunc(header, func(name string) bool { return strings.EqualFold(name, chosen) }); k >= 0 {
		return k, nil
	}
	k, err := strconv.Atoi(chosen)
	switch {
	case err == nil && k >= 0 && k < columns:
		return k, nil
	case err == nil:
		return 0, param.Errorf("%s %d: the columns are 0 to %d", param.LabelColumn, k, columns-1)
	case header == nil:
		return 0, param.Errorf("%s %s: the first line is no header; want first, last, none or an index from 0", param.LabelColumn, quote.Name(chosen))
	}
	return 0, param.Errorf("%s %s: no column has this name", param.LabelColumn, quote.Name(chosen))
}

// notOtherColumns returns text for messages, such as ", not of fine_label". The text lists all columns that sound like
// labels, except the given column. If there are no such columns, the text is empty.
func notOtherColumns(header []string, column int) string {
	var others []string
	for k, name := range header {
		if k != column && soundsLikeLabels(name) {
			others = append(others, quote.Name(name))
		}
	}
	if len(others) == 0 {
		return ""
	}
	return ", not of " + strings.Join(others, ", ")
}

// soundsLikeLabels reports whether one of the words in a column's name is in labelNames. Words of one letter do not
// count.
func soundsLikeLabels(name string) bool {
	words := strings.FieldsFunc(name, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.ContainsFunc(words, func(word string) bool { return len(word) > 1 && named(word, labelNames) })
}

// isNumbered reports whether column k is one of a series of numbered columns: pixel0, pixel1, pixel2, … Such a column
// holds a value and no label.
func isNumbered(header []string, k int) bool {
	stem := strings.TrimRight(header[k], "0123456789")
	if stem == "" || stem == header[k] {
		return false
	}
	series := 0
	for _, name := range header {
		if number, found := strings.CutPrefix(name, stem); found && number != "" && strings.Trim(number, "0123456789") == "" {
			series++
		}
	}
	return series > 2
}

// oneHot returns the columns label_0, label_1, … (or class_0, target_0, y_0, …), which pandas.get_dummies writes for
// labels.
func oneHot(header []string) (columns []int) {
	for k, name := range header {
		at := strings.LastIndexByte(name, '_')
		if at < 0 || !named(name[:at], labelNames) {
			continue
		}
		if name[at+1:] != strconv.Itoa(len(columns)) {
			return nil
		}
		columns = append(columns, k)
	}
	if len(columns) < 2 {
		return nil
	}
	return columns
}

// takeLabels sets d.labels. It returns the columns that hold no input values: the index and the columns of labels.
func (t *csvTable) takeLabels(ctx context.Context, d *Dataset) (used []int, err error) {
	index, err := t.indexColumn()
	if err != nil {
		return nil, err
	}
	if index >= 0 {
		used = append(used, index)
		d.addNote("column %s counts the rows and is left out", quote.Field(t.header[index]))
	}
	if t.opt.LabelColumn == "none" {
		return used, t.takeOtherLabels(ctx, d)
	}
	if len(t.watched) == 0 {
		columns := oneHot(t.header)
		d.addNote("labels of the columns %s to %s", quote.Field(t.header[columns[0]]), quote.Field(t.header[columns[len(columns)-1]]))
		d.labels, err = t.oneHotLabels(columns)
		return append(used, columns...), err
	}
	w := 0
	if len(t.watched) == 2 {
		if w, err = t.guess(index); err != nil {
			return nil, err
		}
	}
	column := t.watched[w]
	if column == index {
		return nil, fmt.Errorf("%s: column %s counts the rows; it is no label", t.path, quote.Field(t.header[index]))
	}
	d.labelColumn = t.columnName(column)
	d.addNote("labels of %s%s", d.labelColumn, notOtherColumns(t.header, column))
	return append(used, column), d.setLabels(&t.cells[w], t.opt)
}

func (t *csvTable) columnName(k int) string {
	name := fmt.Sprintf("column %d", k)
	switch {
	case k == 0:
		name = "the first column"
	case k == t.columns-1:
		name = "the last column"
	}
	if t.header != nil {
		name += " (" + quote.Name(t.header[k]) + ")"
	}
	return name
}

// takeOtherLabels takes the labels from the file Options.Labels. If Options.Labels is NoLabels, takeOtherLabels sets
// placeholder labels.
func (t *csvTable) takeOtherLabels(ctx context.Context, d *Dataset) error {
	if t.opt.unlabelled() {
		d.labels, d.labelAt = make([]int, t.rows()), unplaced
		return nil
	}
	labels, labelAt, err := readLabels(ctx, t.opt.Labels)
	if err == nil && len(labels) != t.rows() {
		err = fmt.Errorf("%s: %d labels for the %d rows of %s", t.opt.Labels, len(labels), t.rows(), t.path)
	}
	d.labels, d.labelAt = labels, labelAt
	d.addNote("labels of %s", filepath.Base(t.opt.Labels))
	return err
}

// indexColumn returns 0 if the first column is an index that counts the rows, as in tables that pandas writes. It
// returns −1 if the table has no index. If the first column has the name of an index but does not count the rows,
// indexColumn returns an error, because such a column holds neither an index nor input values.
func (t *csvTable) indexColumn() (int, error) {
	if t.header == nil || !named(t.header[0], indexNames) || slices.Equal(t.watched, []int{0}) {
		return -1, nil
	}
	if t.counts(0) {
		return 0, nil
	}
	return -1, fmt.Errorf("%s: line %d: column %s seems to be an index and not a value, but does not count the rows; write the file without it (index=False), or name it otherwise",
		t.path, t.lines[0], quote.Field(t.header[0]))
}

// The method 'counts' reports whether the values of column k are 0, 1, 2, … or 1, 2, 3, ….
func (t *csvTable) counts(k int) bool {
	first := t.row(0)[k]
	for i := range t.rows() {
		if t.row(i)[k] != first+float32(i) {
			return false
		}
	}
	return (first == 0 || first == 1) && t.rows() > 1
}

// fewRows is a limit on the number of rows of a table. It applies if the table has no header and its first column is 0,
// 1, 2, … or 1, 2, 3, …. If such a table has more than fewRows rows, the method 'guess' takes this column for an index
// and returns an error. In a smaller table, the column may hold the labels, because the table may hold one example of
// each class, in order.
const fewRows = 10

// guess finds the column of the labels. It returns a position in t.watched, which lists the first and the last column.
// The argument 'index' is the column that counts the rows, or −1.
func (t *csvTable) guess(index int) (int, error) {
	settle := param.Textf("; say which by %s first, last, NAME or INDEX", param.LabelColumn)
	first, last := t.candidate(0), t.candidate(1)
	switch {
	case index == 0:
		return 0, param.Errorf("%s: no column is called label, class, target or y%s", t.path, settle)
	case !first.whole && first.named && last.named && t.rows() > 1:
		return 0, param.Errorf("%s: neither the first nor the last column holds numbers%s", t.path, settle)
	case !first.whole && (last.named || last.whole && last.distinct > 1):
		return 0, param.Errorf("%s: line %d: label %w; the last column looks like the labels%s", t.path, t.lines[first.row], first.damaged, settle)
	case !first.whole && !first.named:
		return 0, param.Errorf("%s: line %d: label %w; if the first column does not hold the labels, %s says which does",
			t.path, t.lines[first.row], first.damaged, param.LabelColumn)
	case first.named:
		return 0, nil // not an error, because setLabels accepts names
	case last.named:
		return 0, param.Errorf("%s: the last column holds names, and the first column holds numbers%s", t.path, settle)
	case t.header == nil && t.rows() > fewRows && t.counts(0):
		return 0, param.Errorf("%s: the first column counts the rows, as an index does%s", t.path, settle)
	case last.rivals(first):
		return 0, param.Errorf("%s: the first and the last column both look like labels%s", t.path, settle)
	}
	return 0, nil
}

// candidate describes the cells of a column that may hold the labels.
type candidate struct {
	named    bool  // no cell is a number
	whole    bool  // all cells are whole numbers, at least 0
	damaged  error // error for the first cell that is not a whole number
	row      int   // row of the cell that the field 'damaged' is about
	dense    bool  // the distinct values are 0, 1, …, 'top' or 1, 2, …, 'top'; there are at least two of them
	top      int
	distinct int
}

// The method 'rivals' reports whether the last column, c, looks at least as much like labels as the first column does.
// The last column may also be a pixel of an image. If there are enough rows, two things distinguish labels from a
// pixel. Labels have no gaps (the field 'dense'), and labels take few values, but a pixel may take all values of a
// byte.
func (c candidate) rivals(first candidate) bool {
	// If c.top is more than 'pixels' times first.top, the last column is a pixel. For example, a pixel may be 255, and
	// the largest label of 10 classes is 9.
	const pixels = 20
	if !c.whole || c.distinct < 2 {
		return false
	}
	switch {
	case first.distinct < 2:
		return true
	case !first.dense:
		return c.dense || c.top <= first.top
	}
	return c.dense && c.top <= pixels*first.top
}

func (t *csvTable) candidate(w int) candidate {
	c := candidate{whole: true}
	seen := map[int]bool{}
	low := math.MaxInt
	texts := 0
	for i := range t.rows() {
		cell := t.cells[w].at(i)
		if math.IsNaN(cell.number) {
			texts++
		}
		label, err := cell.label()
		if err != nil {
			if c.whole {
				c.whole, c.row, c.damaged = false, i, err
			}
			continue
		}
		seen[label] = true
		c.top, low = max(c.top, label), min(low, label)
	}
	c.named = texts == t.rows()
	c.distinct = len(seen)
	c.dense = c.whole && low <= 1 && c.distinct > 1 && c.distinct == c.top-low+1
	return c
}

func (c cell) String() string { return quote.Field(c.text) }

// label returns the field as a class number. It accepts the spelling 7, and the spelling 7.0e+00 of numpy.savetxt.
func (c cell) label() (int, error) {
	if math.IsNaN(c.number) {
		return 0, fmt.Errorf("%s is not a number", c)
	}
	label, err := wholeLabel(c.number)
	if err != nil {
		return 0, fmt.Errorf("%s %w", c, err)
	}
	return label, nil
}

// writtenLabels is a list of labels as the data spell them.
type writtenLabels interface {
	len() int
	at(i int) cell
}

// cellList is a list of cells that need not come from one column.
type cellList []cell

func (l cellList) len() int      { return len(l) }
func (l cellList) at(i int) cell { return l[i] }

// setLabels sets d.labels from the labels as the data spell them. The labels count as names if the list of class names
// contains all of them, and otherwise as numbers. The list is Options.ClassNames or Options.ModelClasses. The caller
// must set d.labelAt before the call.
func (d *Dataset) setLabels(labels writtenLabels, opt Options) error {
	names, err := readClassNames(opt.ClassNames)
	if err != nil {
		return err
	}
	own := opt.modelNames()
	if own == nil {
		return d.setLabelsBy(labels, names)
	}
	err = d.setLabelsBy(labels, own)
	if !d.byName {
		d.names = nil // the labels are numbers
	}
	return err
}

func (d *Dataset) setLabelsBy(labels writtenLabels, names *classNames) error {
	d.labels = make([]int, labels.len())
	d.names = names
	unnamed := error(nil)
	for i := range labels.len() {
		if names == nil {
			break
		}
		label, err := names.label(labels.at(i).text)
		if err != nil {
			unnamed = fmt.Errorf("%s: label %w", d.labelAt(i), err)
			break
		}
		d.labels[i] = label
	}
	if names != nil && unnamed == nil {
		d.byName = true
		d.addNote("classes in the order of %s", filepath.Base(names.source))
		return nil
	}
	for i := range labels.len() {
		c := labels.at(i)
		switch {
		case math.IsNaN(c.number) && unnamed != nil:
			return unnamed
		case math.IsNaN(c.number):
			_, err := c.label()
			return param.Errorf("%s: label %w; if labels are names, %s FILE gives the model's classes in its order", d.labelAt(i), err, param.ClassNames)
		}
		label, err := c.label()
		if err != nil {
			return fmt.Errorf("%s: label %w", d.labelAt(i), err)
		}
		d.labels[i] = label
	}
	return nil
}

// oneHotLabels returns, for every row, the position of the column that holds the 1.
func (t *csvTable) oneHotLabels(columns []int) ([]int, error) {
	labels := make([]int, t.rows())
	for i := range labels {
		label, err := hot(len(columns), func(j int) float64 { return float64(t.row(i)[columns[j]]) })
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", t.path, t.lines[i], err)
		}
		labels[i] = label
	}
	return labels, nil
}

// The function 'hot' returns the position of the 1 among n values. It returns an error unless exactly one value is 1
// and all others are 0.
func hot(n int, value func(int) float64) (int, error) {
	one := -1
	for j := range n {
		switch v := value(j); {
		case v == 1 && one < 0:
			one = j
		case v != 0:
			return 0, fmt.Errorf("a one-hot label has one 1 among zeros, but column %d of this label has %v", j, v)
		}
	}
	if one < 0 {
		return 0, errors.New("a one-hot label has one 1 among zeros, but this label is all zeros")
	}
	return one, nil
}
