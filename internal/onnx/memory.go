package onnx

import (
	"fmt"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/memory"
)

// checkMemory refuses an input or output that is too large for the memory. The argument 't' describes the input or
// output, and the argument 'values' is the number of its values per sample. During the trial of the model, batches and
// single samples stay in memory. They may take at most half of the available memory.
func checkMemory(t graph.TensorInfo, batch, values int) error {
	need := 4 * uint64(values) * uint64(2*max(batch, 16)+poolSize+2*aloneCount)
	if room, ok := memory.Available(); ok && need > room/2 {
		return fmt.Errorf("%s is too large: trying it takes %d MiB, half the memory is %d MiB", t, need>>20, room>>21)
	}
	return nil
}
