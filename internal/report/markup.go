package report

import (
	"bufio"
	"io"
	"strings"
)

// WriteMarkdown prints the table in GitHub's Markdown. The header is empty if no column has a name.
func (t *Table) WriteMarkdown(w io.Writer) error {
	lines, header := t.lines()
	if !header {
		lines = append([][]string{make([]string, len(t.Columns))}, lines...)
	}
	out := bufio.NewWriter(w)
	for i, line := range lines {
		_, _ = out.WriteString("|") // out.Flush returns the first error
		for _, cell := range line {
			_, _ = out.WriteString(" " + EscapeMarkdown(cell) + " |")
		}
		_, _ = out.WriteString("\n")
		if i == 0 {
			for _, c := range t.Columns {
				_, _ = out.WriteString(map[Align]string{Left: "| --- ", Right: "| ---: "}[c.Align])
			}
			_, _ = out.WriteString("|\n")
		}
	}
	return out.Flush()
}

// EscapeMarkdown escapes text that would be read as Markdown or HTML.
func EscapeMarkdown(s string) string {
	return strings.NewReplacer("\\", "\\\\", "|", "\\|", "*", "\\*", "_", "\\_", "`", "\\`", "<", "&lt;", "[", "\\[").Replace(s)
}

// WriteLaTeX prints the table as a tabular for the package booktabs.
func (t *Table) WriteLaTeX(w io.Writer) error {
	lines, header := t.lines()
	out := bufio.NewWriter(w)
	align := ""
	for _, c := range t.Columns {
		align += map[Align]string{Left: "l", Right: "r"}[c.Align]
	}
	_, _ = out.WriteString("\\begin{tabular}{" + align + "}\n\\toprule\n") // out.Flush returns the first error
	for i, line := range lines {
		for j, cell := range line {
			if j > 0 {
				_, _ = out.WriteString(" & ")
			}
			_, _ = out.WriteString(EscapeLaTeX(cell))
		}
		_, _ = out.WriteString(" \\\\\n")
		if i == 0 && header {
			_, _ = out.WriteString("\\midrule\n")
		}
	}
	_, _ = out.WriteString("\\bottomrule\n\\end{tabular}\n")
	return out.Flush()
}

// latex replaces special characters and symbols by commands that LaTeX knows without further packages.
var latex = strings.NewReplacer(
	"\\", "\\textbackslash{}", "{", "\\{", "}", "\\}", "%", "\\%", "&", "\\&", "#", "\\#", "$", "\\$", "_", "\\_",
	"~", "\\textasciitilde{}", "^", "\\textasciicircum{}", "<", "$<$", ">", "$>$", "[", "{[}", "]", "{]}",
	"σ", "$\\sigma$", "α", "$\\alpha$", "τ", "$\\tau$", "δ", "$\\delta$", "Φ", "$\\Phi$",
	"≥", "$\\ge$", "≤", "$\\le$", "−", "$-$", "–", "--", "…", "\\ldots{}", "±", "$\\pm$",
)

// EscapeLaTeX escapes text that would be read as LaTeX, including a bracket at the start of a row.
func EscapeLaTeX(s string) string { return latex.Replace(s) }

// Capitalise turns the first letter into a capital. The text must begin with an ASCII letter.
func Capitalise(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
