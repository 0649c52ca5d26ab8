package predictions

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/table"
)

// These values of the column 'attack' mark the files with answers to unattacked examples.
const (
	cleanFile   = "clean"
	heldOutFile = "held-out"
)

// ModelFiles lists the files with a model's answers.
type ModelFiles struct {
	Name    string
	Clean   string // file with the answers to the unattacked examples
	HeldOut string // answers to other unattacked examples; may be ""
	Attacks []AttackFiles
}

// AttackFiles lists the files with the answers under one attack. If the attack had several restarts, each restart has
// its own file.
type AttackFiles struct {
	Name  string
	Files []string
}

// Attack returns the files of the attack with this name, or nil if the model has no such attack.
func (m ModelFiles) Attack(name string) *AttackFiles {
	if k := slices.IndexFunc(m.Attacks, func(a AttackFiles) bool { return a.Name == name }); k >= 0 {
		return &m.Attacks[k]
	}
	return nil
}

// ReadModelFiles reads a CSV file with the columns 'model', 'attack' and 'file'. In the column 'attack', the word
// 'clean' marks the file with the answers to the unattacked examples. The word 'held-out' marks the file with the
// answers to a separate set of unattacked examples. The flag --tpr takes the model's thresholds from this file. Any
// other word is the name of an attack. Paths are relative to the folder of the CSV file.
func ReadModelFiles(path string) ([]ModelFiles, error) {
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
	var at [3]int
	for k, name := range []string{"model", "attack", "file"} {
		if at[k] = slices.Index(header, name); at[k] < 0 {
			return nil, fmt.Errorf("%s: want the columns model, attack and file, found %s", path, quote.Line(strings.Join(header, ", ")))
		}
	}
	var models []ModelFiles
	for {
		fields, line, err := rows.Next()
		if errors.Is(err, io.EOF) {
			return models, checkModels(path, models)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		name, attack, file := strings.Clone(fields[at[0]]), strings.Clone(fields[at[1]]), strings.Clone(fields[at[2]])
		if name == "" || attack == "" || file == "" {
			return nil, fmt.Errorf("%s:%d: a field is empty", path, line)
		}
		if !filepath.IsAbs(file) {
			file = filepath.Join(filepath.Dir(path), file)
		}
		k := slices.IndexFunc(models, func(m ModelFiles) bool { return m.Name == name })
		if k < 0 {
			k = len(models)
			models = append(models, ModelFiles{Name: name})
		}
		if err := models[k].add(attack, file); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, line, err)
		}
	}
}

// add adds a file to the model.
func (m *ModelFiles) add(attack, file string) error {
	to := map[string]*string{cleanFile: &m.Clean, heldOutFile: &m.HeldOut}[attack]
	switch found := m.Attack(attack); {
	case to != nil && *to != "":
		return fmt.Errorf("model %s has two files %s", quote.Field(m.Name), attack)
	case to != nil:
		*to = file
	case found != nil:
		found.Files = append(found.Files, file)
	default:
		m.Attacks = append(m.Attacks, AttackFiles{attack, []string{file}})
	}
	return nil
}

// checkModels returns an error if a model has no clean answers, or if there is no model.
func checkModels(path string, models []ModelFiles) error {
	if len(models) == 0 {
		return errors.New(path + ": has no rows")
	}
	for _, m := range models {
		if m.Clean == "" {
			return fmt.Errorf("%s: model %s has no file with the attack %s", path, quote.Field(m.Name), cleanFile)
		}
	}
	return nil
}
