package predictions

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rscert/rscert/internal/table"
)

// PerturbationColumns say of each row how its score was perturbed: the bandwidth of the sech kernel, and the seed and
// the number of the row, which decide its random number.
var PerturbationColumns = []string{"sech_bandwidth", "sech_seed", "sech_row"}

// Perturbation is the bandwidth that all rows of t say they were perturbed with; 0 if t does not say. Rows with the same
// seed and number have the same random number, and no bound holds for them: they are refused.
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
		return 0, fmt.Errorf("%s: of the columns %v that 'rscert perturb' writes only %d are there",
			t.Path, PerturbationColumns, found)
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

// checkDistinct refuses two rows with the same seed and number.
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
			return t.Errorf(int(b), "%s %v with %s %v has been before: both rows were perturbed with the same random number",
				PerturbationColumns[2], row[b], PerturbationColumns[1], seed[b])
		}
	}
	return nil
}
