// Package acce studies the calibration of predictions whose confidences an adversary moves within their bounds (Emde et
// al. 2025): of a table of bounds it makes what is certified, and what the solvers find, at each radius.
package acce

import (
	"fmt"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/tabular"
)

// Columns are what a table of bounds holds.
func Columns() tabular.Options {
	return tabular.Options{
		Required: []string{"lower", "upper", "correct"},
		Optional: []string{"index", "confidence", "radius", "examples"},
	}
}

// group are the rows of one radius.
type group struct {
	radius  *float64 // nil if the table has none
	rows    []int    // in the table
	samples []calib.Bounded
	clean   []float64 // confidences without attack; nil if the table has none
}

// splitByRadius checks the rows and puts those of each radius that is wanted together, in ascending order of the radius.
func splitByRadius(t *tabular.Table, wanted []float64) ([]group, error) {
	samples, err := readBounds(t)
	if err != nil {
		return nil, err
	}
	clean, haveClean := t.Column("confidence")
	for i, x := range clean {
		if !(x >= 0 && x <= 1) {
			return nil, t.Errorf(i, "confidence %v is outside [0, 1]", x)
		}
	}
	radii, err := predictions.ChooseRadii(t, wanted)
	if err != nil {
		return nil, err
	}
	if radii == nil {
		g := group{samples: samples, clean: clean, rows: make([]int, t.N)}
		for i := range g.rows {
			g.rows[i] = i
		}
		return []group{g}, nil
	}
	var groups []group
	for _, r := range radii {
		g := group{radius: &r.Value, rows: r.Rows}
		for _, i := range r.Rows {
			g.samples = append(g.samples, samples[i])
			if haveClean {
				g.clean = append(g.clean, clean[i])
			}
		}
		groups = append(groups, g)
	}
	return groups, nil
}

func readBounds(t *tabular.Table) ([]calib.Bounded, error) {
	lower, _ := t.Column("lower")
	upper, _ := t.Column("upper")
	correct, _ := t.Column("correct")
	samples := make([]calib.Bounded, t.N)
	for i := range samples {
		samples[i] = calib.Bounded{Lower: lower[i], Upper: upper[i], Correct: correct[i] == 1}
		if err := samples[i].Check(); err != nil {
			return nil, t.Errorf(i, "%s", err)
		}
		if correct[i] != 0 && correct[i] != 1 {
			return nil, t.Errorf(i, "correct %v is not 0 or 1", correct[i])
		}
	}
	return samples, nil
}

// sampled is the number of examples of which bounds can fail: all that were sampled. Those that a table leaves out
// because of their samples count, or the failures of the rest would not be below Bin(N, alpha).
type sampled struct {
	examples int
	assumed  bool // nobody said how many
}

// UncountedError says that a table leaves out examples that were sampled, and that nobody says how many.
type UncountedError struct{ path string }

func (e *UncountedError) Error() string {
	return fmt.Sprintf("%s: --delta needs --examples: the file leaves examples out (gaps in index, or fewer rows at some radii)", e.path)
}

// Hint is what the user can do about it.
func (*UncountedError) Hint() string {
	return "give the number of all examples that were sampled, also of those whose class was not certified"
}

// countSampled takes the number that is given, if it is not 0, or the column examples. Without them the table's own
// examples are taken as all, unless it shows that some are left out: by gaps in its indices or fewer rows at some radii.
func countSampled(t *tabular.Table, given int) (sampled, error) {
	most, leavesOut, err := countListed(t)
	if err != nil {
		return sampled{}, err
	}
	if given == 0 {
		if given, err = readExamples(t); err != nil {
			return sampled{}, err
		}
	}
	switch {
	case given >= most:
		return sampled{given, false}, nil
	case given != 0:
		return sampled{}, fmt.Errorf("%s: %d examples were sampled, but the file has %d", t.Path, given, most)
	case leavesOut:
		return sampled{}, &UncountedError{t.Path}
	}
	return sampled{most, true}, nil
}

// countListed counts the examples of a table, and tells whether it leaves some out. An example twice at one radius is an
// error: it is one draw of noise, not two independent ones.
func countListed(t *tabular.Table) (examples int, leavesOut bool, err error) {
	radius, haveRadius := t.Column("radius")
	index, haveIndex := t.Column("index")
	type key struct{ radius, index float64 }
	rows := map[float64]int{} // by radius
	seen, distinct := map[key]bool{}, map[float64]bool{}
	highest := 0.0
	for i := range t.N {
		var k key
		if haveRadius {
			k.radius = radius[i]
		}
		rows[k.radius]++
		if !haveIndex {
			continue
		}
		k.index = index[i]
		if seen[k] {
			return 0, false, t.Errorf(i, "index %v appears twice at one radius: --delta needs independent bounds", k.index)
		}
		seen[k], distinct[k.index] = true, true
		highest = max(highest, k.index)
	}
	fewest, most := t.N, len(distinct)
	for _, n := range rows {
		fewest, most = min(fewest, n), max(most, n)
	}
	return most, fewest != most || haveIndex && highest+1 != float64(len(distinct)), nil
}

// readExamples takes the number of examples from the column of that name; 0 if there is none.
func readExamples(t *tabular.Table) (int, error) {
	column, ok := t.Column("examples")
	if !ok {
		return 0, nil
	}
	for i, x := range column {
		if x != column[0] || x < 1 || x != float64(int(x)) {
			return 0, t.Errorf(i, "examples %v: want the same positive whole number in every row", x)
		}
	}
	return int(column[0]), nil
}
