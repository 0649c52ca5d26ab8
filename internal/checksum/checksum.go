// Package checksum marks a line of text with a checksum of itself, so that whoever reads the line later notices
// that it has changed. The checksum is CRC-32C (Castagnoli, RFC 3720, §12.1), which finds every flip of one bit and
// every burst of up to 32; it does not resist someone who wants to deceive, who can compute it too.
//
// The checksum stands where JSON and CSV readers that know nothing of it find one more key or column, "check":
//
//	{"index":0,"radius":0.5,"check":"crc32c:1a2b3c4d"}
//
//	index,radius,check
//	0,0.5,crc32c:1a2b3c4d
//
// What resembles a checksum but is not exactly in this form counts as bad, so that damage to the mark does not pass
// for a line without one.
package checksum

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"slices"
)

// State says what a checksum tells of its text.
type State int

// States of a line.
const (
	Absent State = iota // there is none
	Good                // it is that of the text
	Bad                 // the text or the checksum has changed
)

// String names the state.
func (s State) String() string {
	switch s {
	case Absent:
		return "absent"
	case Good:
		return "good"
	case Bad:
		return "bad"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// Column is the name of the key and of the column.
const Column = "check"

const (
	mark    = "crc32c:"
	digits  = 8
	cellLen = len(mark) + digits
)

var table = crc32.MakeTable(crc32.Castagnoli)

// form is how a JSON object ends that has a checksum: before, the checksum, after. Without one it ends with end.
type form struct{ before, after, end string }

var (
	lineForm     = form{`,"check":"`, `"}`, "}"}
	documentForm = form{",\n  \"check\": \"", "\"\n}\n", "\n}\n"}
)

// AppendJSON returns line, a JSON object of at least one key without its newline, with the key "check" added as the
// last: the CRC of all before ,"check".
func AppendJSON(line []byte) []byte { return lineForm.add(line) }

// VerifyJSON returns the line that AppendJSON was given, or line itself if it has no checksum. Without its checksum a
// bad line is returned too, as far as it can be told apart.
func VerifyJSON(line []byte) (body []byte, state State) { return lineForm.verify(line) }

// Seal is AppendJSON for a document as json.MarshalIndent writes it with two blanks a level, and a newline at its end.
func Seal(doc []byte) []byte { return documentForm.add(doc) }

// VerifySealed is VerifyJSON for such a document.
func VerifySealed(doc []byte) (body []byte, state State) { return documentForm.verify(doc) }

func (f form) add(text []byte) []byte {
	head, ok := bytes.CutSuffix(text, []byte(f.end))
	if !ok || len(head) < 2 || head[0] != '{' {
		panic(fmt.Sprintf("checksum: %.40q is not an object that ends with %q", text, f.end))
	}
	sealed := append(slices.Clone(head), f.before...)
	return append(appendCell(sealed, crc32.Checksum(head, table)), f.after...)
}

// nearEnd is how far from the end something is looked for that resembles a checksum: twice its length.
const nearEnd = 64

func (f form) verify(text []byte) ([]byte, State) {
	n := len(f.before) + cellLen + len(f.after)
	if at := len(text) - n; at >= 2 && text[0] == '{' {
		tail := text[at:]
		cell, ok := bytes.CutPrefix(tail, []byte(f.before))
		if ok && bytes.HasSuffix(cell, []byte(f.after)) {
			cell = cell[:cellLen]
			if isCell(cell) {
				return append(slices.Clone(text[:at]), f.end...), compare(cell, crc32.Checksum(text[:at], table))
			}
		}
	}
	// One flipped bit leaves the key or the mark as it was.
	tail := text[max(0, len(text)-nearEnd):]
	if bytes.Contains(tail, []byte(`"check"`)) || bytes.Contains(tail, []byte(mark)) {
		return text, Bad
	}
	return text, Absent
}

// AppendCSV returns row, of a file that begins with header, with the last cell added: the CRC of the header, a newline
// and the row. Neither has its newline; the header's last column is Column already.
func AppendCSV(header, row []byte) []byte {
	return appendCell(append(slices.Clone(row), ','), rowSum(header, row))
}

// VerifyCSV returns the row that AppendCSV was given, or row itself if it has no checksum. A checksum in the last cell
// is bad under a header whose last column is not Column, and so is a cell of that column that resembles a checksum.
// So is a checksum behind a tab, or alone on its line: it is not as it was written.
func VerifyCSV(header, row []byte) (body []byte, state State) {
	body, cell := cutLast(row)
	_, last := cutLast(header)
	switch exact, named := isCell(cell), string(last) == Column; {
	case exact && named && len(row) > cellLen && row[len(body)] == ',':
		return body, compare(cell, rowSum(header, body))
	case exact:
		return body, Bad
	case named && (bytes.Contains(cell, []byte("crc")) || bytes.Contains(cell, []byte("32c:"))):
		return body, Bad // one flipped bit leaves one of the two halves as it was
	}
	return row, Absent
}

// cutLast cuts the last cell off a line of CSV. What is quoted is not looked at: a checksum is not.
func cutLast(line []byte) (rest, cell []byte) {
	at := len(line) - 1
	for at >= 0 && line[at] != ',' && line[at] != '\t' {
		at--
	}
	return line[:max(at, 0)], line[at+1:]
}

func rowSum(header, row []byte) uint32 {
	sum := crc32.Update(crc32.Checksum(header, table), table, []byte{'\n'})
	return crc32.Update(sum, table, row)
}

func appendCell(b []byte, sum uint32) []byte { return fmt.Appendf(b, "%s%0*x", mark, digits, sum) }

// isCell reports whether b has the form of a checksum; what the digits are, compare looks at.
func isCell(b []byte) bool { return len(b) == cellLen && string(b[:len(mark)]) == mark }

func compare(cell []byte, sum uint32) State {
	var want [cellLen]byte
	if bytes.Equal(cell, appendCell(want[:0], sum)) {
		return Good
	}
	return Bad
}
