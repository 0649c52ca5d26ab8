package runfolder

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"unsafe"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/memory"
)

// A line of a file of lines. It is damaged if it has changed since it was written.
type line struct {
	number int    // starts at 1
	text   []byte // without the end of line
	end    int64  // offset after its newline
	torn   bool   // the last line, without a newline
}

// maxLine is the longest accepted line in bytes, so that a file without newlines cannot use up the memory. Votes
// among a million classes take less.
const maxLine = 64 << 20

// scanLines calls visit for every line that is not blank. The line is valid until visit returns.
func scanLines(r io.Reader, visit func(line) error) error {
	br := bufio.NewReaderSize(r, 1<<16)
	var l line
	var data []byte
	for {
		var err error
		l.number++
		data, err = readLine(br, data[:0])
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("line %d: %w", l.number, err)
		}
		l.end += int64(len(data))
		l.torn = err != nil
		if l.text = bytes.TrimRight(data, "\r\n"); len(bytes.TrimSpace(l.text)) > 0 {
			if err := visit(l); err != nil {
				return err
			}
		}
		if l.torn {
			return nil
		}
	}
}

// readLine appends a line with its newline to data. It returns io.EOF if the line has no newline.
func readLine(br *bufio.Reader, data []byte) ([]byte, error) {
	for {
		part, err := br.ReadSlice('\n')
		if data = append(data, part...); len(data) > maxLine {
			return nil, fmt.Errorf("has more than %d MiB", maxLine>>20)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return data, err
		}
	}
}

// damage is the first line of a file that has changed since it was written.
type damage struct {
	line int
	err  error
	// tail: no intact line follows, or the line has the zeros that a power cut leaves in blocks not yet written. A
	// kill or a power cut during appending looks this way; an edit or a failing disk may not.
	tail bool
}

// fileFormat describes how to read the lines of a file.
type fileFormat[T any] struct {
	// keys must all be in each line; otherwise a missing key would be read as 0
	keys []string
	// sealed: every line must have a checksum. Otherwise checksums are still checked where present.
	sealed bool
	// own: the file is appended to in its run folder, so its end can be torn.
	own   bool
	valid func(T) error
	// size is the memory of a value outside itself, in bytes; nil: as much as its line.
	size func(T) int
}

// content is the values of a file's intact lines.
type content[T any] struct {
	values []T
	lines  []int   // their numbers
	ends   []int64 // offsets after them
	damage *damage // nil: every line is intact
	padded int     // number of the first intact line with more bytes before or in it than rscert writes; 0: none
}

// readLines reads a file of JSON lines, up to the first damaged line.
func readLines[T any](path string, format fileFormat[T]) (content[T], error) {
	f, err := openFile(path)
	if err != nil {
		return content[T]{}, err
	}
	defer f.Close()
	c, err := format.read(f)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return c, err
}

func (f fileFormat[T]) read(r io.Reader) (content[T], error) {
	return collect(r, func(l line) (v T, held int, err error) {
		v, checked, err := f.decode(l)
		// If one line of a file has a checksum, all must have one.
		f.sealed = f.sealed || (checked && err == nil)
		if f.size == nil || err != nil {
			return v, len(l.text), err
		}
		return v, f.size(v), err
	})
}

// noValue marks a line without a value.
const noValue = -1

// collect reads lines up to the first damaged one, within the memory limit for an input. decode reads a line and
// returns the bytes that its value uses outside itself, or noValue.
func collect[T any](r io.Reader, decode func(line) (v T, held int, err error)) (c content[T], err error) {
	total, limit, end := int64(0), memory.Limit(), int64(0)
	err = scanLines(r, func(l line) error {
		v, held, err := decode(l)
		if written := int64(len(bytes.TrimSpace(l.text))) + 1; c.padded == 0 && err == nil && l.end != end+written {
			c.padded = l.number
		}
		end = l.end
		switch {
		case c.damage != nil:
			// After damage, only look for intact lines.
			c.damage.tail = c.damage.tail && err != nil
		case err != nil:
			c.damage = &damage{line: l.number, err: err, tail: true}
			if bytes.IndexByte(l.text, 0) >= 0 {
				return errZeros
			}
		case held != noValue:
			if total += int64(held) + int64(unsafe.Sizeof(v)+unsafe.Sizeof(l.number)+unsafe.Sizeof(l.end)); total > limit {
				return fmt.Errorf("line %d: %w", l.number, &memory.LimitError{Need: -1, Limit: limit})
			}
			c.values, c.lines, c.ends = append(c.values, v), append(c.lines, l.number), append(c.ends, l.end)
		}
		return nil
	})
	if errors.Is(err, errZeros) {
		err = nil
	}
	return c, err
}

// errZeros stops reading at a line that was never written.
var errZeros = errors.New("zeros")

var (
	errTorn     = errors.New("the line is not whole: it has no end of line")
	errChanged  = errors.New("the line has changed since it was written: its checksum does not match")
	errUnsealed = errors.New("the line has no checksum, and rscert wrote one behind every line of this file")
)

// decode reads one line and reports whether it had a checksum.
func (f fileFormat[T]) decode(l line) (v T, checked bool, err error) {
	if l.torn && f.own {
		return v, false, tornLine(l.text, sealedJSON)
	}
	text, state := checksum.VerifyJSON(bytes.TrimSpace(l.text))
	switch {
	case state == checksum.Bad:
		return v, false, errChanged
	case state == checksum.Absent && f.sealed && json.Valid(text):
		return v, false, errUnsealed
	case state == checksum.Absent && f.sealed:
		return v, false, errChanged
	}
	if err := checkKeys(text, f.keys); err != nil {
		return v, false, err
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return v, false, jsonError(err)
	}
	return v, state == checksum.Good, f.valid(v)
}

// sealedJSON and sealedCSV match whole lines followed by more text.
var (
	sealedJSON = regexp.MustCompile(`"crc32c:[0-9a-f]{8}"}.`)
	sealedCSV  = regexp.MustCompile(`,crc32c:[0-9a-f]{8}.`)
)

// tornLine distinguishes a partly written last line from one whose newline was changed.
func tornLine(text []byte, sealed *regexp.Regexp) error {
	if sealed.Match(text) {
		return errChanged
	}
	return errTorn
}

// intact returns the damage as an error, nil if there is none. A torn end is not damage while a run appends, or after
// a kill.
func (c content[T]) intact(path string) error {
	if c.damage == nil || errors.Is(c.damage.err, errTorn) {
		return nil
	}
	return fmt.Errorf("%s:%d: %w", path, c.damage.line, c.damage.err)
}

// asWritten returns an error if the lines hold what rscert does not write: blank lines, blanks around a line. Reading
// skips them, but a run must end with the bytes of an undisturbed one, and a resumed run rewrites no line.
func (c content[T]) asWritten(path string) error {
	if c.padded == 0 {
		return nil
	}
	return hint.New(fmt.Sprintf("%s:%d: blanks or blank lines were added before or in this line", path, c.padded),
		"remove them, or restore the file")
}

// repairable returns an error unless the damage is the end of a killed run.
func (c content[T]) repairable(path string) error {
	// A power cut cannot remove the checksum of a whole line.
	if c.damage == nil || (c.damage.tail && !errors.Is(c.damage.err, errUnsealed)) {
		return nil
	}
	return hint.New(
		fmt.Sprintf("%s:%d: %v", path, c.damage.line, c.damage.err),
		"delete this line and all after it to have their examples sampled again")
}

// checkKeys checks that a JSON object has all of the keys, no key twice in any case, and no null. encoding/json would
// take the last of equal keys, read Index for index, and leave 0 for missing ones.
func checkKeys(text []byte, keys []string) error {
	d := json.NewDecoder(bytes.NewReader(text))
	t, err := d.Token()
	if err != nil {
		return jsonError(err)
	}
	if t != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	found, err := objectKeys(d, 1)
	if err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("text behind the JSON object")
	}
	for _, key := range keys {
		if !slices.Contains(found, key) {
			return fmt.Errorf("%s is missing", key)
		}
	}
	return nil
}

// objectKeys reads the rest of an object and returns its keys.
func objectKeys(d *json.Decoder, depth int) ([]string, error) {
	var found []string
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, jsonError(err)
		}
		key, _ := t.(string)
		if slices.ContainsFunc(found, func(k string) bool { return strings.EqualFold(k, key) }) {
			return nil, fmt.Errorf("%.40q appears twice", key)
		}
		found = append(found, key)
		if err := skipValue(d, depth+1); err != nil {
			return nil, fmt.Errorf("%.40q: %w", key, err)
		}
	}
	_, err := d.Token() // closing brace
	return found, jsonError(err)
}

// maxDepth is the deepest accepted nesting, far beyond any line of a run.
const maxDepth = 100

// skipValue reads a value; it rejects null and repeated keys.
func skipValue(d *json.Decoder, depth int) error {
	t, err := d.Token()
	switch {
	case err != nil:
		return jsonError(err)
	case t == nil:
		return errors.New("is null")
	case depth > maxDepth:
		return fmt.Errorf("is nested more than %d deep", maxDepth)
	case t == json.Delim('{'):
		_, err = objectKeys(d, depth)
		return err
	case t == json.Delim('['):
		for d.More() {
			if err := skipValue(d, depth+1); err != nil {
				return err
			}
		}
		_, err = d.Token()
		return jsonError(err)
	}
	return nil
}

// jsonError shortens an error of encoding/json to one line.
func jsonError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON object is not complete")
	}
	const most = 120
	s := strings.TrimPrefix(err.Error(), "json: ")
	if len(s) > most {
		s = s[:most] + "…"
	}
	return fmt.Errorf("%s", strings.ToValidUTF8(s, "?"))
}

// encodeLine returns v as a line with its checksum.
func encodeLine(v any) ([]byte, error) {
	text, err := encode(v, "")
	if err != nil {
		return nil, err
	}
	return append(checksum.AppendJSON(bytes.TrimSuffix(text, []byte("\n"))), '\n'), nil
}

// missing reports whether err says that a file does not exist.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
