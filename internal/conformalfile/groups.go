package conformalfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/table"
)

// ReadGroups reads the groups of examples from a column of a CSV file with a header. Row i after the header belongs to
// the example with index i.
func ReadGroups(path, column string) ([]string, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	rows, err := table.NewRecords(in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	header, _, err := rows.Next()
	if err != nil {
		return nil, fmt.Errorf("%s: has no header: %w", path, err)
	}
	at := slices.Index(header, column)
	if at < 0 {
		return nil, fmt.Errorf("%s: has no column %s (it has %s)", path, quote.Field(column), quote.Line(strings.Join(header, ", ")))
	}
	for i, name := range header {
		if slices.Contains(header[:i], name) {
			return nil, fmt.Errorf("%s: has two columns %s", path, quote.Field(name))
		}
	}
	groups := []string{}
	for {
		fields, _, err := rows.Next()
		if errors.Is(err, io.EOF) {
			return groups, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		groups = append(groups, strings.Clone(fields[at]))
	}
}
