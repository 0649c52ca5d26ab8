// Command terminal draws a command's output as a picture of a terminal. It writes SVG to stdout:
//
//	make demo 2>&1 | go run ./studies/terminal '$ make demo' >docs/img/terminal.svg
package main

import (
	"bufio"
	"encoding/xml"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// These are sizes in pixels: the width and the height of a character's cell, and the margin.
const (
	cellWidth, cellHeight = 8.4, 19
	margin                = 16
)

func main() {
	if err := draw(os.Stdout, os.Stdin, strings.Join(os.Args[1:], " ")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func draw(w io.Writer, r io.Reader, prompt string) error {
	lines := []string{prompt}
	widest := 80
	for s := bufio.NewScanner(r); ; {
		if !s.Scan() {
			if err := s.Err(); err != nil {
				return err
			}
			break
		}
		// A terminal shows only the part of a line after the last carriage return.
		line := s.Text()
		line = line[strings.LastIndexByte(line, '\r')+1:]
		lines = append(lines, line)
		widest = max(widest, utf8.RuneCountInString(line))
	}
	width, height := float64(widest)*cellWidth+2*margin, len(lines)*cellHeight+2*margin
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%d" viewBox="0 0 %.0f %d">`+"\n", width, height, width, height)
	fmt.Fprintln(w, `<rect width="100%" height="100%" rx="8" fill="#1b1f24"/>`)
	fmt.Fprintln(w, `<g font-family="ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="14" fill="#d7dde4" xml:space="preserve">`)
	for i, line := range lines {
		colour := ""
		if i == 0 {
			colour = ` fill="#7ee787"`
		}
		// The SVG attribute textLength keeps the columns aligned for every font.
		n := utf8.RuneCountInString(line)
		if n == 0 {
			continue
		}
		fmt.Fprintf(w, `<text x="%d" y="%d" textLength="%.1f"%s>`, margin, margin+cellHeight*i+14, float64(n)*cellWidth, colour)
		if err := xml.EscapeText(w, []byte(line)); err != nil {
			return err
		}
		fmt.Fprintln(w, "</text>")
	}
	_, err := fmt.Fprintln(w, "</g>\n</svg>")
	return err
}
