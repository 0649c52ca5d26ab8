package builtin_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/graph"
)

// recipe holds the parts of a recipe that the test reads; docs/schemas/recipe.json describes them.
type recipe struct {
	Schema string
	Data   struct {
		SHA256 string
		Shape  []int64
	}
	Noise struct {
		Law   string
		Scale float64
	}
	Options struct{ Seed *int }
}

// Each model has a recipe. The recipe must state the noise that the model's name states. The training data must have
// the shape of the model's input.
func TestRecipes(t *testing.T) {
	files, err := filepath.Glob("models/*.onnx")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".onnx")
		t.Run(name, func(t *testing.T) {
			file, err := graph.ReadModel("builtin:" + name)
			if err != nil {
				t.Fatal(err)
			}
			r := readRecipe(t, file)
			data, rest, _ := strings.Cut(name, "-")
			if want := fmt.Sprintf("%s-%g", r.Noise.Law, r.Noise.Scale); want != rest {
				t.Errorf("the recipe is for the noise %s", want)
			}
			if r.Schema != "rscert/recipe/1" || len(r.Data.SHA256) != 64 || r.Options.Seed == nil {
				t.Errorf("the recipe is %+v", r)
			}
			shapes := map[string][]int64{"mnist": {1, 28, 28}, "cifar10": {3, 32, 32}}
			want, ok := shapes[data]
			if !ok || fmt.Sprint(r.Data.Shape) != fmt.Sprint(want) {
				t.Errorf("the training data have the shape %v, want %v", r.Data.Shape, want)
			}
			info, err := file.Info()
			if err != nil {
				t.Fatal(err)
			}
			if got := info.Inputs[0].Shape[1:]; fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the input has the shape %v, want %v", got, want)
			}
		})
	}
}

func readRecipe(t *testing.T, file *graph.File) recipe {
	t.Helper()
	var r recipe
	for _, p := range file.Model.MetadataProps {
		if p.GetKey() == "rscert.recipe" {
			if err := json.Unmarshal([]byte(p.GetValue()), &r); err != nil {
				t.Fatal(err)
			}
		}
	}
	return r
}
