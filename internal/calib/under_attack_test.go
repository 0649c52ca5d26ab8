package calib

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// rowsOf makes rows with the given radii and indices. The other columns are constant.
func rowsOf(radius, index []float64) BoundRows {
	n := max(len(radius), len(index))
	return BoundRows{
		Lower: slices.Repeat([]float64{0.25}, n), Upper: slices.Repeat([]float64{0.75}, n), Correct: slices.Repeat([]float64{1}, n),
		Radius: radius, Index: index,
	}
}

func TestByRadius(t *testing.T) {
	b := BoundRows{
		Lower: []float64{0.1, 0.2, 0.3, 0.4}, Upper: []float64{0.5, 0.6, 0.7, 0.8}, Correct: []float64{1, 0, 1, 0},
		Radius: []float64{1, math.Copysign(0, -1), 1, 0.5}, Confidence: []float64{0.45, 0.55, 0.65, 0.75},
	}
	zero := RadiusRows{0, []int{1}, []Bounded{{0.2, 0.6, false}}, []float64{0.55}, nil, nil}
	half := RadiusRows{0.5, []int{3}, []Bounded{{0.4, 0.8, false}}, []float64{0.75}, nil, nil}
	one := RadiusRows{1, []int{0, 2}, []Bounded{{0.1, 0.5, true}, {0.3, 0.7, true}}, []float64{0.45, 0.65}, nil, nil}
	for _, c := range []struct {
		wanted []float64
		want   []RadiusRows
	}{
		{nil, []RadiusRows{zero, half, one}},
		{[]float64{1, 0, 1}, []RadiusRows{zero, one}},
		{[]float64{0.5}, []RadiusRows{half}},
	} {
		if got, err := b.ByRadius(c.wanted); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("radii %v: %+v (%v), want %+v", c.wanted, got, err, c.want)
		}
	}
	var none *NoRadiusError
	if _, err := b.ByRadius([]float64{1, 2}); !errors.As(err, &none) || none.Radius != 2 || !slices.Equal(none.Found, []float64{0, 0.5, 1}) {
		t.Errorf("a radius that no row has: %v", err)
	}
	b.Radius, b.Confidence = nil, nil
	if _, err := b.ByRadius([]float64{1}); !errors.Is(err, ErrNoRadii) {
		t.Errorf("a radius, for rows without radii: %v", err)
	}
	if got, err := b.ByRadius(nil); err != nil || len(got) != 1 || got[0].Radius != 0 || len(got[0].Intervals) != 4 || got[0].Confidence != nil {
		t.Errorf("rows without radius: %+v (%v)", got, err)
	}
}

// ByRadius separates rows without a certified class from the other rows. It drops a radius if no row of the radius has
// a certified class.
func TestByRadiusOfUncertified(t *testing.T) {
	b := BoundRows{
		Lower: []float64{0.1, 0.2, 0.3, 0.4}, Upper: []float64{0.5, 0.6, 0.7, 0.8}, Correct: []float64{1, 0, 1, 0},
		Radius: []float64{1, 1, 1, 2}, Confidence: []float64{0.45, 0.55, 0.65, 0.75}, Certified: []float64{0, 1, 1, 0},
	}
	want := []RadiusRows{{
		1, []int{1, 2}, []Bounded{{0.2, 0.6, false}, {0.3, 0.7, true}}, []float64{0.55, 0.65},
		[]Uncertified{{0.1, 0.5, 0.45, true}}, []int{0},
	}}
	got, err := b.ByRadius(nil)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v (%v), want %+v", got, err, want)
	}
	only := RadiusRows{1, []int{2}, []Bounded{{0.3, 0.7, true}}, []float64{0.65}, []Uncertified{{0.1, 0.5, 0.45, true}}, []int{0}}
	if kept := got[0].Only(func(i int) bool { return i != 1 }); !reflect.DeepEqual(kept, only) {
		t.Errorf("rows 0 and 2: %+v, want %+v", kept, only)
	}
	confidence, correct := got[0].Answers()
	if !slices.Equal(confidence, []float64{0.55, 0.65, 0.45}) || !slices.Equal(correct, []bool{false, true, true}) {
		t.Errorf("answers %v, %v", confidence, correct)
	}
	var none *NoRadiusError
	if _, err := b.ByRadius([]float64{2}); !errors.As(err, &none) || !slices.Equal(none.Found, []float64{1}) {
		t.Errorf("a radius without certified classes: %v", err)
	}
	b.Certified = []float64{0, 0, 0, 0}
	if _, err := b.ByRadius(nil); !errors.Is(err, ErrNoneCertified) {
		t.Errorf("no certified class: %v", err)
	}
	b.Certified, b.Confidence = []float64{1, 1, 1, 0}, nil
	if got, err := b.ByRadius(nil); err != nil || got[0].Confidence != nil || len(got[0].Rows) != 3 {
		t.Errorf("no confidences: %+v (%v)", got, err)
	} else if confidence, correct := got[0].Answers(); confidence != nil || correct != nil {
		t.Errorf("no confidences: answers %v, %v", confidence, correct)
	}
}

func TestStatedAlpha(t *testing.T) {
	for _, tt := range []struct {
		alpha []float64
		want  float64
		row   int // row of the error, counted from 1
	}{
		{nil, 0, 0}, {[]float64{0.01, 0.01}, 0.01, 0}, {[]float64{0.01, 0.02}, 0, 2}, {[]float64{0}, 0, 1}, {[]float64{1}, 0, 1},
		{[]float64{math.NaN()}, 0, 1},
	} {
		got, err := BoundRows{Alpha: tt.alpha}.StatedAlpha()
		var row *RowError
		if errors.As(err, &row) != (tt.row > 0) || row != nil && row.Row != tt.row-1 || got != tt.want {
			t.Errorf("%v: %v, %v", tt.alpha, got, err)
		}
	}
}

func TestByRadiusNamesTheRow(t *testing.T) {
	for want, edit := range map[string]func(*BoundRows){
		"lower 0.8 is above upper 0.75": func(b *BoundRows) { b.Lower[1] = 0.8 },
		"upper NaN":                     func(b *BoundRows) { b.Upper[1] = math.NaN() },
		"correct 0.5 is not 0 or 1":     func(b *BoundRows) { b.Correct[1] = 0.5 },
		"confidence 2 is outside":       func(b *BoundRows) { b.Confidence = []float64{0, 2, 1} },
		"radius -1 is below 0":          func(b *BoundRows) { b.Radius[1] = -1 },
		"certified 0.5 is not 0 or 1":   func(b *BoundRows) { b.Certified = []float64{1, 0.5, 1} },
		"radius NaN is below 0":         func(b *BoundRows) { b.Radius[1] = math.NaN() },
	} {
		b := rowsOf([]float64{1, 1, 1}, nil)
		edit(&b)
		_, err := b.ByRadius(nil)
		var row *RowError
		if !errors.As(err, &row) || row.Row != 1 || !strings.Contains(row.Reason, want) {
			t.Errorf("error %v, want %q of row 1", err, want)
		}
	}
}

// A statement for all rows depends on the number of examples whose bounds can fail. If that number is too small, the
// statement is false.
func TestCountSampled(t *testing.T) {
	with := func(b BoundRows, examples ...float64) BoundRows {
		b.Examples = examples
		return b
	}
	for _, c := range []struct {
		name   string
		rows   BoundRows
		stated int
		want   Sampled
		err    any // an error, or a pointer to an error type
	}{
		{"all rows", rowsOf(nil, []float64{2, 0, 1}), 0, Sampled{3, true}, nil},
		{"neither index nor radius", rowsOf([]float64{0, 0, 0}, nil), 0, Sampled{3, true}, nil},
		{"stated", rowsOf(nil, []float64{2, 0, 1}), 9, Sampled{9, false}, nil},
		{"as many as stated", rowsOf(nil, []float64{2, 0, 1}), 3, Sampled{3, false}, nil},
		{"fewer stated than rows", rowsOf(nil, []float64{2, 0, 1}), 2, Sampled{}, new(*FewerError)},
		{"gap", rowsOf(nil, []float64{0, 1, 3}), 0, Sampled{}, ErrLeavesOut},
		{"gap, stated", rowsOf(nil, []float64{0, 1, 3}), 4, Sampled{4, false}, nil},
		{"first one missing", rowsOf(nil, []float64{1, 2, 3}), 0, Sampled{}, ErrLeavesOut},
		{"fewer rows at a radius", rowsOf([]float64{0, 0, 1}, nil), 0, Sampled{}, ErrLeavesOut},
		{"fewer rows at a radius, by index", rowsOf([]float64{0, 0, 1}, []float64{0, 1, 1}), 0, Sampled{}, ErrLeavesOut},
		{"others at each radius", rowsOf([]float64{0, 0, 1, 1}, []float64{0, 1, 1, 2}), 0, Sampled{}, ErrLeavesOut},
		{"others at each radius, stated", rowsOf([]float64{0, 0, 1, 1}, []float64{0, 1, 1, 2}), 2, Sampled{}, new(*FewerError)},
		{"two radii", rowsOf([]float64{0, 0, 1, 1}, []float64{0, 1, 1, 0}), 0, Sampled{2, true}, nil},
		{"twice", rowsOf(nil, []float64{0, 1, 0}), 0, Sampled{}, new(*RowError)},
		{"twice at one radius", rowsOf([]float64{0, 1, 0}, []float64{0, 0, 0}), 5, Sampled{}, new(*RowError)},
		{"twice at 0 and −0", rowsOf([]float64{0, math.Copysign(0, -1)}, []float64{0, 0}), 5, Sampled{}, new(*RowError)},
		{"column", with(rowsOf(nil, []float64{0, 3}), 7, 7), 0, Sampled{7, false}, nil},
		{"column below the rows", with(rowsOf(nil, []float64{0, 1}), 1, 1), 0, Sampled{}, new(*FewerError)},
		{"stated above the column", with(rowsOf(nil, []float64{0, 3}), 7, 7), 8, Sampled{8, false}, nil},
		{"stated below the column", with(rowsOf(nil, []float64{0, 3}), 7, 7), 6, Sampled{}, new(*FewerError)},
		{"column changes", with(rowsOf(nil, []float64{0, 3}), 7, 8), 0, Sampled{}, new(*RowError)},
		{"column of fractions", with(rowsOf(nil, []float64{0, 3}), 7.5, 7.5), 0, Sampled{}, new(*RowError)},
		{"column of zeros", with(rowsOf(nil, []float64{0, 3}), 0, 0), 0, Sampled{}, new(*RowError)},
		{"huge column", with(rowsOf(nil, []float64{0, 3}), 1e300, 1e300), 0, Sampled{}, new(*RowError)},
	} {
		got, err := c.rows.CountSampled(c.stated)
		failed := false
		switch want := c.err.(type) {
		case nil:
			failed = err != nil
		case error:
			failed = !errors.Is(err, want)
		default:
			failed = !errors.As(err, want)
		}
		if failed || got != c.want {
			t.Errorf("%s: %+v (%v), want %+v", c.name, got, err, c.want)
		}
	}
}

// The test checks a statement computed by hand. With probability ≥ 0.95, the bounds of at most 3 of the 1,000 examples
// fail, because P(Bin > 3) = 0.0189 for α = 0.001. The number 3 is the smallest possible one, because P(Bin > 2) =
// 0.0802. So for 100 rows CBS grows by 3/100, the calibration error by 6/100 and the largest gap by 3/100.
func TestStateForAll(t *testing.T) {
	cce, gap := 0.25, 0.5
	got, err := StateForAll(AttackBounds{CBS: 0.125, CCE: &cce, LargestGap: &gap}, 100, RowWeights{}, Sampled{Examples: 1000}, 0.001, 0.05)
	if err != nil || got.Failures != 3 {
		t.Fatalf("%+v (%v), want 3 failures", got, err)
	}
	for name, c := range map[string][2]float64{"CBS": {got.CBS, 0.155}, "CCE": {*got.CCE, 0.31}, "gap": {*got.LargestGap, 0.53}} {
		if c[0] < c[1] || c[0] > c[1]+1e-15 {
			t.Errorf("%s is at most %v, want %v rounded up", name, c[0], c[1])
		}
	}
	// The number of failed rows is at most the number of rows, and no metric exceeds 1.
	got, err = StateForAll(AttackBounds{CBS: 0.125, CCE: &cce}, 2, RowWeights{}, Sampled{Examples: 1000}, 0.001, 0.05)
	if err != nil || got.Failures != 2 || got.CBS != 1 || *got.CCE != 1 || got.LargestGap != nil {
		t.Errorf("two rows: %+v (%v)", got, err)
	}
	if _, err := StateForAll(AttackBounds{}, 2, RowWeights{}, Sampled{Examples: 10}, 0.001, 0); err == nil {
		t.Error("δ = 0 is accepted")
	}
}
