package main

import (
	"bytes"
	"io"
	"strings"
)

// errorLine is a writer that passes on the lines of another program, but not the lines that start with "rscert: ". The
// field 'found' holds the text that follows "rscert: " in the last of these lines.
type errorLine struct {
	to    io.Writer
	found string
	part  []byte // the beginning of a line that has not ended
}

// Write handles the lines that have ended, and keeps an unfinished line for later. It never returns an error.
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

// flush handles the last line as Write handles the other lines, if the last line has no newline.
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
