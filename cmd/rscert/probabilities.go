package main

import (
	"strings"

	"github.com/rscert/rscert/internal/choice"
)

// probabilities says which numbers of a run are taken for the smoothed classifier's
// probabilities.
type probabilities string

const (
	voteShares probabilities = "vote-shares" // of each class
	meanScores probabilities = "mean-scores" // of the class chosen
)

var probabilityKinds = choice.Of("probabilities", voteShares, meanScores)

func (p probabilities) String() string { return string(p) }

// words is the name in a sentence.
func (p probabilities) words() string { return strings.ReplaceAll(string(p), "-", " ") }
