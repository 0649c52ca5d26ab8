package main

import (
	"fmt"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/table"
	"github.com/rscert/rscert/internal/warning"
)

// leaveOutFitted leaves out the rows on which a calibration map was fitted, and says how many. It returns an error if a
// map was fitted on some rows of a cluster, but not on all its rows.
func leaveOutFitted(s streams, t *table.Table, cluster clusterOptions) (*table.Table, error) {
	if err := cluster.check(t); err != nil {
		return nil, err
	}
	rest, leftOut, err := predictions.SelectUnfitted(t)
	if err != nil {
		return nil, badInput(err)
	}
	if leftOut > 0 {
		err = s.warnf(warning.FittedRows, "%s: left out %d rows on which a calibration map was fitted (column fitted)",
			displayPath(t.Path), leftOut)
	}
	return rest, err
}

// warnOfCopies warns if rows look like copies of each other.
func warnOfCopies(s streams, path string, sample *calib.Sample) error {
	if calib.LooksCopied(sample) {
		return s.warnf(warning.CopiedRows, "%s: rows with equal scores have equal labels too often for independent rows; "+
			"are rows copied? Bounds, intervals and tests need independent rows", displayPath(path))
	}
	return nil
}

// warnOfCopiedPredictions is warnOfCopies for predictions.
func warnOfCopiedPredictions(s streams, path string, p *calib.Predictions) error {
	label := make([]float64, p.N())
	for i, right := range p.Correct {
		if right {
			label[i] = 1
		}
	}
	sample, err := calib.NewSample(p.Confidence, label)
	if err != nil {
		return nil //nolint:nilerr // without a valid sample, the program cannot test whether rows are copies
	}
	return warnOfCopies(s, path, sample)
}

// warnOfPredictions warns if predictions may belong to another run. It also warns if their rows look like copies of
// each other, or if their labels and scores look like a mistake.
func warnOfPredictions(s streams, path string, p *calib.Predictions, auroc float64) error {
	if err := warnUnboundFile(s, path); err != nil {
		return err
	}
	if err := warnOfCopiedPredictions(s, path, p); err != nil {
		return err
	}
	return warnOfSuspicions(s, path, p.Quantity, calib.Suspicions(p, auroc))
}

// warnOfSample warns if the rows of a table look like copies of each other, or if the labels and scores look like a
// mistake. The argument 'sample' holds the scores and labels to test.
func warnOfSample(s streams, path string, t *table.Table, scores predictions.Scored, sample *calib.Sample) error {
	if err := warnOfCopies(s, path, sample); err != nil {
		return err
	}
	found := sample.Suspicions(scores.Quantity())
	// If only the column 'score' holds scores, the table does not hold a probability for every class.
	if scores.Columns[0] != "score" || len(scores.Unused) > 0 {
		if _, classes, label, err := predictions.ClassScores(t); err == nil && classes > 2 {
			found = append(found, calib.SuspectLabels(label, classes)...)
		}
	}
	return warnOfSuspicions(s, path, scores.Quantity(), found)
}

// warnOfScores is warnOfSample for scores that are not perturbed yet. After the perturbation, copies differ from each
// other, and warnOfSample would not find them.
func warnOfScores(s streams, path string, t *table.Table, scores predictions.Scored) error {
	if scores.Label == nil {
		return nil
	}
	sample, err := calib.NewSample(scores.Score, scores.Label)
	if err != nil {
		return nil //nolint:nilerr // if the sample is not valid, the perturbation returns an error
	}
	return warnOfSample(s, path, t, scores, sample)
}

// warnOfSuspicions warns of labels and scores that look like a mistake.
func warnOfSuspicions(s streams, path string, q calib.Quantity, all []calib.Suspicion) error {
	for _, found := range all {
		code, text := warning.LabelMissing, ""
		switch found.Kind {
		case calib.RankedBackwards:
			code, text = warning.ScoresBackwards, fmt.Sprintf("the AUROC is %.4f: wrong answers have higher confidences than right ones", found.Value)
			if q == calib.ClassOneQuantity {
				text = fmt.Sprintf("the AUROC is %.4f: is the score the probability of class 0?", found.Value)
			}
		case calib.LikePercentages:
			code, text = warning.ScoresPercent, fmt.Sprintf("the mean score is %.3g times the share of class 1: are the scores percentages?", found.Value)
		case calib.FirstLabelAbsent:
			text = "the label 0 never occurs: do the labels begin at 1?"
		case calib.LastLabelAbsent:
			text = fmt.Sprintf("the label %.0f, the last of %.0f classes, never occurs", found.Value, found.Value+1)
		case calib.ConstantLabels:
			text = "all labels are equal: nothing tells how well the probabilities separate the classes"
		}
		if err := s.warnf(code, "%s: %s", displayPath(path), text); err != nil {
			return err
		}
	}
	return nil
}
