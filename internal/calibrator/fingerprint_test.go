package calibrator

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// rowsOf draws n rows of outputs. If the argument 'levels' is positive, the outputs take only this number of different
// values.
func rowsOf(n, columns, levels int, seed uint64) Data {
	rng := rand.New(rand.NewPCG(seed, 3))
	d := Data{Input: Logits, Columns: columns, Classes: max(2, columns)}
	for range n * columns {
		x := rng.NormFloat64()
		if levels > 0 {
			x = float64(rng.IntN(levels))
		}
		d.Values = append(d.Values, x)
	}
	return d
}

func concat(a, b Data) Data {
	a.Values = append(append([]float64(nil), a.Values...), b.Values...)
	return a
}

// The function 'repeated' returns the given number of copies of the rows of d.
func repeated(d Data, copies int) Data {
	d.Values = slices.Repeat(d.Values, copies)
	return d
}

// firstRows returns the first n rows.
func firstRows(d Data, n int) Data {
	d.Values = d.Values[:n*d.Columns]
	return d
}

// The comparison finds equal rows in any order. If rows are equal by chance, ByChance is true.
func TestSharedRows(t *testing.T) {
	for _, columns := range []int{1, 3} {
		fit, other := rowsOf(500, columns, 0, 1), rowsOf(400, columns, 0, 2)
		part := Data{Input: fit.Input, Columns: columns, Classes: fit.Classes, Values: fit.Values[:250*columns]}
		for _, c := range []struct {
			what     string
			test     Data
			rows     int
			byChance bool
		}{
			{"other rows", other, 0, true}, {"the same rows", fit, 500, false}, {"a part", part, 250, false},
			{"a mixture", concat(other, part), 250, false},
			{"two rows in common", concat(other, Data{Columns: columns, Values: fit.Values[:2*columns]}), 2, true},
		} {
			got := c.test.SharedWith(fit)
			if want := (Shared{c.rows, c.test.N(), c.byChance}); got != want {
				t.Errorf("%s of %d columns: %+v, want %+v", c.what, columns, got, want)
			}
			if got.All() != (c.rows == c.test.N()) {
				t.Errorf("%s: all %v", c.what, got.All())
			}
		}
		print := fit.Fingerprint()
		if print.N != 500 || len(print.Least) != fingerprintSize {
			t.Errorf("fingerprint of %d rows with %d hashes", print.N, len(print.Least))
		}
		if s := print.In(concat(other, fit)); s.Rows != fingerprintSize || s.ByChance {
			t.Errorf("the rows of the fit and others: %+v", s)
		}
		if s := print.In(other); s.Rows != 0 || !s.ByChance {
			t.Errorf("other rows: %+v", s)
		}
		// A file with half of the rows of the fit has about half of the recorded hashes.
		if s := print.In(part); s.ByChance || s.Rows < 16 || s.Rows > 48 {
			t.Errorf("half of the rows: %+v", s)
		}
	}
	// Shared rows are recognised even if each file holds several copies of its rows.
	fit, other := rowsOf(500, 1, 0, 1), rowsOf(400, 1, 0, 2)
	for _, c := range []struct {
		what      string
		fit, test Data
	}{
		{"a doubled fit", repeated(fit, 2), fit}, {"a doubled test", fit, repeated(fit, 2)},
		{"both doubled", repeated(fit, 2), repeated(fit, 2)}, {"a tripled fit, a doubled test", repeated(fit, 3), repeated(fit, 2)},
		{"rows in 2 and 3 copies", concat(repeated(fit, 2), firstRows(fit, 250)), fit},
		{"a doubled fit with a few more rows", concat(repeated(fit, 2), firstRows(other, 9)), repeated(fit, 2)},
	} {
		if s := c.test.SharedWith(c.fit); s.ByChance || !s.All() {
			t.Errorf("%s: %+v", c.what, s)
		}
		if s := repeated(other, 2).SharedWith(c.fit); !s.ByChance {
			t.Errorf("%s and other rows: %+v", c.what, s)
		}
		if s := c.fit.Fingerprint().In(repeated(c.test, 2)); s.ByChance || s.Rows < 60 {
			t.Errorf("%s, fingerprint: %+v", c.what, s)
		}
	}
	if s := concat(repeated(fit, 2), firstRows(fit, 250)).SharedWith(fit); s.ByChance || !s.All() {
		t.Errorf("a test in 2 and 3 copies: %+v", s)
	}
	// A sample that is drawn with replacement from the fit contains many rows more than once. No two rows of the fit
	// are equal, so chance does not explain the shared rows.
	for seed := range uint64(10) {
		if s := fit.Fingerprint().In(resampled(fit, 500, seed)); s.ByChance || s.Rows < 24 {
			t.Errorf("a resample of the fit: %+v", s)
		}
		if s := fit.Fingerprint().In(resampled(other, 500, seed)); !s.ByChance {
			t.Errorf("a resample of other rows: %+v", s)
		}
		old := fit.Fingerprint()
		old.Recurrence, old.Draws = 0, 0
		if s := old.In(fit); s.ByChance {
			t.Errorf("a map of an earlier version: %+v", s)
		}
	}
	// If the outputs take few different values, rows are equal by chance, so ByChance must be true.
	for levels := 2; levels < 3000; levels *= 3 {
		for seed := range uint64(20) {
			fit, test := rowsOf(500, 1, levels, 2*seed), rowsOf(300, 1, levels, 2*seed+1)
			if s := test.SharedWith(fit); !s.ByChance {
				t.Errorf("%d levels: %+v", levels, s)
			}
			for _, test := range []Data{test, resampled(test, 900, seed), rowsOf(3000, 1, levels, 1000+seed)} {
				if s := fit.Fingerprint().In(test); !s.ByChance {
					t.Errorf("%d levels, fingerprint and %d rows: %+v", levels, test.N(), s)
				}
				if s := repeated(fit, 2).Fingerprint().In(test); !s.ByChance && levels < 50 {
					t.Errorf("%d levels, fingerprint of a doubled fit and %d rows: %+v", levels, test.N(), s)
				}
			}
			if s := repeated(test, 2).SharedWith(repeated(fit, 3)); !s.ByChance && levels < 50 {
				t.Errorf("%d levels, copied: %+v", levels, s)
			}
		}
	}
}

// The function 'resampled' draws n rows with replacement.
func resampled(d Data, n int, seed uint64) Data {
	rng := rand.New(rand.NewPCG(seed, 11))
	out := Data{Columns: d.Columns}
	for range n {
		i := rng.IntN(d.N())
		out.Values = append(out.Values, d.Values[i*d.Columns:(i+1)*d.Columns]...)
	}
	return out
}

// A saved map keeps its fingerprint. Parse also accepts maps without a fingerprint.
func TestMapKeepsItsFingerprint(t *testing.T) {
	d := rowsOf(50, 1, 0, 5)
	for i := range d.N() {
		d.Label = append(d.Label, i%2)
	}
	m, err := Methods[0].Fit(d, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if want := d.Fingerprint(); m.Rows == nil || !reflect.DeepEqual(*m.Rows, want) {
		t.Errorf("fingerprint %+v, want %+v", m.Rows, want)
	}
	content, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := Parse(content); err != nil || !reflect.DeepEqual(back, m) {
		t.Errorf("read back %+v, %v", back, err)
	}
	m.Schema, m.Rows = 1, nil
	content, err = json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := Parse(content); err != nil || back.Rows != nil {
		t.Errorf("without a fingerprint: %+v, %v", back, err)
	}
}
