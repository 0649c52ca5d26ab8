package gate

import (
	"bytes"
	"io"

	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
)

// Markdown returns the outcomes as a section of a Markdown file, with one row for each requirement. The function 'main'
// writes the main table of the results below the outcomes. If 'main' is nil, there is no such table.
func Markdown(outcomes []Outcome, main func(io.Writer) error) ([]byte, error) {
	t := report.Table{Columns: []report.Column{report.TextColumn("requirement"), report.TextColumn("met"), report.TextColumn("found"), report.TextColumn("run")}}
	for _, o := range outcomes {
		met := "✓"
		if !o.Met {
			met = "✗"
		}
		t.AddRow(report.Text(o.Requirement), report.Text(met), report.Text(quote.Line(o.Says)), report.Text(quote.Line(o.Run)))
	}
	b := bytes.NewBufferString("### rscert\n\n" + Verdict(outcomes) + "\n\n")
	if err := t.WriteMarkdown(b); err != nil {
		return nil, err
	}
	b.WriteByte('\n')
	if main == nil {
		return b.Bytes(), nil
	}
	err := main(b)
	b.WriteByte('\n')
	return b.Bytes(), err
}

// MarkdownError returns a section that says why the requirements could not be checked.
func MarkdownError(err error) []byte {
	return []byte("### rscert\n\nThe requirements were not checked: " + report.EscapeMarkdown(quote.Line(err.Error())) + "\n\n")
}
