package checksum

import (
	"bytes"
	"hash/crc32"
	"math/bits"
)

// Seed is the value that the CRC of a line starts from. It stands for what the lines of a file belong to, so that a
// line of something else does not pass. The zero Seed stands for nothing: the CRC is of the text alone.
//
// A CRC can be run backwards: any text and checksum fit exactly one start. Half of a Seed's bits follow from the other
// half, so a start that is no Seed shows a changed line, even in a file whose Seed is unknown: a change passes as
// another Seed with a probability of 2⁻¹⁶, and a change of an odd number of bits before the checksum never.
type Seed uint32

// NewSeed returns the Seed of what a digest identifies: one of 65535. Digests should be uniform, as of SHA-256.
func NewSeed(digest []byte) Seed {
	const seeds = 1<<16 - 1
	return seed(uint16(crc32.Checksum(digest, table)%seeds + 1))
}

// seed returns the Seed with these first 16 bits. The number of its ones is even. The polynomial of CRC-32C is a
// multiple of x+1, so the CRC of an even start has as many ones as the text, modulo 2.
func seed(first uint16) Seed {
	const odd = 0x9e37 // 2¹⁶ over the golden ratio: every first bit moves many of the others
	s := uint32(first)<<16 | uint32(first*odd)&^1
	return Seed(s | uint32(bits.OnesCount32(s)&1))
}

func (s Seed) valid() bool { return s == seed(uint16(s>>16)) }

// AppendJSON is the function AppendJSON, from this Seed.
func (s Seed) AppendJSON(line []byte) []byte { return lineForm.add(s, line) }

// VerifyJSON is the function VerifyJSON, from this Seed.
func (s Seed) VerifyJSON(line []byte) (body []byte, state State) { return lineForm.verify(s, line) }

// AppendCSV is the function AppendCSV, from this Seed.
func (s Seed) AppendCSV(header, row []byte) []byte {
	return appendCell(append(bytes.Clone(row), ','), s.rowSum(header, row))
}

// FindJSON returns the Seed from which the checksum of a line is right, and false if there is none.
func FindJSON(line []byte) (Seed, bool) {
	at, cell, ok := lineForm.cut(line)
	if !ok {
		return 0, false
	}
	return find(cell, line[:at])
}

// FindCSV is FindJSON for a row.
func FindCSV(header, row []byte) (Seed, bool) {
	body, cell := cutLast(row)
	if _, last := cutLast(header); !isCell(cell) || string(last) != Column {
		return 0, false
	}
	return find(cell, header, []byte{'\n'}, body)
}

// find returns the Seed from which the parts of a text have the CRC in cell.
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

// byTop finds the entry of table by its highest byte, which no other entry has.
var byTop = func() (all [256]byte) {
	for i, entry := range table {
		all[entry>>24] = byte(i)
	}
	return all
}()

// back inverts crc32.Update: it returns the CRC before the text. A step of the CRC takes the register r and a byte b to
// r>>8 ^ table[byte(r)^b], whose highest byte tells the entry, and so byte(r).
func back(sum uint32, text []byte) uint32 {
	r := ^sum
	for i := len(text) - 1; i >= 0; i-- {
		entry := byTop[r>>24]
		r = (r^table[entry])<<8 | uint32(entry^text[i])
	}
	return ^r
}
