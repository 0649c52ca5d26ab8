package scorefile

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// readDigests does what readAll does, for files that may be damaged. It also returns the digests.
func readDigests(path string) (examples []example, digests []string, err error) {
	r, err := Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer r.Close()
	for {
		var e example
		e.index, e.label, err = r.Next()
		if errors.Is(err, io.EOF) {
			return examples, digests, nil
		}
		if err != nil {
			return nil, nil, err
		}
		if err := r.Estimation(func(p []float32) error { e.scores = append(e.scores, p...); return nil }); err != nil {
			return nil, nil, err
		}
		// For every second example, the function also reads the selection samples, after the estimation samples.
		if len(examples)%2 == 0 {
			if err := r.Selection(func(p []float32) error { e.scores0 = append(e.scores0, p...); return nil }); err != nil {
				return nil, nil, err
			}
		}
		d, err := r.Digest()
		if err != nil {
			return nil, nil, err
		}
		examples, digests = append(examples, e), append(digests, d)
	}
}

func finished(t *testing.T, s Shape) (path string, file []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "scores.npz")
	w := create(t, path, s)
	write(t, w, s, randomExamples(s), 0, s.N)
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, file
}

// flipEach flips every bit of the file in turn, and calls the function 'read' while the bit is flipped.
func flipEach(t *testing.T, path string, file []byte, read func(at, bit int)) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for at, b := range file {
		for bit := range 8 {
			if _, err := f.WriteAt([]byte{b ^ 1<<bit}, int64(at)); err != nil {
				t.Fatal(err)
			}
			read(at, bit)
		}
		if _, err := f.WriteAt([]byte{b}, int64(at)); err != nil {
			t.Fatal(err)
		}
	}
}

// The test flips each bit of a finished file in turn. Reading the file must then end with an error.
func TestEveryFlipIsFound(t *testing.T) {
	for _, s := range []Shape{{2, 2, 3, 2}, {1, 0, 1, 2}} {
		path, file := finished(t, s)
		if _, _, err := readDigests(path); err != nil {
			t.Fatal(err)
		}
		found := 0
		flipEach(t, path, file, func(at, bit int) {
			if _, _, err := readDigests(path); err != nil {
				found++
			} else {
				t.Errorf("%v: byte %d, bit %d: no error", s, at, bit)
			}
		})
		t.Logf("%v: %d of %d flips found", s, found, 8*len(file))
		for cut := range len(file) {
			if err := os.WriteFile(path, file[:cut], 0o644); err != nil {
				t.Fatal(err)
			}
			if _, _, err := readDigests(path); err == nil {
				t.Errorf("%v: cut to %d bytes: no error", s, cut)
			}
		}
	}
}

// In a file of another program, some bytes do not influence the scores, for example the times in the headers. After any
// flip of a bit, the Reader must either return an error or read the same scores and labels as before.
func TestFlipsElsewhere(t *testing.T) {
	scores := npyArray("{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 2), }", "\x00\x00\x00\x3f\x00\x00\x00\x3f\x00\x00\x80\x3e\x00\x00\x40\x3f")
	labels := npyArray("{'descr': '<i8', 'fortran_order': False, 'shape': (1,), }", "\x01\x00\x00\x00\x00\x00\x00\x00")
	path := numpyFile(t, zip.Store, [2]string{"scores.npy", scores}, [2]string{"labels.npy", labels})
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, _, err := readDigests(path)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	flipEach(t, path, file, func(at, bit int) {
		got, _, err := readDigests(path)
		if err != nil {
			found++
		} else if !same(got, want) {
			t.Errorf("byte %d, bit %d: other numbers and no error", at, bit)
		}
	})
	t.Logf("%d of %d flips found", found, 8*len(file))
}

func TestDigest(t *testing.T) {
	for _, s := range shapes {
		path := filepath.Join(t.TempDir(), "scores.npz")
		examples := randomExamples(s)
		w := create(t, path, s)
		write(t, w, s, examples, 0, 3)
		var want []string
		for i, e := range examples {
			// The next lines compute the digest by its definition, with encoding/binary.
			block := func(p []float32) uint32 {
				if len(p) == 0 {
					return 0
				}
				b, err := binary.Append(nil, binary.LittleEndian, p)
				if err != nil {
					t.Fatal(err)
				}
				return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
			}
			b, err := binary.Append(nil, binary.LittleEndian, struct {
				Index, Label    int64
				Scores0, Scores uint32
			}{int64(e.index), int64(e.label), block(e.scores0), block(e.scores)})
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprintf("%08x", crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))))
			if got, err := w.Digest(i); err != nil || got != want[i] {
				t.Errorf("%v: example %d: %s %v, want %s", s, i, got, err, want[i])
			}
		}
		if _, err := w.Digest(len(examples)); err == nil {
			t.Error("an example too many has a digest")
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		if _, got, err := readDigests(path); err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%v: read %v %v, want %v", s, got, err, want)
		}
	}
}

// The samples of every example can be read from an unfinished file, a few rows at a time.
func TestSamples(t *testing.T) {
	for _, s := range append(shapes, Shape{2, 5, 7, chunk / 2}) {
		w := create(t, filepath.Join(t.TempDir(), "scores.npz"), s)
		want := randomExamples(s)
		write(t, w, s, want, 0, 3)
		for i, e := range want {
			samples, err := w.Samples(i)
			if err != nil {
				t.Fatal(err)
			}
			got := example{index: e.index, label: e.label}
			into := func(all *[]float32) func([]float32) error {
				return func(p []float32) error {
					if len(p) > max(chunk, s.Classes) || len(p)%s.Classes != 0 {
						t.Errorf("%v: %d numbers at a time", s, len(p))
					}
					*all = append(*all, p...)
					return nil
				}
			}
			if err := errors.Join(samples.Selection(into(&got.scores0)), samples.Estimation(into(&got.scores))); err != nil {
				t.Fatal(err)
			}
			if !same([]example{got}, []example{e}) {
				t.Errorf("%v: example %d is read differently", s, i)
			}
			stop := errors.New("stop")
			if err := samples.Estimation(func([]float32) error { return stop }); !errors.Is(err, stop) {
				t.Errorf("%v: the error of take is lost: %v", s, err)
			}
		}
		for _, i := range []int{-1, s.Examples} {
			if _, err := w.Samples(i); err == nil {
				t.Errorf("%v: there is an example %d", s, i)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// If one bit in the data of an example changes, the digest of this example must change, and all other digests must stay
// the same.
func TestDigestCovers(t *testing.T) {
	s := Shape{2, 2, 3, 2}
	path := filepath.Join(t.TempDir(), "scores.npz")
	w := create(t, path, s)
	defer w.Close()
	write(t, w, s, randomExamples(s), 0, 3)
	before := [2]string{}
	for i := range before {
		before[i], _ = w.Digest(i)
	}
	for _, a := range []struct {
		name string
		size int64 // number of bytes per example
	}{{"index", 8}, {"labels", 8}, {"scores0", 4 * 2 * 2}, {"scores", 4 * 3 * 2}} {
		for bit := range 2 * a.size * 8 {
			at := w.member(a.name).data + bit/8
			var b [1]byte
			if _, err := w.file.ReadAt(b[:], at); err != nil {
				t.Fatal(err)
			}
			if err := w.writeAt([]byte{b[0] ^ 1<<(bit%8)}, at); err != nil {
				t.Fatal(err)
			}
			for i := range int64(2) {
				got, err := w.Digest(int(i))
				if changed := bit/8/a.size == i; err != nil || (got != before[i]) != changed {
					t.Errorf("%s, bit %d: digest of example %d is %s %v, was %s", a.name, bit, i, got, err, before[i])
				}
			}
			if err := w.writeAt(b[:], at); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The test reopens a finished file, writes one example again and finishes the file. The file must then have the same
// bytes as before. The same must hold for an unfinished file (part file) whose zip directory is missing or incomplete
// after a power cut.
func TestReopen(t *testing.T) {
	s := Shape{3, 2, 4, 3}
	path, want := finished(t, s)
	part := path + partSuffix
	examples := randomExamples(s)
	again := func(w *Writer, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		e := examples[1]
		err = errors.Join(w.WriteExample(1, e.index, e.label), w.WriteSelection(1, 0, e.scores0), w.WriteEstimation(1, 0, e.scores), w.Sync(), w.Finish())
		got, readErr := os.ReadFile(path)
		if err != nil || readErr != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v %v, other bytes: %v", err, readErr, !bytes.Equal(got, want))
		}
		if _, err := os.Stat(part); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the part file: %v", err)
		}
	}
	w, err := Reopen(path, s)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is there while it is written: %v", err)
	}
	if err := w.WriteEstimation(1, 0, make([]float32, 12)); err != nil {
		t.Fatal(err)
	}
	again(w, err)
	// A power cut can leave a part file without a directory, or with an incomplete directory.
	for length := w.end; length <= int64(len(want)); length += 13 {
		if err := errors.Join(os.Remove(path), os.WriteFile(part, want[:length], 0o644)); err != nil {
			t.Fatal(err)
		}
		again(Create(path, s))
	}

	if _, err := Reopen(path, Shape{3, 2, 4, 4}); err == nil || !strings.Contains(err.Error(), "4 classes have") {
		t.Errorf("another shape: %v", err)
	}
	if err := os.WriteFile(part, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Reopen(path, s); err == nil || !strings.Contains(err.Error(), "both") {
		t.Errorf("with a part file: %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Error("a refused file was changed")
	}
	if _, err := Reopen(path+"x", s); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// The function 'lying' makes an archive of one member. The directory of the archive states false sizes.
func lying(t *testing.T, method uint16, header string, packed, size uint64) string {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, err := z.CreateRaw(&zip.FileHeader{Name: "scores.npy", Method: method, CompressedSize64: packed, UncompressedSize64: size})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, header); err != nil {
		t.Fatal(err)
	}
	return closed(t, z, &b)
}

// The reader must refuse a small file that claims a huge size. It must not allocate much memory for this file.
func TestHostile(t *testing.T) {
	array := func(shape string) string {
		return npyArray("{'descr': '<f4', 'fortran_order': False, 'shape': ("+shape+"), }", "")
	}
	big := array("1, 1, 1073741824")
	size := uint64(len(big)) + 4<<30
	folder := t.TempDir()
	for name, c := range map[string]struct{ path, want string }{
		"stored, one size":     {lying(t, zip.Store, big, uint64(len(big)), size), "cannot hold"},
		"stored, both sizes":   {lying(t, zip.Store, big, size, size), "ends within"},
		"deflated beyond 1032": {lying(t, zip.Deflate, big, 1000, 1032001), "cannot hold"},
		"other method":         {lying(t, 12, big, 10, 10), "method 12"},
		"beyond int64":         {lying(t, zip.Store, big, 1<<63, 1<<63), "cannot hold"},
		"many samples":         {lying(t, zip.Store, array("1, 1152921504606846976, 2"), 1<<63-1, 1<<63-1), "cannot hold"},
		"folder":               {folder, "is not a file"},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, _, err := readDigests(c.path)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 4<<20 {
			t.Errorf("%s: %d bytes allocated", name, n)
		}
	}
	if err := (Shape{1, 0, 1, maxClasses + 1}).validate(); err == nil {
		t.Error("too many classes")
	}
	if err := (Shape{1 << 30, 1 << 20, 1 << 20, 2}).validate(); err == nil {
		t.Error("too many samples")
	}
	if err := (Shape{10_000, 100, 100_000, 1000}).validate(); err != nil {
		t.Error(err)
	}
}

// FuzzDamaged changes a finished file. Reading the changed file must either give the same content as before or return an
// error.
func FuzzDamaged(f *testing.F) {
	s := Shape{2, 2, 3, 2}
	path := filepath.Join(f.TempDir(), "scores.npz")
	w, err := Create(path, s)
	if err != nil {
		f.Fatal(err)
	}
	want := randomExamples(s)
	for i, e := range want {
		if err := errors.Join(w.WriteExample(i, e.index, e.label), w.WriteSelection(i, 0, e.scores0), w.WriteEstimation(i, 0, e.scores)); err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		f.Fatal(err)
	}
	file, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(0, []byte{})
	f.Add(len(file)-30, []byte{0, 1, 2, 3})
	f.Add(200, bytes.Repeat([]byte{0xff}, 50))
	f.Fuzz(func(t *testing.T, at int, change []byte) {
		damaged := bytes.Clone(file)
		if at >= 0 && at < len(damaged) {
			copy(damaged[at:], change)
		}
		path := filepath.Join(t.TempDir(), "scores.npz")
		if err := os.WriteFile(path, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		got, _, err := readDigests(path)
		if err != nil {
			return
		}
		for i, e := range got {
			if i%2 == 1 {
				e.scores0 = want[i].scores0 // for an odd i, readDigests does not read the selection samples
			}
			if i >= len(want) || !same([]example{e}, want[i:i+1]) {
				t.Errorf("example %d reads as %v", i, e)
			}
		}
	})
}
