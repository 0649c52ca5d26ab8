package experiment

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
)

// maxScaleFile limits the size of a file with the scales of columns.
const maxScaleFile = 16 << 20

// readScales reads the scales of the columns in the list 'names' from a file. The file must name every column.
func readScales(path string, names []string) ([]float64, error) {
	pairs, err := readPairs(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c := columns{names: names}
	scales, given := make([]float64, len(names)), make([]bool, len(names))
	for _, p := range pairs {
		i := c.find(p.Name)
		switch {
		case i < 0:
			return nil, hint.Add(fmt.Errorf("%s: the data have no column %q", path, p.Name), "the columns are %s", list(names))
		case given[i]:
			return nil, fmt.Errorf("%s: names the column %q twice", path, names[i])
		}
		if err := spec.CheckScales(param.SigmaColumns, []float64{p.Sigma}); err != nil {
			return nil, param.Errorf("%s: column %q: %w", path, names[i], err)
		}
		scales[i], given[i] = p.Sigma, true
	}
	var missing []string
	for i, ok := range given {
		if !ok {
			missing = append(missing, names[i])
		}
	}
	if len(missing) > 0 {
		return nil, hint.Add(fmt.Errorf("%s: does not name %s", path, list(missing)), "every column needs a σ; 0 freezes a column")
	}
	return scales, nil
}

// readPairs reads names and scales from a JSON object, or from a CSV file with two columns.
func readPairs(path string) ([]spec.SigmaColumn, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxScaleFile+1))
	if err != nil {
		return nil, err
	}
	if len(text) > maxScaleFile {
		return nil, fmt.Errorf("has more than %d MiB", maxScaleFile>>20)
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return jsonPairs(text)
	}
	return csvPairs(text)
}

// jsonPairs reads the members of a JSON object. It returns all members, even if two have the same name.
func jsonPairs(text []byte) (pairs []spec.SigmaColumn, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var sigma *float64
		if err := d.Decode(&sigma); err != nil || sigma == nil {
			return nil, fmt.Errorf("the σ of %q is not a number", name)
		}
		pairs = append(pairs, spec.SigmaColumn{Name: fmt.Sprint(name), Sigma: *sigma})
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has text after the JSON object")
	}
	return pairs, nil
}

// csvPairs reads lines that each hold a name and a scale. The first line may be a header.
func csvPairs(text []byte) (pairs []spec.SigmaColumn, err error) {
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord, r.TrimLeadingSpace = 2, true
	records, err := r.ReadAll()
	if err != nil {
		return nil, err
	}
	for i, record := range records {
		sigma, err := strconv.ParseFloat(strings.TrimSpace(record[1]), 64)
		if err != nil {
			if i == 0 {
				continue // a header
			}
			return nil, fmt.Errorf("line %d: the σ %.40q is not a number", i+1, record[1])
		}
		pairs = append(pairs, spec.SigmaColumn{Name: strings.TrimSpace(record[0]), Sigma: sigma})
	}
	return pairs, nil
}
