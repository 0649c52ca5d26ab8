package spec

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/choice"
)

// Choice says which examples of another run are certified again.
type Choice string

// These are the values of Choice.
const (
	Abstained Choice = "abstained" // the other run made no prediction
	Failed    Choice = "failed"    // the other run did not certify the true class, not even at radius 0
)

// Choices lists all choices.
var Choices = choice.Of("choice", Abstained, Failed)

func (c Choice) String() string { return string(c) }

// An Only restricts a run to some of the examples of another run. The other run's results determine which examples
// these are. The parameters Skip, Max, Select and Shard then apply to the selected examples instead of the whole
// dataset. The zero value means all examples.
type Only struct {
	Choice Choice `json:"choice"`
	// Run is the ID of the other run.
	Run string `json:"run"`
	// Seeds holds the seed of the other run's noise. If the other run was itself restricted to some of the examples of
	// an earlier run, Seeds also holds the seed of the earlier run, and so on. The noise of the new run must have a
	// seed that is not in Seeds.
	Seeds []uint64 `json:"seeds"`
	// The field Of is the number of examples of the run whose results select the examples.
	Of int `json:"of"`
	// Examples are the indices of the selected examples in the dataset, in ascending order.
	Examples Indices `json:"examples"`
}

// Given reports whether the run certifies only selected examples.
func (o Only) Given() bool { return o.Choice != "" }

// IsZero reports whether the run certifies all examples. In this case, encoding/json omits the field Conditions.Only.
func (o Only) IsZero() bool { return !o.Given() }

// String describes the selection for a message.
func (o Only) String() string {
	if !o.Given() {
		return "all examples"
	}
	return fmt.Sprintf("%d examples that run %s %s", len(o.Examples), o.Run, o.Choice.Did())
}

// Did returns a verb for a message, for example "abstained on". In the message, the subject of this verb is the other
// run, and its object is the selected examples.
func (c Choice) Did() string {
	if c == Abstained {
		return "abstained on"
	}
	return "failed on"
}

// Says returns a sentence for a report. The sentence says which examples the run has.
func (o Only) Says() string {
	return fmt.Sprintf("these are %d of %d examples: only examples that run %s %s. No rate of them is a rate of the dataset",
		len(o.Examples), o.Of, o.Run, o.Choice.Did())
}

// Check returns an error unless the selection fits a dataset with the given number of examples.
func (o Only) Check(examples int) error {
	if !o.Given() {
		return nil
	}
	if _, err := Choices.Parse(string(o.Choice)); err != nil {
		return err
	}
	n := len(o.Examples)
	if n == 0 || o.Of < n || len(o.Seeds) == 0 {
		return fmt.Errorf("a selection of %d from %d examples with %d seeds is impossible", n, o.Of, len(o.Seeds))
	}
	if !slices.IsSorted(o.Examples) || len(slices.Compact(slices.Clone(o.Examples))) != n || o.Examples[0] < 0 {
		return errors.New("the selected examples are not in ascending order")
	}
	if last := o.Examples[n-1]; last >= examples {
		return fmt.Errorf("example %d is selected, and the data have %d examples", last, examples)
	}
	return nil
}

// Indices are numbers in ascending order. JSON holds them as ranges, such as "0-3,7".
type Indices []int

// MarshalJSON returns the ranges.
func (n Indices) MarshalJSON() ([]byte, error) { return json.Marshal(n.String()) }

// String returns the ranges.
func (n Indices) String() string {
	var parts []string
	for i := 0; i < len(n); {
		j := i
		for j+1 < len(n) && n[j+1] == n[j]+1 {
			j++
		}
		part := strconv.Itoa(n[i])
		if j > i {
			part += "-" + strconv.Itoa(n[j])
		}
		parts, i = append(parts, part), j+1
	}
	return strings.Join(parts, ",")
}

// maxIndices limits the number of indices, so that a damaged file cannot exhaust the memory.
const maxIndices = 1 << 24

// UnmarshalJSON parses ranges.
func (n *Indices) UnmarshalJSON(text []byte) error {
	var ranges string
	if err := json.Unmarshal(text, &ranges); err != nil {
		return err
	}
	*n = nil
	if ranges == "" {
		return nil
	}
	for part := range strings.SplitSeq(ranges, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || from < 0 || to < from || to-from >= maxIndices-len(*n) {
			return fmt.Errorf("%.40q: want a range of indices, as in 0-3", part)
		}
		for k := from; k <= to; k++ {
			*n = append(*n, k)
		}
	}
	return nil
}
