package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
)

// heading returns the line above a function's table. The line states the total variation V if V ≠ 1.
func (f function) heading(ce, variation float64) string {
	line := fmt.Sprintf("η(s) = %s, CE = %.4f", f.name, ce)
	if math.Abs(variation-1) > 0.005 {
		line += fmt.Sprintf(", V = %.2g", variation)
	}
	return line + ":"
}

// readGaps reads the tables of measureGaps from the page.
func readGaps(path string) ([][]curve, error) {
	page, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	_, text, found := strings.Cut(string(page), "<!-- made: gaps -->\n")
	text, _, closed := strings.Cut(text, "<!-- end: gaps -->")
	if !found || !closed {
		return nil, fmt.Errorf("%s: no table of gaps", path)
	}
	curves := make([][]curve, len(functions))
	at := -1
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		if k := slices.IndexFunc(functions, func(f function) bool { return strings.HasPrefix(line, "η(s) = "+f.name+", ") }); k >= 0 {
			at = k
			curves[at] = make([]curve, len(methods))
		} else if power, ok := strings.CutPrefix(cells[0], "10^"); ok {
			if err := readRow(curves, at, power, cells[1:]); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", path, strings.TrimSpace(line), err)
			}
		} else if cells[0] == "n" && !slices.Equal(cells[1:], methods) {
			return nil, fmt.Errorf("%s: the columns are %v, want %v", path, cells[1:], methods)
		}
	}
	for k, c := range curves {
		if c == nil {
			return nil, fmt.Errorf("%s: no table of %s", path, functions[k].name)
		}
	}
	return curves, nil
}

func readRow(curves [][]curve, at int, power string, gaps []string) error {
	n, err := strconv.Atoi(power)
	if err != nil || at < 0 || len(gaps) != len(methods) {
		return fmt.Errorf("no row of %d gaps", len(methods))
	}
	for m, text := range gaps {
		gap, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return err
		}
		c := &curves[at][m]
		c.n, c.gap = append(c.n, math.Pow10(n)), append(c.gap, gap)
	}
	return nil
}
