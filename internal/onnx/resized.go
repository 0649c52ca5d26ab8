package onnx

import (
	"context"
	"fmt"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/rscert/rscert/internal/smoothing"
)

// servingBatch is the default batch size of a server if the provider opens a session for each batch size. With such a
// provider, a model runs batches of only one size. If this size were large, requests would wait long.
const servingBatch = 16

// resized is a Model with batches of a certain size. It implements smoothing.Classifier.
type resized struct {
	*sizes
	model *Model
}

// The type 'sizes' describes how a model runs batches of one size.
type sizes struct {
	batch   int       // number of samples per Run
	tile    int       // number of samples per call of the session, a divisor of 'batch'
	in, out ort.Shape // shapes of a call
}

// InputLen returns the number of values of one sample.
func (r resized) InputLen() int { return r.model.sampleLen }

// Classes returns the number of scores of one sample.
func (r resized) Classes() int { return r.model.classes }

// Batch returns the number of samples of every Run.
func (r resized) Batch() int { return r.batch }

// Run computes scores of samples, as Model.Run does.
func (r resized) Run(ctx context.Context, in, out []float32) error {
	m := r.model
	if len(in) != r.batch*m.sampleLen || len(out) != r.batch*m.classes {
		return fmt.Errorf("a run takes %d×%d values and gives %d×%d scores, not %d and %d",
			r.batch, m.sampleLen, r.batch, m.classes, len(in), len(out))
	}
	if m.copies > 1 {
		return m.explainRun(m.runCopies(ctx, in, out))
	}
	for i := 0; i < r.batch; i += r.tile {
		j := i + r.tile
		err := m.session.scores(ctx, r.in, r.out, in[i*m.sampleLen:j*m.sampleLen], out[i*m.classes:j*m.classes])
		if err != nil {
			return m.explainRun(err)
		}
	}
	return nil
}

// Smaller implements smoothing.Resizable. The returned list is empty if LoadOptions.Smaller was not set. For the
// smaller batches, the host makes the noise, even if the device makes the noise of full batches.
func (m *Model) Smaller() (all []smoothing.Classifier) {
	for i := range m.smaller {
		all = append(all, resized{&m.smaller[i], m})
	}
	return all
}

// offerSmaller fills the list l.smaller if the options ask for smaller batches. The list describes batches that the
// model can run besides its full batch of l.batch samples. Their sizes are 1, 2, 4, … times the reference size. The
// argument 'scores' holds the scores of the pool's samples at the reference size. offerSmaller leaves out a batch size
// if its calls would change any bit of these scores. For a model that runs one sample per call, the arguments 'scores'
// and 'pool' may be nil.
func (l *loader) offerSmaller(opt LoadOptions, scores, pool [][]float32) error {
	l.smaller = nil
	if !opt.Smaller || l.device.provider.fixSizes {
		return nil
	}
	for batch := l.reference(); batch < l.batch; batch *= 2 {
		tile := min(batch, l.tile)
		if tile > 1 && batch%tile != 0 {
			continue
		}
		if tile > 1 && tile != l.tile {
			same, err := l.sameBitsAt(l.Model.session, tile, scores, pool)
			if err != nil {
				return err
			}
			if !same {
				continue
			}
		}
		s := sizes{batch: batch, tile: tile, in: l.in, out: l.out}
		if tile != l.tile {
			s.in, s.out = l.shapes(tile)
		}
		l.smaller = append(l.smaller, s)
	}
	return nil
}

// sameBitsAt makes one call of the model on 'tile' samples from the pool. It reports whether each sample gets the same
// bits as in the argument 'scores', which holds a row for each sample of the pool.
func (l *loader) sameBitsAt(s *session, tile int, scores, pool [][]float32) (bool, error) {
	rows := make([]int, tile)
	for i := range rows {
		rows[i] = (7*i + 3) % poolSize
	}
	got, err := l.rows(s, rows, pool)
	if err != nil {
		return false, fmt.Errorf("the model fails on a batch of %d: %w", tile, err)
	}
	for i, row := range got {
		if !sameBits(row, scores[rows[i]]) {
			return false, nil
		}
	}
	return true, nil
}
