package main

import (
	"fmt"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/table"
	"github.com/rscert/rscert/internal/warning"
)

// leaveOutFitted leaves out the rows on which a calibration map was fitted, and says how many.
func leaveOutFitted(s streams, t *table.Table) (*table.Table, error) {
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

// warnOfCopiedScores is warnOfCopies for scores that are not perturbed yet. Perturbed copies differ from each other, so
// nothing finds them.
func warnOfCopiedScores(s streams, path string, scores predictions.Scored) error {
	sample, err := calib.NewSample(scores.Score, scores.Label)
	if err != nil {
		return nil //nolint:nilerr // rows without labels cannot be tested for copies
	}
	return warnOfCopies(s, path, sample)
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
		return nil //nolint:nilerr // such rows cannot be tested for copies
	}
	return warnOfCopies(s, path, sample)
}

// warnOfPredictions warns if the rows of predictions may be of another run or copies of each other, or if labels and
// scores look like a mistake.
func warnOfPredictions(s streams, path string, p *calib.Predictions, auroc float64) error {
	if err := warnUnboundFile(s, path); err != nil {
		return err
	}
	if err := warnOfCopiedPredictions(s, path, p); err != nil {
		return err
	}
	return warnOfSuspicions(s, path, p, auroc)
}

// warnOfSuspicions warns of labels and scores that look like a mistake.
func warnOfSuspicions(s streams, path string, p *calib.Predictions, auroc float64) error {
	for _, found := range calib.Suspicions(p, auroc) {
		code, text := warning.LabelMissing, ""
		switch found {
		case calib.RankedBackwards:
			code, text = warning.ScoresBackwards, fmt.Sprintf("the AUROC is %.4f: wrong answers have higher confidences than right ones", auroc)
			if p.Quantity == calib.ClassOneQuantity {
				text = fmt.Sprintf("the AUROC is %.4f: is the score the probability of class 0?", auroc)
			}
		case calib.FirstLabelAbsent:
			text = "the label 0 never occurs: do the labels begin at 1?"
		case calib.LastLabelAbsent:
			text = fmt.Sprintf("the label %d, the last of %d classes, never occurs", p.Classes-1, p.Classes)
		case calib.ConstantLabels:
			text = "all labels are equal: nothing tells how well the probabilities separate the classes"
		}
		if err := s.warnf(code, "%s: %s", displayPath(path), text); err != nil {
			return err
		}
	}
	return nil
}
