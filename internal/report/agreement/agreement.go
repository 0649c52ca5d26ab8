// Package agreement counts the votes that differ between two runs of one experiment. Such runs have the same model,
// data, σ and seed, and therefore the same noisy inputs. They differ in their devices, precisions or libraries. Their
// votes differ where rounding decides between two classes. Both runs are valid.
package agreement

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/report/summary"
	"github.com/rscert/rscert/internal/runfolder"
)

// Agreement compares the results of two runs on the examples common to both.
type Agreement struct {
	First  Side `json:"first"`
	Second Side `json:"second"`
	// Differences are the differences in the software and hardware of the runs.
	Differences []runfolder.Difference `json:"differences"`

	Examples int `json:"examples"` // number of examples in both runs
	// Samples is the number of samples that both runs drew of these examples, for the selection and for the estimation.
	Samples int64 `json:"samples"`
	Votes   Votes `json:"votes"`
	// OtherCounts is the number of examples whose vote counts differ between the runs.
	OtherCounts int `json:"examples_with_other_counts"`
	// OtherSamples is the number of examples for which the runs drew different numbers of samples.
	OtherSamples int `json:"examples_with_other_n"`
	// OtherTop is the number of examples for which the class with the most selection votes differs between the runs. In
	// runs without selection, estimation votes count instead.
	OtherTop int `json:"examples_with_other_top_class"`
	// OtherClass is the number of examples for which the two runs certify different classes.
	OtherClass int `json:"examples_with_other_certified_class"`
	// AbstainedFirst is the number of examples for which only the first run abstains. AbstainedSecond is the number of
	// examples for which only the second run abstains.
	AbstainedFirst  int `json:"abstained_in_first_only"`
	AbstainedSecond int `json:"abstained_in_second_only"`
	// OtherRadius is the number of examples for which both runs certify the same class, but different radii. Largest
	// describes the example with the largest difference.
	OtherRadius int     `json:"examples_with_other_radius"`
	Largest     *Radii  `json:"largest_radius_difference,omitempty"`
	Changed     []Class `json:"changed"` // examples counted in OtherTop, OtherClass, AbstainedFirst or AbstainedSecond
}

// Side describes one of the two runs.
type Side struct {
	Run    string `json:"run"`
	Device string `json:"device"`
	// GPUs are the names of the run's GPUs without duplicates. A run has several GPUs if it was resumed on another GPU,
	// or if its shards used different GPUs.
	GPUs      []string `json:"gpus,omitempty"`
	Precision string   `json:"precision"`
	Provider  string   `json:"provider"`
	Library   string   `json:"library"` // ONNX Runtime's version
	Examples  int      `json:"examples"`
	Only      int      `json:"examples_only_here"`
}

// Class holds the classes that two runs give to one example.
type Class struct {
	Index  int `json:"index"`
	Label  int `json:"label"`
	First  int `json:"first"` // certified class, −1 for abstained
	Second int `json:"second"`
	// TopFirst is the class with the most votes in the first run, and TopSecond is the class with the most votes in the
	// second run (Agreement.OtherTop).
	TopFirst  int `json:"top_first"`
	TopSecond int `json:"top_second"`
}

// Radii holds the radii that two runs certify for one example.
type Radii struct {
	Index  int     `json:"index"`
	First  float64 `json:"first"`
	Second float64 `json:"second"`
}

func (r Radii) difference() float64 { return max(r.First-r.Second, r.Second-r.First) }

// Votes counts the samples on which the two runs vote differently.
type Votes struct {
	// Source is "scores" for a comparison sample by sample, and "counts" if only the sums of votes are known.
	Source Source `json:"source"`
	// AtLeast is a lower bound on the number of samples with different votes. For a comparison of counts, AtLeast adds
	// up Σ_k max(0, a_k − b_k) over the examples. Here a_k and b_k are the numbers of votes for class k in the two
	// runs. Votes that change in opposite directions cancel in the counts, so the true number can be far larger.
	AtLeast int64 `json:"at_least"`
	// AtMost is an upper bound on the number of samples with different votes. AtMost is set only for a comparison of
	// scores. AtMost counts two kinds of samples: samples whose votes are known and differ, and samples whose vote is
	// unknown in at least one run because the largest scores are tied.
	AtMost *int64 `json:"at_most,omitempty"`
	// Rate is AtLeast as a rate per 100,000 samples: 100,000·AtLeast divided by the number of compared samples.
	Rate float64 `json:"at_least_per_100000"`
	// The interval from Low to High is a Clopper–Pearson interval for the expected rate: the mean rate if both runs
	// were repeated on the same examples with new noise. High is nil for a comparison of counts.
	Level float64  `json:"level"`
	Low   float64  `json:"low_per_100000"`
	High  *float64 `json:"high_per_100000,omitempty"`
}

// Source is the data behind a comparison of votes.
type Source string

// These are the sources of a comparison.
const (
	FromCounts Source = "counts"
	FromScores Source = "scores"
)

// The constant 'per' is the number of samples to which a rate refers.
const per = 100_000

// Level is the confidence level of the interval of the rate.
const Level = 0.95

// IncomparableError names the differences that forbid a comparison of two runs. Differences in software and hardware do
// not forbid it.
type IncomparableError struct {
	First, Second string
	Differences   []string
}

func (e *IncomparableError) Error() string {
	return fmt.Sprintf("%s and %s are not the same experiment: %s", e.First, e.Second, strings.Join(e.Differences, "; "))
}

// Hint says which runs can be compared.
func (e *IncomparableError) Hint() string { return e.SpellHint(param.Plain) }

// SpellHint returns the text of Hint. The function s spells the names of parameters in this text.
func (*IncomparableError) SpellHint(s param.Spelling) string {
	return param.Textf("compare is for one experiment on two devices, in two precisions or by two libraries: certify both with the same "+
		"%s and flags; 'rscert report RUN %s RUN' compares models", param.Seed, param.Baseline).Spell(s)
}

// Compare compares two runs example by example. If both runs saved their scores, Compare compares the votes sample by
// sample. During this comparison, Compare calls the function 'done' after each example.
func Compare(ctx context.Context, first, second summary.Source, done func()) (Agreement, error) {
	for _, s := range []summary.Source{first, second} {
		if s.Run == nil {
			return Agreement{}, hint.New(fmt.Sprintf("%s: is no run folder", s.Path), "compare needs what run.json says of both runs")
		}
	}
	a := Agreement{First: side(first), Second: side(second), Differences: []runfolder.Difference{}, Changed: []Class{}}
	if err := a.conditions(first, second); err != nil {
		return a, err
	}
	pairs, err := a.pair(first, second)
	if err != nil {
		return a, err
	}
	for _, p := range pairs {
		a.add(p)
	}
	a.Votes = Votes{Source: FromCounts, AtLeast: sumCounts(pairs)}
	if first.Run.Parameters.SaveScores && second.Run.Parameters.SaveScores {
		if a.Votes, err = fromScores(ctx, first.Path, second.Path, pairs, done); err != nil {
			return a, err
		}
	}
	a.Votes.estimate(a.Samples)
	return a, nil
}

func side(s summary.Source) Side {
	r := s.Run
	return Side{Run: s.Path, Device: r.Runtime.Device, GPUs: r.Runtime.Kinds(), Precision: r.Parameters.Precision.String(), Provider: r.Runtime.Provider,
		Library: r.Runtime.Library, Examples: len(s.Certificates)}
}

// The method 'conditions' records the differences in the software and hardware of the runs. It returns an error if the
// runs are of different experiments, for example if they have different models or seeds.
func (a *Agreement) conditions(first, second summary.Source) error {
	var refused []string
	for _, d := range first.Run.Differences(*second.Run) {
		switch d.Of {
		case runfolder.OfResults:
			refused = append(refused, fmt.Sprintf("%s is %s and %s", d.What, d.First, d.Second))
		case runfolder.OfComputation:
			a.Differences = append(a.Differences, d)
		}
	}
	if x, y := first.Run.Data.Reading(), second.Run.Data.Reading(); x != y {
		refused = append(refused, fmt.Sprintf("the data are read with %s and %s", x, y))
	}
	if len(refused) > 0 {
		return &IncomparableError{first.Path, second.Path, refused}
	}
	return nil
}

// pair is an example in both runs.
type pair struct {
	first, second example
}

// example holds the results of one run for an example.
type example struct {
	certify.Votes
	certificate certify.Certificate
}

// examples returns a run's examples, sorted by index. It returns an error if a certificate has no votes.
func examples(s summary.Source) ([]example, error) {
	votes := make(map[int]certify.Votes, len(s.Votes))
	for _, v := range s.Votes {
		votes[v.Index] = v
	}
	all := make([]example, len(s.Certificates))
	for i, c := range s.Certificates {
		v, found := votes[c.Index]
		if !found || v.Label != c.Label || v.N != c.N {
			return nil, fmt.Errorf("%s: example %d has a certificate without its votes", s.Path, c.Index)
		}
		all[i] = example{v, c}
	}
	slices.SortFunc(all, func(a, b example) int { return cmp.Compare(a.Index, b.Index) })
	return all, nil
}

// The method 'pair' returns the examples that are in both runs.
func (a *Agreement) pair(first, second summary.Source) ([]pair, error) {
	var pairs []pair
	all, err := examples(first)
	if err != nil {
		return nil, err
	}
	rest, err := examples(second)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		i, found := slices.BinarySearchFunc(rest, e.Index, func(e example, index int) int { return cmp.Compare(e.Index, index) })
		if found {
			if e.Label != rest[i].Label {
				return nil, &IncomparableError{first.Path, second.Path,
					[]string{fmt.Sprintf("example %d has the labels %d and %d", e.Index, e.Label, rest[i].Label)}}
			}
			pairs = append(pairs, pair{first: e, second: rest[i]})
			i++
		}
		rest = rest[i:]
	}
	if len(pairs) == 0 {
		return nil, hint.Add(fmt.Errorf("%s and %s have no example in common", first.Path, second.Path),
			"certify the same examples: %s, %s, %s and %s choose them", param.Skip, param.Max, param.Select, param.Shard)
	}
	a.Examples = len(pairs)
	a.First.Only, a.Second.Only = a.First.Examples-len(pairs), a.Second.Examples-len(pairs)
	return pairs, nil
}

// The method 'add' counts the differences between the results of the two runs for one example.
func (a *Agreement) add(p pair) {
	x, y := p.first, p.second
	a.Samples += min(x.N0, y.N0) + min(x.N, y.N)
	// The votes for no class (None and None0) need no comparison. The estimation votes of an example add up to N, and
	// its selection votes add up to N0. N0 is the same in both runs. So if None or None0 differs, then Counts, Counts0
	// or N differs, too.
	if !slices.Equal(x.Counts, y.Counts) || !slices.Equal(x.Counts0, y.Counts0) || x.N != y.N {
		a.OtherCounts++
	}
	if x.N != y.N {
		a.OtherSamples++
	}
	a.addClass(Class{Index: x.Index, Label: x.Label, First: x.certificate.Prediction, Second: y.certificate.Prediction,
		TopFirst: x.top(), TopSecond: y.top()})
	r := Radii{x.Index, x.certificate.Radius, y.certificate.Radius}
	if x.certificate.Prediction != y.certificate.Prediction || r.First == r.Second {
		return
	}
	a.OtherRadius++
	if a.Largest == nil || r.difference() > a.Largest.difference() {
		a.Largest = &r
	}
}

func (a *Agreement) addClass(c Class) {
	switch {
	case c.First == c.Second:
	case c.First == certify.Abstained:
		a.AbstainedFirst++
	case c.Second == certify.Abstained:
		a.AbstainedSecond++
	default:
		a.OtherClass++
	}
	if c.TopFirst != c.TopSecond {
		a.OtherTop++
	}
	if c.First != c.Second || c.TopFirst != c.TopSecond {
		a.Changed = append(a.Changed, c)
	}
}

// top returns the class with the most selection votes. If there was no selection, estimation votes count instead. In a
// tie, the class with the lowest number wins.
func (e example) top() int {
	v := e.Votes
	if v.Counts0 == nil {
		v.Counts0 = v.Counts
	}
	top, _ := v.Elected(certify.Predicted) // cannot fail: there are counts
	return top
}

// The method 'estimate' computes the fields Level, Rate, Low and High from the counts AtLeast and AtMost.
func (v *Votes) estimate(samples int64) {
	const alpha = (1 - Level) / 2
	v.Level = Level
	v.Rate = per * float64(v.AtLeast) / float64(samples)
	v.Low = per * binomial.LowerBound(v.AtLeast, samples, alpha)
	if v.AtMost != nil {
		high := per * binomial.UpperBound(*v.AtMost, samples, alpha)
		v.High = &high
	}
}
