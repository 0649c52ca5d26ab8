package main

import (
	"fmt"
	"strings"
)

// probabilities says which numbers of a run are taken for the smoothed classifier's
// probabilities.
type probabilities string

const (
	voteShares probabilities = "vote-shares" // of each class
	meanScores probabilities = "mean-scores" // of the class chosen
)

// MarshalText implements encoding.TextMarshaler.
func (p probabilities) MarshalText() ([]byte, error) { return []byte(p), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *probabilities) UnmarshalText(text []byte) error {
	switch q := probabilities(text); q {
	case voteShares, meanScores:
		*p = q
		return nil
	}
	return fmt.Errorf("want %s or %s, not %q", voteShares, meanScores, text)
}

// words is the name in a sentence.
func (p probabilities) words() string { return strings.ReplaceAll(string(p), "-", " ") }
