package smoothing

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/law"
)

// A Column is a set of coordinates whose noise has the same scale: a column of a table, or a colour channel. Every
// column has its own lattice. The coordinates of a column without noise reach the model unchanged.
type Column struct {
	Name      string  // the column's name in errors
	Scale     float64 // scale of the noise in the units of the column; 0 means no noise
	Mean, Std float64 // the model's input is (x − Mean)/Std
	// Lattice is the lattice of the column's data, as refined for the noise. If Lattice is nil, the column is
	// quantised. The classifier then clamps the column's values to [Low, High], and rounds them to a lattice. The scale
	// of the noise is law.Ratios.Greatest steps of this lattice.
	Lattice   *Lattice
	Index     func(x float32) int // Index returns k for the value x = Step·k on Lattice
	Low, High float32
}

// ColumnStep returns the step of a quantised column: the argument 'scale' divided by law.Ratios.Greatest, rounded up.
// The noise that rscert draws has the scale law.Ratios.Greatest·step, which is at least the argument 'scale'. So a
// certificate computed with the argument 'scale' holds for this noise, too. The quotient of the scale and the step is
// the same for all quantised columns, so these columns share one table.
func ColumnStep(l law.Additive, scale float64) float64 {
	return math.Nextafter(scale/float64(l.Ratios().Greatest), math.Inf(1))
}

// ColumnTable returns the table of a column's noise. For a quantised column, the argument 'step' is nil.
func ColumnTable(l law.Additive, scale float64, step *big.Rat) (*Table, error) {
	if step == nil {
		return NewLawTable(l, float64(l.Ratios().Greatest), big.NewRat(1, 1))
	}
	return NewLawTable(l, scale, step)
}

// ColumnTables holds the tables for noise in which each column has its own scale. No two tables are equal. The order
// of the tables is the order in which the columns first use them.
type ColumnTables []*Table

// add returns the table of a column's noise. It appends the table to t, unless t already has a table of the same
// distribution. For a quantised column, the argument 'step' is nil.
func (t *ColumnTables) add(l law.Additive, scale float64, step *big.Rat) (*Table, error) {
	if old := t.named(quantisedName(l)); step == nil && old != nil {
		return old, nil
	}
	table, err := ColumnTable(l, scale, step)
	if err != nil {
		return nil, err
	}
	if old := t.named(table.name); old != nil {
		return old, nil
	}
	*t = append(*t, table)
	return table, nil
}

// The method 'named' returns the table with this name, or nil.
func (t *ColumnTables) named(name string) *Table {
	for _, table := range *t {
		if table.name == name {
			return table
		}
	}
	return nil
}

// NewColumnTables returns the tables for columns of these scales and steps. A scale of 0 means a column without noise.
// A nil step means a quantised column.
func NewColumnTables(l law.Additive, scales []float64, steps []*big.Rat) (all ColumnTables, err error) {
	for c, scale := range scales {
		if scale == 0 {
			continue
		}
		if _, err := all.add(l, scale, steps[c]); err != nil {
			return nil, fmt.Errorf("column %d: %w", c, err)
		}
	}
	return all, nil
}

// quantisedName returns the name of the table of quantised columns.
func quantisedName(l law.Additive) string { return fmt.Sprintf("%s %d", l.Name(), l.Ratios().Greatest) }

// Name returns the names of the tables.
func (t ColumnTables) Name() string {
	names := make([]string, len(t))
	for i, table := range t {
		names[i] = table.name
	}
	return strings.Join(names, ", ")
}

// Digest returns the digest of the table if there is only one. If there are several tables, Digest returns the SHA-256
// of the tables' digests, each followed by a newline.
func (t ColumnTables) Digest() string {
	if len(t) == 1 {
		return t[0].Digest()
	}
	hash := sha256.New()
	for _, table := range t {
		hash.Write([]byte(table.Digest() + "\n"))
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// Entries returns the number of entries of all tables.
func (t ColumnTables) Entries() (n int) {
	for _, table := range t {
		n += table.Entries()
	}
	return n
}

// Eta returns the largest Eta of the tables.
func (t ColumnTables) Eta() (eta float64) {
	for _, table := range t {
		eta = max(eta, table.Eta)
	}
	return eta
}

// ColumnNoise is noise with a scale for each column. In each column with noise, the noise has scale 1 if it is measured
// in units of the column's scale. So a certificate of radius r holds for a perturbation δ under two conditions. On the
// columns without noise, δ is 0. On the other columns, the vector of the quotients δ_d/scale_d has a norm below r.
type ColumnNoise struct {
	Tables   ColumnTables
	norm     law.Norm
	columns  []columnNoise
	columnOf []int32 // column of each coordinate of the model's input
}

// columnNoise draws the noise of a column.
type columnNoise struct {
	Column
	quantise *Quantiser
	step     float64 // step of the lattice, if the column is quantised
	first    int     // label 0 of the table stands for this integer
	entries  []uint64
	values   []float32 // values[k − low] is the model's input for the integer k; nil for a quantised column
	low      int       // smallest integer in values
}

// RangeError means that the values of a column span too wide a range. The lattice for this range cannot be fine enough
// for the column's noise.
type RangeError struct {
	Column string
	err    error
}

func (e *RangeError) Error() string { return fmt.Sprintf("%s: %v", e.Column, e.err) }

// NewColumnNoise prepares the noise. Coordinate d of the model's input belongs to column columnOf[d].
func NewColumnNoise(l law.Additive, columns []Column, columnOf []int) (*ColumnNoise, error) {
	n := &ColumnNoise{norm: l.Norm()}
	for _, c := range columnOf {
		n.columnOf = append(n.columnOf, int32(c))
	}
	for _, c := range columns {
		made := columnNoise{Column: c}
		if c.Scale > 0 {
			if err := made.prepare(l, &n.Tables); err != nil {
				return nil, err
			}
		}
		n.columns = append(n.columns, made)
	}
	return n, nil
}

// prepare fills in the fields of a column with noise. It gets the table that draws the noise: it takes the table from
// the argument 'tables', or makes the table and adds it there. If the column has a lattice, prepare also computes the
// model's inputs for the lattice points. Otherwise it makes the column's Quantiser.
func (c *columnNoise) prepare(l law.Additive, tables *ColumnTables) (err error) {
	var step *big.Rat
	if c.Lattice != nil {
		step = c.Lattice.Step
	}
	table, err := tables.add(l, c.Scale, step)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name, err)
	}
	if c.Lattice == nil {
		if c.quantise, err = newQuantiser(l, c.Scale, ColumnStep(l, c.Scale), c.Low, c.High); err != nil {
			return &RangeError{c.Name, err}
		}
		c.step = c.quantise.step
	} else {
		c.low = c.Lattice.Low + table.First
		width := c.Lattice.High - c.Lattice.Low + 1 + table.Last - table.First
		if c.Lattice.Low > c.Lattice.High || width > maxValues {
			return fmt.Errorf("%s: the data span %d steps of the lattice", c.Name, c.Lattice.High-c.Lattice.Low)
		}
		if c.values, err = channelValues(c.Lattice.Step, c.low, width, c.Mean, c.Std); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	c.first, c.entries = table.First, table.entries
	return nil
}

// value returns the model's input for the integer k. The conversions to float64 keep a processor from fusing the
// product with the difference. So every processor computes the same value. The certificate does not depend on the
// rounding of this value: it holds for any function of k, because the certified classifier is a function of the
// integers.
func (c *columnNoise) value(k int) float32 {
	if c.values != nil {
		return c.values[k-c.low]
	}
	return float32((float64(float64(k)*c.step) - c.Mean) / c.Std)
}

// ColumnInput is one example, prepared for the noise of a ColumnNoise.
type ColumnInput struct {
	noise  *ColumnNoise
	points []int32 // integers that stand for the example's values; 0 in columns without noise
	// clean [D] is the model's input without noise. Coordinates of columns without noise have these values in every
	// sample.
	clean []float32
}

// Input prepares an example for sampling. The slice 'values' [D] holds the example's values in the order of the model's
// input. Input also returns a deduction, in units of the scales: the caller must subtract this number from every
// radius. The deduction is the norm of a vector, rounded up. For each quantised coordinate, the vector holds
//
//	(|x_c − q(x)| + g/2 + read)/scale,
//
// where g is the step of the column's Quantiser, and x_c and q(x) are as in the comment of Quantiser. The argument
// 'rounded' is true if the values were read from a file whose numbers need not be float32 numbers. If it is false, the
// term 'read' is 0. Otherwise, the term 'read' is the sum of two error bounds. One is for the example: it limits the
// distance between a number in the file and the float32 that was read from it. The other limits the same distance for
// any perturbed example.
//
// The slice 'frozen' [D] holds the model's inputs for the coordinates of columns without noise. The caller computes
// these inputs.
func (n *ColumnNoise) Input(values, frozen []float32, rounded bool) (ColumnInput, float64, error) {
	in := ColumnInput{n, make([]int32, len(values)), slices.Clone(frozen)}
	sum := 0.
	for d, x := range values {
		c := &n.columns[n.columnOf[d]]
		switch {
		case c.Scale == 0:
			continue
		case c.quantise == nil:
			k := c.Lattice.clamped(c.Index(x))
			if k < c.Lattice.Low || k > c.Lattice.High {
				return in, 0, fmt.Errorf("%s: %v: %w", c.Name, x, errOffRange)
			}
			in.points[d] = int32(k)
		default:
			k, moved := c.quantise.point(x)
			in.points[d] = k
			if rounded {
				moved += c.quantise.reading(x)
			}
			sum = n.norm.Add(sum, moved/c.Scale)
		}
		in.clean[d] = c.value(int(in.points[d]))
	}
	return in, n.norm.Length(sum) * (1 + float64(len(values)+8)*0x1p-51), nil
}

// clamped returns k if k is in the lattice's range. Otherwise it returns the number next to the range, Low−1 or High+1.
func (l *Lattice) clamped(k int) int { return min(max(k, l.Low-1), l.High+1) }

// Len returns D.
func (in ColumnInput) Len() int { return len(in.points) }

// Clean sets dst [D] to the input without noise.
func (in ColumnInput) Clean(dst []float32) { copy(dst, in.clean) }

// Perturb sets dst [D] to the noisy input of a sample (0 ≤ sample < 2³¹). The random word of a coordinate does not
// depend on which columns have noise.
func (in ColumnInput) Perturb(dst []float32, s Stream, sample int64) {
	y := uint64(sample) * weyl * s.key
	for d := range dst {
		z := y + s.key
		if c := &in.noise.columns[in.noise.columnOf[d]]; c.Scale == 0 {
			dst[d] = in.clean[d]
		} else {
			dst[d] = c.value(int(in.points[d]) + c.first + int(draw(c.entries, squares64(y, z))))
		}
		y = z // the z of one coordinate is the y of the next coordinate
	}
}
