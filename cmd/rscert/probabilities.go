package main

import (
	"strings"

	"github.com/rscert/rscert/internal/choice"
)

// probabilities selects which numbers of a run serve as the probabilities of the smoothed classifier.
type probabilities string

const (
	voteShares probabilities = "vote-shares" // a probability for each class
	meanScores probabilities = "mean-scores" // a probability only for the class that the run tried to certify
)

var probabilityKinds = choice.Of("probabilities", voteShares, meanScores).Describe(func(p probabilities) string {
	return map[probabilities]string{voteShares: "a probability for every class", meanScores: "a probability only for the class that the run tried to certify"}[p]
})

func (p probabilities) String() string { return string(p) }

// words returns the name with a space in place of the hyphen, for use in a sentence.
func (p probabilities) words() string { return strings.ReplaceAll(string(p), "-", " ") }
