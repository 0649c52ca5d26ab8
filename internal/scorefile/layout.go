// Package scorefile writes and reads scores.npz, which holds the scores of every sample of every example. The file is
// an archive of arrays as numpy.savez writes it:
//
//	index    int64   [N]        the example's index in its dataset; optional
//	labels   int64   [N]        the true class
//	scores0  float32 [N, n0, m] probabilities, selection samples; optional
//	scores   float32 [N, n, m]  probabilities, estimation samples
//
// N is the number of examples, n0 and n are the numbers of samples of an example, and m is the number of classes. Such
// a file can be far larger than the memory, so a Writer or a Reader holds only a few rows of it at a time.
package scorefile

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Shape holds the sizes of the arrays.
type Shape struct {
	Examples int   // N
	N0       int64 // selection samples per example; if 0, there is no array 'scores0'
	N        int64 // estimation samples per example
	Classes  int   // m
}

// maxClasses is far above the number of classes of real models. It limits the memory for a row of scores.
const maxClasses = 1 << 20

func (s Shape) validate() error {
	bad := s.Examples < 1 || s.N0 < 0 || s.N < 1 || s.Classes < 2 || s.Classes > maxClasses
	// The offsets of samples and examples must fit in an int64.
	if most := int64(math.MaxInt64 / 8 / maxClasses); bad || s.N > most || s.N0 > most || int64(s.Examples) > most/(s.N+s.N0) {
		return fmt.Errorf("scores of %d examples, n0 = %d, n = %d, %d classes (at least 1, 0, 1 and 2, at most %d classes)",
			s.Examples, s.N0, s.N, s.Classes, maxClasses)
	}
	return nil
}

// member is the position of an array in the archive. Arrays are stored uncompressed, so all positions are known before
// the first sample.
type member struct {
	name   string
	header []byte // npy header
	start  int64  // offset of the local file header
	data   int64  // offset of the first number
	size   int64  // size of the npy header and the numbers, in bytes
}

const (
	localHeaderLen = 30
	zip64ExtraLen  = 20
	crcInLocal     = 14 // offset of the CRC in a local file header
)

// layout returns the members and the offset after the last member.
func (s Shape) layout() ([]member, int64) {
	N, classes := int64(s.Examples), int64(s.Classes)
	vector, tensor := fmt.Sprintf("%d,", N), func(n int64) string { return fmt.Sprintf("%d, %d, %d", N, n, classes) }
	var members []member
	var offset int64
	for _, a := range []struct {
		name, descr, shape string
		bytes              int64
	}{
		{"index", "<i8", vector, 8 * N},
		{"labels", "<i8", vector, 8 * N},
		{"scores0", "<f4", tensor(s.N0), 4 * N * s.N0 * classes},
		{"scores", "<f4", tensor(s.N), 4 * N * s.N * classes},
	} {
		if a.bytes == 0 {
			continue
		}
		m := member{name: a.name + ".npy", start: offset}
		m.header = npyHeader(fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", a.descr, a.shape))
		m.size = int64(len(m.header)) + a.bytes
		m.data = offset + localHeaderLen + int64(len(m.name)) + zip64ExtraLen + int64(len(m.header))
		offset = m.data + a.bytes
		members = append(members, m)
	}
	return members, offset
}

// FileSize returns the length of a finished file in bytes.
func (s Shape) FileSize() int64 {
	members, end := s.layout()
	return end + int64(len(directory(members, make([]uint32, len(members)), end)))
}

// npyHeader returns the header of an array in npy format 1.0. The header holds a Python dictionary, and blanks pad the
// header to a multiple of 64 bytes.
func npyHeader(dict string) []byte {
	const before = 10 // number of bytes before the dictionary: the magic string, the version and the length
	length := (before+len(dict)+1+63)/64*64 - before
	h := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(length))
	return fmt.Appendf(h, "%-*s\n", length-1, dict)
}

// These are constants of the zip format (PKWARE APPNOTE 6.3, §4.3). Every member has 64-bit sizes, even if 32 bits
// suffice, so that there is only one form to test. The time of every member is the earliest time that the format
// allows, so that equal scores make equal files.
const (
	zipVersion64 = 45
	zipFirstDate = 1<<5 | 1 // 1980-01-01
)

func (m member) localHeader(crc uint32) []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, 0x04034b50)
	b = m.appendCommon(b, crc, zip64ExtraLen)
	b = append(b, m.name...)
	b = le.AppendUint16(b, 1)
	b = le.AppendUint16(b, zip64ExtraLen-4)
	b = le.AppendUint64(b, uint64(m.size))
	return le.AppendUint64(b, uint64(m.size))
}

// appendCommon appends the fields that local and central headers share: from the field "version needed" to the length
// of the extra field.
func (m member) appendCommon(b []byte, crc uint32, extra uint16) []byte {
	le := binary.LittleEndian
	b = le.AppendUint16(b, zipVersion64)
	b = le.AppendUint16(b, 0) // flags
	b = le.AppendUint16(b, 0) // stored
	b = le.AppendUint16(b, 0) // time
	b = le.AppendUint16(b, zipFirstDate)
	b = le.AppendUint32(b, crc)
	b = le.AppendUint32(b, 0xffffffff) // sizes are in the extra field
	b = le.AppendUint32(b, 0xffffffff)
	b = le.AppendUint16(b, uint16(len(m.name)))
	return le.AppendUint16(b, extra)
}

// directory returns the end of the archive: the central directory and the records that locate it. This end follows the
// members.
func directory(members []member, crcs []uint32, at int64) []byte {
	le := binary.LittleEndian
	var b []byte
	for i, m := range members {
		b = le.AppendUint32(b, 0x02014b50)
		b = le.AppendUint16(b, zipVersion64)
		b = m.appendCommon(b, crcs[i], 28)
		b = append(b, make([]byte, 10)...) // length of the comment, disk number and attributes, all 0
		b = le.AppendUint32(b, 0xffffffff)
		b = append(b, m.name...)
		b = le.AppendUint16(b, 1)
		b = le.AppendUint16(b, 24)
		b = le.AppendUint64(b, uint64(m.size))
		b = le.AppendUint64(b, uint64(m.size))
		b = le.AppendUint64(b, uint64(m.start))
	}
	size := len(b)
	n := uint64(len(members))
	b = le.AppendUint32(b, 0x06064b50) // zip64 end of central directory
	b = le.AppendUint64(b, 44)
	b = le.AppendUint16(b, zipVersion64)
	b = le.AppendUint16(b, zipVersion64)
	b = append(b, make([]byte, 8)...) // disk 0
	b = le.AppendUint64(b, n)
	b = le.AppendUint64(b, n)
	b = le.AppendUint64(b, uint64(size))
	b = le.AppendUint64(b, uint64(at))
	b = le.AppendUint32(b, 0x07064b50) // zip64 end of central directory locator
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, uint64(at)+uint64(size))
	b = le.AppendUint32(b, 1)
	b = le.AppendUint32(b, 0x06054b50) // end of central directory
	b = append(b, make([]byte, 4)...)
	b = le.AppendUint16(b, uint16(n))
	b = le.AppendUint16(b, uint16(n))
	b = le.AppendUint32(b, 0xffffffff)
	b = le.AppendUint32(b, 0xffffffff)
	return le.AppendUint16(b, 0)
}
