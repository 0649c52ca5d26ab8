package main

import (
	"strings"

	"github.com/rscert/rscert/internal/choice"
)

// probabilities selects the numbers of a run that stand for the smoothed classifier's probabilities.
type probabilities string

const (
	voteShares probabilities = "vote-shares" // for each class
	meanScores probabilities = "mean-scores" // for the chosen class only
)

var probabilityKinds = choice.Of("probabilities", voteShares, meanScores)

func (p probabilities) String() string { return string(p) }

// words returns the name for a sentence.
func (p probabilities) words() string { return strings.ReplaceAll(string(p), "-", " ") }
