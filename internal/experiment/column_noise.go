package experiment

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
)

// prepareColumns prepares noise with a separate scale for each column.
//
// Each column of a table gets its own lattice (smoothing.Column), even if the column's values already lie on a lattice.
// The channels of images keep the lattice of the data if putOnLattice can make it fine enough for the noise.
func (e *Experiment) prepareColumns(ctx context.Context, n *noise, mean, std []float64) error {
	p := e.Spec
	if e.columns.image {
		if err := e.findLattice(ctx, n); err != nil {
			return err
		}
		if n.rounds {
			return hint.Add(param.Errorf("%s round: is for noise with one σ", param.OffLattice), "give inputs on the lattice of the run")
		}
	} else {
		all, err := e.data.Lattice(ctx)
		if err != nil {
			return err
		}
		n.data = dataset.Lattice{Kind: dataset.NoLattice, Low: all.Low, High: all.High, Rounded: all.Rounded}
	}
	l, err := p.Law.Additive()
	if err != nil {
		return err
	}
	made := make([]smoothing.Column, len(p.SigmaColumns))
	n.parts = make([]runfolder.NoiseColumn, len(made))
	quantised := false
	for i, c := range p.SigmaColumns {
		made[i] = smoothing.Column{Name: c.Name, Scale: c.Sigma}
		if c.Sigma > 0 {
			e.putOnLattice(n, l, &made[i], &n.parts[i])
			quantised = quantised || made[i].Lattice == nil
		}
	}
	if quantised {
		if err := e.findRanges(ctx, n, made); err != nil {
			return err
		}
	}
	for j, c := range e.columns.of {
		k := n.channel(j)
		made[c].Mean, made[c].Std = mean[k], std[k]
	}
	n.columns, err = smoothing.NewColumnNoise(l, made, e.columns.of)
	var wide *smoothing.RangeError
	if errors.As(err, &wide) {
		return hint.Add(param.Errorf("%s: %w", param.SigmaColumns, err), "give the column a larger σ, or 0 to freeze it")
	}
	return err
}

// putOnLattice gives a column the lattice of the data, refined until it is fine enough for the noise (Lattice.Refine).
// If this is impossible, it records the column as quantised.
func (e *Experiment) putOnLattice(n *noise, of law.Additive, c *smoothing.Column, record *runfolder.NoiseColumn) {
	record.Step = new(big.Rat).SetFloat64(smoothing.ColumnStep(of, c.Scale)).RatString()
	record.Quantised = true
	if n.data.Kind == dataset.NoLattice {
		return
	}
	data := n.data
	l := smoothing.Lattice{Step: data.Step, Low: data.Index(data.Low), High: data.Index(data.High)}
	fine, refined, ok := l.Refine(of, c.Scale)
	if !ok {
		return
	}
	c.Lattice, c.Index = &fine, func(x float32) int { return refined * data.Index(x) }
	record.Step, record.Quantised = fine.Step.RatString(), false
}

// findRanges sets the ranges of the quantised columns. If the spec has the lattice of a run, findRanges takes the
// ranges of this run. Otherwise it takes the ranges of the data.
func (e *Experiment) findRanges(ctx context.Context, n *noise, made []smoothing.Column) error {
	fixed := e.Spec.Lattice
	var stats []columnStats
	if fixed == nil {
		var err error
		if stats, err = e.columns.measure(ctx, e.data, n.Arrangement); err != nil {
			return err
		}
	} else if len(fixed.Columns) != len(made) {
		return fmt.Errorf("the run records the ranges of %d columns, not of %d", len(fixed.Columns), len(made))
	}
	first := true
	for i := range made {
		c, record := &made[i], &n.parts[i]
		if !record.Quantised {
			continue
		}
		if fixed != nil {
			c.Low, c.High = float32(fixed.Columns[i].Low), float32(fixed.Columns[i].High)
		} else {
			c.Low, c.High = stats[i].low, stats[i].high
		}
		record.Low, record.High = float64(c.Low), float64(c.High)
		if first {
			n.low, n.high, first = record.Low, record.High, false
		}
		n.low, n.high = min(n.low, record.Low), max(n.high, record.High)
	}
	return nil
}

// columnInput returns the noisy inputs of an example if the noise has a scale for each column. It also returns how much
// rounding reduces every radius.
func (n *noise) columnInput(example []float32) (smoothing.Input, float64, error) {
	values := make([]float32, len(example))
	n.Arrange(values, example)
	input, off, err := n.columns.Input(values, n.float.clean(example), n.data.Rounded)
	return input, off, err
}

// describeColumns returns the noise's entry in run.json.
func (n *noise) describeColumns() runfolder.Noise {
	t := n.columns.Tables
	r := runfolder.Noise{
		Distribution: t.Name(), Table: t.Digest(), Entries: t.Entries(), Eta: t.Eta(), Inputs: n.data.String(), Columns: n.parts,
		Quantised: true, Low: n.low, High: n.high,
	}
	for _, c := range n.parts {
		r.Quantised = r.Quantised && (c.Quantised || c.Step == "")
	}
	return r
}

// columnsText describes the noise of columns for the line that 'certify' prints.
func (n *noise) columnsText() string {
	quantised, exact := 0, 0
	for _, c := range n.parts {
		switch {
		case c.Quantised:
			quantised++
		case c.Step != "":
			exact++
		}
	}
	var says []string
	if exact > 0 {
		says = append(says, fmt.Sprintf("%s; drawn exactly in steps of them in %d columns", n.data, exact))
	}
	if quantised > 0 {
		says = append(says, fmt.Sprintf("%d columns are each rounded to a lattice of %d steps per %s, and every radius is smaller by what this rounding may add to a perturbation",
			quantised, n.law.Ratios().Greatest, n.law.Words().Symbol))
	}
	return strings.Join(says, "; ")
}

// adviseScales extends an error that wraps smoothing.ErrTooWide, unless the inputs are images. It returns other errors
// unchanged. The added text names the columns whose range is too large for one σ, and advises the user to give each
// column its own scale.
func (e *Experiment) adviseScales(ctx context.Context, err error, a graph.Arrangement) error {
	c, none := e.splitColumns(a, false)
	of, random := e.Spec.Law.Law().(law.Additive)
	if !errors.Is(err, smoothing.ErrTooWide) || none != nil || c.image || !random {
		return err
	}
	stats, failed := c.measure(ctx, e.data, a)
	if failed != nil {
		return errors.Join(err, failed)
	}
	var wide []string
	for i, s := range stats {
		if _, err := smoothing.NewQuantiser(of, e.Spec.Sigma, s.low, s.high); err != nil {
			wide = append(wide, c.names[i])
		}
	}
	return hint.Add(param.Errorf("%w; the columns that reach so far: %s", err, list(wide)),
		"columns in different units need a σ each: %s std, with the training data as %s, makes σ a multiple of each column's standard deviation", param.SigmaScale, param.ScaleData)
}
