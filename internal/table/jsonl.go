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

// readJSONLines reads one object a line. The first line says which of the
// wanted columns there are; every other line must have the same.
func (t *Table) readJSONLines(lines *lineReader, line []byte, opt Options) error {
	index := map[string]int{} // wanted name → position in t.names
	var columns [][]float64
	var seen []int // seen[j] = N+1 once the line has column j
	put := func(key []byte, value []byte) error {
		j, ok := index[string(key)]
		if !ok {
			if t.N > 0 || !opt.wants(string(key)) {
				if t.N > 0 && opt.wants(string(key)) {
					return fmt.Errorf("%s is missing in the first line", quote.Name(string(key)))
				}
				return nil
			}
			name := string(key)
			j = len(columns)
			index[name] = j
			t.names = append(t.names, name)
			columns = append(columns, nil)
			seen = append(seen, 0)
		}
		if seen[j] == t.N+1 {
			return fmt.Errorf("%s appears twice", quote.Name(string(key)))
		}
		seen[j] = t.N + 1
		x, err := parseValue(value, opt.AllowNonFinite)
		if err != nil {
			return fmt.Errorf("%s: %w", quote.Name(string(key)), err)
		}
		columns[j] = append(columns[j], x)
		return nil
	}
	for {
		body, state := checksum.VerifyJSON(line)
		if err := t.check(state); err != nil {
			return err
		}
		if err := t.hold(int64(len(columns))); err != nil {
			return err
		}
		if err := object(body, put); err != nil {
			return err
		}
		for j, at := range seen {
			if at != t.N+1 {
				return fmt.Errorf("no %s", quote.Field(t.names[j]))
			}
		}
		if t.N == 0 {
			for _, name := range opt.Required {
				if _, ok := index[name]; !ok {
					return fmt.Errorf("no %q (known here: %s)", name, t.known())
				}
			}
		}
		t.lines.add(t.N, lines.line)
		t.N++
		var err error
		if line, err = lines.next(); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
	}
	for j, name := range t.names {
		t.columns[name] = columns[j]
	}
	return nil
}

// object calls put for each key of a JSON object. A number or boolean is passed
// as it stands; other values, which no column can hold, as their JSON text.
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
		name, ok := key.(string)
		if !ok {
			return errors.New("not a JSON object")
		}
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

// flatObject checks that line is an object of plain keys with numbers or
// booleans, which is what big files hold, and returns what is inside the
// braces. Everything else, valid or not, is left to encoding/json.
func flatObject(line []byte) ([]byte, bool) {
	if len(line) < 2 || line[0] != '{' || line[len(line)-1] != '}' {
		return nil, false
	}
	in := trimJSON(line[1 : len(line)-1])
	for rest := in; len(rest) > 0; {
		if rest[0] != '"' {
			return nil, false
		}
		end := bytes.IndexByte(rest[1:], '"') + 1
		if end == 0 {
			return nil, false
		}
		for _, c := range rest[1:end] {
			if c == '\\' || c < ' ' || c >= 0x7f {
				return nil, false
			}
		}
		rest = trimLeft(rest[end+1:])
		if len(rest) == 0 || rest[0] != ':' {
			return nil, false
		}
		value, after, comma := bytes.Cut(rest[1:], []byte{','})
		if !plainValue(trimJSON(value)) {
			return nil, false
		}
		rest = trimLeft(after)
		if comma && len(rest) == 0 {
			return nil, false
		}
	}
	return in, true
}

// nextPair takes the first "key": value off what flatObject accepted.
func nextPair(rest []byte) (key, value, after []byte) {
	end := bytes.IndexByte(rest[1:], '"') + 1
	key = rest[1:end]
	value, after, _ = bytes.Cut(rest[bytes.IndexByte(rest[end:], ':')+end+1:], []byte{','})
	return key, trimJSON(value), trimLeft(after)
}

// jsonSpace is what JSON calls white space.
const jsonSpace = " \t\r\n"

func trimLeft(b []byte) []byte { return bytes.TrimLeft(b, jsonSpace) }
func trimJSON(b []byte) []byte { return bytes.Trim(b, jsonSpace) }

// plainValue reports whether b is true, false or a JSON number.
func plainValue(b []byte) bool {
	switch string(b) {
	case "true", "false":
		return true
	}
	i := 0
	if i < len(b) && b[i] == '-' {
		i++
	}
	digits := func() bool {
		start := i
		for i < len(b) && '0' <= b[i] && b[i] <= '9' {
			i++
		}
		return i > start
	}
	first := i
	if !digits() || (b[first] == '0' && i > first+1) {
		return false
	}
	if i < len(b) && b[i] == '.' {
		i++
		if !digits() {
			return false
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return false
		}
	}
	return i == len(b)
}
