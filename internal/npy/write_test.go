package npy

import (
	"archive/zip"
	"bytes"
	"slices"
	"testing"
)

// TestWrite writes arrays and reads them back. It also checks NumPy's rule that the offset of the data is a multiple of
// 64.
func TestWrite(t *testing.T) {
	var b bytes.Buffer
	w := NewArchiveWriter(&b)
	floats, ints, doubles := []float32{1, -2.5, 3, 4, 5, 6}, []int64{-7, 1 << 60}, []float64{.1}
	for _, err := range []error{Write(w, "x", []int{1, 2, 3}, floats), Write(w, "y", []int{2}, ints), Write(w, "z", []int{1}, doubles), w.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	archive, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.File) != 3 || ArrayName(archive.File[0]) != "x" {
		t.Fatalf("%d arrays, the first %s", len(archive.File), archive.File[0].Name)
	}
	check(t, archive.File[0], []int{1, 2, 3}, floats)
	check(t, archive.File[1], []int{2}, ints)
	check(t, archive.File[2], []int{1}, doubles)
}

func check[T float32 | float64 | int64](t *testing.T, f *zip.File, shape []int, want []T) {
	t.Helper()
	r, err := Open(f)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := make([]T, len(want))
	if _, err := Read(r, got); err != nil {
		t.Fatal(err)
	}
	if err := r.End(); err != nil || !slices.Equal(got, want) || !slices.Equal(r.Shape, shape) || r.Offset%64 != 0 {
		t.Errorf("%s: %v %v at %d, %v", f.Name, r.Shape, got, r.Offset, err)
	}
}
