package main

import (
	"context"
	"fmt"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/runfolder"
)

// These constants are parameters of the table that the function 'digits' prints.
const (
	datasetDelta = 0.05
	threshold    = 0.7
)

// digits compares certification by votes with certification by scores. It uses the saved scores of one run. For each
// method, it also bounds the confidences of the certified classes.
func digits(path string) error {
	evidence, err := runfolder.Find(path)
	if err != nil {
		return err
	}
	if evidence.Run == nil {
		return fmt.Errorf("%s: is no run folder", path)
	}
	p := evidence.Run.Parameters
	end := marked("digits", "")
	fmt.Printf("| class certified by | R | certified | mean width | CBS | CCE | CCE, all | error at τ = %v | all |\n", threshold)
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, method := range []certify.VoteMethod{certify.ExactMargin, certify.ClopperPearson, ""} {
		target, err := evidence.Target(runfolder.Given{})
		if err != nil {
			return err
		}
		found, err := run.BoundConfidence(context.Background(), run.SavedScores{
			Evidence: evidence, Votes: method, Temperature: 1,
			Params: certify.ScoreParams{
				Target: target, Bound: certify.Betting, Combine: certify.Directed,
				Confidence: certify.ConfidenceParams{Radii: p.ConfidenceRadii, Method: certify.ConfidenceTangent, Bound: certify.Betting},
			},
		}, progress.Options{Quiet: true})
		if err != nil {
			return err
		}
		name := "votes, `" + found.Class + "`"
		if method == "" {
			name = "scores, `" + found.Class + "`"
		}
		if err := digitRows(name, found, target.Alpha); err != nil {
			return err
		}
	}
	end()
	return nil
}

// digitRows prints one row of the table for each radius.
func digitRows(name string, found run.Confidence, alpha float64) error {
	var b calib.BoundRows
	for _, r := range found.Bounds {
		number := map[bool]float64{true: 1}
		b.Lower, b.Upper, b.Correct = append(b.Lower, r.Lower), append(b.Upper, r.Upper), append(b.Correct, number[r.Correct])
		b.Radius, b.Certified = append(b.Radius, r.Radius), append(b.Certified, number[r.Certified])
	}
	groups, err := b.ByRadius(nil)
	if err != nil {
		return err
	}
	m, err := calib.NewBins(bins)
	if err != nil {
		return err
	}
	up := func(x float64) string { return report.Round(x, report.Up, 0, 4) }
	for i, g := range groups {
		n := len(g.Intervals)
		cbs, err := calib.CBS(g.Intervals)
		if err != nil {
			return err
		}
		cce, err := calib.CCE(g.Intervals, m)
		if err != nil {
			return err
		}
		all, err := calib.StateForAll(calib.AttackBounds{CBS: cbs, CCE: &cce.Value}, n, calib.RowWeights{}, calib.Sampled{Examples: found.Examples}, alpha, datasetDelta)
		if err != nil {
			return err
		}
		t := g.Threshold(threshold, found.Examples-n-len(g.Uncertified))
		fmt.Printf("| %s | %v | %d (%.1f %%) | %.4f | %s | %s | %s | %s | %s |\n", name, g.Radius, n, 100*float64(n)/float64(found.Examples),
			found.Radii[i].Width, up(cbs), up(cce.Value), up(*all.CCE), up(t.Error(0)), up(t.Error(all.Failures)))
	}
	return nil
}
