package experiment

import (
	"context"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
)

// givesBytes reports whether the model receives the data's bytes, 255·x. (The model's graph rounds and clamps them.)
// The model receives bytes if its input has an integer type, the data are bytes, and no mean or std is given. If the
// input type is uint8, data on the lattice k/255 count as bytes too. For such data, the lattice point k/255, divided by
// the float64 nearest to 1/255 and rounded to float32, gives k. Suppose that the data are not bytes, and no mean or std
// is given. If the input type is uint8, givesBytes returns an error. If the input type is another integer type, the
// model's graph rounds the data without scaling them.
func (e *Experiment) givesBytes(ctx context.Context, mean, std []float64) (bool, error) {
	intake := e.model.Intake()
	if intake == graph.Floats || len(mean) > 0 || len(std) > 0 {
		return false, nil
	}
	if e.data.Bytes() || intake == graph.Integers {
		return e.data.Bytes(), nil
	}
	lattice, err := e.data.Lattice(ctx)
	switch {
	case err != nil:
		return false, spec.BadInput(err)
	case lattice.Kind == dataset.ByteLattice:
		return true, nil
	}
	return false, hint.Add(spec.BadInputf("%s takes bytes (uint8), and the %s of %s", e.Spec.ModelName(), lattice, e.Spec.Data),
		"store the data as bytes (uint8), or say by %s and %s what makes bytes of them: (x − mean)/std is rounded and clamped to 0…255", param.Mean, param.Std)
}

// BytesGiven is an entry in run.json's list of changes. It means that the model receives bytes.
const BytesGiven = "values are given as 255·x"

// The method 'changes' lists the edits of the model's graph and the changes of the model's inputs, for run.json.
func (e *Experiment) changes() []string {
	changes := e.model.Changes()
	if e.noise.bytes {
		changes = append(changes, BytesGiven)
	}
	return changes
}
