package dataset

import (
	"archive/zip"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// fuzz opens arbitrary bytes under a name. They are refused with one line that
// names the file, or make a dataset of which every example is sound.
func fuzz(f *testing.F, name string, seeds ...[]byte) {
	for _, s := range seeds {
		f.Add(s)
		f.Add(s[:len(s)*3/4])
		f.Add(append(slices.Clone(s), 0))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		path := write(t, filepath.Join(dir, name), data)
		open, labels := path, Options{}
		switch {
		case strings.Contains(name, "images-"):
			write(t, filepath.Join(dir, strings.Replace(name, "images-idx3", "labels-idx1", 1)), idx([]byte{1, 2, 3}, 3))
		case name == "x.npy":
			write(t, filepath.Join(dir, "y.npy"), npyFile("|u1", "2,", []byte{1, 2}))
		case strings.Contains(name, "/"):
			open = dir
		}
		d, err := Open(context.Background(), open, labels)
		if err != nil {
			if !strings.HasPrefix(err.Error(), dir) {
				t.Errorf("error without the file: %q", err)
			}
			return
		}
		defer d.Close()
		if d.Len() == 0 || len(d.SHA256()) != 64 || d.Note() == "" || d.CheckLabels(d.Classes()) != nil {
			t.Errorf("%d examples, digest %q, note %q", d.Len(), d.SHA256(), d.Note())
		}
		if d.CheckLabels(d.Classes()-1) == nil {
			t.Errorf("no label is %d", d.Classes()-1)
		}
		for i := range d.Len() {
			e, err := d.Example(i)
			if err != nil {
				if d.Format() != "image folder" { // decoded only now
					t.Error(err)
				}
				continue
			}
			if e.Label < 0 || len(e.Values) != d.size() || slices.ContainsFunc(e.Values, func(v float32) bool { return !finite(v) }) {
				t.Errorf("example %d: label %d, values %v", i, e.Label, e.Values)
			}
		}
	})
}

func files(f *testing.F, names ...string) (data [][]byte) {
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		data = append(data, b)
	}
	return data
}

func FuzzIDX(f *testing.F) {
	fuzz(f, "t10k-images-idx3-ubyte", idx(pixels(18), 3, 2, 3), idx(pixels(6), 3, 2), idx(pixels(9), 3, 1, 3, 1), idx(nil, 1<<31, 1<<31))
}

func FuzzIDXGzip(f *testing.F) {
	fuzz(f, "t10k-images-idx3-ubyte.gz", gzipped(f, idx(pixels(18), 3, 2, 3)))
}

func FuzzCIFAR(f *testing.F) {
	fuzz(f, "test_batch.bin", append([]byte{3}, pixels(cifarPixels)...), append([]byte{3, 4}, pixels(cifarPixels)...))
}

func FuzzCSV(f *testing.F) {
	fuzz(f, "d.csv", []byte("label,a,b\n1,0,255\n2,7,8\n"), []byte("1,\"0.5\"\n\n3,1e-3\n"), []byte("1.0e+00;2\n"), []byte("\ufeffl,0,1\r\n1,2,3\r\n"))
}

func FuzzNPY(f *testing.F) {
	fuzz(f, "x.npy", files(f, "numpy/u1_x.npy", "numpy/f8-big-endian_x.npy", "numpy/u1-fortran_x.npy", "numpy/version2_x.npy")...)
}

func FuzzNPZ(f *testing.F) {
	fuzz(f, "d.npz", append(files(f, "numpy/f4.npz", "numpy/f8-compressed.npz", "numpy/nhwc-fortran.npz"),
		npz(f, zip.Store, "x", npyFile("<f4", "1, 2", []float32{1, 2}), "y", npyFile("|i1", "1,", []int8{1})))...)
}

func FuzzImage(f *testing.F) {
	fuzz(f, "a/1.png", files(f, "images/ant/b.png", "images/bee/a.PNG", "images/bee/b.png", "images/bee/c.png", "images/cat/a.png", "images/cat/b.jpg", "images/cat/d.JPEG", "jpeg/0/420.jpg", "jpeg/0/422.jpg")...)
}
