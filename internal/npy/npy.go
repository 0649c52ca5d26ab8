// Package npy reads NumPy arrays from .npy files and .npz archives (numpy.lib.format, versions 1 to 3). Every error
// about a header names the offending byte of the file.
//
// For a .npy file, ReadHeader reads the shape and the type, and Decode decodes elements. For an archive, CheckMember
// checks the stated sizes, Open opens an array as a Reader, and Read reads the elements of the array in order.
//
// The alternative sbinet/npyio cannot read version 3, gives no offsets, panics on bad headers, and reads one element
// per call.
package npy

import (
	"archive/zip"
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/quote"
	"github.com/x448/float16"
)

// Type is the type of an element in the file.
type Type struct {
	Kind  byte // NumPy's kind: 'f', 'i', 'u' or 'b'
	Width int  // size in bytes
	Big   bool // the bytes are big-endian
}

// Header describes an array.
type Header struct {
	Type
	Shape   []int // a dimension may be 0
	Fortran bool  // the first index runs fastest
	Offset  int64 // offset of the first element, in bytes from the beginning of the file

	shape string // shape as written in the file, for errors
}

// The header is a Python literal. NumPy writes all headers with the same few lines of code, so regular expressions
// suffice to parse them.
var (
	descrRE   = regexp.MustCompile(`'descr'\s*:\s*'([<>|=]?)([a-zA-Z])(\d+)'`)
	fortranRE = regexp.MustCompile(`'fortran_order'\s*:\s*(True|False)`)
	shapeRE   = regexp.MustCompile(`'shape'\s*:\s*\(([^()]*)\)`)
)

// maxHeader is the largest length of a header, in bytes, that ReadHeader accepts. For a plain array, NumPy writes a
// header of 128 bytes.
const maxHeader = 1 << 16

// MaxDims is the largest number of dimensions of an array. It is the limit of NumPy 2 (NPY_MAXDIMS).
const MaxDims = 64

// ReadHeader reads the header at the beginning of r. It reads no byte after the header.
func ReadHeader(r io.Reader) (*Header, error) {
	var start [12]byte
	if n, err := io.ReadFull(r, start[:10]); err != nil {
		return nil, endsWithin(n, err)
	}
	if string(start[:6]) != "\x93NUMPY" {
		return nil, errors.New("byte 0: not a .npy file")
	}
	length, offset := uint32(binary.LittleEndian.Uint16(start[8:])), 10
	switch start[6] {
	case 1:
	case 2, 3:
		if n, err := io.ReadFull(r, start[10:]); err != nil {
			return nil, endsWithin(10+n, err)
		}
		length, offset = binary.LittleEndian.Uint32(start[8:]), 12
	default:
		return nil, fmt.Errorf("byte 6: .npy version %d.%d is unknown", start[6], start[7])
	}
	if length > maxHeader {
		return nil, fmt.Errorf("byte 8: a header of %d bytes is too long for a plain array", length)
	}
	text := make([]byte, length)
	if n, err := io.ReadFull(r, text); err != nil {
		return nil, endsWithin(offset+n, err)
	}
	descr, fortran, shape := descrRE.FindSubmatch(text), fortranRE.FindSubmatch(text), shapeRE.FindSubmatch(text)
	if descr == nil || fortran == nil || shape == nil {
		return nil, fmt.Errorf("byte %d: the header does not describe an array of numbers; cannot read %s", offset, quote.Field(text))
	}
	h := &Header{Fortran: string(fortran[1]) == "True", Offset: int64(offset) + int64(length), shape: quote.Name(string(shape[1]))}
	var ok bool
	if h.Type, ok = ParseType(string(descr[1]), string(descr[2])+string(descr[3])); !ok {
		return nil, fmt.Errorf("byte %d: elements of type %s are not read: not numeric, complex or too wide", offset, quote.Name(string(descr[0])))
	}
	for field := range strings.SplitSeq(string(shape[1]), ",") {
		field = strings.TrimSuffix(strings.TrimSpace(field), "L") // Python 2 writes a long integer as 3L
		if field == "" {
			continue
		}
		n, err := strconv.Atoi(field)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("byte %d: %s is not a dimension", offset, quote.Field(field))
		}
		if h.Shape = append(h.Shape, n); len(h.Shape) > MaxDims {
			return nil, fmt.Errorf("byte %d: more than NumPy's %d dimensions", offset, MaxDims)
		}
	}
	return h, nil
}

// ParseType returns the type for NumPy's byte order and name, such as "<" and "f4". Orders other than ">" count as
// little-endian. The result ok is false for complex types, types wider than 8 bytes and types that are not numeric.
func ParseType(order, name string) (t Type, ok bool) {
	switch name {
	case "f2", "f4", "f8", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "b1":
		return Type{Kind: name[0], Width: int(name[1] - '0'), Big: order == ">"}, true
	}
	return Type{}, false
}

func endsWithin(at int, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("byte %d: ends within the header of a .npy file", at)
	}
	return fmt.Errorf("byte %d: %w", at, err)
}

// Len returns the number of elements. The result ok is false if no file can hold so many elements.
func (h *Header) Len() (n int, ok bool) {
	n = 1
	for _, d := range h.Shape {
		if d > 0 && n > math.MaxInt/2/h.Width/d {
			return 0, false
		}
		n *= d
	}
	return n, true
}

// Check returns an error unless the file holds exactly the array. The argument 'length' is the file's length in bytes,
// including the header. An array without elements is an error.
func (h *Header) Check(length int64) error {
	n, ok := h.Len()
	end := h.Offset + int64(n)*int64(h.Width)
	switch {
	case slices.Contains(h.Shape, 0):
		return fmt.Errorf("byte %d: the array is empty, of shape (%s)", h.Offset, h.shape)
	case !ok:
		return fmt.Errorf("byte %d: ends before the data of an array of shape (%s), which is too large for a file", length, h.shape)
	case length < end:
		return fmt.Errorf("byte %d: ends before the data of an array of shape (%s), which needs %d bytes", length, h.shape, end)
	case length > end:
		return fmt.Errorf("byte %d: %d bytes more than an array of shape (%s) has", end, length-end, h.shape)
	}
	return nil
}

// Number is a type that Decode can produce. A number that becomes a float is rounded to the float's precision. Only
// integers that an int64 can hold may be decoded to int64. Decode does not check this.
type Number interface{ int64 | float32 | float64 }

// Decode decodes len(dst) elements of type t from the beginning of src.
func Decode[T Number](t Type, dst []T, src []byte) {
	switch (Type{Kind: t.Kind, Width: t.Width}) {
	case Type{Kind: 'f', Width: 2}:
		decodeEach(dst, src, 2, func(b []byte) T { return T(float16.Frombits(u16(b, t.Big)).Float32()) })
	case Type{Kind: 'f', Width: 4}:
		decodeEach(dst, src, 4, func(b []byte) T { return T(math.Float32frombits(u32(b, t.Big))) })
	case Type{Kind: 'f', Width: 8}:
		decodeEach(dst, src, 8, func(b []byte) T { return T(math.Float64frombits(u64(b, t.Big))) })
	case Type{Kind: 'i', Width: 1}:
		decodeEach(dst, src, 1, func(b []byte) T { return T(int8(b[0])) })
	case Type{Kind: 'i', Width: 2}:
		decodeEach(dst, src, 2, func(b []byte) T { return T(int16(u16(b, t.Big))) })
	case Type{Kind: 'i', Width: 4}:
		decodeEach(dst, src, 4, func(b []byte) T { return T(int32(u32(b, t.Big))) })
	case Type{Kind: 'i', Width: 8}:
		decodeEach(dst, src, 8, func(b []byte) T { return T(int64(u64(b, t.Big))) })
	case Type{Kind: 'u', Width: 1}:
		decodeEach(dst, src, 1, func(b []byte) T { return T(b[0]) })
	case Type{Kind: 'u', Width: 2}:
		decodeEach(dst, src, 2, func(b []byte) T { return T(u16(b, t.Big)) })
	case Type{Kind: 'u', Width: 4}:
		decodeEach(dst, src, 4, func(b []byte) T { return T(u32(b, t.Big)) })
	case Type{Kind: 'u', Width: 8}:
		decodeEach(dst, src, 8, func(b []byte) T { return T(u64(b, t.Big)) })
	case Type{Kind: 'b', Width: 1}:
		decodeEach(dst, src, 1, func(b []byte) T { return T(min(b[0], 1)) })
	}
}

// decodeEach decodes every element with the function 'value'. The functions decodeEach, u16, u32 and u64 are small, so
// that the compiler inlines them into the function Decode.
func decodeEach[T Number](dst []T, src []byte, width int, value func([]byte) T) {
	for i := range dst {
		dst[i] = value(src[i*width:])
	}
}

func u16(b []byte, big bool) uint16 {
	v := binary.LittleEndian.Uint16(b)
	if big {
		v = bits.ReverseBytes16(v)
	}
	return v
}

func u32(b []byte, big bool) uint32 {
	v := binary.LittleEndian.Uint32(b)
	if big {
		v = bits.ReverseBytes32(v)
	}
	return v
}

func u64(b []byte, big bool) uint64 {
	v := binary.LittleEndian.Uint64(b)
	if big {
		v = bits.ReverseBytes64(v)
	}
	return v
}

// Reader reads an array from its first element to its last.
type Reader struct {
	*Header
	file io.Closer
	r    *bufio.Reader
}

// ArrayName returns the name of the array in a member of an archive. It is the name that was passed to numpy.savez.
func ArrayName(f *zip.File) string { return strings.TrimSuffix(f.Name, ".npy") }

// deflateRatio is an upper bound on the number of bytes that deflate unpacks from one byte (RFC 1951: a match of 258
// bytes takes 2 bits).
const deflateRatio = 1032

// CheckMember checks the two sizes that the archive's directory gives for a member. It returns an error if these sizes
// are impossible. A member without compression has the same size packed and unpacked. A deflated member unpacks to at
// most 1032 times its packed size. After this check, later code may reserve memory for the stated size.
func CheckMember(f *zip.File) error {
	packed, size := f.CompressedSize64, f.UncompressedSize64
	switch {
	case packed > math.MaxInt64/(2*deflateRatio) || size > math.MaxInt64/2:
	case f.Method == zip.Store && size == packed:
		return nil
	case f.Method == zip.Deflate && size <= packed*deflateRatio:
		return nil
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return fmt.Errorf("compressed by method %d; only stored and deflated data are read", f.Method)
	}
	return fmt.Errorf("%d bytes in an archive cannot hold %d", packed, size)
}

// Open opens an array of an archive. The caller must Close it.
func Open(f *zip.File) (*Reader, error) {
	if err := CheckMember(f); err != nil {
		return nil, err
	}
	file, err := f.Open()
	if err != nil {
		return nil, err
	}
	r := &Reader{file: file, r: bufio.NewReaderSize(file, int(min(1<<18, f.UncompressedSize64)))}
	if r.Header, err = ReadHeader(r.r); err != nil {
		_ = file.Close()
		return nil, err
	}
	return r, nil
}

// Read fills dst with the next elements. It returns the number n of elements that it read, and an error if n <
// len(dst).
func Read[T Number](r *Reader, dst []T) (n int, err error) {
	for n < len(dst) && err == nil {
		var b []byte
		b, err = r.r.Peek(min(len(dst)-n, r.r.Size()/r.Width) * r.Width)
		k := len(b) / r.Width
		Decode(r.Type, dst[n:n+k], b)
		_, _ = r.r.Discard(k * r.Width) // Discard never fails after Peek
		n += k
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// End checks the end of the array. Call it after the last element. It returns an error if more data follow or if the
// archive's checksum does not match.
func (r *Reader) End() error {
	switch _, err := r.r.ReadByte(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("more data than an array of shape (%s) has", r.shape)
}

// Close closes the array.
func (r *Reader) Close() error { return r.file.Close() }
