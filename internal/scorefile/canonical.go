package scorefile

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// The CRCs of an archive cover the data, but not the headers and the directory. The shape and the data determine all
// bytes of a file that a Writer wrote. So checkCanonical can compare the headers and the directory with the bytes that
// a Writer would write.

// endLen is the length of the record "end of central directory". At the offset maxSizeAt in this record, a Writer
// writes 0xffffffff for the directory's size. Other programs write this value only for directories above 4 GiB.
const (
	endLen    = 22
	maxSizeAt = 12
)

// madeHere reports whether a Writer wrote the file. It checks the beginning of the file and the directory size
// 0xffffffff. It tolerates two flipped bits in the beginning and two in the directory size.
func madeHere(file io.ReaderAt, size int64) bool {
	members, _ := Shape{Examples: 1, N: 1, Classes: 2}.layout()
	begin := members[0].localHeader(0)[:crcInLocal]
	got, end := make([]byte, len(begin)), make([]byte, endLen)
	if size < int64(len(begin)+endLen) {
		return false
	}
	if _, err := file.ReadAt(got, 0); err != nil {
		return false
	}
	if _, err := file.ReadAt(end, size-endLen); err != nil {
		return false
	}
	return different(got, begin) <= 2 && different(end[maxSizeAt:maxSizeAt+4], []byte{0xff, 0xff, 0xff, 0xff}) <= 2
}

// The function 'different' returns the number of bits in which a and b differ. Their lengths must be equal.
func different(a, b []byte) int {
	n := 0
	for i := range a {
		n += bits.OnesCount8(a[i] ^ b[i])
	}
	return n
}

var errDamaged = errors.New("has changed since it was written")

// checkCanonical returns an error if the headers and the directory differ from those that a Writer writes for the
// shape. The CRCs cover the rest.
func checkCanonical(file io.ReaderAt, shape Shape, archive []*zip.File) error {
	members, end := shape.layout()
	if len(archive) != len(members) {
		return errDamaged
	}
	var crcs []uint32
	for i, m := range members {
		crc := archive[i].CRC32
		if err := compareAt(file, m.start, m.localHeader(crc)); err != nil {
			return err
		}
		crcs = append(crcs, crc)
	}
	return compareAt(file, end, directory(members, crcs, end))
}

func compareAt(file io.ReaderAt, at int64, want []byte) error {
	got := make([]byte, len(want))
	if _, err := file.ReadAt(got, at); err != nil && err != io.EOF {
		return err
	}
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("%w: byte %d is %#02x and was %#02x", errDamaged, at+int64(i), got[i], want[i])
		}
	}
	return nil
}
