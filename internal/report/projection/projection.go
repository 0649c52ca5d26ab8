// Package projection arranges runs in a table by their parameters: some parameters become the rows, others the columns,
// and each cell holds a value of one run.
package projection

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/report/summary"
)

// Projection is a table with one cell for each run. The values of the run's parameters select the row and the column.
type Projection struct {
	Rows  []string `json:"rows"` // names of the parameters
	Cols  []string `json:"cols"`
	Value string   `json:"value"` // name of the value in the cells
	Cells []Cell   `json:"cells"` // in the order of the runs

	Quantity gate.Requirement `json:"-"`
}

// Cell holds the value of a run.
type Cell struct {
	Row []string `json:"row"` // values of the parameters that Projection.Rows names
	Col []string `json:"col"`
	Run string   `json:"run"`
	// Value is rounded to the safe side. If nothing is certified, Value is nil, and the field Nothing holds the reason.
	Value   *float64 `json:"value"`
	Nothing string   `json:"nothing,omitempty"`
}

// New returns the table of the runs. It returns an error if a parameter is unknown, or if two runs belong in one cell.
func New(runs []summary.Summary, rows, cols []string, value gate.Requirement) (*Projection, error) {
	// A list without parameters must be empty and not nil, because JSON shows nil as null.
	p := &Projection{Rows: append([]string{}, rows...), Cols: append([]string{}, cols...), Value: value.String(), Quantity: value}
	var all []map[string]string
	for _, s := range runs {
		all = append(all, parameters(s))
	}
	tellModelsApart(runs, all)
	at := map[string]int{}
	for k, s := range runs {
		row, err := pick(s, all[k], rows)
		if err != nil {
			return nil, err
		}
		col, err := pick(s, all[k], cols)
		if err != nil {
			return nil, err
		}
		key := strings.Join(append(slices.Clone(row), col...), "\x00")
		if earlier, ok := at[key]; ok {
			return nil, sameCell(runs[earlier].Name, s.Name, all[earlier], all[k])
		}
		at[key] = k
		v, nothing, err := value.Measure(s)
		if err != nil {
			return nil, err
		}
		p.Cells = append(p.Cells, Cell{row, col, s.Name, v, nothing})
	}
	return p, nil
}

// parameters returns the parameters of a run by name. They come from run.json and from the certificates.
func parameters(s summary.Summary) map[string]string {
	c := s.Conditions
	all := map[string]string{"run": s.Name, "norm": c.Norm.String(), "law": c.Law.String(), "method": c.Method, "margin": c.MarginKind, "precision": c.Precision,
		"examples": strconv.Itoa(s.Examples), "provider": c.Provider, "device": c.Device}
	if c.N > 0 {
		all["n"] = strconv.FormatInt(c.N, 10)
	}
	for name, x := range map[string]*float64{"sigma": c.Sigma, "alpha": c.Alpha} {
		if x != nil {
			all[name] = strconv.FormatFloat(*x, 'g', -1, 64)
		}
	}
	if s.Run != nil {
		maps.Copy(all, recorded(s))
	}
	for name, file := range map[string]*summary.File{"model": c.Model, "data": c.Data} {
		if file != nil {
			all[name] = filepath.Base(file.File)
		}
	}
	for name, value := range all {
		if value == "" {
			delete(all, name)
		}
	}
	return all
}

// recorded returns the parameters in run.json by name. The value of a parameter is its JSON text, but the value of a
// string parameter has no quotes.
func recorded(s summary.Summary) map[string]string {
	text, err := json.Marshal(s.Run.Parameters)
	var members map[string]json.RawMessage
	if err != nil || json.Unmarshal(text, &members) != nil { // cannot happen: the parameters come from JSON
		return nil
	}
	all := map[string]string{}
	for name, member := range members {
		value := string(member)
		if json.Unmarshal(member, &value) != nil {
			value = string(member)
		}
		all[name] = value
	}
	return all
}

// If two different files of models or of data have the same name, tellModelsApart adds the beginning of the SHA-256 to
// each of these names.
func tellModelsApart(runs []summary.Summary, all []map[string]string) {
	for name, file := range map[string]func(summary.Summary) *summary.File{
		"model": func(s summary.Summary) *summary.File { return s.Conditions.Model },
		"data":  func(s summary.Summary) *summary.File { return s.Conditions.Data },
	} {
		sums := map[string]map[string]bool{}
		for k, s := range runs {
			if f := file(s); f != nil {
				if sums[all[k][name]] == nil {
					sums[all[k][name]] = map[string]bool{}
				}
				sums[all[k][name]][f.SHA256] = true
			}
		}
		for k, s := range runs {
			if f := file(s); f != nil && len(sums[all[k][name]]) > 1 {
				all[k][name] += fmt.Sprintf(" (%.8s)", f.SHA256)
			}
		}
	}
}

// pick returns the values of the named parameters of a run.
func pick(s summary.Summary, all map[string]string, names []string) ([]string, error) {
	values := []string{}
	for _, name := range names {
		value, ok := all[name]
		if !ok {
			return nil, hint.Add(fmt.Errorf("%s: states no parameter %.40q", s.Path, name), "%s",
				"it states "+choice.Or(slices.Sorted(maps.Keys(all))))
		}
		values = append(values, value)
	}
	return values, nil
}

// sameCell is the error about two runs in one cell. Its hint names the parameters in which the two runs differ.
func sameCell(first, second string, a, b map[string]string) error {
	err := fmt.Errorf("%s and %s belong in the same cell of the table", first, second)
	var differ []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if name != "run" && name != "seed" && b[name] != a[name] {
			differ = append(differ, name)
		}
	}
	return hint.Add(err, "%s", "add a parameter in which they differ to the rows or columns: "+choice.Or(append(differ, "run")))
}

// Keys returns the keys of the table's rows or columns, each key once, in the order of the table. The key of a cell is
// the list of parameter values that the function 'of' returns. The values of a parameter ascend if all of them are
// numbers. Otherwise they have the order of the runs.
func Keys(cells []Cell, of func(Cell) []string) [][]string {
	var keys [][]string
	for _, c := range cells {
		if !slices.ContainsFunc(keys, func(k []string) bool { return slices.Equal(k, of(c)) }) {
			keys = append(keys, of(c))
		}
	}
	if len(keys) == 0 {
		return nil
	}
	var rank []map[string]float64
	for i := range keys[0] {
		rank = append(rank, ranks(keys, i))
	}
	slices.SortStableFunc(keys, func(a, b []string) int {
		for i := range a {
			if order := cmp.Compare(rank[i][a[i]], rank[i][b[i]]); order != 0 {
				return order
			}
		}
		return 0
	})
	return keys
}

// Keys sorts the values of a parameter by a number. ranks returns this number for each value of the i-th parameter. If
// all values are numbers, the number is the value itself. Otherwise it is the position of the value in the order of
// first appearance.
func ranks(keys [][]string, i int) map[string]float64 {
	numbers, order := map[string]float64{}, map[string]float64{}
	for _, k := range keys {
		if x, err := strconv.ParseFloat(k[i], 64); err == nil {
			numbers[k[i]] = x
		}
		if _, ok := order[k[i]]; !ok {
			order[k[i]] = float64(len(order))
		}
	}
	if len(numbers) == len(order) {
		return numbers
	}
	return order
}
