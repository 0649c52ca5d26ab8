package run

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"

	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
)

// chooseSeed settles the seed of the noise. It is drawn afresh for each new run: the
// certificates assume that the model was not chosen by what this noise says of it, and a
// model that was chosen by its certified accuracy at seed 1 is not certified by seed 1.
func (p *Plan) chooseSeed(console Console) error {
	if p.FixedSeed != nil {
		p.Seed = *p.FixedSeed
		return nil
	}
	if p.Resume {
		run, err := runfolder.Read(p.Out)
		if err == nil {
			p.Seed = run.Parameters.Seed
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	var err error
	if p.Seed, err = DrawSeed(); err != nil {
		return err
	}
	if p.Shard.K > 1 {
		console.warnf("%s %s without %s: each shard draws its own; give all the same to join them as one run", param.Shard, p.Shard, param.Seed)
	}
	return nil
}

// keepComputation has a run with scores go on with the noise made where it was begun, and in calls of its size, unless
// the plan says otherwise: the last bits of scores may depend on both.
func (p *Plan) keepComputation() {
	if !p.Resume || !p.Scores {
		return
	}
	run, err := runfolder.Read(p.Out)
	if err != nil {
		return // a new run, or one that opening the folder refuses
	}
	if p.Batch == 0 {
		p.Batch = run.Runtime.Batch
	}
	if on := NoiseOn(run.Runtime.NoiseOn); on != "" && (p.NoiseOn == "" || p.NoiseOn == NoiseOnAuto) {
		p.NoiseOn = on
	}
}

// DrawSeed draws a seed from the system.
func DrawSeed() (uint64, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("drawing a seed: %w", err)
	}
	// 53 bits: JSON readers that hold numbers as float64 keep it.
	return binary.LittleEndian.Uint64(b[:]) >> 11, nil
}
