package dataset

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
)

// source is a small dataset in some format. It holds the dataset's files, the path to open, and the file with the
// inputs.
type source struct {
	files  map[string][]byte
	open   string
	inputs string
	// The field 'held' means that Open holds the whole dataset in memory.
	held bool
}

func sources(t testing.TB) map[string]source {
	const n, h, w = 4, 6, 5
	px := pixels(n * h * w)
	labels := []byte{3, 1, 0, 2}
	y := npyFile("|u1", "4,", labels)
	images, imageLabels := "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"
	cifar := func(header int) (b []byte) {
		for i, l := range labels {
			b = append(append(b, bytes.Repeat([]byte{l}, header)...), pixels(cifarPixels + i)[i:]...)
		}
		return b
	}
	picture := func(seed int) []byte {
		img := image.NewGray(image.Rect(0, 0, w, h))
		copy(img.Pix, pixels(h*w + seed)[seed:])
		path := filepath.Join(t.TempDir(), "p.png")
		writePNG(t, path, img)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	csv := "label,a,b\n3,0.5,1\n1,0.25,2\n0,0.75,3\n2,0.125,4\n"
	floats := make([]float32, n*h*w)
	for i := range floats {
		floats[i] = float32(px[i]) / 7
	}
	return map[string]source{
		"idx":                 {map[string][]byte{images: idx(px, n, h, w), imageLabels: idx(labels, n)}, images, images, false},
		"idx gz":              {map[string][]byte{images + ".gz": gzipped(t, idx(px, n, h, w)), imageLabels: idx(labels, n)}, images + ".gz", images + ".gz", true},
		"idx labels of numpy": {map[string][]byte{images: idx(px, n, h, w), imageLabels: idx(labels, n)}, ".", images, false},
		"cifar":               {map[string][]byte{"test_batch.bin": cifar(1)}, "test_batch.bin", "test_batch.bin", false},
		"cifar-100":           {map[string][]byte{"test.bin": cifar(2)}, ".", "test.bin", false},
		"cifar gz":            {map[string][]byte{"test_batch.bin": gzipped(t, cifar(1))}, "test_batch.bin", "test_batch.bin", true},
		"csv":                 {map[string][]byte{"d.csv": []byte(csv)}, "d.csv", "d.csv", true},
		"csv gz":              {map[string][]byte{"d.csv.gz": gzipped(t, []byte(csv))}, "d.csv.gz", "d.csv.gz", true},
		"npy":                 {map[string][]byte{"x.npy": npyFile("<f4", "4, 6, 5", floats), "y.npy": y}, "x.npy", "x.npy", false},
		"npy Fortran":         {map[string][]byte{"x.npy": bytes.Replace(npyFile("<f4", "4, 6, 5", floats), []byte("False"), []byte("True "), 1), "y.npy": y}, "x.npy", "x.npy", true},
		"npz stored":          {map[string][]byte{"d.npz": npz(t, zip.Store, "x", npyFile("|u1", "4, 6, 5", px), "y", y)}, "d.npz", "d.npz", false},
		"npz compressed":      {map[string][]byte{"d.npz": npz(t, zip.Deflate, "x", npyFile("|u1", "4, 6, 5", px), "y", y)}, "d.npz", "d.npz", true},
		"images": {map[string][]byte{"d/a/1.png": picture(0), "d/b/1.png": picture(1), "d/b/2.png": picture(2), "d/c/1.png": picture(3)},
			"d", "d/b/2.png", false},
	}
}

func (s source) write(t *testing.T) (open, inputs string) {
	t.Helper()
	dir := t.TempDir()
	for name, data := range s.files {
		write(t, filepath.Join(dir, name), data)
	}
	return filepath.Join(dir, s.open), filepath.Join(dir, s.inputs)
}

// The function 'examples' reads all examples. It also returns the errors of the examples that cannot be read.
func examples(d *Dataset) (values [][]float32, errs []error) {
	for i := range d.Len() {
		e, err := d.Example(i)
		values, errs = append(values, e.Values), append(errs, err)
	}
	return values, errs
}

// For every format and for every change in 'changes', the test opens a dataset and then changes the file that holds the
// inputs. Reading an example must then give the old values or an error.
func TestChangedAfterOpen(t *testing.T) {
	flip := func(data []byte, at int) []byte {
		data = bytes.Clone(data)
		data[at] ^= 1
		return data
	}
	changes := map[string]func(t *testing.T, path string, data []byte){
		"in place": func(t *testing.T, path string, data []byte) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt(flip(data, len(data)*2/3), 0); err != nil {
				t.Fatal(err)
			}
		},
		"replaced": func(t *testing.T, path string, data []byte) {
			if err := os.Rename(write(t, path+".new", flip(data, len(data)*2/3)), path); err != nil {
				t.Fatal(err)
			}
		},
		"truncated": func(t *testing.T, path string, data []byte) {
			if err := os.Truncate(path, int64(len(data)*2/3)); err != nil {
				t.Fatal(err)
			}
		},
		"emptied": func(t *testing.T, path string, data []byte) { write(t, path, nil) },
		"longer":  func(t *testing.T, path string, data []byte) { write(t, path, append(flip(data, len(data)*2/3), 0)) },
		"removed": func(t *testing.T, path string, data []byte) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		},
	}
	for format, s := range sources(t) {
		for change, apply := range changes {
			t.Run(format+", "+change, func(t *testing.T) {
				open, inputs := s.write(t)
				d := mustOpen(t, open)
				want, errs := examples(d)
				for _, err := range errs {
					if err != nil {
						t.Fatal(err)
					}
				}
				if c, ok := d.closer.(interface{ forget() }); ok {
					c.forget()
				}
				apply(t, inputs, s.files[s.inputs])
				got, errs := examples(d)
				failed := 0
				for i, err := range errs {
					switch {
					case err == nil && !slices.Equal(got[i], want[i]):
						t.Errorf("example %d has other values and no error", i)
					case err != nil:
						failed++
						if !strings.Contains(err.Error(), inputs) {
							t.Errorf("example %d: the error does not name the file: %v", i, err)
						}
						if change != "removed" && !strings.Contains(err.Error(), "has changed since it was opened") {
							t.Errorf("example %d: %v", i, err)
						}
					}
				}
				// The variable 'kept' is true if reading must still give the old data. If an open file was replaced or
				// removed, its descriptor still reads the old content. But an image's file is opened again at each
				// read.
				kept := s.held || format != "images" && (change == "replaced" || change == "removed")
				if kept != (failed == 0) {
					t.Errorf("%d examples failed", failed)
				}
				if format == "images" && failed != 1 {
					t.Errorf("one image changed, and %d failed", failed)
				}
			})
		}
	}
}

// The method 'forget' drops the block in memory, so that the next read looks at the file.
func (c *checkedFile) forget() { c.in = -1 }
func (f *idxFile) forget() {
	if c, ok := f.contents.(*checkedFile); ok {
		c.forget()
	}
}

// If the file of an image is replaced by another file of the same length, reading this image must return an error. The
// new file holds an image of the same height and width.
func TestSwappedImages(t *testing.T) {
	s := sources(t)["images"]
	open, _ := s.write(t)
	d := mustOpen(t, open)
	write(t, filepath.Join(open, "a/1.png"), s.files["d/c/1.png"])
	write(t, filepath.Join(open, "c/1.png"), s.files["d/a/1.png"])
	_, errs := examples(d)
	for i, err := range errs {
		if swapped := i == 0 || i == 3; swapped != (err != nil && strings.Contains(err.Error(), "has changed since")) {
			t.Errorf("image %d: %v", i, err)
		}
	}
}

// The test checks that each changed block is refused and that the unchanged blocks can still be read.
func TestBlocks(t *testing.T) {
	const n, blocks = 40, 5
	values := make([]float32, n*blocks*blockSize/4/n)
	for i := range values {
		values[i] = float32(i)
	}
	dir := t.TempDir()
	x := write(t, filepath.Join(dir, "x.npy"), npyFile("<f4", fmt.Sprintf("%d, %d", n, len(values)/n), values))
	write(t, filepath.Join(dir, "y.npy"), npyFile("|u1", fmt.Sprintf("%d,", n), make([]byte, n)))
	d := mustOpen(t, x)
	f, err := os.OpenFile(x, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size := len(values) / n * 4
	for block := range blocks + 1 { // the header shifts the data, so they end in a sixth block
		at := int64(block*blockSize + 200)
		if block == blocks {
			at -= 100
		}
		var b [1]byte
		if _, err := f.ReadAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte{b[0] ^ 0x80}, at); err != nil {
			t.Fatal(err)
		}
		d.closer.(*checkedFile).forget()
		for i := range n {
			from, to := (128+i*size)/blockSize, (128+(i+1)*size-1)/blockSize
			if _, err := d.Example(i); (err != nil) != (from <= block && block <= to) {
				t.Errorf("block %d changed, example %d of blocks %d to %d: %v", block, i, from, to, err)
			}
		}
		if _, err := f.WriteAt(b[:], at); err != nil {
			t.Fatal(err)
		}
	}
}

// An archive may state that a member begins before the file begins. Open must then return an error, and must not crash.
func TestReadBeforeTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("0123456789"), 0o644); err != nil {
		t.Fatal(err)
	}
	file, err := openChecked(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, r := range map[string]io.ReaderAt{"file": file, "pieces": pieces{[]byte("0123456789")}} {
		if n, err := r.ReadAt(make([]byte, 5), -3); n != 0 || err == nil {
			t.Errorf("%s: %d bytes from −3 on, error %v", name, n, err)
		}
		if n, err := r.ReadAt(make([]byte, 5), 3); n != 5 || err != nil {
			t.Errorf("%s: %d bytes from 3 on, error %v", name, n, err)
		}
	}
}

func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe := func(name string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o666); err != nil {
			t.Skip(err)
		}
		return path
	}
	x := write(t, filepath.Join(dir, "x.npy"), npyFile("<f4", "1, 1", []float32{1}))
	for _, name := range []string{"p", "p.csv", "p.bin", "p.npz", "t10k-images-idx3-ubyte", "k/a/1.png"} {
		open := pipe(name)
		if name == "k/a/1.png" {
			open = filepath.Join(dir, "k")
		}
		if _, err := Open(t.Context(), open, Options{Labels: ""}); err == nil || !strings.Contains(err.Error(), "is a pipe") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for path, want := range map[string]string{pipe("l"): "is a pipe", "/dev/zero": "is a device", dir: "is a folder"} {
		if _, err := Open(t.Context(), x, Options{Labels: path}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("labels %s: %v", path, err)
		}
	}
	if _, err := Open(t.Context(), "/dev/zero", Options{}); err == nil || !strings.Contains(err.Error(), "/dev/zero: is a device") {
		t.Errorf("/dev/zero: %v", err)
	}
}

// The function 'zeros' compresses the bytes in 'head', followed by n zero bytes. Zero bytes shrink by a factor of about
// 1000.
func zeros(t testing.TB, head []byte, n int64) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, flate.BestSpeed)
	if err != nil {
		t.Fatal(err)
	}
	z.Write(head)
	chunk := make([]byte, 1<<20)
	for ; n > 0; n -= int64(len(chunk)) {
		z.Write(chunk[:min(n, int64(len(chunk)))])
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// zeroMember makes an archive with an array of n zero bytes.
func zeroMember(t testing.TB, n int64) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, head := range map[string][]byte{"y": npyFile("|u1", "1,", []byte{0}), "x": npyFile("|u1", fmt.Sprintf("1, %d", n), []byte{})} {
		w, err := z.Create(name + ".npy")
		if err != nil {
			t.Fatal(err)
		}
		w.Write(head)
		for left := n; left > 0 && name == "x"; left -= 1 << 20 {
			w.Write(make([]byte, min(left, 1<<20)))
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Some small files unpack to large files, or claim to do so. Open must refuse such files before it takes memory for
// them. With GOMEMLIMIT at 64 MiB and files of 96 MiB, the heap may grow by at most 48 MiB, or by at most 400 MiB if a
// line is long.
func TestMemoryIsBounded(t *testing.T) {
	const large = 96 << 20
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(64 << 20))
	header := func(dims ...uint32) []byte { return idx(nil, dims...) }
	images := "t10k-images-idx3-ubyte"
	sparse := filepath.Join(t.TempDir(), images)
	write(t, sparse, header(1, 1<<31, 1<<5))
	if err := os.Truncate(sparse, 1<<36+16); err != nil {
		t.Skip(err)
	}
	for name, c := range map[string]struct {
		file, open string
		data       []byte
		want       string
	}{
		"idx that keeps its promise": {images + ".gz", "", zeros(t, header(3<<15, 32, 32), large), "of memory"},
		"idx without the data":       {images + ".gz", "", zeros(t, header(1<<31, 1<<31), 10), "of memory"},
		"idx beyond its promise":     {images + ".gz", "", zeros(t, header(1, 2, 2), large), "more data than its header promises"},
		"idx of a huge example":      {images, sparse, nil, "an example of shape [1 2147483648 32] needs"},
		"cifar":                      {"test_batch.bin", "", zeros(t, nil, large), "memory holds"},
		"pickle of many values":      {"test_batch", "", append([]byte("\x80\x02("), bytes.Repeat([]byte("K\x01"), large/2)...), "of memory"},
		"pickle of many lists":       {"test_batch", "", append([]byte("\x80\x02("), bytes.Repeat([]byte("]"), large)...), "of memory"},
		"pickle of text":             {"test_batch", "", textBatch(16 << 10), "of memory"},
		"csv line":                   {"d.csv.gz", "", zeros(t, []byte("1,"), large), "a line of more than 64 MiB"},
		"csv quotes":                 {"d.csv.gz", "", lines(t, "1,\"", strings.Repeat("\"\"", 500)+"\n", large), "a line of more than 64 MiB"},
		"csv rows":                   {"d.csv.gz", "", lines(t, "1,2\n", "1,2\n", 16<<20), "of memory"},
		"npz":                        {"d.npz", "", zeroMember(t, large), "of memory"},
		"npz of a huge example":      {"d.npz", "", npz(t, zip.Deflate, "x", npyFile("|u1", "1, 4000000", make([]byte, 4_000_000)), "y", npyFile("|u1", "1,", []byte{0})), "an example of shape [4000000] needs"},
	} {
		t.Run(name, func(t *testing.T) {
			path := c.open
			if path == "" {
				path = write(t, filepath.Join(t.TempDir(), c.file), c.data)
				write(t, filepath.Join(filepath.Dir(path), "t10k-labels-idx1-ubyte"), idx([]byte{0}, 1))
			} else {
				write(t, filepath.Join(filepath.Dir(path), "t10k-labels-idx1-ubyte"), idx([]byte{0}, 1))
			}
			peak := peakOf(func() {
				_, err := Open(context.Background(), path, Options{})
				if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) {
					t.Errorf("%v, want %s", err, c.want)
				}
			})
			t.Logf("%d kB of file, %d MiB at most", len(c.data)>>10, peak>>20)
			// Long lines may take more memory: the reader collects a line in a slice, and whenever the slice is full,
			// its capacity doubles.
			most := uint64(48 << 20)
			if strings.Contains(c.want, "a line") {
				most = 400 << 20
			}
			if peak > most {
				t.Errorf("%d bytes", peak)
			}
		})
	}
}

// textBatch makes a batch of white images in the form that Python 3 writes with protocol 2. In this form, the bytes of
// the images are stored as text, with one character (latin1) for each byte.
func textBatch(images int) []byte {
	n := images * cifarPixels
	number := func(n int) []byte { return binary.LittleEndian.AppendUint32(nil, uint32(n)) }
	return slices.Concat([]byte("\x80\x02}U\x04datacnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01J"), number(images),
		[]byte("M\x00\x0c\x86cnumpy\ndtype\nU\x02u1\x89\x88\x87R(K\x03U\x01|NNNNNNtb\x89c_codecs\nencode\nX"), number(2*n), bytes.Repeat([]byte("ÿ"), n),
		[]byte("U\x06latin1\x86Rtbs."))
}

func lines(t testing.TB, head, line string, n int) []byte {
	return gzipped(t, append([]byte(head), bytes.Repeat([]byte(line), n/len(line))...))
}

// peakOf returns how far the heap rises above its initial size while the function 'do' runs. It measures the heap at
// intervals.
func peakOf(do func()) uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	before, peak := m.HeapAlloc, m.HeapAlloc
	done := make(chan struct{})
	go func() { defer close(done); do() }()
	for {
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc)
		select {
		case <-done:
			return peak - before
		default:
			time.Sleep(time.Millisecond)
		}
	}
}

// Impossible sizes in an archive's directory are refused before any data are read.
func TestLyingArchive(t *testing.T) {
	for name, c := range map[string]struct {
		method       uint16
		packed, size uint64
	}{
		"stored":       {zip.Store, 10, 4 << 30},
		"deflated":     {zip.Deflate, 10, 10321},
		"beyond int64": {zip.Store, 1 << 63, 1 << 63},
		"method 12":    {12, 10, 10},
	} {
		var b bytes.Buffer
		z := zip.NewWriter(&b)
		for _, member := range []string{"x.npy", "y.npy"} {
			w, err := z.CreateRaw(&zip.FileHeader{Name: member, Method: c.method, CompressedSize64: c.packed, UncompressedSize64: c.size})
			if err != nil {
				t.Fatal(err)
			}
			w.Write(npyFile("|u1", "1,", []byte{1}))
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		_, err := Open(t.Context(), write(t, filepath.Join(t.TempDir(), "d.npz"), b.Bytes()), Options{})
		if err == nil || !strings.Contains(err.Error(), "cannot hold") && !strings.Contains(err.Error(), "method 12") {
			t.Errorf("%s: %v", name, err)
		}
	}
	twice := npz(t, zip.Store, "x", npyFile("|u1", "1, 1", []byte{1}), "x", npyFile("|u1", "1, 1", []byte{2}), "y", npyFile("|u1", "1,", []byte{0}))
	if _, err := Open(t.Context(), write(t, filepath.Join(t.TempDir(), "d.npz"), twice), Options{}); err == nil || !strings.Contains(err.Error(), "array x appears twice") {
		t.Errorf("two arrays of one name: %v", err)
	}
}

// Errors must print the names of files and arrays, and the fields of CSV files, on one line and without control
// characters.
func TestErrorsArePrintable(t *testing.T) {
	odd := filepath.Join(t.TempDir(), "a\x1b[2J\nb")
	long := strings.Repeat("\x1b]0;x\a", 5000)
	for name, data := range map[string][]byte{
		"d.csv": []byte("1," + long + "\n"),
		"e.csv": []byte(long + ",1\n"),
		"f.csv": []byte("1e5" + strings.Repeat("0", 5000) + ",2\n"),
		"d.npz": npz(t, zip.Store, "a\x1b[2J"+long, []byte{}),
		"e.npz": npz(t, zip.Store, long, []byte{}, long, []byte{}),
		"x.npy": npyFile("<f4", "\x1b[2J"+long, []float32{}),
		"pics":  idx(pixels(4), 1, 2, 2),
	} {
		path := write(t, filepath.Join(odd, name), data)
		write(t, filepath.Join(odd, "y.npy"), npyFile("|u1", "1,", []byte{0}))
		_, err := Open(t.Context(), path, Options{})
		if err == nil || len(err.Error()) > 1000 || strings.ContainsFunc(err.Error(), unicode.IsControl) {
			t.Errorf("%s: %.2000q", name, fmt.Sprint(err))
		}
	}
	folder := filepath.Join(odd, "k")
	for _, class := range []string{"c\x1b[1m", "d"} {
		writePNG(t, filepath.Join(folder, class, "1.png"), image.NewGray(image.Rect(0, 0, 2, 2)))
	}
	d := mustOpen(t, folder)
	if err := d.CheckLabels(1); err == nil || strings.ContainsFunc(d.Note()+err.Error(), unicode.IsControl) {
		t.Errorf("%q %q", d.Note(), err)
	}
	write(t, filepath.Join(folder, "c\x1b[1m", "1.png"), nil)
	if _, err := d.Example(0); err == nil || strings.ContainsFunc(err.Error(), unicode.IsControl) {
		t.Errorf("%q", err)
	}
}

// An image file that is longer than maxImageFile must be refused, even if its picture is small.
func TestImageTooLongForItsPixels(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a/1.png")
	writePNG(t, path, image.NewGray(image.Rect(0, 0, 2, 2)))
	if err := os.Truncate(path, maxImageFile+1); err != nil {
		t.Skip(err)
	}
	if _, err := Open(t.Context(), dir, Options{}); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("%v", err)
	}
}

// FuzzChanged changes an open file in any way. Reading an example must then give the unchanged example or an error.
func FuzzChanged(f *testing.F) {
	const n, size = 3, 4
	values := []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
	x := npyFile("<f4", "3, 4", values)
	f.Add(130, []byte{1})
	f.Add(0, []byte{})
	f.Add(len(x)-4, binary.LittleEndian.AppendUint32(nil, 0x7fc00000))
	f.Fuzz(func(t *testing.T, at int, change []byte) {
		if at < 0 || at > len(x) {
			return
		}
		dir := t.TempDir()
		path := write(t, filepath.Join(dir, "x.npy"), x)
		write(t, filepath.Join(dir, "y.npy"), npyFile("|u1", "3,", []byte{0, 1, 2}))
		d, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		d.closer.(*checkedFile).forget()
		write(t, path, append(bytes.Clone(x[:at]), change...))
		for i := range n {
			if e, err := d.Example(i); err == nil && !slices.Equal(e.Values, values[i*size:(i+1)*size]) {
				t.Errorf("example %d is %v", i, e.Values)
			}
		}
	})
}
