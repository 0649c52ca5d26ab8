package gate

import (
	"fmt"
	"math"
	"math/big"
	"strings"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/decimal"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/summary"
)

// Outcome is the result of checking a requirement against a run.
type Outcome struct {
	Requirement string `json:"requirement"`
	Run         string `json:"run"`
	Met         bool   `json:"met"`
	// Value is rounded to the nearest float64 for display. The check compares the exact value with the bound of the
	// requirement. Value is nil if nothing is certified.
	Value *float64 `json:"value"`
	// The field Says is a line of text. It gives the value and, if the requirement is unmet, the distance of the value
	// from the bound.
	Says string `json:"says"`
	// Choice is set for a requirement on the best of several runs. The field Run then names the best run.
	Choice *Choice `json:"choice,omitempty"`
	// Path is the path of the run.
	Path string `json:"-"`
}

// NotKnownError means that the results do not suffice to check a requirement.
type NotKnownError struct {
	Requirement, Run string
	err              error
	measured         bool // 'Requirement' holds only a quantity, without a bound
}

func (e *NotKnownError) Error() string { return e.Spell(param.Plain) }

// Spell returns the text of Error, with the parameter names spelled by s.
func (e *NotKnownError) Spell(s param.Spelling) string {
	if e.measured {
		return param.Textf("%s: %s: %w", e.Run, e.Requirement, e.err).Spell(s)
	}
	return param.Textf("%s: %s %s: %w", e.Run, param.Require, e.Requirement, e.err).Spell(s)
}

func (e *NotKnownError) Unwrap() error { return e.err }

// Hint returns advice for the user.
func (e *NotKnownError) Hint() string { return e.SpellHint(param.Plain) }

// SpellHint returns the text of Hint, with the parameter names spelled by s.
func (e *NotKnownError) SpellHint(s param.Spelling) string {
	if e.err == errNoneCertified {
		return "take a smaller radius, or certify with more samples or a larger σ"
	}
	if e.err == errOneRun {
		return "name several runs, and the best one counts; a requirement without best: tests each run by itself"
	}
	if e.err == errNoGroups || e.err == errNoParts {
		return "make groups: " + s(param.Group) + " label groups by the true class; 'rscert ce' also bounds the error of each class"
	}
	if e.err == errNoBounds {
		return "bound the confidence at this radius: rscert certify " + s(param.ConfidenceRadii)
	}
	if e.err == errNoRadius {
		return "add a column radius that holds the radius of each row's bounds, and name this radius in the requirement"
	}
	return "a requirement is on what the run holds: see 'rscert report " + e.Run + "'"
}

// Check checks all requirements against each run in turn. It returns an error if a run is unfinished or lacks a
// required value, because the requirement is then neither met nor failed.
func Check(requirements []Requirement, runs ...summary.Summary) ([]Outcome, error) {
	var outcomes []Outcome
	for _, s := range runs {
		if len(requirements) > 0 && s.Selected > s.Examples {
			return nil, &UnfinishedError{s.Path, s.Examples, s.Selected}
		}
		for _, r := range requirements {
			if r.best {
				return nil, &NotKnownError{r.text, s.Path, errOneRun, false}
			}
			o, err := r.check(s)
			if err != nil {
				return nil, &NotKnownError{r.text, s.Path, err, false}
			}
			outcomes = append(outcomes, o)
		}
	}
	return outcomes, nil
}

// UnfinishedError means that a run has not yet certified all its examples.
type UnfinishedError struct {
	Run            string
	Done, Selected int
}

func (e *UnfinishedError) Error() string {
	return fmt.Sprintf("%s: the run is not finished: it has %d of %d examples", e.Run, e.Done, e.Selected)
}

// Hint returns advice for the user.
func (e *UnfinishedError) Hint() string { return e.SpellHint(param.Plain) }

// SpellHint returns the text of Hint, with the parameter names spelled by s.
func (*UnfinishedError) SpellHint(s param.Spelling) string {
	return "finish it with 'rscert certify … " + s(param.Resume) + "', or merge all its shards"
}

// found is the value of a requirement in a run. If the run certifies nothing about the requirement, found has a reason
// and no value.
type found struct {
	value
	in      summary.Summary // the run, with its radii in the norm of the requirement
	nothing string
}

func (r Requirement) check(s summary.Summary) (Outcome, error) {
	f, err := r.find(s)
	if err != nil {
		return Outcome{}, err
	}
	return r.judge(f), nil
}

// find returns the value that the quantity of the requirement has in a run.
func (r Requirement) find(s summary.Summary) (f found, err error) {
	if err := r.checkClaim(s.Conditions.Claim); err != nil {
		return f, err
	}
	if norm, given := r.Norm(); given {
		in, ok := s.InNorm(norm)
		if !ok {
			return f, fmt.Errorf("the summary has no radii in %s", norm.Title())
		}
		s = in
	}
	f.in = s
	if r.certified {
		if f.nothing, err = r.uncertified(s); err != nil || f.nothing != "" {
			return f, err
		}
	}
	f.value, err = r.metric.value(s, r)
	return f, err
}

// Measure returns the value of the requirement's quantity in a run. It rounds the value up if a smaller value is better
// (Requirement.Upper), and down otherwise. If the run certifies nothing about the quantity, the value is nil, and
// Measure returns the reason.
func (r Requirement) Measure(s summary.Summary) (at *float64, nothing string, err error) {
	f, err := r.find(s)
	if err != nil {
		return nil, "", &NotKnownError{r.text, s.Path, err, true}
	}
	if f.nothing != "" {
		return nil, f.nothing, nil
	}
	x := decimal.Down(f.Rat)
	if r.metric.upper {
		x = decimal.Up(f.Rat)
	}
	return &x, "", nil
}

// Share reports whether the requirement's quantity is a share, a value from 0 to 1.
func (r Requirement) Share() bool { return r.metric.share }

// Upper reports whether a smaller value of the quantity is better. If so, a certified bound on the quantity is an upper
// bound.
func (r Requirement) Upper() bool { return r.metric.upper }

// judge compares a value with the bound.
func (r Requirement) judge(f found) Outcome {
	s, v := f.in, f.value
	o := Outcome{Requirement: r.text, Run: s.Name, Path: s.Path}
	if f.nothing != "" {
		o.Says = "nothing is certified: " + f.nothing
		return o
	}
	near := decimal.Float(v.Rat)
	o.Value = &near
	off := new(big.Rat).Sub(r.bound, v.Rat) // the shortfall
	if r.atMost {
		off.Neg(off)
	}
	o.Met = off.Sign() <= 0
	o.Says = decimals(v.Rat, places(off))
	infinite := r.metric.length && math.IsInf(float64(report.RadiusNumber(near)), 1)
	if infinite {
		o.Says = "∞"
	}
	if v.detail != "" {
		o.Says += " (" + v.detail + ")"
	}
	if s.Conditions.Scaled && r.radius != nil {
		o.Says += ", radius in units of each column's scale"
	}
	if r.metric.promised && s.Sets.Unsound > 0 {
		o.Met = false
		o.Says += fmt.Sprintf(", but %d of %d sets promise nothing: %s", s.Sets.Unsound, s.Sets.Inputs, s.Sets.Why)
		return o
	}
	if !o.Met && !infinite {
		o.Says += ", " + decimals(off, places(off)) + map[bool]string{true: " too much", false: " too little"}[r.atMost]
	}
	return o
}

// uncertified returns the reason why the run certifies nothing about the requirement, or "" if there is no such reason.
func (r Requirement) uncertified(s summary.Summary) (string, error) {
	c := s.Conditions
	switch {
	case c.Sound == nil:
		return "it is not known whether the method is sound", nil
	case !*c.Sound:
		return fmt.Sprintf("the method %s is not sound", c.Method), nil
	case c.Arithmetic != certify.Exact:
		return "the arithmetic is idealised, not that of the noise that was run", nil
	}
	if !r.OfBounds() {
		if s.Dataset == nil {
			return "the certificates do not say their alpha", nil
		}
		if s.NotCounted {
			return "the certificates do not say how many examples were sampled: give the run, or certificates that 'rscert radius' wrote from it", nil
		}
		return "", nil
	}
	at, err := calibrationAt(s, r)
	if err == nil && at.Certified == nil {
		return "the alpha of the bounds is not known", nil
	}
	return "", err
}

// places returns the number of decimals to print for a shortfall. The number is 4, or larger if 4 decimals do not show
// two significant digits of the shortfall. So a small shortfall does not print as zero.
func places(off *big.Rat) int {
	const usual, most = 4, 60
	for p := usual; p < most; p++ {
		if off.Sign() == 0 || strings.ContainsAny(off.FloatString(p-1), "123456789") {
			return p
		}
	}
	return most
}

// decimals formats x with at most the given number of decimals.
func decimals(x *big.Rat, places int) string {
	s := x.FloatString(places)
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// Unmet counts the unmet outcomes.
func Unmet(outcomes []Outcome) (n int) {
	for _, o := range outcomes {
		if !o.Met {
			n++
		}
	}
	return n
}

// Verdict says in a sentence how many of the requirements are met.
func Verdict(outcomes []Outcome) string {
	switch n, all := Unmet(outcomes), len(outcomes); {
	case n > 0:
		return fmt.Sprintf("%d of %d requirements are not met.", n, all)
	case all == 1:
		return "The requirement is met."
	default:
		return fmt.Sprintf("All %d requirements are met.", all)
	}
}

// Line returns the outcome as one line of text.
func (o Outcome) Line() string {
	return fmt.Sprintf("%s %s: %s: %s", map[bool]string{true: "met", false: "not met"}[o.Met], o.Run, o.Requirement, o.Says)
}
