package dataset

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestUnlabelled reads data with the option NoLabels, and checks that the labels are −1. Some of the data have labels.
func TestUnlabelled(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	mnist := "../../testdata/mnist/t10k-images-idx3-ubyte.gz"
	images, err := os.ReadFile(mnist)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path   string
		column string
		shape  []int
		n      int
	}{
		{write("plain.csv", []byte("a,b\n0.5,1\n0.25,2\n0.75,3\n")), "", []int{2}, 3},
		{write("labelled.csv", []byte("a,label\n0.5,1\n0.25,0\n0.75,1\n")), "label", []int{1}, 3},
		{write("images-idx3-ubyte.gz", images), "", []int{1, 28, 28}, 1000},
		{"../../testdata/mnist", "", []int{1, 28, 28}, 1000},
	} {
		d, err := Open(t.Context(), c.path, Options{Labels: NoLabels, LabelColumn: c.column})
		if err != nil {
			t.Errorf("%s: %v", c.path, err)
			continue
		}
		if d.Len() != c.n || !slices.Equal(d.Shape(), c.shape) || d.Label(0) != -1 || d.Label(c.n-1) != -1 || d.Classes() != 0 {
			t.Errorf("%s: %d examples of shape %v, labels %d and %d, %d classes", c.path, d.Len(), d.Shape(), d.Label(0), d.Label(c.n-1), d.Classes())
		}
		if err := d.CheckLabels(2); err != nil || d.SortedByLabel() {
			t.Errorf("%s: %v, sorted %v", c.path, err, d.SortedByLabel())
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "plain.csv"), Options{Labels: NoLabels, FirstLabel: 1}); err == nil {
		t.Error("a first label of no labels is accepted")
	}
}

// TestLatticeAs checks that LatticeAs recognises which data lie on a given lattice. It also checks ParseLattice, and
// the rounding of values to a lattice (Nearest).
func TestLatticeAs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.csv")
	for _, c := range []struct {
		values string
		as     string
		on     bool
	}{
		{"0,0\n1,1\n", "values are bytes k/255", true},
		{"0,0\n1,1\n", "values are 16-bit integers k/65535", true},
		{"0,0\n1,1\n", "values are multiples of 2^-3", true},
		{"0.5,0\n1,1\n", "values are bytes k/255", false},
		{"0.5,0\n1,1\n", "values are multiples of 2^-1", true},
		{"0.5,0\n1,1\n", "values are multiples of 2^0", false},
		{"0.2,0\n1,1\n", "values are bytes k/255", true},
		{"0.2,0\n1,1\n", "values are 16-bit integers k/65535", true},
		{"0.2,0\n1,1\n", "values are multiples of 2^-9", false},
		{"0.123,0\n1,1\n", "values are on no lattice", true},
		{"1.5,0\n1,1\n", "values are bytes k/255", false},
	} {
		if err := os.WriteFile(path, []byte("a,label\n"+c.values), 0o644); err != nil {
			t.Fatal(err)
		}
		d, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := ParseLattice(c.as)
		if err != nil {
			t.Fatal(err)
		}
		got, on, err := d.LatticeAs(t.Context(), l)
		if err != nil || on != c.on || got.Kind != l.Kind || got.String() != c.as {
			t.Errorf("%q as %q: %v, %v, %v", c.values, c.as, got, on, err)
		}
		own, err := d.Lattice(t.Context())
		if err != nil || own.Low != got.Low || own.High != got.High {
			t.Errorf("%q: range %v to %v, want %v to %v (%v)", c.values, got.Low, got.High, own.Low, own.High, err)
		}
	}
	for _, text := range []string{"", "values are multiples of 2^x", "values are multiples of 2^-3 ", "values are multiples of 2^99999"} {
		if l, err := ParseLattice(text); err == nil {
			t.Errorf("%q is taken for %v", text, l)
		}
	}
	b, _ := ParseLattice("values are bytes k/255")
	two, _ := ParseLattice("values are multiples of 2^-1")
	for x, want := range map[float32][2]int{0.3: {77, 1}, -1: {0, -2}, 7: {255, 14}, 0.74: {189, 1}, 0.76: {194, 2}} {
		if got := [2]int{b.Nearest(x), two.Nearest(x)}; got != want {
			t.Errorf("%v rounds to %v, want %v", x, got, want)
		}
	}
}
