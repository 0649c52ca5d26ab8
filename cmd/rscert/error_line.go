package main

import (
	"bytes"
	"io"
	"strings"
)

// errorLine is a writer that passes on the lines of another program, except the last line that starts with "rscert: ".
// It keeps the rest of this line in the field 'found'.
type errorLine struct {
	to    io.Writer
	found string
	part  []byte // the beginning of a line that has not ended
}

// Write passes on all lines that have ended. It always accepts all bytes.
func (w *errorLine) Write(p []byte) (int, error) {
	w.part = append(w.part, p...)
	for {
		end := bytes.IndexByte(w.part, '\n')
		if end < 0 {
			return len(p), nil
		}
		w.line(string(w.part[:end+1]))
		w.part = w.part[end+1:]
	}
}

// flush passes on the last line if it has no newline.
func (w *errorLine) flush() {
	if len(w.part) > 0 {
		w.line(string(w.part))
		w.part = nil
	}
}

func (w *errorLine) line(text string) {
	if message, ok := strings.CutPrefix(text, "rscert: "); ok {
		w.found = strings.TrimSuffix(message, "\n")
		return
	}
	io.WriteString(w.to, text) //nolint:errcheck // there is no place to report an error of stderr
}
