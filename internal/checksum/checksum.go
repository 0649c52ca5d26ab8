// Package checksum adds a checksum to a line of text, so that later changes can be detected. The checksum is CRC-32C
// (Castagnoli, RFC 3720, §12.1). It detects every flip of one bit and every burst of up to 32 bits. It does not protect
// against deliberate changes, because anyone can compute it.
//
// JSON and CSV readers that do not know the checksum see one more key or column, "check":
//
//	{"index":0,"radius":0.5,"check":"crc32c:1a2b3c4d"}
//
//	index,radius,check
//	0,0.5,crc32c:1a2b3c4d
//
// Text that resembles a checksum but does not have exactly this form counts as bad. So a damaged checksum is not
// mistaken for a missing one.
package checksum

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"slices"
)

// State is the result of verifying a line.
type State int

// A line has one of these states.
const (
	Absent  State = iota // the line has no checksum
	Good                 // the checksum matches the text
	Bad                  // the text or the checksum has changed
	Foreign              // the checksum does not match the text for this Seed, but it does for another Seed
)

// String returns the name of the state.
func (s State) String() string {
	switch s {
	case Absent:
		return "absent"
	case Good:
		return "good"
	case Bad:
		return "bad"
	case Foreign:
		return "foreign"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// Column is the name of the JSON key and of the CSV column.
const Column = "check"

const (
	mark    = "crc32c:"
	digits  = 8
	cellLen = len(mark) + digits
)

var table = crc32.MakeTable(crc32.Castagnoli)

// A form describes the end of a JSON object with a checksum. The checksum stands between the text 'before', which
// contains the key "check", and the text 'after'. The field 'end' holds the end of an object without a checksum.
type form struct{ before, after, end string }

var (
	lineForm     = form{`,"check":"`, `"}`, "}"}
	documentForm = form{",\n  \"check\": \"", "\"\n}\n", "\n}\n"}
)

// Seal adds a checksum to a document, as Seed.AppendJSON does for a line. The CRC of a document starts from the zero
// Seed. The document has the form of json.MarshalIndent with two spaces of indentation, and ends with a newline.
func Seal(doc []byte) []byte { return documentForm.add(0, doc) }

// VerifySealed undoes Seal, as Seed.VerifyJSON undoes Seed.AppendJSON.
func VerifySealed(doc []byte) (body []byte, state State) { return documentForm.verify(0, doc) }

func (f form) add(s Seed, text []byte) []byte {
	head, ok := bytes.CutSuffix(text, []byte(f.end))
	if !ok || len(head) < 2 || head[0] != '{' {
		panic(fmt.Sprintf("checksum: %.40q is not an object that ends with %q", text, f.end))
	}
	sealed := append(slices.Clone(head), f.before...)
	return append(appendCell(sealed, crc32.Update(uint32(s), table, head)), f.after...)
}

// The method 'verify' searches the last nearEnd bytes of a line for a damaged checksum. With its key, a checksum takes
// at most 33 bytes.
const nearEnd = 64

func (f form) verify(s Seed, text []byte) ([]byte, State) {
	if at, cell, ok := f.cut(text); ok {
		head := text[:at]
		return append(slices.Clone(head), f.end...), s.compare(cell, crc32.Update(uint32(s), table, head), head)
	}
	// One flipped bit cannot damage both the key "check" and the prefix "crc32c:". So a checksum with one flipped bit
	// keeps one of these texts.
	tail := text[max(0, len(text)-nearEnd):]
	if bytes.Contains(tail, []byte(`"check"`)) || bytes.Contains(tail, []byte(mark)) {
		return text, Bad
	}
	return text, Absent
}

// cut finds the checksum of a text. It returns the length of the text that the checksum covers, and the checksum itself
// in the result 'cell'. This text ends before the comma that precedes the key "check".
func (f form) cut(text []byte) (before int, cell []byte, found bool) {
	at := len(text) - len(f.before) - cellLen - len(f.after)
	if at < 2 || text[0] != '{' {
		return 0, nil, false
	}
	cell, ok := bytes.CutPrefix(text[at:], []byte(f.before))
	if !ok || !bytes.HasSuffix(cell, []byte(f.after)) || !isCell(cell[:cellLen]) {
		return 0, nil, false
	}
	return at, cell[:cellLen], true
}

// VerifyCSV undoes AppendCSV. It returns the row itself if the row has no checksum. The state is Bad if the checksum is
// wrong. It is also Bad if the header's last column is named "check" and the row's last cell only resembles a checksum.
// The state is Bad in three more cases. In the first, the last cell is a checksum, but the header's last column is not
// named "check". In the second, the checksum follows a tab. In the third, the checksum is alone on its line. The state
// is Foreign if the checksum is right for another Seed.
func (s Seed) VerifyCSV(header, row []byte) (body []byte, state State) {
	body, cell := cutLast(row)
	_, last := cutLast(header)
	switch exact, named := isCell(cell), string(last) == Column; {
	case exact && named && len(row) > cellLen && row[len(body)] == ',':
		return body, s.compare(cell, s.rowSum(header, body), header, []byte{'\n'}, body)
	case exact:
		return body, Bad
	case named && (bytes.Contains(cell, []byte("crc")) || bytes.Contains(cell, []byte("32c:"))):
		return body, Bad // one flipped bit in a checksum leaves "crc" or "32c:" intact
	}
	return row, Absent
}

// cutLast removes the last cell of a CSV line. It ignores quotes, because a checksum has none.
func cutLast(line []byte) (rest, cell []byte) {
	at := len(line) - 1
	for at >= 0 && line[at] != ',' && line[at] != '\t' {
		at--
	}
	return line[:max(at, 0)], line[at+1:]
}

func (s Seed) rowSum(header, row []byte) uint32 {
	sum := crc32.Update(crc32.Update(uint32(s), table, header), table, []byte{'\n'})
	return crc32.Update(sum, table, row)
}

func appendCell(b []byte, sum uint32) []byte { return fmt.Appendf(b, "%s%0*x", mark, digits, sum) }

// isCell reports whether b has the form of a checksum. The function 'compare' checks the digits.
func isCell(b []byte) bool { return len(b) == cellLen && string(b[:len(mark)]) == mark }

// compare returns the state of the checksum in 'cell'. The text is the concatenation of 'parts'. The argument 'sum' is
// the CRC of this text, computed with the start value s.
func (s Seed) compare(cell []byte, sum uint32, parts ...[]byte) State {
	var want [cellLen]byte
	if bytes.Equal(cell, appendCell(want[:0], sum)) {
		return Good
	}
	if _, ok := find(cell, parts...); ok {
		return Foreign
	}
	return Bad
}
