package npy

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// ArchiveWriter writes arrays into an .npz archive. The numbers are little-endian and not compressed. The same arrays
// always give the same archive, byte for byte.
type ArchiveWriter struct{ zip *zip.Writer }

// NewArchiveWriter returns a writer to w. Close ends the archive.
func NewArchiveWriter(w io.Writer) *ArchiveWriter { return &ArchiveWriter{zip.NewWriter(w)} }

// Write adds an array with the given name and shape. In Python, numpy.load(…)["x"] is the array with the name x.
func Write[T float32 | float64 | int64](a *ArchiveWriter, name string, shape []int, values []T) error {
	kind := map[string]string{"float32": "<f4", "float64": "<f8", "int64": "<i8"}[fmt.Sprintf("%T", *new(T))]
	w, err := a.begin(name, kind, shape)
	if err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, values)
}

// BeginFloat32 adds an array whose values the caller then writes, as little-endian float32 numbers.
func (a *ArchiveWriter) BeginFloat32(name string, shape []int) (io.Writer, error) {
	return a.begin(name, "<f4", shape)
}

func (a *ArchiveWriter) begin(name, kind string, shape []int) (io.Writer, error) {
	var sizes strings.Builder
	for _, n := range shape {
		fmt.Fprintf(&sizes, "%d, ", n)
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", kind, sizes.String())
	const before = 10 // number of bytes before the text: the magic string, the version and the length
	text += strings.Repeat(" ", 63-(before+len(text))%64) + "\n"
	w, err := a.zip.CreateHeader(&zip.FileHeader{Name: name + ".npy", Method: zip.Store})
	if err != nil {
		return nil, err
	}
	head := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(text)))
	_, err = w.Write(append(head, text...))
	return w, err
}

// Close ends the archive.
func (a *ArchiveWriter) Close() error { return a.zip.Close() }
