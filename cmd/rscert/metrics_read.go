package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/tabular"
)

// rejectByThreshold sets the threshold on the held-out file and computes the errors of p above it.
func rejectByThreshold(
	ctx context.Context, s streams, p *calib.Predictions, table *tabular.Table, o metricsOptions,
) (*rejection, error) {
	if p.Weight != nil {
		return nil, badInputf("--held-out: examples cannot have weights")
	}
	heldOut := metricsOptions{quiet: o.quiet}
	clean, _, err := readPredictions(ctx, s, o.heldOut, heldOut)
	if err != nil {
		return nil, err
	}
	heldConfidence, heldRight := clean.Answers()
	tau, err := calib.ThresholdAtTPR(heldConfidence, heldRight, o.tpr)
	if err != nil {
		return nil, badInput(fmt.Errorf("%s: %w", displayPath(o.heldOut), err))
	}
	confidence, right := p.Answers()
	wrong, answered := calib.ThresholdedError(confidence, right, tau)
	all, _ := calib.ThresholdedError(confidence, right, 0)
	r := &rejection{TPR: o.tpr, Threshold: tau, CleanError: report.Number(wrong), CleanAnswered: answered, Unrejected: all}
	attacked, attacks, err := readAttacks(ctx, s, p, table, o)
	if err != nil || attacks == 0 {
		return r, err
	}
	robust, plain := report.Number(calib.RobustTestError(attacked, tau)), report.Number(calib.RobustTestError(attacked, 0))
	r.Attacks, r.RobustTestError, r.Unthresholded = attacks, &robust, &plain
	return r, nil
}

// readAttacks are the worst answers on each row over the attacks: the columns of the input, if it has them, and every
// file of --attack.
func readAttacks(
	ctx context.Context, s streams, p *calib.Predictions, table *tabular.Table, o metricsOptions,
) (worst []calib.Attacked, attacks int, err error) {
	add := func(attacked []calib.Attacked) {
		attacks++
		if worst == nil {
			worst = attacked
			return
		}
		for i := range worst {
			worst[i] = calib.Worse(worst[i], attacked[i])
		}
	}
	if table != nil && predictions.HasAttacked(table) {
		attacked, err := predictions.Attacked(table, p)
		if err != nil {
			return nil, 0, badInput(fmt.Errorf("--held-out: %w", err))
		}
		add(attacked)
	}
	for _, path := range o.attacks {
		attack, _, err := readPredictions(ctx, s, path, metricsOptions{quiet: o.quiet, radius: o.radius})
		if err != nil {
			return nil, 0, err
		}
		attacked, err := predictions.AttackedBy(p, attack)
		if err != nil {
			return nil, 0, badInput(fmt.Errorf("--attack: %s: %w", displayPath(path), err))
		}
		add(attacked)
	}
	return worst, attacks, nil
}

// readPredictions reads predictions.csv, the rows of one radius of it, or the votes of a run. The table is nil for
// votes.
func readPredictions(
	ctx context.Context, s streams, path string, o metricsOptions,
) (*calib.Predictions, *tabular.Table, error) {
	if holdsVotes(path) {
		if o.radius != nil {
			return nil, nil, badInputf("%s: --radius is given, but votes have no radius", path)
		}
		p, err := readVotePredictions(path)
		if err == nil && o.quantity != nil && *o.quantity == calib.ClassOneQuantity {
			if p, err = predictions.SelectClassOne(p); err != nil {
				err = fmt.Errorf("%s: %w", path, err)
			}
		}
		return p, nil, badInput(err)
	}
	if runfolder.Owns(path) {
		if _, err := runfolder.Find(path); err != nil { // of a run that cannot be read, neither can its files
			return nil, nil, badInput(err)
		}
	}
	t, err := readTable(ctx, s, path, o.quiet, predictions.Columns())
	if err != nil {
		return nil, nil, err
	}
	if t, err = predictions.SelectRadius(t, o.radius); err != nil {
		return nil, nil, badInput(err)
	}
	p, err := predictions.FromTable(t, o.quantity)
	return p, t, badInput(err)
}

// holdsVotes reports whether path is a run folder or a file of votes.
func holdsVotes(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir() || strings.HasSuffix(path, runfolder.VotesFile)
}

// readVotePredictions takes the votes of a run or file as predictions.
func readVotePredictions(path string) (*calib.Predictions, error) {
	evidence, err := runfolder.Find(path)
	if err != nil {
		return nil, err
	}
	votes, err := evidence.Votes(func(certify.Votes) error { return nil })
	if err != nil {
		return nil, err
	}
	return predictions.FromVotes(path, votes)
}
