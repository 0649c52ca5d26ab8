package onnx

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/hint"
)

// The folder testdata/exports holds models that skl2onnx and PyTorch's two exporters wrote.
// scripts/export_small_models.py made these models and the file golden.json.

// A golden holds the results of Python's ONNX Runtime for a model's original file. If the file fixes the batch, the
// samples were run one at a time.
type golden struct {
	Model  string
	Data   string
	Scores [][]float64
}

func exported(t testing.TB, name string) []byte {
	t.Helper()
	model, err := os.ReadFile(filepath.Join("testdata", "exports", name+".onnx"))
	if err != nil {
		t.Fatal(err)
	}
	return model
}

func goldens(t testing.TB) (all []golden) {
	t.Helper()
	data, err := os.ReadFile("testdata/exports/golden.json")
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil || len(all) == 0 {
		t.Fatal("no golden scores: ", err)
	}
	return all
}

// irises returns the column names and the rows of exports/iris.csv.
func irises(t testing.TB) (columns []string, rows [][]float32) {
	t.Helper()
	f, err := os.Open("testdata/exports/iris.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines[1:] {
		var row []float32
		for _, field := range line[:4] {
			v, err := strconv.ParseFloat(field, 32)
			if err != nil {
				t.Fatal(err)
			}
			row = append(row, float32(v))
		}
		rows = append(rows, row)
	}
	return lines[0][:4], rows
}

// byteImages returns the images that scripts/export_small_models.py uses. With a scale of 1, their values are bytes.
// With a scale of 255, their values are bytes divided by 255.
func byteImages(count int, scale float32) [][]float32 {
	all := make([][]float32, count)
	for s := range all {
		all[s] = make([]float32, 768)
		for i := range all[s] {
			all[s][i] = float32((37*i+101*s)%256) / scale
		}
	}
	return all
}

// TestExports runs exported models in batches of 16 and compares their scores with Python's scores.
func TestExports(t *testing.T) {
	columns, rows := irises(t)
	for _, g := range goldens(t) {
		t.Run(g.Model, func(t *testing.T) {
			opt := LoadOptions{Batch: 16, Example: []int{3, 16, 16}}
			in := byteImages(len(g.Scores), 255)
			if g.Model == "torch_bytes_legacy" {
				in = byteImages(len(g.Scores), 1)
			}
			if g.Data == "iris" {
				opt.Example, opt.Columns, in = []int{4}, columns, rows
			}
			m := load(t, exported(t, g.Model), opt)
			if m.tile != 16 || len(warningsOf(m)) > 0 {
				t.Errorf("%d samples a call, warnings %q", m.tile, warningsOf(m))
			}
			got := scores(t, m, in)
			if len(got) != len(g.Scores) || m.Classes() != len(g.Scores[0]) {
				t.Fatalf("%d samples of %d scores, want %d of %d", len(got), m.Classes(), len(g.Scores), len(g.Scores[0]))
			}
			for i, want := range g.Scores {
				for k, w := range want {
					if d := math.Abs(float64(got[i][k]) - w); !(d <= 1e-5*(1+math.Abs(w))) {
						t.Fatalf("sample %d: scores %v, want %v", i, got[i], want)
					}
				}
			}
		})
	}
}

// The test checks the changes that the loader records for real exports, for example about rounding. It also checks the
// loader's notes, for example about class labels.
func TestExportsChanges(t *testing.T) {
	columns, _ := irises(t)
	for _, c := range []struct{ model, changes, notes string }{
		{"sklearn_logistic_multi_tensor", "", "it has 2 outputs; the scores are taken from 'probabilities'"},
		{"sklearn_logistic_multi_zipmap", "output 'output_probability': the tensor in front of ZipMap", "it has 2 outputs; the scores are taken from 'output_probability'"},
		{"sklearn_logistic_strings_zipmap", "output 'output_probability': the tensor in front of ZipMap", "its classes 0, 1, … are the labels 'setosa', 'versicolor', 'virginica'"},
		{"sklearn_logistic_from1_zipmap", "output 'output_probability': the tensor in front of ZipMap", "its classes 0, 1, … are the labels 1, 2, 3"},
		{"sklearn_logistic_species_tensor", "", "its classes 0, 1, … are the labels 'blue', 'tall', 'wild'"},
		{"sklearn_mlp_tens_tensor", "", "its classes 0, 1, … are the labels 10, 20, 30"},
		{"sklearn_pipeline_multi_columns", "columns 'sepal_length', 'sepal_width', 'petal_length', 'petal_width', one input each, in this order: joined", ""},
		{"sklearn_forest_multi_int64", "input 'x': values are rounded to integers, half up, and clamped to -9223372036854775808…9223371487098961920", ""},
		{"torch_bytes_legacy", "input 'onnx::Cast_0': values are rounded to integers, half up, and clamped to 0…255", ""},
		{"torch_logit_legacy", "is one logit z: classes 0 and 1 have the logits 0 and z", "one logit z"},
		{"torch_probability_dynamo", "is one probability p: classes 0 and 1 have 1−p and p", "one probability p"},
	} {
		opt := LoadOptions{Batch: 16, Example: []int{4}, Columns: columns}
		if strings.HasPrefix(c.model, "torch") {
			opt.Example, opt.Columns = []int{3, 16, 16}, nil
		}
		m := load(t, exported(t, c.model), opt)
		if changes := strings.Join(m.Changes(), "\n"); !strings.Contains(changes, c.changes) || c.changes == "" && changes != "" {
			t.Errorf("%s: changes %q, want %q", c.model, changes, c.changes)
		}
		if notes := strings.Join(m.Notes(), "\n"); !strings.Contains(notes, c.notes) {
			t.Errorf("%s: notes %q, want %q", c.model, notes, c.notes)
		}
	}
}

// The test checks the messages about models that cannot run, or cannot run in batches.
func TestExportsRefused(t *testing.T) {
	r := openRuntime(t)
	for _, c := range []struct {
		model, problem, hint string
	}{
		{"torch_tokens_legacy", "holds token numbers: ", "behind its embedding"},
		{"torch_double_legacy", "this ONNX Runtime has no float64 kernel of Conv", "export the model in float32"},
	} {
		_, err := r.Load(exported(t, c.model), LoadOptions{Example: []int{3, 16, 16}})
		var e *hint.Error
		if !errors.As(err, &e) || !strings.Contains(e.Error(), c.problem) || !strings.Contains(e.Hint(), c.hint) {
			t.Errorf("%s: %v", c.model, err)
		}
	}
	m := load(t, exported(t, "torch_quantised_legacy"), LoadOptions{Batch: 16, Example: []int{3, 16, 16}})
	if w := strings.Join(warningsOf(m), "\n"); m.tile != 1 || !strings.Contains(w, "quantised dynamically") || strings.Contains(w, "free batch dimension") {
		t.Errorf("%d a call, warnings %q", m.tile, w)
	}
}
