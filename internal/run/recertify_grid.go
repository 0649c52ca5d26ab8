package run

import (
	"context"
	"slices"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// RecertificationGrid certifies the saved votes or scores of a run or a file again, once for each combination of
// settings. The lists of the grid hold values of the settings. A combination takes one value from each list that
// applies to its method.
type RecertificationGrid struct {
	Evidence *runfolder.Evidence
	Targets  []certify.Target
	Methods  []runfolder.Method // empty: as in Recertification
	// Combines and Temperatures apply to methods for scores.
	Combines     []certify.Combine
	Temperatures []float64
	N0           int64
	// Sizes are the numbers of estimation samples to use. An empty list stands for all samples.
	Sizes []int64
	// If a method certifies votes, Repeats is the number of subsamples that Certify draws for each size. Seed is the
	// seed of the subsamples.
	Repeats int
	Seed    uint64
}

// GridPoint is a combination of settings of a RecertificationGrid.
type GridPoint struct {
	Target certify.Target
	Method string // name in certificates
	Size   int64  // 0: all samples
	// Temperature is 0 for a method for votes.
	Temperature float64
}

// Points returns the combinations in order: by target, then by size, then by method, then by the value of Combines, and
// then by temperature. If there are several targets, it leaves out 'taylor' (a value of Combines) for the first margin,
// because 'taylor' is defined only for the second margin.
func (g *RecertificationGrid) Points() []GridPoint {
	var points []GridPoint
	g.each(func(p GridPoint, _ Recertification) { points = append(points, p) })
	return points
}

// each calls the function 'visit' for every combination, in the order of Points.
func (g *RecertificationGrid) each(visit func(GridPoint, Recertification)) {
	base := Recertification{Evidence: g.Evidence, Methods: g.Methods, N0: g.N0, Seed: g.Seed}
	base.settle()
	sizes := g.Sizes
	if len(sizes) == 0 {
		sizes = []int64{0}
	}
	for _, target := range g.Targets {
		for _, size := range sizes {
			for _, m := range base.Methods {
				q := base
				q.Target, q.Size, q.Methods = target, size, []runfolder.Method{m}
				p := GridPoint{Target: target, Method: m.String(), Size: size}
				if bound, byScores := m.Scores(); byScores {
					g.eachOfScores(p, q, bound, visit)
				} else {
					visit(p, q)
				}
			}
		}
	}
}

// eachOfScores calls the function 'visit' for every combination with the target p.Target and the size p.Size whose
// method is the given bound for scores. These combinations differ in the value of Combines or in the temperature.
func (g *RecertificationGrid) eachOfScores(p GridPoint, q Recertification, bound certify.MeanBound, visit func(GridPoint, Recertification)) {
	for _, q.Combine = range g.Combines {
		if q.Combine == certify.Taylor && p.Target.Margin != certify.SecondMargin && len(g.Targets) > 1 {
			continue // 'taylor' is defined only for the second margin
		}
		for _, q.Temperature = range g.Temperatures {
			p.Method = certify.ScoreParams{Bound: bound, Combine: q.Combine}.Name()
			p.Temperature = q.Temperature
			visit(p, q)
		}
	}
}

// Certify passes the certificates of each combination to the function 'take', with the combination's index in the
// result of Points. If the method certifies from votes, Certify passes Repeats sets of certificates for the
// combination, each from another subsample of the votes. If Repeats is 0, it passes one set.
func (g *RecertificationGrid) Certify(ctx context.Context, show progress.Options, take func(point int, certs []certify.Certificate) error) error {
	if err := g.check(); err != nil {
		return err
	}
	var all []Recertification
	g.each(func(_ GridPoint, q Recertification) { all = append(all, q) })
	var saved *savedVotes
	for point, q := range all {
		repeats := 1
		if _, byVotes := q.Methods[0].Votes(); byVotes {
			if saved == nil {
				first := q
				first.Size = slices.Max(append([]int64{0}, g.Sizes...))
				var err error
				if saved, err = first.readVotes(); err != nil {
					return err
				}
			}
			repeats = max(1, g.Repeats)
		}
		q.saved = saved
		for q.Turn = range repeats {
			sets, err := q.Certify(ctx, show)
			if err == nil {
				err = take(point, sets[0])
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// check returns nil if the grid has no sizes. Otherwise, check returns an error in two cases: the run has --stop, or
// Repeats is at least 2 and a method certifies scores.
func (g *RecertificationGrid) check() error {
	if len(g.Sizes) == 0 {
		return nil
	}
	if r := g.Evidence.Run; r != nil && r.Parameters.Stop.Given() {
		return spec.BadInputf("%s: the run has %s %s: the number of samples of an example depends on its votes, so the first samples are no sample of a fixed size",
			param.Sizes, param.Stop, r.Parameters.Stop)
	}
	if g.Repeats < 2 {
		return nil
	}
	base := Recertification{Evidence: g.Evidence, Methods: g.Methods}
	base.settle()
	for _, m := range base.Methods {
		if _, byScores := m.Scores(); byScores {
			return spec.BadInputf("%s %d: method %s takes the first samples of scores.npz, which are the same each time", param.Repeats, g.Repeats, m)
		}
	}
	return nil
}
