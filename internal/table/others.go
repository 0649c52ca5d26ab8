package table

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/npy"
	"github.com/rscert/rscert/internal/quote"
)

// TextColumn is a column that the caller did not ask for. It holds the values as text. An empty text means that the row
// has no value. Read replaces a line break within a value by a space, because a row of a table is one line.
type TextColumn struct {
	Name   string
	Values []string
}

// Others returns the columns that Read kept because of Options.KeepOthers, in the order of the file. The column of
// checksums is left out, because each checksum belongs to a whole line of the input.
func (t *Table) Others() []TextColumn {
	var all []TextColumn
	for _, c := range t.others {
		if !t.checked || c.Name != checksum.Column {
			all = append(all, *c)
		}
	}
	return all
}

// keep returns a new column for text, or nil if the caller does not want other columns.
func (r *reader) keep(name string) *TextColumn {
	if !r.opt.KeepOthers {
		return nil
	}
	c := &TextColumn{Name: oneLine.Replace(name)}
	r.others = append(r.others, c)
	return c
}

// oneLine replaces line breaks by spaces. Read can then read a CSV file with these texts: Read refuses a CSV field that
// contains a line break.
var oneLine = strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ")

// addOther adds the text of one row to a column. The argument 'row' counts from 0.
func (r *reader) addOther(c *TextColumn, row int, text string) error {
	const bytes = 8
	if err := r.hold(int64(2*(row+1-len(c.Values)) + len(text)/bytes)); err != nil {
		return err
	}
	for len(c.Values) < row { // these rows have no value
		c.Values = append(c.Values, "")
	}
	c.Values = append(c.Values, oneLine.Replace(text))
	return nil
}

// addOtherJSON adds a JSON value as text. Null means that the row has no value. If a key occurs twice, the first value
// counts.
func (r *reader) addOtherJSON(key string, value []byte) error {
	at := slices.IndexFunc(r.others, func(c *TextColumn) bool { return c.Name == oneLine.Replace(key) })
	var c *TextColumn
	if at >= 0 {
		c = r.others[at]
	} else if c = r.keep(key); c == nil {
		return nil
	}
	if len(c.Values) > r.N {
		return nil
	}
	text := string(value)
	switch {
	case text == "null":
		text = ""
	case strings.HasPrefix(text, `"`):
		if err := json.Unmarshal(value, &text); err != nil {
			return jsonError(err)
		}
	}
	return r.addOther(c, r.N, text)
}

// fillOthers appends empty texts to each kept column until it has a value for every row. Columns of JSON lines can be
// too short, because a line may lack a key.
func (r *reader) fillOthers() error {
	for _, c := range r.others {
		if err := r.hold(int64(2 * (r.N - len(c.Values)))); err != nil {
			return err
		}
		c.Values = append(c.Values, make([]string, r.N-len(c.Values))...)
	}
	return nil
}

// addOtherArray keeps an array of an archive if it is a list of numbers.
func (r *reader) addOtherArray(name string, f *zip.File) error {
	if !r.opt.KeepOthers || !isList(f) {
		return nil
	}
	m, err := r.readArray(f, false)
	c := r.keep(name)
	for i := 0; err == nil && i < len(m.Data); i++ {
		err = r.addOther(c, i, strconv.FormatFloat(m.Data[i], 'g', -1, 64))
	}
	return err
}

// isList reports whether an array of an archive is one-dimensional and holds numbers.
func isList(f *zip.File) bool {
	a, err := npy.Open(f)
	if err != nil {
		return false
	}
	defer a.Close()
	return len(a.Shape) == 1
}

// dropShort removes each kept array of an archive that does not have one value for each row.
func (r *reader) dropShort() {
	r.others = slices.DeleteFunc(r.others, func(c *TextColumn) bool { return len(c.Values) != r.N })
}

// addOtherLeaf keeps a column of a Parquet file if it is flat.
func (r *reader) addOtherLeaf(ctx context.Context, file *Parquet, f parquet.Field) error {
	if !r.opt.KeepOthers || !f.Leaf() || f.Repeated() {
		return nil
	}
	c := r.keep(f.Name())
	leaf, _ := file.Schema().Lookup(f.Name())
	if err := file.CheckPages(ctx, leaf.ColumnIndex); err != nil {
		return err
	}
	add := func(_ int, v parquet.Value) error {
		if len(c.Values) == r.N {
			return errors.New("more values than rows")
		}
		text := ""
		if !v.IsNull() {
			text = v.String()
		}
		return r.addOther(c, len(c.Values), text)
	}
	for g := range file.RowGroups() {
		if err := file.Each(ctx, g, leaf.ColumnIndex, add); err != nil {
			return fmt.Errorf("row %d: %s: %w", len(c.Values), quote.Name(c.Name), err)
		}
	}
	if len(c.Values) != r.N {
		return fmt.Errorf("%s: %d values of %d rows", quote.Name(c.Name), len(c.Values), r.N)
	}
	return nil
}
