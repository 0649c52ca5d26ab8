package dataset

import (
	"archive/zip"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
)

// fuzz writes arbitrary bytes to a file with the given name, and opens this file. Either Open must refuse these bytes
// with a one-line error that names the file, or every example must be valid.
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
		case name == "test_batch":
			write(t, path, bytes.ReplaceAll(data, []byte(pixelMark), bytes.Repeat([]byte("px"), cifarPixels/2)))
		case name == "names.txt":
			open = write(t, filepath.Join(dir, "d.csv"), []byte("label,a\ncat,1\n"))
			labels.ClassNames = path
		case name == "labels.csv":
			open = filepath.Join(dir, "flat")
			write(t, filepath.Join(open, "a.png"), testFile(t, "images/ant/b.png"))
			labels.Labels = path
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
				if !d.cropped { // Open does not decode image files, so decoding may fail here
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

// FuzzPickle replaces the pixels of an image by a short mark, so that most mutations change the instructions around the
// pixels.
func FuzzPickle(f *testing.F) {
	const (
		array  = "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01K\x02M\x00\x0c\x86cnumpy\ndtype\nU\x02u1\x89\x88\x87R(K\x03U\x01|NNNNNNtb"
		labels = "](K\x03K\x08e"
	)
	fuzz(f, "test_batch", []byte("\x80\x02}(U\x04data"+array+"\x89T\x00\x18\x00\x00"+pixelMark+pixelMark+"tbU\x06labels"+labels+"u."),
		[]byte("\x80\x02}(U\x04data"+array+"\x88c_codecs\nencode\nX\x00\x18\x00\x00"+pixelMark+pixelMark+"U\x06latin1\x86RtbU\x0bfine_labels"+labels+"U\x0dcoarse_labels"+labels+"u."),
		[]byte("\x80\x05}(U\x06labelscnumpy.core.numeric\n_frombuffer\n(B\x04\x00\x00\x00\x03\x00\x08\x00cnumpy\ndtype\nU\x02u2\x89\x88\x87R(K\x03U\x01<NNNNNNtbK\x02\x85U\x01CtRU\x04data"+array+"\x89T\x00\x18\x00\x00"+pixelMark+pixelMark+"tbu."))
}

const pixelMark = "<pixels>"

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
	fuzz(f, "a/1.png", files(f, "images/ant/b.png", "images/bee/a.PNG", "images/bee/b.png", "images/bee/c.png", "images/cat/a.png", "images/cat/b.jpg", "images/cat/d.JPEG", "jpeg/0/420.jpg", "jpeg/0/422.jpg",
		"formats/0/even.webp", "formats/0/alpha.webp", "formats/0/lossless.webp", "formats/0/rgb.bmp", "formats/0/palette.bmp")...)
}

func FuzzTar(f *testing.F) {
	png := string(files(f, "images/bee/b.png")[0])
	fuzz(f, "d.tar", tarFile(f, "0.png", png, "0.cls", "3"), tarFile(f, "x/0.png", png, "x/0.json", `{"label": 3, "w": 2}`))
}

func FuzzParquet(f *testing.F) {
	png := files(f, "images/bee/b.png")[0]
	fuzz(f, "d.parquet", parquetFile(f, hfRows(png, png)), parquetFile(f, hfRows(png), parquet.Compression(&parquet.Snappy)),
		parquetFile(f, hfRows(png), parquet.DataPageVersion(1)), parquetFile(f, hfRows(png), parquet.Compression(&parquet.Gzip)),
		parquetFile(f, hfRows(png), parquet.Compression(&parquet.Zstd)), parquetFile(f, hfRows(png), parquet.Compression(&parquet.Brotli)))
}

func FuzzClassNames(f *testing.F) {
	fuzz(f, "names.txt", pickled(f, "meta10-python2-numpy1-protocol2"), []byte("cat\ndog\n"), []byte(`{"0": ["n01440764", "cat"], "1": "dog"}`), []byte("n01440764 cat\nn01443537 dog"))
}

func FuzzImageLabels(f *testing.F) {
	fuzz(f, "labels.csv", []byte("filename,label\na.png,3\n"), []byte("a.png;2\n"), []byte("4\n"), []byte("image\tclass\na\tn01440764 1 2\n"))
}

// FuzzSize checks that sizes survive a round trip through text, and that a white image stays white if it is resized.
func FuzzSize(f *testing.F) {
	for _, s := range []string{"256", "8x5", "0", "-1x2", "8192x8192", "1x"} {
		f.Add(s, uint8(7), uint8(9))
	}
	f.Fuzz(func(t *testing.T, s string, h, w uint8) {
		var size, again Size
		if size.UnmarshalText([]byte(s)) != nil {
			return
		}
		if err := again.UnmarshalText([]byte(size.String())); err != nil || again != size {
			t.Errorf("%q does not read back: %v, %v", s, again, err)
		}
		opt := Options{Resize: size, Interpolation: Interpolation(h % 2)}
		height, width, err := opt.finalSize(int(h)+1, int(w)+1)
		if err != nil || height > 64 || width > 64 || height < 1 || width < 1 {
			return
		}
		in := make([]float32, (int(h)+1)*(int(w)+1))
		for i := range in {
			in[i] = 1
		}
		out := make([]float32, height*width)
		if err := opt.apply(out, in, 1, int(h)+1, int(w)+1); err != nil {
			t.Fatal(err)
		}
		for i, v := range out {
			if v != 1 {
				t.Fatalf("a white image has %v at %d", v, i)
			}
		}
	})
}
