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

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/hint"
)

// line is one line of a file. A line is damaged if it has changed since it was written.
type line struct {
	number int    // line number, from 1
	text   []byte // without the end of line
	end    int64  // offset in the file, just after the line's newline
	torn   bool   // set for a last line without a newline
}

// maxLine is the maximum length of a line in bytes, so that a file without newlines cannot fill the memory. The votes
// for a million classes fit into one line.
const maxLine = 64 << 20

// lineScanner reads the lines of a file one at a time and skips blank lines.
type lineScanner struct {
	br   *bufio.Reader
	data []byte
	last line
}

func newLineScanner(r io.Reader) *lineScanner { return &lineScanner{br: bufio.NewReaderSize(r, 1<<16)} }

// next returns the next line, which is valid until the following call. After the last line it returns io.EOF.
func (s *lineScanner) next() (line, error) {
	for !s.last.torn {
		s.last.number++
		var err error
		s.data, err = readLine(s.br, s.data[:0])
		if err != nil && !errors.Is(err, io.EOF) {
			return line{}, fmt.Errorf("line %d: %w", s.last.number, err)
		}
		s.last.end += int64(len(s.data))
		s.last.torn = err != nil
		if s.last.text = bytes.TrimRight(s.data, "\r\n"); len(bytes.TrimSpace(s.last.text)) > 0 {
			return s.last, nil
		}
	}
	return line{}, io.EOF
}

// readLine appends the next line with its newline to 'data'. It returns io.EOF if the line has no newline.
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

// damage describes the first damaged line of a file.
type damage struct {
	line int
	err  error
	// tail is true if no intact line follows the damaged line, or if the damaged line contains NUL bytes (0x00). A
	// power cut leaves NUL bytes in blocks of a file that were not written yet. For damage from a kill or a power cut
	// during an append, tail is always true. For damage from an edit or a failing disk, tail may be false.
	tail bool
}

// fileFormat describes how to read the lines of a file.
type fileFormat[T any] struct {
	// keys lists the keys that each line must have. Without this list, the value of a missing key would be 0.
	keys []string
	// sealed means that every line must have a checksum. If it is false, a line needs a checksum only if an earlier
	// line has one. Readers check every checksum that is present.
	sealed bool
	// seed is the value from which every checksum starts. If the field 'alone' is true, the file is read without its
	// run, and the seed is not known. Readers then compute the seed from the first line that has a checksum.
	seed  checksum.Seed
	alone bool
	// The field 'own' is true if the file is in the folder of its run. Runs append lines to such a file, so its last
	// line can be incomplete.
	own   bool
	valid func(T) error
	// size returns the size in bytes of the data that a value points to. If size is nil, the length of the line is used
	// instead.
	size func(T) int
}

// open opens a file of JSON lines.
func (f fileFormat[T]) open(path string) (*valueReader[T], error) {
	return openValues(path, f.decoder())
}

// decoder returns the function that a valueReader calls to decode a line.
func (f fileFormat[T]) decoder() func(line) (v T, held int, err error) {
	return func(l line) (v T, held int, err error) {
		f.findSeed(l)
		v, checked, err := f.decode(l)
		// If one line has a checksum, all lines after it must have a checksum.
		f.sealed = f.sealed || (checked && err == nil)
		if f.size == nil || err != nil {
			return v, len(l.text), err
		}
		return v, f.size(v), err
	}
}

// findSeed computes the seed from the first checksum of a file that is read without its run.
func (f *fileFormat[T]) findSeed(l line) {
	if !f.alone {
		return
	}
	if seed, ok := checksum.FindJSON(bytes.TrimSpace(l.text)); ok {
		f.seed, f.alone = seed, false
	}
}

var (
	errTorn     = errors.New("the line is not whole: it has no end of line")
	errChanged  = errors.New("the line has changed since it was written: its checksum does not match")
	errForeign  = errors.New("the line is of another run, of another model, other data or other parameters: its checksum fits the other run")
	errMixed    = errors.New("the line is of another run than the lines before it: its checksum fits the other run")
	errUnsealed = errors.New("the line has no checksum, and rscert wrote one behind every line of this file")
)

// decode decodes a line and reports whether the line had a checksum.
func (f fileFormat[T]) decode(l line) (v T, checked bool, err error) {
	if l.torn && f.own {
		return v, false, tornLine(l.text, sealedJSON)
	}
	text, state := f.seed.VerifyJSON(bytes.TrimSpace(l.text))
	switch {
	case state == checksum.Foreign && !f.own:
		return v, false, errMixed
	case state == checksum.Foreign:
		return v, false, errForeign
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

// sealedJSON and sealedCSV match a line with further text after its checksum.
var (
	sealedJSON = regexp.MustCompile(`"crc32c:[0-9a-f]{8}"}.`)
	sealedCSV  = regexp.MustCompile(`,crc32c:[0-9a-f]{8}.`)
)

// tornLine returns errChanged for a last line whose newline was changed, and errTorn for a last line that was only
// partly written.
func tornLine(text []byte, sealed *regexp.Regexp) error {
	if sealed.Match(text) {
		return errChanged
	}
	return errTorn
}

// intact returns the damage as an error, or nil if there is none. In the file of a run, an incomplete last line is not
// damage, because the run may be in progress or may have been killed.
func (d *damage) intact(path string) error {
	if d == nil || errors.Is(d.err, errTorn) {
		return nil
	}
	return fmt.Errorf("%s:%d: %w", path, d.line, d.err)
}

// repairable returns nil if a kill or a power cut can have caused the damage. Otherwise it returns an error.
func (d *damage) repairable(path string) error {
	// If a line lacks only its checksum, or if its checksum fits another run, a power cut cannot be the cause.
	if d == nil || (d.tail && !errors.Is(d.err, errUnsealed) && !errors.Is(d.err, errForeign)) {
		return nil
	}
	return hint.New(
		fmt.Sprintf("%s:%d: %v", path, d.line, d.err),
		"delete this line and all after it to have their examples sampled again")
}

// checkKeys checks three properties of a JSON object. The object has all of the given keys. No two of its keys are
// equal, even if upper and lower case are ignored. No value is null. Without this check, encoding/json would use the
// last of equal keys, accept the key "Index" for "index", and leave 0 for missing keys.
func checkKeys(text []byte, keys []string) error {
	if hasPlainKeys(text, keys) {
		return nil
	}
	return checkAnyKeys(text, keys)
}

// checkAnyKeys does the same as checkKeys, but without calling the quick hasPlainKeys first.
func checkAnyKeys(text []byte, keys []string) error {
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

// objectKeys reads an object after its opening brace and returns the object's keys.
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

// maxDepth is the maximum depth of nesting. It is far beyond the depth of any line of a run.
const maxDepth = 100

// skipValue moves past a value. It rejects null values and repeated keys.
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

// missing reports whether err means that a file does not exist.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
