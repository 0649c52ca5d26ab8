package scorefile

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sbinet/npyio/npz"
)

// The type example holds one example's row of each array.
type example struct {
	index, label    int
	scores0, scores []float32
}

func randomExamples(s Shape) []example {
	r := rand.New(rand.NewPCG(1, 2))
	probs := func(n int64) []float32 {
		p := make([]float32, n*int64(s.Classes))
		for i := range p {
			p[i] = r.Float32()
		}
		return p
	}
	examples := make([]example, s.Examples)
	for i := range examples {
		examples[i] = example{20 * i, i%s.Classes - 1, probs(s.N0), probs(s.N)}
	}
	return examples
}

// write writes the elements of the slice 'examples' from examples[from] on. The position of examples[i] in the file is
// i. The function writes the last example first. The argument 'piece' is the maximum number of samples for each call of
// the Writer.
func write(t *testing.T, w *Writer, s Shape, examples []example, from int, piece int64) {
	t.Helper()
	m := int64(s.Classes)
	for i := len(examples) - 1; i >= from; i-- {
		e := examples[i]
		if err := w.WriteExample(i, e.index, e.label); err != nil {
			t.Fatal(err)
		}
		for first := int64(0); first < s.N; first += piece {
			if err := w.WriteEstimation(i, first, e.scores[first*m:min(first+piece, s.N)*m]); err != nil {
				t.Fatal(err)
			}
		}
		for first := int64(0); first < s.N0; first += piece {
			if err := w.WriteSelection(i, first, e.scores0[first*m:min(first+piece, s.N0)*m]); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func create(t *testing.T, path string, s Shape) *Writer {
	t.Helper()
	w, err := Create(path, s)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func readAll(t *testing.T, path string) (Shape, []example) {
	t.Helper()
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var examples []example
	for {
		var e example
		e.index, e.label, err = r.Next()
		if errors.Is(err, io.EOF) {
			return r.Shape, examples
		}
		if err == nil {
			err = r.Selection(func(p []float32) error { e.scores0 = append(e.scores0, p...); return nil })
		}
		if err == nil {
			err = r.Estimation(func(p []float32) error { e.scores = append(e.scores, p...); return nil })
		}
		if err != nil {
			t.Fatal(err)
		}
		examples = append(examples, e)
	}
}

func same(a, b []example) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].index != b[i].index || a[i].label != b[i].label || !equal(a[i].scores0, b[i].scores0) || !equal(a[i].scores, b[i].scores) {
			return false
		}
	}
	return true
}

func equal(a, b []float32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

var shapes = []Shape{{3, 5, 7, 4}, {1, 0, 1, 2}, {2, 100, 5000, 10}}

func TestRoundTrip(t *testing.T) {
	for _, s := range shapes {
		path := filepath.Join(t.TempDir(), "scores.npz")
		want := randomExamples(s)
		w := create(t, path, s)
		write(t, w, s, want, 0, 3)
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%v: the file is there before Finish", s)
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(path + ".part"); err == nil {
			t.Errorf("%v: the part file is left", s)
		}
		shape, got := readAll(t, path)
		if shape != s || !same(got, want) {
			t.Errorf("%v: read %v, other numbers: %v", s, shape, !same(got, want))
		}
		// npz is part of npyio, a library by other authors. It reads the file with archive/zip, which checks the CRCs.
		f, err := npz.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var scores []float32
		var labels []int64
		if err := errors.Join(f.Read("scores.npy", &scores), f.Read("labels.npy", &labels)); err != nil {
			t.Fatal(err)
		}
		last := want[len(want)-1]
		if !equal(scores[len(scores)-len(last.scores):], last.scores) || labels[len(labels)-1] != int64(last.label) {
			t.Errorf("%v: npyio reads other numbers", s)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The bytes of a file must not depend on the size of the pieces that are written. A kill in the middle of an example or
// of Finish must not change the bytes of the finished file.
func TestSameBytes(t *testing.T) {
	s := Shape{4, 3, 50, 3}
	examples := randomExamples(s)
	plain := filepath.Join(t.TempDir(), "scores.npz")
	w := create(t, plain, s)
	write(t, w, s, examples, 0, 7)
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	for _, piece := range []int64{1, 50} {
		path := filepath.Join(t.TempDir(), "scores.npz")
		w := create(t, path, s)
		write(t, w, s, examples[:3], 0, piece)
		if err := w.WriteEstimation(2, 0, make([]float32, 3*40)); err != nil { // example 2 is now half overwritten
			t.Fatal(err)
		}
		if err := w.writeAt(bytes.Repeat([]byte{1}, 100), w.end); err != nil { // part of a directory
			t.Fatal(err)
		}
		if err := w.file.Close(); err != nil {
			t.Fatal(err)
		}
		w = create(t, path, s)
		write(t, w, s, examples, 2, piece)
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("pieces of %d rows, resumed: other bytes", piece)
		}
	}
}

func TestWriterRefuses(t *testing.T) {
	s := Shape{2, 3, 5, 4}
	if _, err := Create(filepath.Join(t.TempDir(), "scores.npz"), Shape{2, 3, 5, 1}); err == nil {
		t.Error("one class: no error")
	}
	w := create(t, filepath.Join(t.TempDir(), "scores.npz"), s)
	defer w.Close()
	for name, err := range map[string]error{
		"row too many":     w.WriteEstimation(0, 5, make([]float32, 4)),
		"half a row":       w.WriteEstimation(0, 0, make([]float32, 2)),
		"example too many": w.WriteSelection(2, 0, make([]float32, 4)),
		"label too many":   w.WriteExample(2, 0, 0),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// numpyFile makes an archive as numpy.savez (or savez_compressed) makes it.
func numpyFile(t testing.TB, method uint16, members ...[2]string) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, 5) })
	for _, m := range members {
		f, err := z.CreateHeader(&zip.FileHeader{Name: m[0], Method: method})
		if err == nil {
			_, err = io.WriteString(f, m[1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return closed(t, z, &b)
}

// The function 'closed' ends the archive, writes it to a file, and returns the path of the file.
func closed(t testing.TB, z *zip.Writer, b *bytes.Buffer) string {
	t.Helper()
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "scores.npz")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func npyArray(dict, data string) string { return string(npyHeader(dict)) + data }

func TestReadNumpy(t *testing.T) {
	half, one, quarter := "\x00\x00\x00\x3f", "\x00\x00\x80\x3f", "\x00\x00\x80\x3e"
	scores := npyArray("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1, 2), }", half+half+one+quarter)
	// The Reader must also accept scores in float64 and labels in int32. float64 is NumPy's default. int32 is its
	// default for integers on Windows before NumPy 2.
	scores64 := npyArray("{'descr': '<f8', 'fortran_order': False, 'shape': (1, 1, 2), }", "\x00\x00\x00\x00\x00\x00\xe0\x3f\x00\x00\x00\x00\x00\x00\xe0\x3f")
	labels := npyArray("{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }", "\x01\x00\x00\x00\xff\xff\xff\xff")
	label1 := npyArray("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }", "\x01\x00\x00\x00\x00\x00\x00\x00")
	for _, method := range []uint16{zip.Store, zip.Deflate} {
		shape, got := readAll(t, numpyFile(t, method, [2]string{"scores.npy", scores}, [2]string{"labels.npy", labels}))
		if (shape != Shape{2, 0, 1, 2}) || got[0].index != 0 || got[1].index != 1 || got[1].label != -1 || !equal(got[1].scores, []float32{1, 0.25}) {
			t.Errorf("method %d: %v %v", method, shape, got)
		}
	}
	if _, got := readAll(t, numpyFile(t, zip.Store, [2]string{"scores.npy", scores64}, [2]string{"labels.npy", label1})); !equal(got[0].scores, []float32{0.5, 0.5}) {
		t.Errorf("float64: %v", got)
	}
	for want, members := range map[string][][2]string{
		`no array "scores"`:   {{"labels.npy", labels}},
		`no array "labels"`:   {{"scores.npy", scores}},
		"labels has 1 exampl": {{"scores.npy", scores}, {"labels.npy", label1}},
		"wrong type":          {{"scores.npy", scores}, {"labels.npy", npyArray("{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", half)}},
		"needs":               {{"scores.npy", scores[:len(scores)-1]}, {"labels.npy", labels}},
		"Fortran":             {{"scores.npy", strings.Replace(scores, "False", "True ", 1)}, {"labels.npy", labels}},
		"3 dimensions":        {{"scores.npy", labels}, {"labels.npy", labels}},
		"cannot be used":      {{"scores.npy", strings.Replace(scores, "<f4", ">f4", 1)}, {"labels.npy", labels}},
		"too large":           {{"scores.npy", npyArray("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000000000, 1000000000), }", "")}, {"labels.npy", labels}},
		"not an npy array":    {{"scores.npy", "no array at all"}, {"labels.npy", labels}},
	} {
		r, err := Open(numpyFile(t, zip.Store, members...))
		if err == nil {
			_ = r.Close()
			t.Errorf("%s: no error", want)
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q, want %q in it", err, want)
		}
	}
}

// If the data do not match the CRC in the archive, reading the data must return an error.
func TestDamaged(t *testing.T) {
	s := Shape{2, 0, 100, 3}
	path := filepath.Join(t.TempDir(), "scores.npz")
	w := create(t, path, s)
	write(t, w, s, randomExamples(s), 0, 100)
	at := w.member("scores").data + 11
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[at] ^= 1
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for {
		if _, _, err = r.Next(); err != nil {
			break
		}
	}
	if !errors.Is(err, zip.ErrChecksum) {
		t.Errorf("error %v, want the checksum's", err)
	}
}

func FuzzOpen(f *testing.F) {
	scores := npyArray("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 2), }", "\x00\x00\x00\x3f\x00\x00\x00\x3f")
	f.Add(scores, npyArray("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }", "\x01\x00\x00\x00\x00\x00\x00\x00"))
	f.Add("\x93NUMPY\x02\x00", "")
	f.Fuzz(func(t *testing.T, scores, labels string) {
		r, err := Open(numpyFile(t, zip.Store, [2]string{"scores.npy", scores}, [2]string{"labels.npy", labels}))
		if err != nil {
			return
		}
		defer r.Close()
		for {
			if _, _, err := r.Next(); err != nil {
				return
			}
		}
	})
}
