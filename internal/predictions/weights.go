package predictions

import (
	"fmt"

	"github.com/rscert/rscert/internal/table"
)

// WeightColumns lists the columns of importance weights: the weight of a row, an upper limit of the weights in the
// whole population, and whether the weights were estimated (1) or are exact (0). Only the first column is required.
var WeightColumns = []string{"weight", "weight_bound", "weight_estimated"}

// Weights holds the importance weights of a table's rows.
type Weights struct {
	Value     []float64
	Bound     float64 // 0 if the table does not state it
	Estimated bool
}

// ReadWeights returns the weights of a table that was read with the columns WeightColumns. It returns nil if the table
// has no rows or none of these columns. It returns an error if the table has no column 'weight', but has a column
// 'weight_bound' or 'weight_estimated'.
func ReadWeights(t *table.Table) (*Weights, error) {
	value, ok := t.Column(WeightColumns[0])
	if t.N == 0 {
		return nil, nil
	}
	if !ok {
		for _, name := range WeightColumns[1:] {
			if _, found := t.Column(name); found {
				return nil, fmt.Errorf("%s: has a column %s, but no column weight", t.Path, name)
			}
		}
		return nil, nil
	}
	w := &Weights{Value: value}
	bound, _ := t.Column(WeightColumns[1])
	for i, x := range bound {
		if x != bound[0] || !(x > 0) {
			return nil, t.Errorf(i, "%s %v: want the same positive number in every row", WeightColumns[1], x)
		}
		w.Bound = x
	}
	estimated, _ := t.Column(WeightColumns[2])
	for i, x := range estimated {
		if x != estimated[0] || x != 0 && x != 1 {
			return nil, t.Errorf(i, "%s %v: want 0 in every row, or 1 in every row", WeightColumns[2], x)
		}
		w.Estimated = x == 1
	}
	return w, nil
}

// Equal reports whether all weights are equal.
func (w *Weights) Equal() bool {
	for _, x := range w.Value {
		if x != w.Value[0] {
			return false
		}
	}
	return true
}
