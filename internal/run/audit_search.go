package run

import (
	"context"
	"math"

	"github.com/rscert/rscert/internal/attack"
	"github.com/rscert/rscert/internal/warning"
)

// search returns the method that finds the candidates of a round. Each round has its own seed, which follows from the
// audit's seed.
func (a *auditor) search(ctx context.Context, round int) (candidateSearch, error) {
	if a.plan.open != nil {
		return a.plan.open(a, round)
	}
	if s := a.searches[round]; s != nil {
		return s, nil
	}
	d := a.Data()
	threat := attack.Threat{Norm: attack.L2, Epsilon: math.Inf(1), Low: float32(d.Low), High: float32(d.High)}
	s, closer, err := openSmoothedSearch(ctx, a.Experiment, attack.SmoothAdv, threat, a.console)
	if err != nil {
		a.console.Warnf(warning.AuditByScores, "%v; the search uses scores alone, which finds larger perturbations", err)
		if s, closer, err = openSmoothedSearch(ctx, a.Experiment, attack.Stein, threat, a.console); err != nil {
			return nil, err
		}
	}
	a.closers = append(a.closers, closer)
	h := a.header
	s.Steps, s.Restarts, s.Samples, s.Screen = h.Steps, h.Restarts, h.Samples, int(h.Screen)
	s.Seed = h.Seed + uint64(round-1) // NewStream and the PRNG make unrelated noise from neighbouring seeds
	a.searches[round] = s
	return s, nil
}
