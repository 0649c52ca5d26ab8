package gate

import (
	"cmp"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/decimal"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/report/summary"
)

// Comparison compares a run with a baseline on the same examples.
type Comparison struct {
	Run      string  `json:"run"`
	Baseline string  `json:"baseline"`
	Examples int     `json:"examples"`
	Level    float64 `json:"level"` // confidence level of each interval
	// Accuracy holds the change of the certified accuracy at each radius.
	Accuracy []AccuracyChange `json:"certified_accuracy"`
	Radius   RadiusChange     `json:"average_certified_radius"`
	// ByHash means that the data of the two runs have the same SHA-256. If ByHash is false, only the indices and labels
	// are known to agree.
	ByHash bool `json:"same_data_by_hash"`
	// Norm is the norm of all radii.
	Norm law.Norm `json:"norm"`
	// Cautions says where the runs have too few examples or too few differences, and where the interval of a change is
	// wider than the change.
	Cautions []summary.Caution `json:"cautions,omitempty"`
	// RadiiFromResults means that the user gave no radii. The radii in the field Accuracy then depend on the results.
	// The adjusted p-values do not allow for this: Holm's procedure is valid only for tests that were chosen before the
	// results were known.
	RadiiFromResults bool `json:"radii_from_results,omitempty"`
	// RadiusTitle names a radius with its norm, for example "L2 radius".
	RadiusTitle string `json:"-"`
	// Path is the path of the run.
	Path string `json:"-"`
}

// AccuracyChange is the change of the certified accuracy at a radius.
type AccuracyChange struct {
	Radius   float64 `json:"radius"`
	Baseline float64 `json:"baseline"`
	This     float64 `json:"this"`
	Lost     int     `json:"lost"`   // examples that only the baseline certifies correctly
	Gained   int     `json:"gained"` // examples that only this run certifies correctly
	Change   float64 `json:"change"` // (Gained − Lost)/Examples
	// The interval from Low to High is a betting interval. It is for the change of the certified accuracy in the
	// population from which the examples were drawn.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// P is the p-value of McNemar's exact test, two-sided (binomial.McNemar).
	P float64 `json:"p"`
	// Adjusted is the p-value after Holm's procedure. The procedure covers all rows that the reader sees together (see
	// the function 'holm'). Differs means that Adjusted is at most 1 − Level: the data show a difference.
	Adjusted float64 `json:"adjusted_p"`
	Differs  bool    `json:"differs"`
}

// The method 'drop' returns the loss of accuracy as an exact fraction.
func (a AccuracyChange) drop(examples int) *big.Rat {
	return big.NewRat(int64(a.Lost-a.Gained), int64(examples))
}

// RadiusChange is the change of the average certified radius.
type RadiusChange struct {
	Baseline float64 `json:"baseline"`
	This     float64 `json:"this"`
	Change   float64 `json:"change"`
	// The interval from Low to High is a betting interval of the mean difference between the two radii of an example. P
	// is the p-value of the hypothesis that this mean is 0. It comes from the same bets as the interval. Low, High and
	// P are nil if the largest possible radius of a run is not known beforehand.
	Low  *float64 `json:"low,omitempty"`
	High *float64 `json:"high,omitempty"`
	P    *float64 `json:"p,omitempty"`
}

// IncomparableError names differences between two runs. The comparison is refused, because it would attribute the
// effect of these differences to the model.
type IncomparableError struct {
	Run, Baseline string
	Differences   []param.Text
}

func (e *IncomparableError) Error() string { return e.Spell(param.Plain) }

// Spell returns the text of Error. The function s spells the names of parameters in this text.
func (e *IncomparableError) Spell(s param.Spelling) string {
	var all []string
	for _, d := range e.Differences {
		all = append(all, d.Spell(s))
	}
	return fmt.Sprintf("%s cannot be compared with the baseline %s: %s", e.Run, e.Baseline, strings.Join(all, "; "))
}

// Hint tells the user how to get comparable runs.
func (*IncomparableError) Hint() string {
	return "certify both on the same examples under the same conditions; 'rscert report A B' shows any runs side by side"
}

// dealSeed fixes the random order of the examples in a betting interval.
const dealSeed = 1

// Compare compares a run with a baseline, example by example. The adjustment of the p-values covers only this
// comparison. If a reader sees several comparisons, call Adjust once with all of them.
func Compare(baseline, this summary.Summary) (Comparison, error) {
	for _, s := range []summary.Summary{baseline, this} {
		if s.Selected > s.Examples {
			return Comparison{}, &UnfinishedError{s.Path, s.Examples, s.Selected}
		}
	}
	if d := differences(baseline, this); len(d) > 0 {
		return Comparison{}, &IncomparableError{this.Path, baseline.Path, d}
	}
	c := compare(baseline, this)
	all := []Comparison{c}
	Adjust(all)
	return all[0], nil
}

// compare compares two runs on the same examples.
func compare(baseline, this summary.Summary) Comparison {
	before, after := byIndex(baseline.Rows), byIndex(this.Rows)
	c := Comparison{Run: this.Name, Baseline: baseline.Name, Examples: this.Examples, Level: this.Level,
		ByHash: baseline.Run != nil && this.Run != nil, Norm: this.Conditions.Norm, RadiusTitle: this.Conditions.RadiusTitle(), Path: this.Path,
		RadiiFromResults: this.RoundRadii}
	for _, p := range this.Curve {
		c.Accuracy = append(c.Accuracy, c.accuracy(before, after, p.Radius))
	}
	c.Radius = c.radius(before, after, baseline.AverageRadius, this.AverageRadius)
	change := new(big.Rat).Sub(this.SumOfRadii(0), baseline.SumOfRadii(0))
	c.Radius.Change = decimal.Float(change.Quo(change, big.NewRat(int64(c.Examples), 1)))
	return c
}

func byIndex(rows []summary.Row) []summary.Row {
	return slices.SortedFunc(slices.Values(rows), func(a, b summary.Row) int { return cmp.Compare(a.Index, b.Index) })
}

// The method 'accuracy' compares the certified accuracies at a radius.
func (c Comparison) accuracy(before, after []summary.Row, radius float64) AccuracyChange {
	right := func(r summary.Row) bool { return r.Correct && r.Radius >= radius }
	a := AccuracyChange{Radius: radius}
	was, is := 0, 0
	changes := make([]float64, len(before))
	for i := range before {
		b, n := right(before[i]), right(after[i])
		switch {
		case b && !n:
			a.Lost++
			changes[i] = -1
		case n && !b:
			a.Gained++
			changes[i] = 1
		}
		if b {
			was++
		}
		if n {
			is++
		}
	}
	a.Baseline, a.This = float64(was)/float64(len(before)), float64(is)/float64(len(after))
	a.Change = float64(a.Gained-a.Lost) / float64(len(before))
	a.Low, a.High = meanChange(changes, 1, 1, 1-c.Level)
	a.P = binomial.McNemar(int64(a.Lost), int64(a.Gained))
	return a
}

// The method 'radius' compares the certified radii of the two runs, example by example.
func (c Comparison) radius(before, after []summary.Row, was, is summary.Average) RadiusChange {
	r := RadiusChange{Baseline: was.Value, This: is.Value}
	changes := make([]float64, len(before))
	for i := range before {
		changes[i] = after[i].CertifiedRadius() - before[i].CertifiedRadius()
	}
	if was.Largest == nil || is.Largest == nil {
		return r
	}
	low, high := meanChange(changes, *was.Largest, *is.Largest, 1-c.Level)
	p := calib.MeanPValue(len(changes), unitScale(changes, *was.Largest, *is.Largest), *was.Largest/(*was.Largest+*is.Largest), 1-c.Level, dealSeed)
	r.Low, r.High, r.P = &low, &high, &p
	return r
}

// unitScale returns a function that scales the i-th change from [−down, up] to [0, 1].
func unitScale(changes []float64, down, up float64) func(i int) float64 {
	return func(i int) float64 { return min(1, max(0, (changes[i]+down)/(down+up))) }
}

// meanChange returns a betting interval at level 1 − alpha for the mean of independent, identically distributed changes
// in [−down, up]. A change is the difference between the two runs in one example. For radii, it is the difference
// between the two radii. For the certified accuracy, it is −1 (lost), 0 or 1 (gained). So variation that is common to
// both runs cancels. meanChange maps the changes to [0, 1], because the betting interval needs such values. It widens
// the interval by the rounding error of the mapping.
func meanChange(changes []float64, down, up, alpha float64) (low, high float64) {
	low, high = calib.MeanInterval(len(changes), unitScale(changes, down, up), alpha, dealSeed)
	const rounding = 1e-12
	return max(-down, (down+up)*(low-rounding)-down), min(up, (down+up)*(high+rounding)-down)
}

// mayDiffer lists parameters. The function 'differences' does not compare their values in run.json. Most of them do not
// affect the meaning or the failure probability of the certificates, so a run and its baseline may differ in them.
var mayDiffer = map[param.Name]bool{
	// The next three parameters say how to read the model file, so they change with the model.
	"outputs": true, "scores-output": true, "layout": true,
	"denoiser-kind": true, "denoiser-range": true, "diffusion-schedule": true, // the denoiser is part of the model
	"seed": true, // another seed draws other noise from the same law
	// these choose the examples, and exampleDifference compares those
	"skip": true, "max": true, "select": true, "shard": true,
	"save-scores": true,                                         // this decides only what the run stores
	"confidence":  true, "confidence-bound": true, "band": true, // a Comparison has no bounds on confidence
	"prefer-nhwc": true, "conv-search": true, // these change only the order of sums, not the precision
	// The certificates state the following settings, too. The function 'differences' compares the values in the
	// certificates.
	"method": true, "margin": true, "sigma": true, "alpha": true, "lipschitz": true,
}

// differences describes the differences between the runs. It does not compare their models.
func differences(baseline, this summary.Summary) (d []param.Text) {
	differ := func(what any, then, now any) {
		if !reflect.DeepEqual(then, now) {
			d = append(d, param.Textf("%s: %s there, %s here", what, show(then), show(now)))
		}
	}
	a, b := baseline.Conditions, this.Conditions
	if baseline.Run != nil && this.Run != nil {
		if x, y := a.Data.SHA256, b.Data.SHA256; x != y {
			d = append(d, param.Textf("data: %s (SHA-256 %.12s…) there, %s (%.12s…) here", a.Data.File, x, b.Data.File, y))
		}
		differ("how the data are read", baseline.Run.Data.Options, this.Run.Data.Options)
		for _, p := range baseline.Run.Parameters.Differences(this.Run.Parameters) {
			if !mayDiffer[p.Name] {
				differ(p.Name, p.First, p.Second)
			}
		}
	} else {
		differ("kind of evidence", baseline.Kind, this.Kind)
		differ("n", a.N, b.N)
	}
	differ("method", a.Method, b.Method)
	differ("margin", a.MarginKind, b.MarginKind)
	differ("law", a.Law, b.Law)
	differ("norm", a.Norm, b.Norm)
	differ("claim", a.Says(), b.Says())
	differ("scaled", a.Scaled, b.Scaled)
	if a.Scaled && b.Scaled && (baseline.Run == nil || this.Run == nil) && !summary.SameScales(baseline, this) {
		d = append(d, param.Textf("the σ of each column: a file of certificates does not say it; compare the run folders"))
	}
	differ("sigma", a.Sigma, b.Sigma)
	differ("alpha", a.Alpha, b.Alpha)
	differ("sound", a.Sound, b.Sound)
	differ("arithmetic", a.Arithmetic, b.Arithmetic)
	differ("lipschitz", a.Lipschitz, b.Lipschitz)
	return append(d, exampleDifference(baseline.Rows, this.Rows)...)
}

func show(v any) string {
	if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && !p.IsNil() {
		v = p.Elem().Interface()
	}
	if s := fmt.Sprint(v); s != "" && s != "<nil>" {
		return s
	}
	return "nothing"
}

// exampleDifference describes the first difference between the examples of the two runs: an example that only one run
// has, or an example with different labels. If one run has all examples of the other run and then further ones, the
// text gives the two numbers of examples.
func exampleDifference(baseline, this []summary.Row) []param.Text {
	before, after := byIndex(baseline), byIndex(this)
	for i := range min(len(before), len(after)) {
		switch b, a := before[i], after[i]; {
		case b.Index < a.Index:
			return []param.Text{param.Textf("examples: %d is there and not here", b.Index)}
		case b.Index > a.Index:
			return []param.Text{param.Textf("examples: %d is here and not there", a.Index)}
		case b.Label != a.Label:
			return []param.Text{param.Textf("labels: example %d has %d there and %d here", a.Index, b.Label, a.Label)}
		}
	}
	if len(before) != len(after) {
		return []param.Text{param.Textf("examples: %d there, %d here", len(before), len(after))}
	}
	return nil
}

// Drop is the largest allowed loss of certified accuracy at any radius of a comparison.
type Drop struct {
	text string
	most *big.Rat
}

// UnmarshalText reads a fraction of the examples, such as 0.01.
func (d *Drop) UnmarshalText(text []byte) error {
	most, err := parseNumber(string(text))
	if err == nil && most.Cmp(big.NewRat(1, 1)) > 0 {
		err = fmt.Errorf("%s is a share from 0 to 1: one point is 0.01", text)
	}
	if err == nil {
		*d = Drop{string(text), most}
	}
	return err
}

func (d Drop) String() string { return d.text }

// MarshalText returns the fraction as UnmarshalText read it.
func (d Drop) MarshalText() ([]byte, error) { return []byte(d.text), nil }

// Given reports whether an allowed loss was given.
func (d Drop) Given() bool { return d.most != nil }

// Check returns an outcome for each radius: whether the loss of accuracy on these examples is at most the allowed loss.
// It compares the two losses in exact arithmetic.
func (d Drop) Check(c Comparison) []Outcome {
	var outcomes []Outcome
	for _, a := range c.Accuracy {
		drop := a.drop(c.Examples)
		near, _ := drop.Float64()
		off := new(big.Rat).Sub(drop, d.most)
		o := Outcome{Requirement: fmt.Sprintf("drop of certified-accuracy@%v below %s<=%s", a.Radius, c.Baseline, d.text),
			Run: c.Run, Path: c.Path, Met: off.Sign() <= 0, Value: &near,
			Says: fmt.Sprintf("%s (%d lost, %d gained of %d, McNemar's p = %.2g)",
				decimals(drop, places(off)), a.Lost, a.Gained, c.Examples, a.P)}
		if !o.Met {
			o.Says += ", " + decimals(off, places(off)) + " too much"
		}
		outcomes = append(outcomes, o)
	}
	return outcomes
}
