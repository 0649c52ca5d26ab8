package checksum

import (
	"bytes"
	"hash/crc32"
	"math/bits"
)

// Seed is the value from which the CRC of a line starts. It identifies the object to which the lines of a file belong,
// for example a run. So a line of another run fails the check. With the zero Seed, the CRC depends only on the text.
//
// A CRC can be inverted: for every text and checksum there is exactly one start value. Half of a Seed's bits follow
// from the other half. So if the computed start value is not a Seed, the line has changed. This test needs no knowledge
// of the file's Seed. After a random change, the computed value is another Seed with a probability of 2⁻¹⁶. If an odd
// number of bits before the checksum have changed, the computed start value is never a Seed.
type Seed uint32

// NewSeed returns the Seed of an object, for example of a run. The argument 'digest' identifies the object. There are
// 65535 seeds. The digests should be uniformly distributed, as SHA-256 digests are.
func NewSeed(digest []byte) Seed {
	const seeds = 1<<16 - 1
	return seed(uint16(crc32.Checksum(digest, table)%seeds + 1))
}

// seed returns the Seed whose upper 16 bits are the argument 'first'. The number of 1 bits among the 32 bits of this
// Seed is even. The polynomial of CRC-32C is a multiple of x+1. So if the start value has an even number of 1 bits, the
// numbers of 1 bits in the CRC and in the text are equal modulo 2.
func seed(first uint16) Seed {
	// 2¹⁶ divided by the golden ratio. With this factor, most of the upper bits change several of the lower bits.
	const odd = 0x9e37
	s := uint32(first)<<16 | uint32(first*odd)&^1
	return Seed(s | uint32(bits.OnesCount32(s)&1))
}

func (s Seed) valid() bool { return s == seed(uint16(s>>16)) }

// AppendJSON returns the line with "check" added as its last key. The value is a CRC that starts from s. It covers the
// text before the comma that precedes this key. The argument 'line' is a JSON object with at least one key, without its
// newline.
func (s Seed) AppendJSON(line []byte) []byte { return lineForm.add(s, line) }

// VerifyJSON undoes AppendJSON. If the line has no checksum, VerifyJSON returns it unchanged. VerifyJSON also removes a
// wrong checksum if it recognises the checksum's form.
func (s Seed) VerifyJSON(line []byte) (body []byte, state State) { return lineForm.verify(s, line) }

// AppendCSV returns the row with an added last cell: a CRC that starts from s and covers the header, a newline and the
// row. The argument 'header' is the first line of the file. The name of its last column must already be "check".
// Neither argument ends with a newline.
func (s Seed) AppendCSV(header, row []byte) []byte {
	return appendCell(append(bytes.Clone(row), ','), s.rowSum(header, row))
}

// FindJSON returns the Seed from which the CRC of a line started, and true. It returns false if the line has no
// checksum, or if no Seed gives the checksum of the line.
func FindJSON(line []byte) (Seed, bool) {
	at, cell, ok := lineForm.cut(line)
	if !ok {
		return 0, false
	}
	return find(cell, line[:at])
}

// FindCSV does the same as FindJSON, for a row of CSV.
func FindCSV(header, row []byte) (Seed, bool) {
	body, cell := cutLast(row)
	if _, last := cutLast(header); !isCell(cell) || string(last) != Column {
		return 0, false
	}
	return find(cell, header, []byte{'\n'}, body)
}

// find assumes that 'cell' holds the CRC of the concatenation of 'parts'. It returns the Seed from which this CRC
// started. It returns false if no Seed gives this CRC.
func find(cell []byte, parts ...[]byte) (Seed, bool) {
	var sum uint32
	for _, digit := range cell[len(mark):] {
		v := bytes.IndexByte([]byte("0123456789abcdef"), digit)
		if v < 0 {
			return 0, false
		}
		sum = sum<<4 | uint32(v)
	}
	for i := len(parts) - 1; i >= 0; i-- {
		sum = back(sum, parts[i])
	}
	s := Seed(sum)
	return s, s.valid()
}

// byTop maps the highest byte of a table entry to the entry's index. No two entries have the same highest byte.
var byTop = func() (all [256]byte) {
	for i, entry := range table {
		all[entry>>24] = byte(i)
	}
	return all
}()

// The function 'back' inverts crc32.Update: from the CRC after a text, it returns the CRC before the text. A step of
// the CRC replaces the register r by r>>8 ^ table[byte(r)^b], where b is a byte of the text. The highest byte of the
// result identifies the table entry, and the table entry identifies byte(r).
func back(sum uint32, text []byte) uint32 {
	r := ^sum
	for i := len(text) - 1; i >= 0; i-- {
		entry := byTop[r>>24]
		r = (r^table[entry])<<8 | uint32(entry^text[i])
	}
	return ^r
}
