package experiment

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

// chooseSeed chooses the seed of the noise. Each experiment draws its own seed, unless the spec fixes one. The reason
// is that certificates are valid only if the noise is new: results under the same noise must not have influenced the
// choice of the model. For example, if a model was chosen by its certified accuracy at seed 1, certificates at seed 1
// are not valid.
func (e *Experiment) chooseSeed() error {
	s := &e.Spec
	if s.FixedSeed != nil {
		s.Seed = *s.FixedSeed
		return nil
	}
	var err error
	if s.Seed, err = DrawSeed(); err != nil {
		return err
	}
	if s.Shard.K > 1 {
		e.console.Warnf(warning.ShardSeed, "%s %s without %s: each shard draws its own seed; give all shards the same seed to join them as one run",
			param.Shard, s.Shard, param.Seed)
	}
	return nil
}

// DrawSeed draws a random seed from the operating system.
func DrawSeed() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("drawing a seed: %w", err)
	}
	// The seed has 53 bits, so that JSON readers that use float64 represent it exactly.
	return binary.LittleEndian.Uint64(b[:]) >> 11, nil
}

// chooseSelection chooses how examples are selected if Max limits their number. It selects the first examples or, if
// the data are sorted by class, some examples of every class.
func (e *Experiment) chooseSelection() {
	s, listed := &e.Spec, e.data.Len()
	if s.Only.Given() {
		listed = len(s.Only.Examples)
	}
	if s.FixedSelect != nil {
		s.Select = *s.FixedSelect
		return
	}
	if s.Max > 0 && e.data.SortedByLabel() && (listed-1)/s.Skip+1 > s.Max {
		s.Select = spec.Spread
		e.console.Notef("examples: %d spread over all of %d, which stand class by class; %s first takes the first ones",
			s.Max, listed, param.Select)
	}
}
