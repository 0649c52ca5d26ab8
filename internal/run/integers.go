package run

import (
	"context"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
)

// givesBytes reports whether the model gets 255·x, the bytes that the data are, rounded and clamped in its graph: a
// model of integers without --mean and --std does, of data that are bytes. (255·k/255, the quotient by the float64
// nearest to 1/255, has k as the nearest float32.) Other data reach a model of integers as they are, rounded; one of
// bytes does not take them.
func givesBytes(ctx context.Context, p Plan, in *inputs) (bool, error) {
	intake := in.model.Intake()
	if intake == graph.Floats || len(p.Mean) > 0 || len(p.Std) > 0 {
		return false, nil
	}
	if in.data.Bytes() || intake == graph.Integers {
		return in.data.Bytes(), nil
	}
	lattice, err := in.data.Lattice(ctx)
	switch {
	case err != nil:
		return false, BadInput(err)
	case lattice.Kind == dataset.ByteLattice:
		return true, nil
	}
	return false, hint.Add(badInputf("%s takes bytes (uint8), and the %s of %s", p.Model, lattice, p.Data),
		"store the data as bytes (uint8), or say by %s and %s what makes bytes of them: (x − mean)/std is rounded and clamped to 0…255", param.Mean, param.Std)
}

// changes are what is done between the data and the model's file, for the record.
func (in *inputs) changes() []string {
	changes := in.model.Changes()
	if in.noise.bytes {
		changes = append(changes, "values are given as 255·x")
	}
	return changes
}
