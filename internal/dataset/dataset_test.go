package dataset

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const shared = "../../../shared"

func write(t testing.TB, path string, data []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// openWanted opens a dataset. If the argument 'refusal' is not empty, Open must return an error that contains this
// text. In this case openWanted returns nil.
func openWanted(t *testing.T, path string, opt Options, refusal string) *Dataset {
	t.Helper()
	d, err := Open(context.Background(), path, opt)
	switch {
	case err == nil && refusal == "":
		t.Cleanup(func() { d.Close() })
		return d
	case err == nil:
		d.Close()
		t.Fatalf("is read, want %s", refusal)
	case refusal == "" || !strings.Contains(err.Error(), refusal):
		t.Fatalf("error %v, want %s", err, refusal)
	}
	return nil
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(data)
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// idx makes an IDX file of bytes.
func idx(data []byte, dims ...uint32) []byte {
	out := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		out = binary.BigEndian.AppendUint32(out, d)
	}
	return append(out, data...)
}

// npyFile makes a .npy file, version 1, of little-endian elements.
func npyFile(descr, shape string, data any) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape)
	header += strings.Repeat(" ", 63-(len(header)+10)%64) + "\n"
	out := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8))
	out, err := binary.Append(append(out, header...), binary.LittleEndian, data)
	if err != nil {
		panic(err)
	}
	return out
}

func npz(t testing.TB, method uint16, members ...any) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(members); i += 2 {
		w, err := z.CreateHeader(&zip.FileHeader{Name: members[i].(string) + ".npy", Method: method})
		if err != nil {
			t.Fatal(err)
		}
		w.Write(members[i+1].([]byte))
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// pixels returns n bytes. If n ≥ 256, each of the 256 byte values occurs among them.
func pixels(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i*7 + i/256)
	}
	return p
}

func mustOpen(t *testing.T, path string) *Dataset {
	t.Helper()
	d, err := Open(context.Background(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func rows(t *testing.T, d *Dataset) (values [][]float32, labels []int) {
	t.Helper()
	for i := range d.Len() {
		e, err := d.Example(i)
		if err != nil {
			t.Fatal(err)
		}
		if e.Index != i {
			t.Fatalf("example %d has index %d", i, e.Index)
		}
		values = append(values, e.Values)
		labels = append(labels, e.Label)
	}
	return values, labels
}

func golden(t *testing.T) (g map[string]struct {
	Shape  []int
	Labels []int
	Values [][]float32
	Levels []int
}) {
	t.Helper()
	data, err := os.ReadFile("testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// The test opens files of every kind that NumPy writes, and compares their values with the values that NumPy reads.
func TestNumPyFiles(t *testing.T) {
	n := 0
	for path, want := range golden(t) {
		if !strings.HasPrefix(path, "numpy/") {
			continue
		}
		n++
		t.Run(path, func(t *testing.T) {
			d := mustOpen(t, filepath.Join("testdata", path))
			if !slices.Equal(d.Shape(), want.Shape) {
				t.Fatalf("shape %v, want %v", d.Shape(), want.Shape)
			}
			values, labels := rows(t, d)
			if !slices.Equal(labels, want.Labels) {
				t.Errorf("labels %v, want %v", labels, want.Labels)
			}
			for i := range values {
				if !slices.Equal(values[i], want.Values[i]) {
					t.Errorf("example %d: %v, want %v", i, values[i], want.Values[i])
				}
			}
		})
	}
	if n < 15 {
		t.Errorf("only %d golden files", n)
	}
}

// The test opens images of every kind that Pillow writes, and compares their values with the values that Pillow reads.
func TestImageFolder(t *testing.T) {
	d := mustOpen(t, "testdata/images")
	if got := d.Shape(); !slices.Equal(got, []int{3, 3, 4}) {
		t.Fatalf("shape %v", got)
	}
	_, labels := rows(t, d)
	if !slices.Equal(labels, []int{0, 0, 1, 1, 1, 2, 2, 2, 2}) || d.Classes() != 3 {
		t.Fatalf("labels %v, %d classes", labels, d.Classes())
	}
	compareImages(t, d)
}

// Open must enlarge colour planes in the same way as libjpeg. The package image/jpeg only repeats samples, and its
// values would be far outside the tolerance of this test.
func TestJPEG(t *testing.T) {
	compareImages(t, mustOpen(t, "testdata/jpeg"))
}

// compareImages compares the values with Pillow's pixels. The values of PNG images must be equal to Pillow's. The other
// images have a tolerance, because JPEG decoders may round the inverse cosine transform differently.
func compareImages(t *testing.T, d *Dataset) {
	t.Helper()
	want := golden(t)
	for i := range d.Len() {
		e, err := d.Example(i)
		if err != nil {
			t.Fatal(err)
		}
		path := strings.TrimPrefix(filepath.ToSlash(d.labelAt(i)), "testdata/")
		tolerance := 0.
		if !strings.EqualFold(filepath.Ext(path), ".png") {
			tolerance = 3.001 / 255
		}
		w := want[path].Values
		if w == nil {
			w = [][]float32{nil}
			for _, level := range want[path].Levels {
				w[0] = append(w[0], float32(level)/255)
			}
		}
		if len(w[0]) != len(e.Values) {
			t.Fatalf("%s: %d values, want %d", path, len(e.Values), len(w[0]))
		}
		for j, v := range e.Values {
			if math.Abs(float64(v-w[0][j])) > tolerance {
				t.Errorf("%s: value %d is %v, want %v", path, j, v, w[0][j])
				break
			}
		}
	}
}

func writePNG(t testing.TB, path string, img image.Image) {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	write(t, path, b.Bytes())
}

func TestImageFolderClasses(t *testing.T) {
	grey := func(v uint8) image.Image {
		m := image.NewGray(image.Rect(0, 0, 3, 2))
		m.SetGray(1, 1, color.Gray{v})
		return m
	}
	for name, c := range map[string]struct {
		files  []string
		labels []int
	}{
		"by name":                {[]string{"zebra/1.png", "Ant/2.png", "bee/3.png"}, []int{0, 1, 2}},
		"by number":              {[]string{"10/a.png", "2/a.png", "2/b.png", "0/c.png"}, []int{0, 10, 2, 2}},
		"numbers with zeros":     {[]string{"00/a.png", "02/a.png", "10/c.png"}, []int{0, 1, 2}},
		"a class without images": {[]string{"a/1.png", "b/notes.txt", "c/1.png"}, []int{0, 2}},
		"hidden and other files": {[]string{"a/1.png", "a/._1.png", ".git/1.png", "readme.txt", "b/2.png"}, []int{0, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for i, f := range c.files {
				if strings.HasSuffix(f, ".png") && !strings.Contains(f, "._") {
					writePNG(t, filepath.Join(dir, f), grey(uint8(i)))
				} else {
					write(t, filepath.Join(dir, f), []byte("not an image"))
				}
			}
			d := mustOpen(t, dir)
			_, labels := rows(t, d)
			if !slices.Equal(labels, c.labels) {
				t.Errorf("labels %v, want %v", labels, c.labels)
			}
			if !slices.Equal(d.Shape(), []int{1, 2, 3}) {
				t.Errorf("shape %v of grey images", d.Shape())
			}
		})
	}
}

// The test data are the first 100 test images in the files of ERAN.
func TestERAN(t *testing.T) {
	for _, c := range []struct {
		file        string
		size, label int
		first       []float32
	}{
		{"mnist_test.csv", 784, 7, []float32{0, 0, 0}},
		{"cifar10_test.csv", 3072, 3, []float32{158. / 255, 112. / 255, 49. / 255}},
	} {
		path := filepath.Join(shared, "data/eran", c.file)
		if _, err := os.Stat(path); err != nil {
			t.Skip("needs ../shared")
		}
		d := mustOpen(t, path)
		values, labels := rows(t, d)
		if d.Len() != 100 || labels[0] != c.label || d.Classes() != 10 || !slices.Equal(d.Shape(), []int{c.size}) {
			t.Errorf("%s: %d examples of shape %v, %d classes, the first is a %d", c.file, d.Len(), d.Shape(), d.Classes(), labels[0])
		}
		if !slices.Equal(values[0][:3], c.first) {
			t.Errorf("%s begins %v, want %v", c.file, values[0][:3], c.first)
		}
		if !strings.Contains(d.Note(), "bytes, scaled") {
			t.Errorf("note %q", d.Note())
		}
	}
}

// The test checks that the same data have the same digest in every format and at every path. It also checks that the
// digest changes if one byte of the values changes, if a label changes, or if the shape changes.
func TestSameDataSameDigest(t *testing.T) {
	const n, h, w = 4, 6, 5
	px := pixels(n * h * w)
	labels := []byte{7, 0, 9, 7}
	dir := t.TempDir()
	put := func(name string, data []byte) string { return write(t, filepath.Join(dir, name), data) }

	put("a/t10k-images-idx3-ubyte", idx(px, n, h, w))
	put("a/t10k-labels-idx1-ubyte", idx(labels, n))
	put("b/MNIST/raw/t10k-images.idx3-ubyte.gz", gzipped(t, idx(px, n, h, w)))
	put("b/MNIST/raw/t10k-labels-idx1-ubyte.gz", gzipped(t, idx(labels, n)))
	put("b/MNIST/raw/train-images-idx3-ubyte", idx(px[:h*w], 1, h, w))
	same := []string{
		filepath.Join(dir, "a"),
		filepath.Join(dir, "b"),
		filepath.Join(dir, "a/t10k-images-idx3-ubyte"),
		put("c.npz", npz(t, zip.Store, "x", npyFile("|u1", "4, 6, 5", px), "y", npyFile("|u1", "4,", labels))),
		put("d.npz", npz(t, zip.Deflate, "x", npyFile("|u1", "4, 1, 6, 5", px), "y", npyFile("<i8", "4,", []int64{7, 0, 9, 7}))),
		put("e.npz", npz(t, zip.Deflate, "x_test", npyFile("|u1", "4, 6, 5, 1", px), "y_test", npyFile("<f4", "4, 1", []float32{7, 0, 9, 7}))),
	}
	put("x.npy", npyFile("|u1", "4, 6, 5", px))
	put("y.npy", npyFile("|u1", "4,", labels))
	same = append(same, filepath.Join(dir, "x.npy"))

	values, wantLabels := rows(t, mustOpen(t, same[0]))
	var csv strings.Builder
	for i, row := range values {
		fmt.Fprint(&csv, wantLabels[i])
		for j, v := range row {
			if want := float32(px[i*h*w+j]) / 255; v != want {
				t.Fatalf("value %d of example %d is %v, want %v", j, i, v, want)
			}
			fmt.Fprintf(&csv, ",%d", px[i*h*w+j])
		}
		csv.WriteString("\n")
	}
	sum := mustOpen(t, same[0]).SHA256()
	if len(sum) != 64 {
		t.Fatalf("digest %q", sum)
	}
	for _, path := range same[1:] {
		d := mustOpen(t, path)
		got, labels := rows(t, d)
		if d.SHA256() != sum || !slices.Equal(labels, wantLabels) || !slices.EqualFunc(got, values, slices.Equal) || !slices.Equal(d.Shape(), []int{1, h, w}) {
			t.Errorf("%s: differs from %s", path, same[0])
		}
	}

	// These are flat rows, as CSV stores them: [N,D].
	flat := put("flat.npz", npz(t, zip.Store, "x", npyFile("|u1", "4, 30", px), "y", npyFile("|u1", "4,", labels)))
	flatSum := mustOpen(t, flat).SHA256()
	if flatSum == sum {
		t.Error("the digest does not tell the shape")
	}
	for name, data := range map[string][]byte{
		"r.csv":    []byte(csv.String()),
		"r.csv.gz": gzipped(t, []byte(csv.String())),
		"h.csv":    []byte("\ufefflabel," + strings.Repeat("p,", h*w-1) + "p\r\n" + strings.ReplaceAll(csv.String(), "\n", "\r\n")),
	} {
		d := mustOpen(t, put(name, data))
		if d.SHA256() != flatSum || !slices.Equal(d.Shape(), []int{h * w}) {
			t.Errorf("%s: differs from %s", name, flat)
		}
	}
	for k := range 2 {
		px, labels := slices.Clone(px), slices.Clone(labels)
		if k == 0 {
			px[17]++
		} else {
			labels[2]++
		}
		other := put(fmt.Sprint(k, ".npz"), npz(t, zip.Store, "x", npyFile("|u1", "4, 6, 5", px), "y", npyFile("|u1", "4,", labels)))
		if mustOpen(t, other).SHA256() == sum {
			t.Errorf("change %d does not change the digest", k)
		}
	}

	// The digest of an image folder covers the image files instead of the values. Like the digest of the values, this
	// digest does not depend on file names.
	img := image.NewGray(image.Rect(0, 0, 2, 2))
	writePNG(t, filepath.Join(dir, "i1/a/1.png"), img)
	writePNG(t, filepath.Join(dir, "i2/k/x.png"), img)
	writePNG(t, filepath.Join(dir, "i3/1/x.png"), img)
	i1, i2, i3 := mustOpen(t, filepath.Join(dir, "i1")).SHA256(), mustOpen(t, filepath.Join(dir, "i2")).SHA256(), mustOpen(t, filepath.Join(dir, "i3")).SHA256()
	if i1 != i2 || i1 == i3 {
		t.Errorf("image folders: %s %s %s", i1, i2, i3)
	}
}

func TestCIFAR(t *testing.T) {
	dir := t.TempDir()
	px := pixels(2 * cifarPixels)
	ten := slices.Concat([]byte{3}, px[:cifarPixels], []byte{9}, px[cifarPixels:])
	hundred := slices.Concat([]byte{3, 42}, px[:cifarPixels], []byte{19, 99}, px[cifarPixels:])
	write(t, filepath.Join(dir, "ten/cifar-10-batches-bin/test_batch.bin"), ten)
	write(t, filepath.Join(dir, "hundred/test.bin"), hundred)
	for _, c := range []struct {
		path, format string
		labels       []int
	}{
		{"ten", "CIFAR-10 binary", []int{3, 9}},
		{"ten/cifar-10-batches-bin", "CIFAR-10 binary", []int{3, 9}},
		{"ten/cifar-10-batches-bin/test_batch.bin", "CIFAR-10 binary", []int{3, 9}},
		{"hundred", "CIFAR-100 binary", []int{42, 99}},
	} {
		d := mustOpen(t, filepath.Join(dir, c.path))
		values, labels := rows(t, d)
		if d.Format() != c.format || !slices.Equal(labels, c.labels) || !slices.Equal(d.Shape(), []int{3, 32, 32}) {
			t.Errorf("%s: %s, labels %v, shape %v", c.path, d.Format(), labels, d.Shape())
		}
		for i, row := range values {
			for j, v := range row {
				if want := float32(px[i*cifarPixels+j]) / 255; v != want {
					t.Fatalf("%s: value %d of example %d is %v, want %v", c.path, j, i, v, want)
				}
			}
		}
	}
}

func TestCSVUnits(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want [][]float32
		note string
	}{
		"bytes":           {"1,0,255\n2,51,2\n", [][]float32{{0, 1}, {0.2, 2. / 255}}, "bytes, scaled to [0,1]"},
		"bytes as floats": {"1.0e+00,0.0,255.0\n", [][]float32{{0, 1}}, "bytes, scaled to [0,1]"},
		"unit":            {"1,0,1\n2,1,1\n", [][]float32{{0, 1}, {1, 1}}, "values as they are"},
		"fractions":       {"1,0,255\n2,0.5,1\n", [][]float32{{0, 255}, {0.5, 1}}, "values as they are; values from 0 to 255"},
		"negative":        {"1,-1,255\n", [][]float32{{-1, 255}}, "values as they are"},
		"beyond a byte":   {"1,0,256\n", [][]float32{{0, 256}}, "values as they are"},
		"pandas columns":  {"label,0,1\n1,0.5,0.25\n", [][]float32{{0.5, 0.25}}, "values as they are"},
		"names":           {"class,1x1,1x2\n1,0.5,0.25\n", [][]float32{{0.5, 0.25}}, "values as they are"},
		"spaces, quotes":  {"1, 0.5, \"0.25\"\n\n2 ,0 , 1\n", [][]float32{{0.5, 0.25}, {0, 1}}, "values as they are"},
	} {
		t.Run(name, func(t *testing.T) {
			d := mustOpen(t, write(t, filepath.Join(t.TempDir(), "d.csv"), []byte(c.text)))
			got, labels := rows(t, d)
			if !slices.EqualFunc(got, c.want, slices.Equal) {
				t.Errorf("values %v, want %v", got, c.want)
			}
			if labels[0] != 1 {
				t.Errorf("labels %v", labels)
			}
			if !strings.Contains(d.Note(), c.note) {
				t.Errorf("note %q, want %q", d.Note(), c.note)
			}
		})
	}
}

// Errors name the file and the location in the file.
func TestErrors(t *testing.T) {
	px := pixels(2 * 6)
	images, labels := idx(px, 2, 2, 3), idx([]byte{1, 2}, 2)
	floats := func(v ...float32) []byte { return npyFile("<f4", fmt.Sprintf("%d, 2", len(v)/2), v) }
	y2 := npyFile("<i8", "2,", []int64{0, 1})
	whole := npz(t, zip.Store, "x", floats(1, 2, 3, 4), "y", y2)
	damaged := slices.Clone(whole)
	damaged[bytes.Index(damaged, []byte{0, 0, 128, 63})+3] ^= 1 // changes a byte of the first value
	record := func(label byte) []byte { return append([]byte{label}, make([]byte, cifarPixels)...) }
	nan := float32(math.NaN())
	small := func(dx int) image.Image { return image.NewGray(image.Rect(0, 0, dx, 2)) }
	pngBytes := func(img image.Image) []byte {
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	// The variable 'huge' is the header of a PNG image of 65536×65536 pixels, with a correct checksum.
	huge := pngBytes(small(3))[:33]
	binary.BigEndian.PutUint32(huge[16:], 1<<16)
	binary.BigEndian.PutUint32(huge[20:], 1<<16)
	binary.BigEndian.PutUint32(huge[29:], crc32.ChecksumIEEE(huge[12:29]))
	const tiny = "t10k-images-idx3-ubyte"
	for name, c := range map[string]struct {
		files map[string][]byte
		open  string
		label string
		want  string // %s is the folder
	}{
		"nothing there":      {open: "no.csv", want: "%s/no.csv: no such file or directory"},
		"empty folder":       {files: map[string][]byte{"d/readme": nil}, open: "d", want: "%s/d: no data in this folder"},
		"unknown file":       {files: map[string][]byte{"d.what": []byte("hello")}, open: "d.what", want: "%s/d.what: byte 0: 68 65 6c 6c is not how"},
		"idx empty":          {files: map[string][]byte{tiny: nil}, open: tiny, want: "%s/" + tiny + ": byte 0: ends within the header"},
		"idx header":         {files: map[string][]byte{tiny: images[:9]}, open: tiny, want: "%s/" + tiny + ": byte 9: ends within the header"},
		"idx truncated":      {files: map[string][]byte{tiny: images[:20]}, open: tiny, want: "%s/" + tiny + ": byte 20: ends before the data"},
		"idx too long":       {files: map[string][]byte{tiny: append(slices.Clone(images), 0)}, open: tiny, want: "%s/" + tiny + ": byte 28: 1 bytes more"},
		"idx type":           {files: map[string][]byte{tiny: append([]byte{0, 0, 13}, images[3:]...)}, open: tiny, want: "byte 2: IDX type 0x0d"},
		"idx overflow":       {files: map[string][]byte{tiny: idx(px, 1<<31, 1<<31, 1<<31)}, open: tiny, want: "byte 28: ends before the data"},
		"idx no labels":      {files: map[string][]byte{tiny: images}, open: tiny, want: "no labels file t10k-labels-idx1-ubyte beside it"},
		"idx odd name":       {files: map[string][]byte{"pics": images}, open: "pics", want: "%s/pics: cannot tell the labels file"},
		"idx label count":    {files: map[string][]byte{tiny: images, "l": idx([]byte{1, 2, 3}, 3)}, open: tiny, label: "l", want: "%s/l: byte 4: 3 labels for the 2 images of %s/" + tiny},
		"idx swapped":        {files: map[string][]byte{"pics": labels, "l": images}, open: "pics", label: "l", want: "%s/pics: byte 3: 1 dimensions"},
		"idx labels swapped": {files: map[string][]byte{"pics": images, "l": images}, open: "pics", label: "l", want: "%s/l: byte 3: 3 dimensions; labels have 1"},
		"idx gzip cut":       {files: map[string][]byte{tiny + ".gz": gzipped(t, images)[:30]}, open: tiny + ".gz", want: "%s/" + tiny + ".gz: decompressed to byte"},
		"idx ambiguous": {files: map[string][]byte{"d/a-images-idx3-ubyte": images, "d/b-images-idx3-ubyte": images}, open: "d",
			want: "%s/d: several files of images"},

		"cifar truncated": {files: map[string][]byte{"c.bin": record(1)[:3000]}, open: "c.bin", want: "%s/c.bin: byte 3000: ends within a record"},
		"cifar label":     {files: map[string][]byte{"c.bin": append(record(1), record(10)...)}, open: "c.bin", want: "%s/c.bin: byte 3073: label 10"},
		"cifar empty":     {files: map[string][]byte{"c.bin": nil}, open: "c.bin", want: "%s/c.bin: no examples"},
		"cifar train":     {files: map[string][]byte{"d/data_batch_1.bin": record(1)}, open: "d", want: "%s/d: has CIFAR-10 training batches"},
		"cifar labels":    {files: map[string][]byte{"c.bin": record(1), "l": labels}, open: "c.bin", label: "l", want: "holds its own labels"},

		"csv empty":          {files: map[string][]byte{"d.csv": nil}, open: "d.csv", want: "%s/d.csv: no examples"},
		"csv header only":    {files: map[string][]byte{"d.csv": []byte("label,a\n")}, open: "d.csv", want: "%s/d.csv: no examples"},
		"csv one column":     {files: map[string][]byte{"d.csv": []byte("1\n2\n")}, open: "d.csv", want: "%s/d.csv: line 1: one field"},
		"csv columns":        {files: map[string][]byte{"d.csv": []byte("l,a,b\n1,2,3\n1,2\n")}, open: "d.csv", want: "%s/d.csv: line 3: 2 fields, but the first line has 3"},
		"csv not a number":   {files: map[string][]byte{"d.csv": []byte("1,2,3\n1,x,3\n")}, open: "d.csv", want: `%s/d.csv: line 2, column 3: "x" is not a finite number`},
		"csv nan":            {files: map[string][]byte{"d.csv": []byte("1,2,3\n1,2,NaN\n")}, open: "d.csv", want: `%s/d.csv: line 2, column 5: "NaN" is not a finite number`},
		"csv too large":      {files: map[string][]byte{"d.csv": []byte("1,2,1e39\n")}, open: "d.csv", want: `%s/d.csv: line 1, column 5: "1e39" is not a finite number`},
		"csv missing value":  {files: map[string][]byte{"d.csv": []byte("1,2,3\n1,,3\n")}, open: "d.csv", want: `%s/d.csv: line 2, column 3: "" is not a finite number`},
		"csv label":          {files: map[string][]byte{"d.csv": []byte("1,2,3\n1.5,2,3\n")}, open: "d.csv", want: `%s/d.csv: line 2: label "1.5" is not an integer`},
		"csv negative label": {files: map[string][]byte{"d.csv": []byte("-1,2,3\n")}, open: "d.csv", want: `%s/d.csv: line 1: label "-1" is negative`},
		"csv huge label":     {files: map[string][]byte{"d.csv": []byte("1e300,2,3\n")}, open: "d.csv", want: `%s/d.csv: line 1: label "1e300" is too large`},
		"csv nan label":      {files: map[string][]byte{"d.csv": []byte("NaN,2,3\n")}, open: "d.csv", want: `%s/d.csv: line 1: label "NaN" is not a number`},
		"csv text label":     {files: map[string][]byte{"d.csv": []byte("1,2,3\ncat,2,3\n")}, open: "d.csv", want: `%s/d.csv: line 2: label "cat" is not a number`},
		"csv damaged first":  {files: map[string][]byte{"d.csv": []byte("x7,2,3\n1,2,3\n")}, open: "d.csv", want: `%s/d.csv: line 1: label "x7" is not a number`},
		"csv pandas index":   {files: map[string][]byte{"d.csv": []byte(",label,0\n0,1,2\n")}, open: "d.csv", want: "index=False"},
		"csv quote":          {files: map[string][]byte{"d.csv": []byte("1,2\n1,\"2\n")}, open: "d.csv", want: "%s/d.csv: line 2, column 6: extraneous"},

		"npy no labels":     {files: map[string][]byte{"x.npy": floats(1, 2)}, open: "x.npy", want: "%s/x.npy: no labels file y.npy beside it"},
		"npy odd name":      {files: map[string][]byte{"mine.npy": floats(1, 2)}, open: "mine.npy", want: "%s/mine.npy: cannot tell the labels file"},
		"npy magic":         {files: map[string][]byte{"x.npy": []byte("not numpy at all"), "y.npy": y2}, open: "x.npy", want: "%s/x.npy: byte 0: not a .npy file"},
		"npy version":       {files: map[string][]byte{"x.npy": append([]byte("\x93NUMPY\x09"), floats(1, 2)[7:]...), "y.npy": y2}, open: "x.npy", want: "byte 6: .npy version 9.0"},
		"npy truncated":     {files: map[string][]byte{"x.npy": floats(1, 2, 3, 4)[:140], "y.npy": y2}, open: "x.npy", want: "%s/x.npy: byte 140: ends before the data of an array of shape (2, 2)"},
		"npy too long":      {files: map[string][]byte{"x.npy": append(floats(1, 2, 3, 4), 0), "y.npy": y2}, open: "x.npy", want: "%s/x.npy: byte 144: 1 bytes more"},
		"npy header":        {files: map[string][]byte{"x.npy": floats(1, 2, 3, 4)[:100], "y.npy": y2}, open: "x.npy", want: "%s/x.npy: byte 100: ends within the header"},
		"npy overflow":      {files: map[string][]byte{"x.npy": npyFile("<f4", "4611686018427387904, 4611686018427387904", []float32{1}), "y.npy": y2}, open: "x.npy", want: "ends before the data"},
		"npy empty":         {files: map[string][]byte{"x.npy": npyFile("<f4", "0, 2", []float32{}), "y.npy": y2}, open: "x.npy", want: "the array is empty"},
		"npy objects":       {files: map[string][]byte{"x.npy": npyFile("|O", "2, 2", []byte{}), "y.npy": y2}, open: "x.npy", want: "%s/x.npy: byte 10: the header does not describe an array of numbers"},
		"npy complex":       {files: map[string][]byte{"x.npy": npyFile("<c8", "2,", []int64{1, 2}), "y.npy": y2}, open: "x.npy", want: "elements of type 'descr': '<c8' are not read"},
		"npy int inputs":    {files: map[string][]byte{"x.npy": npyFile("<i8", "2, 1", []int64{1, 2}), "y.npy": y2}, open: "x.npy", want: "%s/x.npy: inputs of NumPy type i8: save bytes as uint8"},
		"npy one dimension": {files: map[string][]byte{"x.npy": npyFile("<f4", "2,", []float32{1, 2}), "y.npy": y2}, open: "x.npy", want: "%s/x.npy: inputs of shape [2]"},
		"npy nan":           {files: map[string][]byte{"x.npy": floats(1, 2, nan, 4), "y.npy": y2}, open: "x.npy", want: "%s/x.npy: byte 136: NaN is not a finite float32"},
		"npy too large":     {files: map[string][]byte{"x.npy": npyFile("<f8", "2, 1", []float64{1, 1e200}), "y.npy": y2}, open: "x.npy", want: "%s/x.npy: byte 136: 1e+200 is not a finite float32"},
		"npy label count":   {files: map[string][]byte{"x.npy": floats(1, 2, 3, 4, 5, 6), "y.npy": y2}, open: "x.npy", want: "%s/y.npy: byte 144: 2 labels for the 3 inputs of %s/x.npy"},
		"npy label":         {files: map[string][]byte{"x.npy": floats(1, 2, 3, 4), "y.npy": npyFile("<f8", "2,", []float64{1, 0.5})}, open: "x.npy", want: "%s/y.npy: byte 136: label 0.5 is not an integer"},
		"npy negative":      {files: map[string][]byte{"x.npy": floats(1, 2, 3, 4), "y.npy": npyFile("<i4", "2,", []int32{1, -2})}, open: "x.npy", want: "%s/y.npy: byte 132: label -2 is negative"},
		"npy one-hot":       {files: map[string][]byte{"x.npy": floats(1, 2, 3, 4), "y.npy": npyFile("<i4", "2, 2", []int32{1, 0, 1, 1})}, open: "x.npy", want: "%s/y.npy: byte 136: a one-hot label has one 1"},

		"npz truncated":  {files: map[string][]byte{"d.npz": whole[:len(whole)-30]}, open: "d.npz", want: "%s/d.npz: not a whole .npz file"},
		"npz names":      {files: map[string][]byte{"d.npz": npz(t, zip.Store, "arr_0", floats(1, 2), "arr_1", y2)}, open: "d.npz", want: "%s/d.npz: has no arrays x and y, but arr_0, arr_1"},
		"npz member":     {files: map[string][]byte{"d.npz": npz(t, zip.Deflate, "x", floats(1, 2, 3, 4)[:140], "y", y2)}, open: "d.npz", want: "%s/d.npz: x.npy: byte 140: ends before"},
		"npz damaged":    {files: map[string][]byte{"d.npz": damaged}, open: "d.npz", want: "%s/d.npz: x.npy: byte 144: zip: checksum error"},
		"npz nan":        {files: map[string][]byte{"d.npz": npz(t, zip.Deflate, "x", floats(1, 2, 3, nan), "y", y2)}, open: "d.npz", want: "%s/d.npz: x.npy: byte 140: NaN is not"},
		"npz label":      {files: map[string][]byte{"d.npz": npz(t, zip.Deflate, "x", floats(1, 2), "y", npyFile("|i1", "1,", []int8{-1}))}, open: "d.npz", want: "%s/d.npz: y.npy: byte 128: label -1 is negative"},
		"npz not labels": {files: map[string][]byte{"d.npz": npz(t, zip.Store, "x", floats(1, 2), "y", []byte("junk"))}, open: "d.npz", want: "%s/d.npz: y.npy: byte 4: ends within the header"},

		"images sizes": {files: map[string][]byte{"d/a/1.png": pngBytes(small(3)), "d/b/2.png": pngBytes(small(4))}, open: "d",
			want: "%s/d/b/2.png: 4×2 pixels, but %s/d/a/1.png has 3×2"},
		"images damaged": {files: map[string][]byte{"d/a/1.png": []byte("not an image")}, open: "d", want: "%s/d/a/1.png: image: unknown format"},
		"images huge":    {files: map[string][]byte{"d/a/1.png": huge}, open: "d", want: "%s/d/a/1.png: 65536×65536 pixels; at most"},
		"images format":  {files: map[string][]byte{"d/a/1.png": pngBytes(small(3)), "d/a/2.gif": []byte("GIF89a")}, open: "d", want: "%s/d/a/2.gif: only PNG, JPEG"},
		"images flat":    {files: map[string][]byte{"d/1.png": pngBytes(small(3))}, open: "d", want: "%s/d: no data in this folder"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for f, data := range c.files {
				write(t, filepath.Join(dir, f), data)
			}
			var opt Options
			if c.label != "" {
				opt.Labels = filepath.Join(dir, c.label)
			}
			_, err := Open(context.Background(), filepath.Join(dir, c.open), opt)
			want := strings.ReplaceAll(c.want, "%s", dir)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("error %v\nwant  %s", err, want)
			}
			if err != nil && strings.Contains(err.Error(), "\n") {
				t.Errorf("more than a line: %q", err)
			}
		})
	}
}

// An image that has a good header but cannot be decoded gives an error when it is read.
func TestImageCutShort(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a/1.png")
	img := image.NewGray(image.Rect(0, 0, 40, 40))
	copy(img.Pix, pixels(1600))
	writePNG(t, path, img)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, data[:len(data)/2])
	d := mustOpen(t, dir)
	if _, err := d.Example(0); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
}

func TestCheckLabels(t *testing.T) {
	dir := t.TempDir()
	d := mustOpen(t, write(t, filepath.Join(dir, "d.csv"), []byte("label,a\n0,1\n\n9,1\n10,2\n")))
	if err := d.CheckLabels(11); err != nil {
		t.Error(err)
	}
	err := d.CheckLabels(10)
	if want := dir + "/d.csv: line 5: label 10, but the model has only classes 0 to 9"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if d.Classes() != 11 {
		t.Errorf("%d classes", d.Classes())
	}
}

func TestOpenStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	dir := t.TempDir()
	writePNG(t, filepath.Join(dir, "images/a/1.png"), image.NewGray(image.Rect(0, 0, 2, 2)))
	csv := write(t, filepath.Join(dir, "d.csv"), []byte("1,2\n"))
	for _, path := range []string{filepath.Join(dir, "images"), csv, "testdata/numpy/f4.npz"} {
		if _, err := Open(ctx, path, Options{}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v", path, err)
		}
	}
}

// ReadAt at any offset gives the bytes that readPieces read.
func TestPieces(t *testing.T) {
	want := pixels(pieceSize + 1000)
	m, err := readPieces(bytes.NewReader(want), int64(len(want)))
	if err != nil || m.size() != int64(len(want)) {
		t.Fatal(m.size(), err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	r := bytes.NewReader(want)
	for range 1000 {
		offset := int64(rng.IntN(len(want) + 10))
		if rng.IntN(2) == 0 {
			offset = pieceSize - 50 + int64(rng.IntN(100))
		}
		a, b := make([]byte, rng.IntN(200)), make([]byte, 200)
		b = b[:len(a)]
		n, errA := m.ReadAt(a, offset)
		k, errB := r.ReadAt(b, offset)
		if n != k || !bytes.Equal(a[:n], b[:k]) || len(a) > 0 && (errA == nil) != (errB == nil) {
			t.Fatalf("ReadAt %d at %d: %d %v, want %d %v", len(a), offset, n, errA, k, errB)
		}
	}
}
