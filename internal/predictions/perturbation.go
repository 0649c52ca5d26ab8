package predictions

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/table"
)

// PerturbationColumns lists the columns that record how each row's score was perturbed: the bandwidth of the sech
// kernel, the seed and the row number. The seed and the row number determine the random number.
var PerturbationColumns = []string{"sech_bandwidth", "sech_seed", "sech_row"}

// EarlierSeed is the column with the seed of an earlier perturbation. A command that changes perturbed scores writes
// this column in place of PerturbationColumns.
const EarlierSeed = "earlier_sech_seed"

// PerturbedColumns lists the columns that mark perturbed scores. If a table has any of these columns, its scores are
// perturbed or were made from perturbed scores.
var PerturbedColumns = slices.Concat(PerturbationColumns, []string{EarlierSeed})

// CheckUnperturbed returns an error if the scores of t are perturbed, or come from perturbed scores. A second
// perturbation with the same seed and row numbers repeats the random numbers of the first one. If a calibration map
// changes the scores between the two perturbations, the noise can cancel, and then no bound for perturbed scores holds.
// The table must have been read with PerturbedColumns as optional columns.
func CheckUnperturbed(t *table.Table) error {
	for _, name := range PerturbedColumns {
		if _, ok := t.Column(name); ok {
			return hint.Add(fmt.Errorf("%s: its scores are perturbed already (column %s)", t.Path, name),
				"perturb the scores once, after every other change of the scores")
		}
	}
	return nil
}

// Perturbation returns the bandwidth of the perturbation, which must be the same in all rows of t. It returns 0 if t
// has no rows or none of PerturbationColumns. It returns an error if two rows have the same seed and row number,
// because these rows share a random number, and no bound holds for such scores.
func Perturbation(t *table.Table) (bandwidth float64, err error) {
	var columns [3][]float64
	found := 0
	for k, name := range PerturbationColumns {
		if c, ok := t.Column(name); ok {
			columns[k] = c
			found++
		}
	}
	if found == 0 || t.N == 0 {
		return 0, nil
	}
	if found < len(PerturbationColumns) {
		return 0, fmt.Errorf("%s: has only %d of the columns %v that 'rscert perturb' writes",
			t.Path, found, PerturbationColumns)
	}
	h, seed, row := columns[0], columns[1], columns[2]
	if !(h[0] > 0) {
		return 0, t.Errorf(0, "%s %v is not positive", PerturbationColumns[0], h[0])
	}
	ascending := true
	for i := range h {
		if h[i] != h[0] {
			return 0, t.Errorf(i, "%s is %v, and %v in the rows before: one bandwidth is needed", PerturbationColumns[0], h[i], h[0])
		}
		if i > 0 && (seed[i] != seed[i-1] || row[i] <= row[i-1]) {
			ascending = false
		}
	}
	if !ascending {
		err = checkDistinct(t, seed, row)
	}
	return h[0], err
}

// checkDistinct returns an error if two rows have the same seed and row number.
func checkDistinct(t *table.Table, seed, row []float64) error {
	order := make([]int32, len(row))
	for i := range order {
		order[i] = int32(i)
	}
	compare := func(a, b int32) int {
		return cmp.Or(cmp.Compare(seed[a], seed[b]), cmp.Compare(row[a], row[b]))
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Or(compare(a, b), cmp.Compare(a, b)) })
	for k := 1; k < len(order); k++ {
		if a, b := order[k-1], order[k]; compare(a, b) == 0 {
			return t.Errorf(int(b), "%s %v with %s %v occurs twice: both rows were perturbed with the same random number",
				PerturbationColumns[2], row[b], PerturbationColumns[1], seed[b])
		}
	}
	return nil
}
