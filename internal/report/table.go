// Package report prints results as JSON documents and as tables. Each column of a table has its own direction of
// rounding. Lower bounds are rounded down and upper bounds are rounded up, so that they stay true.
package report

import (
	"bufio"
	"io"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rscert/rscert/internal/quote"
)

// Missing is printed for a cell without a value.
const Missing = "–"

// Align is the side to which a column's cells are aligned.
type Align int

// These constants name the sides.
const (
	Left Align = iota
	Right
)

// Column describes the format of a column's cells.
type Column struct {
	Name  string
	Align Align
	// Decimals is the number of digits after the point. If Decimals is Shortest, numbers are printed in full.
	Round    Rounding
	Decimals int
	Percent  bool // print 100 times the number
	Sign     bool // print + before numbers ≥ 0
}

// The following functions construct the usual columns.

// TextColumn returns a column of text, aligned left.
func TextColumn(name string) Column { return Column{Name: name, Decimals: Shortest} }

// ExactColumn returns a column of counts, or of numbers that are printed in full.
func ExactColumn(name string) Column { return Column{Name: name, Align: Right, Decimals: Shortest} }

// RoundedColumn returns a column of numbers with the given number of decimals.
func RoundedColumn(name string, to Rounding, decimals int) Column {
	return Column{Name: name, Align: Right, Round: to, Decimals: decimals}
}

// Cell is a value of a table: Number, Count, Interval, Spread or Text. A nil Cell stands for a missing value.
type Cell interface {
	text(c Column) string
}

// Number is a float64. In JSON, a Number that is NaN or infinite becomes null.
type Number float64

// RadiusNumber converts a radius, or an average of radii, to a Number. The radius math.MaxFloat64 stands for +∞, and
// becomes +∞. An average that includes this radius is at least largestAverage, so it also becomes +∞. All averages of
// finite radii are far smaller.
func RadiusNumber(x float64) Number {
	const largestAverage = math.MaxFloat64 / (1 << 62) // the average of math.MaxFloat64 and 2⁶² − 1 zeros
	if x >= largestAverage {
		x = math.Inf(1)
	}
	return Number(x)
}

// Count is a whole number, which is never rounded.
type Count int64

// Text is printed on one line, with unprintable characters escaped.
type Text string

// Interval is printed as [Low, High], always rounded outward.
type Interval struct{ Low, High float64 }

// Spread is a mean and a standard deviation, printed as Mean ± SD. The standard deviation is rounded up.
type Spread struct{ Mean, SD float64 }

// OptionalNumber returns *x, or no value if x is nil.
func OptionalNumber(x *float64) Cell {
	if x == nil {
		return nil
	}
	return Number(*x)
}

func (x Number) text(c Column) string {
	s := c.round(float64(x), c.Round)
	if c.Sign && s != Missing && !strings.HasPrefix(s, "-") && !strings.HasPrefix(s, "+") {
		s = "+" + s
	}
	return s
}

func (x Count) text(Column) string { return strconv.FormatInt(int64(x), 10) }

func (x Text) text(Column) string { return string(x) }

func (x Interval) text(c Column) string {
	return "[" + c.round(x.Low, Down) + ", " + c.round(x.High, Up) + "]"
}

func (x Spread) text(c Column) string {
	if math.IsNaN(x.SD) {
		return c.round(x.Mean, c.Round)
	}
	return c.round(x.Mean, c.Round) + " ± " + c.round(x.SD, Up)
}

func (c Column) round(x float64, to Rounding) string {
	shift := 0
	if c.Percent {
		shift = 2
	}
	return Round(x, to, shift, c.Decimals)
}

// Table is a table of results. A row may have fewer cells than the table has columns. Each absent cell is printed as
// the constant 'Missing'.
type Table struct {
	Columns []Column
	Rows    [][]Cell
	Flush   bool // print no margin on the left
}

// AddRow adds a row.
func (t *Table) AddRow(cells ...Cell) { t.Rows = append(t.Rows, cells) }

// lines returns the cells as text, with the header first if a column has a name.
func (t *Table) lines() (lines [][]string, header bool) {
	names := make([]string, len(t.Columns))
	for j, c := range t.Columns {
		names[j] = quote.Line(c.Name)
	}
	if header = strings.Join(names, "") != ""; header {
		lines = append(lines, names)
	}
	for _, row := range t.Rows {
		line := make([]string, len(t.Columns))
		for j, c := range t.Columns {
			line[j] = Missing
			if j < len(row) && row[j] != nil {
				line[j] = quote.Line(row[j].text(c))
			}
		}
		lines = append(lines, line)
	}
	return lines, header
}

// Strings returns the names of the columns and the rounded cells of the rows.
func (t *Table) Strings() (names []string, rows [][]string) {
	for _, c := range t.Columns {
		names = append(names, c.Name)
	}
	lines, header := t.lines()
	if header {
		lines = lines[1:]
	}
	return names, lines
}

// WriteText prints the table for a terminal. Columns are two spaces apart, and the header appears if a column has a
// name.
func (t *Table) WriteText(w io.Writer) error {
	lines, _ := t.lines()
	width := make([]int, len(t.Columns))
	for _, line := range lines {
		for j, s := range line {
			width[j] = max(width[j], utf8.RuneCountInString(s))
		}
	}
	out := bufio.NewWriter(w)
	for _, line := range lines {
		_, _ = out.WriteString(t.layOut(line, width) + "\n") // out.Flush returns the error of WriteString
	}
	return out.Flush()
}

// layOut pads the cells of a line to the widths and joins them.
func (t *Table) layOut(line []string, width []int) string {
	var b strings.Builder
	for j, s := range line {
		if j > 0 || !t.Flush {
			b.WriteString("  ")
		}
		fill := strings.Repeat(" ", width[j]-utf8.RuneCountInString(s))
		if t.Columns[j].Align == Right {
			b.WriteString(fill + s)
		} else {
			b.WriteString(s + fill)
		}
	}
	return strings.TrimRight(b.String(), " ")
}
