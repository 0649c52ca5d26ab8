package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/signature"
	"github.com/rscert/rscert/internal/sweep"
)

// mergeSweepReport is what merge --json prints for a sweep.
type mergeSweepReport struct {
	Out    string             `json:"out"`
	Points []mergePointReport `json:"points"`
}

// mergePointReport is the report of the command 'merge' about one point of a sweep.
type mergePointReport struct {
	sweep.Point
	mergeReport
}

// mergeSweep joins the shards of every point. It checks the shards of all points before it writes the first run. If
// this check fails, mergeSweep writes no point. It writes sweep.json last.
func (o mergeOptions) mergeSweep(ctx context.Context, s streams, parts sweep.Parts, key *signature.SecretKey) error {
	if err := checkMerged(o.out); err != nil {
		return err
	}
	for k, point := range parts.Record.Points {
		if err := o.checkShards(parts.Folders[k]); err != nil {
			return fmt.Errorf("%s: %w", point.Name, err)
		}
	}
	done := mergeSweepReport{Out: o.out}
	for k, point := range parts.Record.Points {
		merged, err := o.mergeRun(ctx, s, parts.Folders[k], filepath.Join(o.out, point.Name), key)
		if err != nil {
			err = fmt.Errorf("%s: %w", point.Name, err)
			if _, advised := hint.Of(err); !advised || errors.Is(err, runfolder.ErrExists) {
				err = hint.Add(err, "the merged sweep is not whole: delete %s and merge again", o.out)
			}
			return err
		}
		done.Points = append(done.Points, mergePointReport{point, merged})
	}
	if err := parts.Record.Write(o.out); err != nil {
		return err
	}
	if o.json {
		return report.WriteJSON(s.out, "merge-sweep", done)
	}
	for _, p := range done.Points {
		fmt.Fprintf(s.out, "%d examples from %d shards are in %s\n", p.Examples, len(p.Shards), quote.Line(p.Out))
	}
	if key != nil {
		fmt.Fprintf(s.out, "signed by the key %s\n", key.ID())
	}
	return nil
}

// checkShards returns an error if the shards of a point are damaged, or if a shard is missing and gaps are not allowed.
func (o mergeOptions) checkShards(folders []string) error {
	shards, err := openShards(folders)
	if err != nil {
		return err
	}
	defer shards.Close()
	if gap := shards.Gaps(); gap != nil && !o.allowGaps {
		return badInput(explainGap(gap))
	}
	return nil
}
