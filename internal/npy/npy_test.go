package npy

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The function 'file' returns a .npy file. Its header holds only the dictionary, without padding.
func file(version byte, dict string, data []byte) []byte {
	b := append([]byte("\x93NUMPY"), version, 0)
	if version == 1 {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(dict)))
	} else {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(dict)))
	}
	return append(append(b, dict...), data...)
}

func dict(descr, fortran, shape string) string {
	return fmt.Sprintf("{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }\n", descr, fortran, shape)
}

func TestReadHeader(t *testing.T) {
	for _, c := range []struct {
		name    string
		version byte
		dict    string
		want    Header
	}{
		{"plain", 1, dict("<f4", "False", "2, 3"), Header{Type: Type{'f', 4, false}, Shape: []int{2, 3}}},
		{"version 2, big-endian", 2, dict(">i2", "False", "7,"), Header{Type: Type{'i', 2, true}, Shape: []int{7}}},
		{"version 3, Fortran", 3, dict("|u1", "True", "1, 2, 3, 4"), Header{Type: Type{'u', 1, false}, Shape: []int{1, 2, 3, 4}, Fortran: true}},
		{"Python 2", 1, dict("|b1", "False", "5L, 6L"), Header{Type: Type{'b', 1, false}, Shape: []int{5, 6}}},
		{"no order", 1, dict("f8", "False", "0, 2"), Header{Type: Type{'f', 8, false}, Shape: []int{0, 2}}},
		{"scalar", 1, dict("=f2", "False", ""), Header{Type: Type{'f', 2, false}}},
		{"other spaces and order", 1, "{'shape':(3,),'fortran_order' :True,'descr'\t:\t'<u8'}", Header{Type: Type{'u', 8, false}, Shape: []int{3}, Fortran: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			const rest = "elements"
			whole := file(c.version, c.dict, []byte(rest))
			r := bytes.NewReader(whole)
			got, err := ReadHeader(r)
			if err != nil {
				t.Fatal(err)
			}
			got.shape, c.want.Offset = "", int64(len(whole)-len(rest))
			if !reflect.DeepEqual(*got, c.want) {
				t.Errorf("%+v, want %+v", *got, c.want)
			}
			if r.Len() != len(rest) {
				t.Errorf("%d bytes left, want %d", r.Len(), len(rest))
			}
			for cut := range got.Offset {
				_, err := ReadHeader(bytes.NewReader(whole[:cut]))
				if want := fmt.Sprintf("byte %d: ends within the header of a .npy file", cut); err == nil || err.Error() != want {
					t.Fatalf("cut: %v, want %s", err, want)
				}
			}
		})
	}
}

func TestHeaderErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"other file", []byte("an empty zip file is of 22 bytes"), "byte 0: not a .npy file"},
		{"version 0", file(0, dict("<f4", "False", "1,"), nil), "byte 6: .npy version 0.0 is unknown"},
		{"version 4", file(4, dict("<f4", "False", "1,"), nil), "byte 6: .npy version 4.0 is unknown"},
		{"huge header", []byte("\x93NUMPY\x02\x00\xff\xff\xff\xff"), "byte 8: a header of 4294967295 bytes is too long for a plain array"},
		{"empty", file(1, "", nil), `byte 10: the header does not describe an array of numbers; cannot read ""`},
		{"objects", file(3, dict("|O", "False", "1,"), nil), "byte 12: the header does not describe an array of numbers"},
		{"records", file(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", nil), "byte 10: the header does not describe an array of numbers"},
		{"order", file(1, dict("<f4", "Perhaps", "1,"), nil), "byte 10: the header does not describe an array of numbers"},
		{"text", file(1, dict("<U3", "False", "1,"), nil), "byte 10: elements of type 'descr': '<U3' are not read"},
		{"complex", file(1, dict("<c8", "False", "1,"), nil), "byte 10: elements of type 'descr': '<c8' are not read"},
		{"long double", file(1, dict("<f16", "False", "1,"), nil), "byte 10: elements of type 'descr': '<f16' are not read"},
		{"width 0", file(1, dict("<f0", "False", "1,"), nil), "byte 10: elements of type 'descr': '<f0' are not read"},
		{"negative", file(1, dict("<f4", "False", "3, -1"), nil), `byte 10: "-1" is not a dimension`},
		{"no dimension", file(2, dict("<f4", "False", "3, None"), nil), `byte 12: "None" is not a dimension`},
		{"beyond 64 bits", file(1, dict("<f4", "False", "9223372036854775808,"), nil), `byte 10: "9223372036854775808" is not a dimension`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if h, err := ReadHeader(bytes.NewReader(c.file)); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("%+v, error %v, want %s", h, err, c.want)
			}
		})
	}
	failure := errors.New("the disk is on fire")
	_, err := ReadHeader(io.MultiReader(strings.NewReader("\x93NUM"), readerFunc(func([]byte) (int, error) { return 0, failure })))
	if !errors.Is(err, failure) || !strings.HasPrefix(err.Error(), "byte 4: ") {
		t.Errorf("error %v, want %v at byte 4", err, failure)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		shape  string
		length int64 // length of the data behind the header
		want   string
	}{
		{"2, 3", 24, ""},
		{"", 4, ""},
		{"2, 3", 23, "byte O+23: ends before the data of an array of shape (2, 3), which needs O+24 bytes"},
		{"2, 3", 26, "byte O+24: 2 bytes more than an array of shape (2, 3) has"},
		{"2, 0", 0, "byte O+0: the array is empty, of shape (2, 0)"},
		{"9223372036854775807, 9223372036854775807, 0", 0, "byte O+0: the array is empty"},
		{"1000000000, 1000000000, 1000000000", 5, "byte O+5: ends before the data of an array of shape (1000000000, 1000000000, 1000000000), which is too large"},
		// The array would have 2⁶⁴ bytes. This number wraps around to 0.
		{"2147483648, 2147483648", 0, "byte O+0: ends before the data"},
		{"4294967296, 1073741824", 0, "byte O+0: ends before the data"},
	} {
		h, err := ReadHeader(bytes.NewReader(file(1, dict("<f4", "False", c.shape), nil)))
		if err != nil {
			t.Fatal(err)
		}
		want := regexp.MustCompile(`O\+\d+`).ReplaceAllStringFunc(c.want, func(s string) string {
			n, _ := strconv.ParseInt(s[2:], 10, 64)
			return fmt.Sprint(h.Offset + n)
		})
		err = h.Check(h.Offset + c.length)
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && !strings.HasPrefix(got, want) {
			t.Errorf("shape (%s), %d bytes: %v, want %s", c.shape, c.length, err, want)
		}
	}
}

// The test converts every type except float16, in both byte orders, to every type of Number. It converts bools only to
// float64. The package encoding/binary encodes the values. Decode must return the same values, converted to each type
// of Number. The test does not check floats that are decoded to int64.
func TestDecode(t *testing.T) {
	decodes(t, 'f', []float32{0, -1.5, math.Pi, math.MaxFloat32, math.SmallestNonzeroFloat32, float32(math.Inf(-1))})
	decodes(t, 'f', []float64{0, -1.5, math.Pi, 1e300, math.Inf(1)})
	decodes(t, 'i', []int8{0, 1, -1, math.MinInt8, math.MaxInt8})
	decodes(t, 'i', []int16{0, 1, -2, math.MinInt16, math.MaxInt16})
	decodes(t, 'i', []int32{0, 1, -2, math.MinInt32, math.MaxInt32})
	decodes(t, 'i', []int64{0, 1, -2, math.MinInt64, math.MaxInt64, 1<<53 + 1})
	decodes(t, 'u', []uint8{0, 1, 255})
	decodes(t, 'u', []uint16{0, 1, 0x1234, math.MaxUint16})
	decodes(t, 'u', []uint32{0, 1, 0x12345678, math.MaxUint32})
	decodes(t, 'u', []uint64{0, 1, 1<<53 + 1, math.MaxInt64})

	bools := make([]float64, 3)
	if Decode(Type{Kind: 'b', Width: 1}, bools, []byte{0, 1, 7}); !slices.Equal(bools, []float64{0, 1, 1}) {
		t.Errorf("bools: %v", bools)
	}
}

func decodes[E interface {
	float32 | float64 | int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64
}](t *testing.T, kind byte, values []E) {
	t.Helper()
	for _, big := range []bool{false, true} {
		var order binary.ByteOrder = binary.LittleEndian
		if big {
			order = binary.BigEndian
		}
		src, err := binary.Append(nil, order, values)
		if err != nil {
			t.Fatal(err)
		}
		src = append(src, 99) // Decode must ignore this further byte
		before := slices.Clone(src)
		typ := Type{kind, binary.Size(values[0]), big}
		f64, f32, i64 := make([]float64, len(values)), make([]float32, len(values)), make([]int64, len(values))
		Decode(typ, f64, src)
		Decode(typ, f32, src)
		Decode(typ, i64, src)
		for i, v := range values {
			if f64[i] != float64(v) || f32[i] != float32(v) || kind != 'f' && i64[i] != int64(v) {
				t.Errorf("%+v: %v is %v, %v, %v", typ, v, f64[i], f32[i], i64[i])
			}
		}
		if !bytes.Equal(src, before) {
			t.Errorf("%+v: the source was changed", typ)
		}
	}
}

// Let s be the sign bit, e the exponent bits and m the fraction bits of a finite float16. Its value is
// (-1)^s·2^(e-15)·(1+m/1024), or (-1)^s·2^-14·m/1024 if e is 0 (IEEE 754-2008, §3.4).
func TestDecodeHalf(t *testing.T) {
	var src []byte
	for b := range 1 << 16 {
		src = binary.BigEndian.AppendUint16(src, uint16(b))
	}
	got := make([]float64, 1<<16)
	Decode(Type{Kind: 'f', Width: 2, Big: true}, got, src)
	for b, v := range got {
		s, e, m := 1-2*float64(b>>15), b>>10&31, float64(b&1023)/1024
		want := s * math.Ldexp(1+m, e-15)
		switch {
		case e == 0:
			want = s * math.Ldexp(m, -14)
		case e == 31 && m == 0:
			want = math.Inf(int(s))
		case e == 31:
			want = math.NaN()
		}
		if v != want && !(math.IsNaN(v) && math.IsNaN(want)) {
			t.Fatalf("%#04x is %v, want %v", b, v, want)
		}
	}
}

// The function 'open' makes an archive with one array and opens the array. The arguments 'change' come in pairs: bytes
// of the archive, and the new bytes that replace them. The archive keeps the checksum of the old data.
func open(t testing.TB, method uint16, npy []byte, change ...string) *Reader {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	w, err := z.CreateHeader(&zip.FileHeader{Name: "a.npy", Method: method})
	if err == nil {
		_, err = w.Write(npy)
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	data := []byte(strings.NewReplacer(change...).Replace(b.String()))
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Open(archive.File[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// The test reads an array in pieces of several sizes and expects the same elements each time. The array fills the
// buffer several times, and elements cross the ends of the buffer.
func TestReader(t *testing.T) {
	const n = 150_000
	want := make([]float64, n)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range want {
		want[i] = rng.NormFloat64()
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		data, err := binary.Append(nil, order, want)
		if err != nil {
			t.Fatal(err)
		}
		descr := map[binary.ByteOrder]string{binary.LittleEndian: "<f8", binary.BigEndian: ">f8"}[order]
		header := dict(descr, "False", fmt.Sprintf("%d,", n))
		if (10+len(header))%8 == 0 {
			header += "\n"
		}
		for _, method := range []uint16{zip.Store, zip.Deflate} {
			r := open(t, method, file(1, header, data))
			got := make([]float64, n)
			for at := 0; at < n; {
				k := min(n-at, rng.IntN(60_000))
				if m, err := Read(r, got[at:at+k]); m != k || err != nil {
					t.Fatalf("%d of %d: %v", m, k, err)
				}
				at += k
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, method %d: other numbers", descr, method)
			}
			if err := r.End(); err != nil {
				t.Error(err)
			}
			if m, err := Read(r, got); m != 0 || err != io.ErrUnexpectedEOF {
				t.Errorf("behind the end: %d, %v", m, err)
			}
		}
	}
}

func TestReaderEnd(t *testing.T) {
	header := dict("<f4", "False", "2,")
	var to [2]float32
	r := open(t, zip.Store, file(1, header, []byte("\x00\x00\x00\x3f\x00\x00\x80")))
	if n, err := Read(r, to[:]); n != 1 || err != io.ErrUnexpectedEOF || to[0] != 0.5 {
		t.Errorf("cut: %d %v %v", n, to, err)
	}
	whole := file(1, header, []byte("\x00\x00\x00\x3f\x00\x00\x80\x3f"))
	r = open(t, zip.Store, append(whole, 0))
	if n, err := Read(r, to[:]); n != 2 || err != nil || to[1] != 1 {
		t.Errorf("%d %v %v", n, to, err)
	}
	if err := r.End(); err == nil || err.Error() != "more data than an array of shape (2,) has" {
		t.Errorf("one more: %v", err)
	}
	r = open(t, zip.Store, whole, "\x00\x00\x80\x3f", "\x00\x00\x80\x3e")
	if n, err := Read(r, to[:]); n != 2 || err != nil {
		t.Errorf("damaged: %d %v", n, err)
	}
	if err := r.End(); !errors.Is(err, zip.ErrChecksum) {
		t.Errorf("damaged: %v", err)
	}
}

// FuzzReadHeader checks that a header is either refused or valid. A refusal is an error message of one line that names
// a byte of the file. The test writes each valid header again in NumPy's format, and ReadHeader must read the same
// header from this text. A file that passes Check can be decoded to its last byte.
func FuzzReadHeader(f *testing.F) {
	paths, err := filepath.Glob("../dataset/testdata/numpy/*.npy")
	if err != nil || len(paths) == 0 {
		f.Fatal("no files of NumPy's: ", err)
	}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)-1])
	}
	f.Add(file(1, dict("|b1", "False", "2L,"), []byte{0, 1}))
	f.Add(file(2, dict(">f2", "True", "1, 2"), []byte{0, 1, 2, 3}))
	f.Add(file(1, dict("=i8", "False", ""), make([]byte, 8)))
	f.Add(file(1, dict("<f4", "False", "4294967296, 1073741824"), nil))
	f.Add(file(1, dict("<U3", "False", "-1,"), nil))
	f.Add([]byte("\x93NUMPY\x03\x00\xff\xff\x01\x00"))
	f.Add([]byte("\x93NUMPY\x01\x00"))
	place := regexp.MustCompile(`^byte (\d+): .+$`)
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		h, err := ReadHeader(r)
		if err != nil {
			m := place.FindStringSubmatch(err.Error())
			if m == nil {
				t.Fatalf("error without a place: %q", err)
			}
			if at, _ := strconv.Atoi(m[1]); at > len(data) {
				t.Fatalf("error beyond the %d bytes: %q", len(data), err)
			}
			return
		}
		if left := int64(r.Len()); left != int64(len(data))-h.Offset {
			t.Fatalf("%d bytes left behind offset %d of %d", left, h.Offset, len(data))
		}
		descr := fmt.Sprintf("%c%d", h.Kind, h.Width)
		if h.Big {
			descr = ">" + descr
		}
		fortran := map[bool]string{true: "True", false: "False"}[h.Fortran]
		shape := strings.Trim(strings.ReplaceAll(fmt.Sprint(h.Shape), " ", ", "), "[]") + ","
		again, err := ReadHeader(bytes.NewReader(file(1, dict(descr, fortran, shape), nil)))
		if err != nil || again.Type != h.Type || again.Fortran != h.Fortran || !slices.Equal(again.Shape, h.Shape) {
			t.Fatalf("%+v read again: %+v, %v", h, again, err)
		}
		if err := h.Check(int64(len(data))); err != nil {
			return
		}
		n, ok := h.Len()
		if !ok || int64(n)*int64(h.Width) != int64(len(data))-h.Offset {
			t.Fatalf("%d elements of %d bytes in %d bytes", n, h.Width, len(data))
		}
		Decode(h.Type, make([]float64, n), data[h.Offset:])
	})
}

func BenchmarkRead(b *testing.B) {
	const n = 1_000_000
	for _, descr := range []string{"<f4", "<f8", ">f8", "<i8"} {
		b.Run(descr, func(b *testing.B) {
			width := int(descr[2] - '0')
			npy := file(1, dict(descr, "False", fmt.Sprintf("%d,", n)), make([]byte, n*width))
			to := make([]float64, n)
			b.SetBytes(int64(len(npy)))
			for b.Loop() {
				b.StopTimer()
				r := open(b, zip.Store, npy)
				b.StartTimer()
				if _, err := Read(r, to); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/element")
		})
	}
}

// The test checks possible and impossible sizes of a member in an archive's directory.
func TestCheckMember(t *testing.T) {
	for _, c := range []struct {
		method       uint16
		packed, size uint64
		want         string
	}{
		{zip.Store, 0, 0, ""},
		{zip.Store, 10, 10, ""},
		{zip.Store, 10, 11, "10 bytes in an archive cannot hold 11"},
		{zip.Store, 11, 10, "11 bytes in an archive cannot hold 10"},
		{zip.Deflate, 10, 10320, ""},
		{zip.Deflate, 10, 10321, "cannot hold"},
		{zip.Deflate, 1 << 62, 1 << 62, "cannot hold"}, // the packed size times deflateRatio (1032) overflows 64 bits
		{zip.Store, 1 << 63, 1 << 63, "cannot hold"},
		{12, 10, 10, "method 12"},
	} {
		err := CheckMember(&zip.File{FileHeader: zip.FileHeader{Method: c.method, CompressedSize64: c.packed, UncompressedSize64: c.size}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("method %d, %d bytes for %d: %v, want %s", c.method, c.packed, c.size, err, c.want)
		}
	}
}

// Zeros are the most compressible data. Even for zeros, compress/flate does not exceed deflateRatio.
func TestDeflateRatio(t *testing.T) {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	const n = 64 << 20
	if _, err := w.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if ratio := n / float64(b.Len()); ratio > deflateRatio || ratio < deflateRatio*0.95 {
		t.Errorf("a ratio of %v", ratio)
	}
}

func TestHeaderErrorsAreShort(t *testing.T) {
	long := strings.Repeat("\x1b[2J", 1000)
	for _, d := range []string{long, dict("<f4", "False", long), dict("<f"+strings.Repeat("4", 5000), "False", "1,"), dict("<f4", "False", strings.Repeat("1,", 65))} {
		if _, err := ReadHeader(bytes.NewReader(file(1, d, nil))); err == nil || len(err.Error()) > 250 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q", err)
		}
	}
}
