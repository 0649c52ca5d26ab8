package experiment

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"

	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
)

// chooseSeed chooses the seed of the noise. Each experiment draws its own: certificates assume that nobody chose the
// model by its results under this noise. A model chosen by its certified accuracy at seed 1 is not certified by seed 1.
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
		e.console.Warnf("%s %s without %s: each shard draws its own; give all the same to join them as one run",
			param.Shard, s.Shard, param.Seed)
	}
	return nil
}

// DrawSeed draws a seed from the system.
func DrawSeed() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("drawing a seed: %w", err)
	}
	// 53 bits: JSON readers that use float64 read it exactly.
	return binary.LittleEndian.Uint64(b[:]) >> 11, nil
}

// chooseSelection chooses which examples Max takes: the first ones or, if the data are sorted by class, some of every
// class.
func (e *Experiment) chooseSelection() {
	s := &e.Spec
	if s.FixedSelect != nil {
		s.Select = *s.FixedSelect
		return
	}
	if s.Max > 0 && e.data.SortedByLabel() && (e.data.Len()-1)/s.Skip+1 > s.Max {
		s.Select = spec.Spread
		e.console.Notef("examples: %d spread over all of %d, which stand class by class; %s first takes the first ones",
			s.Max, e.data.Len(), param.Select)
	}
}
