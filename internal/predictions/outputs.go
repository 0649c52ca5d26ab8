package predictions

import (
	"errors"
	"fmt"
	"math"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/calibrator"
	"github.com/rscert/rscert/internal/table"
)

// OutputColumns returns the columns that Outputs uses.
func OutputColumns() table.Options {
	o := Columns()
	o.Optional = append(o.Optional, "logits", "logit")
	o.Matrices = append(o.Matrices, "logits")
	o.AllowNonFinite = true // a logit may be −∞
	return o
}

// Outputs takes a classifier's raw outputs from a table. It takes logits if the table has them, and otherwise
// probabilities. The outputs are for all classes, or for class 1 only. The labels may be missing.
func Outputs(t *table.Table) (calibrator.Data, error) {
	if err := checkIndex(t); err != nil {
		return calibrator.Data{}, err
	}
	d, err := outputs(t)
	if err != nil {
		return d, LocateRow(t, err)
	}
	column, ok := t.Column("label")
	if !ok {
		if column, ok = t.Column("labels"); !ok {
			return d, checkValues(t, d)
		}
	}
	if d.Label, err = classNumbers("label", column); err != nil {
		return d, LocateRow(t, err)
	}
	for i, y := range d.Label {
		if y < 0 || y >= d.Classes {
			return d, t.Errorf(i, "label %d is outside 0 to %d", y, d.Classes-1)
		}
	}
	return d, checkValues(t, d)
}

func outputs(t *table.Table) (calibrator.Data, error) {
	if m, ok := t.Matrix("logits"); ok {
		return wideData(calibrator.Logits, m.Data, m.Cols), nil
	}
	for _, name := range []string{"logits", "logit"} {
		if c, ok := t.Column(name); ok {
			return wideData(calibrator.Logits, c, 1), nil
		}
	}
	columns, err := classColumns(t)
	if err != nil {
		return calibrator.Data{}, err
	}
	if c, ok := t.Column("score"); ok && len(columns) == 0 {
		return wideData(calibrator.Probabilities, c, 1), nil
	}
	p, classes, err := probabilities(t)
	if err == nil && classes == 0 {
		err = errors.New("want logits, or p0, p1, …, or score; found " + listColumns(t))
	}
	return wideData(calibrator.Probabilities, p, classes), err
}

// wideData returns outputs with the given number of columns. If there is only one column, it holds the outputs for
// class 1 of two classes.
func wideData(input calibrator.Input, values []float64, columns int) calibrator.Data {
	return calibrator.Data{Input: input, Columns: columns, Classes: max(2, columns), Values: values}
}

func checkValues(t *table.Table, d calibrator.Data) error {
	name := "probability"
	if d.Columns == 1 {
		name = "score"
	}
	for i, x := range d.Values {
		if d.Input == calibrator.Probabilities && !(x >= 0 && x <= 1) {
			return LocateRow(t, calib.OutsideUnit(i/d.Columns, name, x))
		}
		if d.Input == calibrator.Logits && !(x <= math.MaxFloat64) {
			return t.Errorf(i/d.Columns, "logit %v is not a number below infinity", x)
		}
	}
	for i := 0; d.Input == calibrator.Probabilities && d.Columns > 1 && i < d.N(); i++ {
		sum := 0.0
		for _, x := range d.Values[i*d.Columns : (i+1)*d.Columns] {
			sum += x
		}
		if !calib.SumToOne(sum, d.Columns) {
			return t.Errorf(i, "probabilities sum to %.6g, not 1", sum)
		}
	}
	if d.Columns == 0 {
		return fmt.Errorf("%s: no columns of outputs", t.Path)
	}
	return nil
}
