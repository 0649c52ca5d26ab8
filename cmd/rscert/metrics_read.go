package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/table"
	"github.com/rscert/rscert/internal/warning"
)

// readPredictions reads predictions.csv, or the rows of bounds.csv at one radius, or the votes of a run. For votes, the
// table is nil.
func readPredictions(
	ctx context.Context, s streams, path string, o metricsOptions,
) (*calib.Predictions, *table.Table, error) {
	if holdsVotes(path) {
		if o.radius != nil {
			return nil, nil, badInputf("%s: --radius is given, but votes have no radius", path)
		}
		if path, radius, err := findMeanScores(ctx, s, path, o); err != nil || path != "" {
			if err != nil {
				return nil, nil, err
			}
			o.radius, o.everyExample = &radius, true
			return readPredictionTable(ctx, s, path, o)
		}
		p, err := readVotePredictions(ctx, s, path)
		if err == nil && o.quantity != nil && *o.quantity == calib.ClassOneQuantity {
			if p, err = predictions.SelectClassOne(p); err != nil {
				err = fmt.Errorf("%s: %w", path, err)
			}
		}
		return p, nil, badInput(err)
	}
	if runfolder.Owns(path) {
		if err := checkOwnBounds(ctx, s, path); err != nil {
			return nil, nil, err
		}
	}
	return readPredictionTable(ctx, s, path, o)
}

// checkOwnBounds checks the bounds.csv of a run together with the run's votes and certificates.
func checkOwnBounds(ctx context.Context, s streams, path string) error {
	evidence, err := runfolder.Find(path)
	if err == nil && filepath.Base(path) == runfolder.BoundsFile {
		if err = evidence.CheckBounds(); err == nil && recordsVotes(evidence.Run) {
			_, err = runRecords(ctx, s, evidence)
		}
	}
	return badInput(err)
}

// readPredictionTable reads predictions.csv, or the rows of bounds.csv at one radius. From bounds.csv it keeps the rows
// with a certified class, or all rows if everyExample is set.
func readPredictionTable(
	ctx context.Context, s streams, path string, o metricsOptions,
) (*calib.Predictions, *table.Table, error) {
	columns, err := o.cluster.extend(predictions.Columns())
	if err != nil {
		return nil, nil, err
	}
	t, err := readTable(ctx, s, path, o.quiet, o.groups.extend(columns))
	if err != nil {
		return nil, nil, err
	}
	if t, err = leaveOutFitted(s, t, o.cluster); err != nil {
		return nil, nil, err
	}
	if err := warnOfEstimatedWeights(s, t, path, "nothing bounds their error: no interval or test accounts for it"); err != nil {
		return nil, nil, err
	}
	t, err = predictions.SelectRadius(t, o.radius)
	if err == nil && !o.everyExample {
		t, err = predictions.SelectCertified(t)
	}
	if err != nil {
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

// findMeanScores returns the path of a run's bounds.csv, and one of the radii in this file. The mean scores without
// attack are the same at every radius, so one radius is enough. The path is "" if the command 'metrics' should use the
// vote shares.
func findMeanScores(ctx context.Context, s streams, path string, o metricsOptions) (file string, radius float64, err error) {
	wanted := o.probabilities != nil && *o.probabilities == meanScores
	if !wanted && (o.probabilities != nil || o.quantity != nil && *o.quantity == calib.ClassOneQuantity) {
		return "", 0, nil
	}
	evidence, err := runfolder.Find(path)
	if err != nil {
		return "", 0, badInput(err)
	}
	if wanted || evidence.IsFolder() && len(evidence.Run.Parameters.ConfidenceRadii) > 0 {
		bounds, err := evidence.Bounds()
		if err == nil && recordsVotes(evidence.Run) {
			_, err = runRecords(ctx, s, evidence)
		}
		if err != nil {
			return "", 0, badInput(err)
		}
		if bounds.AllExamples {
			return bounds.File, evidence.Run.Parameters.ConfidenceRadii[0], nil
		}
	}
	if wanted {
		return "", 0, badInputf("--probabilities %s: %s has no mean scores of every example", meanScores, path)
	}
	return "", 0, nil
}

// readVotePredictions reads the votes in a run folder or in a file, and returns them as predictions.
func readVotePredictions(ctx context.Context, s streams, path string) (*calib.Predictions, error) {
	evidence, err := runfolder.Find(path)
	if err != nil {
		return nil, err
	}
	var votes []certify.Votes
	if !recordsVotes(evidence.Run) {
		votes, err = evidence.Votes(func(certify.Votes) error { return nil })
	} else {
		votes, err = runRecords(ctx, s, evidence)
	}
	if err != nil {
		return nil, err
	}
	var rule certify.VoteRule
	if r := evidence.Run; r != nil {
		rule = certify.VoteRule{None: r.Parameters.None, Deterministic: r.Parameters.Law.Deterministic()}
	}
	return predictions.FromVotes(path, votes, rule)
}

// runRecords returns the votes of a run's examples. It returns an error if the votes do not prove the certificates. It
// warns of missing examples.
func runRecords(ctx context.Context, s streams, e *runfolder.Evidence) ([]certify.Votes, error) {
	records, err := e.Records(ctx)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, fmt.Errorf("%s: no example has votes and a certificate", e.Path)
	}
	if missing := e.Run.Data.Selected - len(records); missing > 0 {
		if err := s.warnf(warning.RunUnfinished, "%s: the run is not finished: %d examples are missing", e.Path, missing); err != nil {
			return nil, err
		}
	}
	votes := make([]certify.Votes, len(records))
	for i, r := range records {
		votes[i] = r.Votes
	}
	return votes, nil
}
