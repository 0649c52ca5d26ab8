package spec

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/choice"
)

// Selection is the rule that selects examples if Conditions.Max limits the number of examples.
type Selection uint8

// These are the ways of selecting examples.
const (
	First  Selection = iota // the first examples
	Spread                  // one example from each of Max consecutive parts of the dataset; suits data sorted by class
)

// Selections lists all selections.
var Selections = choice.Of("selection", First, Spread).Describe(func(s Selection) string {
	return [...]string{First: "the first examples", Spread: "examples spread over the whole dataset"}[s]
})

func (s Selection) String() string {
	if s == Spread {
		return "spread"
	}
	return "first"
}

// MarshalText writes the name.
func (s Selection) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses a name.
func (s *Selection) UnmarshalText(text []byte) error { return Selections.Unmarshal(text, s) }

// Shard is part I of a run that is divided into K parts. The examples of a run are numbered from 0 in the run's order.
// The shard contains the examples whose number is I modulo K.
type Shard struct{ I, K int }

// Whole is the shard that covers the whole run.
var Whole = Shard{0, 1}

// UnmarshalText parses i/k with 0 ≤ i < k.
func (s *Shard) UnmarshalText(text []byte) error {
	a, b, ok := strings.Cut(string(text), "/")
	i, err1 := strconv.Atoi(a)
	k, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || k < 1 || i < 0 || i >= k {
		return fmt.Errorf("%q: want i/k with 0 ≤ i < k, as in 0/4", text)
	}
	*s = Shard{i, k}
	return nil
}

// MarshalText returns the form i/k.
func (s Shard) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.I, s.K) }

// Compare orders shards by I and then by K.
func (s Shard) Compare(t Shard) int { return cmp.Or(s.I-t.I, s.K-t.K) }
