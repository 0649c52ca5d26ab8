package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/quote"
)

// jsonRows adds lines to the table as rows. Each line holds one JSON object. The first line determines which of the
// wanted columns the file has. All later lines must have the same wanted columns.
type jsonRows struct{ *reader }

func (r *jsonRows) add(line []byte) error {
	if r.N == 0 {
		r.takeSeed(checksum.FindJSON(line))
	}
	body, state := r.seed.VerifyJSON(line)
	if err := r.check(state); err != nil {
		return err
	}
	if err := r.hold(int64(len(r.columns))); err != nil {
		return err
	}
	if err := object(body, r.addValue); err != nil {
		return err
	}
	for _, c := range r.columns {
		if len(c.Data) == r.N {
			return fmt.Errorf("no %s", quote.Field(c.name))
		}
	}
	if r.N > 0 {
		return nil
	}
	known := r.Names()
	if known == nil {
		known = []string{"none that is known"}
	}
	return r.require("no %q (known here: %s)", known)
}

// addValue adds a value to the row if the column of this key is wanted. Otherwise addOtherJSON gets the value.
func (r *jsonRows) addValue(key, value []byte) error {
	c := r.index[string(key)]
	switch {
	case c == nil && !r.opt.wants(string(key)):
		return r.addOtherJSON(string(key), value)
	case c == nil && r.N > 0:
		return fmt.Errorf("%s is missing in the first line", quote.Name(string(key)))
	case c == nil:
		c = &column{name: string(key)}
		r.Table.add(c)
	case len(c.Data) > r.N:
		return fmt.Errorf("%s appears twice", quote.Name(c.name))
	}
	return r.addField(c, value)
}

// object parses a JSON object. It calls the function 'put' for each key, with the key and the JSON text of its value.
func object(line []byte, put func(key, value []byte) error) error {
	if pairs, ok := flatObject(line); ok {
		for rest := pairs; len(rest) > 0; {
			var key, value []byte
			key, value, rest = nextPair(rest)
			if err := put(key, value); err != nil {
				return err
			}
		}
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	tok, err := dec.Token()
	if err != nil {
		return jsonError(err)
	}
	if tok != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return jsonError(err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return jsonError(err)
		}
		name, _ := key.(string) // Token returns only strings here
		if err := put([]byte(name), value); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return jsonError(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return errors.New("text after the JSON object")
	}
	return nil
}

func jsonError(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("the JSON object is not complete")
	}
	return errors.New(quote.Name(strings.TrimPrefix(err.Error(), "json: ")))
}

// flatObject recognises a JSON object in which every key is printable ASCII without escapes, and every value is a
// number or a boolean. It returns the text inside the braces. The lines of big files usually hold such objects, and
// flatObject and nextPair parse them fast. The package encoding/json parses all other lines.
func flatObject(line []byte) ([]byte, bool) {
	if len(line) < 2 || line[0] != '{' || line[len(line)-1] != '}' {
		return nil, false
	}
	in := trimJSON(line[1 : len(line)-1])
	for rest := in; len(rest) > 0; {
		end := bytes.IndexByte(rest[1:], '"') + 1
		if rest[0] != '"' || end == 0 || !plainKey(rest[1:end]) {
			return nil, false
		}
		rest = trimLeft(rest[end+1:])
		if len(rest) == 0 || rest[0] != ':' {
			return nil, false
		}
		value, after, comma := bytes.Cut(rest[1:], []byte{','})
		rest = trimLeft(after)
		if !plainValue(trimJSON(value)) || comma && len(rest) == 0 {
			return nil, false
		}
	}
	return in, true
}

// plainKey reports whether a key is printable ASCII without escapes.
func plainKey(key []byte) bool {
	for _, c := range key {
		if c == '\\' || c < ' ' || c >= 0x7f {
			return false
		}
	}
	return true
}

// nextPair cuts the first key and its value from the text that flatObject returned. The result 'after' is the rest of
// the text.
func nextPair(rest []byte) (key, value, after []byte) {
	end := bytes.IndexByte(rest[1:], '"') + 1
	key = rest[1:end]
	value, after, _ = bytes.Cut(rest[bytes.IndexByte(rest[end:], ':')+end+1:], []byte{','})
	return key, trimJSON(value), trimLeft(after)
}

// jsonSpace is the white space of JSON.
const jsonSpace = " \t\r\n"

func trimLeft(b []byte) []byte { return bytes.TrimLeft(b, jsonSpace) }
func trimJSON(b []byte) []byte { return bytes.Trim(b, jsonSpace) }

// plainValue reports whether b is true, false or a JSON number.
func plainValue(b []byte) bool {
	return len(b) > 0 && bytes.IndexByte([]byte(`"{[n`), b[0]) < 0 && json.Valid(b)
}
