package runfolder

import (
	"bytes"
	"encoding/json"
	"slices"
)

// hasPlainKeys is a quick version of checkAnyKeys. If it returns true, checkAnyKeys accepts the JSON object. It returns
// true for all lines that rscert writes. It may return false for other lines that checkAnyKeys accepts, for example
// lines with escapes in keys. If it returns false, the caller must therefore call checkAnyKeys. hasPlainKeys takes a
// sixth of the time of checkAnyKeys.
func hasPlainKeys(text []byte, keys []string) bool {
	if len(text) == 0 || text[0] != '{' || !json.Valid(text) {
		return false
	}
	s := keyScanner{text: text}
	var found [][]byte
	if !s.object(1, &found) {
		return false
	}
	for _, key := range keys {
		if !slices.ContainsFunc(found, func(k []byte) bool { return string(k) == key }) {
			return false
		}
	}
	return true
}

// keyScanner walks through valid JSON.
type keyScanner struct {
	text []byte
	at   int // index of the next byte
}

// object moves past an object and adds the object's keys to 'found'. It returns false if a key is not plain, if a key
// occurs twice, or if a value is null.
func (s *keyScanner) object(depth int, found *[][]byte) bool {
	s.at++ // {
	for {
		switch s.next() {
		case '}':
			s.at++
			return true
		case ',':
			s.at++
			s.next()
		}
		key, plain := s.key()
		if !plain || slices.ContainsFunc(*found, func(k []byte) bool { return bytes.EqualFold(k, key) }) {
			return false
		}
		*found = append(*found, key)
		s.next() // the colon
		s.at++
		if !s.value(depth + 1) {
			return false
		}
	}
}

// next skips white space and returns the byte after it.
func (s *keyScanner) next() byte {
	for {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return c
		}
	}
}

// key moves past a string and reports whether the string is ASCII without escapes.
func (s *keyScanner) key() (key []byte, plain bool) {
	s.at++ // the quote
	start := s.at
	for ; s.text[s.at] != '"'; s.at++ {
		if c := s.text[s.at]; c == '\\' || c >= 0x80 {
			return nil, false
		}
	}
	s.at++
	return s.text[start : s.at-1], true
}

// value moves past a value of any type except null.
func (s *keyScanner) value(depth int) bool {
	switch s.next() {
	case 'n':
		return false
	case '{':
		return depth <= maxDepth && s.object(depth, new([][]byte))
	case '[':
		return depth <= maxDepth && s.array(depth)
	case '"':
		s.skipString()
	default: // a number, true or false
		for s.at < len(s.text) && !bytes.ContainsRune([]byte(",]} \t\r\n"), rune(s.text[s.at])) {
			s.at++
		}
	}
	return true
}

func (s *keyScanner) array(depth int) bool {
	s.at++ // [
	for {
		switch s.next() {
		case ']':
			s.at++
			return true
		case ',':
			s.at++
		}
		if !s.value(depth + 1) {
			return false
		}
	}
}

func (s *keyScanner) skipString() {
	for s.at++; s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at++
}
