// Package acce studies calibration under attack (Emde et al. 2025). Its input is a table whose rows bound the
// confidence of a prediction within a radius.
//
// NewStudy checks a table that has the columns of bounds.csv (see Columns). Study.Solve returns a Result for each
// radius. A Result holds the largest Brier score. It also holds, for each of the Solvers that ran, the calibration
// error that this solver finds. If Options.Adaptive is set, it also holds a bound on the calibration error over bins of
// equal count. If Options.Dataset is set, the field Certified of the Result states bounds for the dataset as a whole.
// Only the solver "exact" returns an upper bound on the calibration error under attack. The other solvers return values
// that are at most this bound. Study.WriteAttack writes the worst confidences, and Study.Bins sorts the examples into
// bins by these confidences. Study.WriteTrace writes the residuals of the searches.
//
// Package calib computes the bounds, and package admm runs the searches.
package acce

import (
	"errors"
	"fmt"
	"slices"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/table"
)

// Columns returns the columns of a table of bounds.
func Columns() table.Options {
	return table.Options{
		Required: []string{"lower", "upper", "correct"},
		Optional: slices.Concat([]string{"index", "confidence", "radius", "examples", "certified", "alpha"}, predictions.WeightColumns),
	}
}

func readRows(t *table.Table) (b calib.BoundRows) {
	for name, column := range map[string]*[]float64{
		"lower": &b.Lower, "upper": &b.Upper, "correct": &b.Correct,
		"index": &b.Index, "confidence": &b.Confidence, "radius": &b.Radius, "examples": &b.Examples,
		"certified": &b.Certified, "alpha": &b.Alpha,
	} {
		*column, _ = t.Column(name)
	}
	return b
}

// group holds the rows of one radius.
type group struct {
	calib.RadiusRows
	radius *float64  // nil if the table has no radii
	weight []float64 // weights of Rows; nil: equal weights
	units  calib.RowWeights
}

// splitByRadius checks the rows and returns a group for each requested radius, in ascending order. If the argument
// 'same' is true, splitByRadius keeps only examples that have a row at every one of these radii.
func splitByRadius(t *table.Table, b calib.BoundRows, wanted []float64, same bool) ([]group, error) {
	found, err := b.ByRadius(wanted)
	if err != nil {
		return nil, predictions.LocateRadius(t, err)
	}
	if same {
		if found, err = b.SameExamples(found); err != nil {
			return nil, locateExamples(t, err)
		}
	}
	var groups []group
	for _, rows := range found {
		g := group{RadiusRows: rows}
		if b.Radius != nil {
			g.radius = &g.Radius
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// locateExamples adds the table's path and a hint to an error of SameExamples.
func locateExamples(t *table.Table, err error) error {
	switch {
	case errors.Is(err, calib.ErrNoIndex):
		return hint.Add(errors.New(t.Path+": no column index"), "%s finds the examples of all radii by their index", param.SameExamples)
	case errors.Is(err, calib.ErrNoSameExample):
		return hint.Add(fmt.Errorf("%s: %w", t.Path, err), "choose smaller radii by %s", param.Radius)
	}
	return predictions.LocateRow(t, err)
}

// UncountedError means that the table omits sampled examples and the number of sampled examples is unknown.
type UncountedError struct{ path string }

func (e *UncountedError) Error() string { return e.Spell(param.Plain) }

// Spell returns the text of Error, with parameter names spelled by s.
func (e *UncountedError) Spell(s param.Spelling) string {
	return param.Textf("%s: %s needs %s: the file leaves examples out (gaps in index, or fewer rows at some radii)",
		e.path, param.Delta, param.Examples).Spell(s)
}

// Hint tells the user what to do.
func (*UncountedError) Hint() string {
	return "give the number of all sampled examples, including the examples whose class was not certified"
}

// countSampled returns the number of sampled examples. This is the argument 'stated' or, if 'stated' is 0, the number
// that follows from the table.
func countSampled(t *table.Table, b calib.BoundRows, stated int) (calib.Sampled, error) {
	sampled, err := b.CountSampled(stated)
	var fewer *calib.FewerError
	switch {
	case err == nil:
		return sampled, nil
	case errors.Is(err, calib.ErrLeavesOut):
		err = &UncountedError{t.Path}
	case errors.As(err, &fewer):
		err = fmt.Errorf("%s: %d examples were sampled, but the file has %d", t.Path, fewer.Stated, fewer.Known)
	default:
		err = predictions.LocateRow(t, err)
	}
	return sampled, err
}
