// Package gate decides whether results meet requirements, such as certified-accuracy@0.5>=0.60. It reports outcomes in
// the forms that CI systems show: lines, JUnit XML, annotations, Markdown, and GitLab code quality reports. It takes
// summaries and returns outcomes. It reads and writes no files.
//
// Comparisons are exact. A share (of examples, answers or prediction sets) enters a comparison as a fraction of two
// counts, and so does the mean size of the prediction sets. The average radius enters as the exact sum of the radii,
// divided by the number of examples. In this sum, each radius counts as the decimal that JSON holds. Any other value,
// such as CBS or a bound on the calibration error, enters the comparison as the decimal that the JSON of the results
// shows. The requirement's bound (0.59 in >=0.59) enters the comparison as the decimal that the user wrote. So 59 of
// 100 meets >=0.59.
package gate

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/decimal"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/radius"
)

// Requirement is a condition on a value.
type Requirement struct {
	text      string // as the user wrote it, but without spaces around the quantity and the bound
	metric    *metric
	best      bool          // applies to the best of several runs; see CheckBest
	certified bool          // applies to the bound that holds with probability 1 − δ, not to the point value
	norm      *law.Norm     // norm of the radius; nil: the norm of the run's noise
	claim     certify.Claim // claim that the certificates must have; its field RejectBelow is not set
	radius    *big.Rat
	tau       *big.Rat
	atMost    bool // the comparison is <=; if false, it is >=
	bound     *big.Rat
}

// Syntax is the syntax of a requirement.
const Syntax = "[best:][certified:]NAME[.NORM][.CLAIM][@RADIUS[,TAU]]>=VALUE or <=VALUE"

// number matches a decimal that has no sign and no exponent, and is short enough to compare quickly.
var number = regexp.MustCompile(`^[0-9]{1,20}(\.[0-9]{1,40})?$`)

// UnmarshalText reads a requirement.
func (r *Requirement) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err == nil {
		*r = parsed
	}
	return err
}

// MarshalText returns the requirement as the user wrote it, but without spaces around the quantity and the bound.
func (r Requirement) MarshalText() ([]byte, error) { return []byte(r.text), nil }

func (r Requirement) String() string { return r.text }

// Parse reads a requirement. Spaces are allowed around the quantity and around the bound.
func Parse(text string) (Requirement, error) {
	r := Requirement{text: strings.TrimSpace(text)}
	what, bound, ok := strings.Cut(r.text, ">=")
	if !ok {
		if what, bound, ok = strings.Cut(r.text, "<="); !ok {
			return r, fmt.Errorf("%s: want %s, as in certified-accuracy@0.5>=0.60", quote.Field(text), Syntax)
		}
		r.atMost = true
	}
	what, bound = strings.TrimSpace(what), strings.TrimSpace(bound)
	r.text = what + map[bool]string{true: "<=", false: ">="}[r.atMost] + bound
	if err := r.parseQuantity(what, text); err != nil {
		return r, err
	}
	var err error
	if r.bound, err = parseNumber(bound); err != nil {
		return r, fmt.Errorf("%s: %w", quote.Field(text), err)
	}
	if err := r.meaningful(); err != nil {
		return r, fmt.Errorf("%s: %w", quote.Field(text), err)
	}
	return r, nil
}

// ParseQuantity reads the quantity of a requirement, such as certified-accuracy@0.5. The result has no bound, so use it
// only for Measure.
func ParseQuantity(text string) (Requirement, error) {
	r := Requirement{text: strings.TrimSpace(text)}
	err := r.parseQuantity(r.text, text)
	switch {
	case err != nil:
		return r, err
	case r.best:
		return r, fmt.Errorf("%s: want the value of each run, not of the best one", quote.Field(text))
	case r.certified && !r.metric.certifiable:
		return r, fmt.Errorf("%s: nothing is certified of %s", quote.Field(text), r.metric.name)
	}
	return r, nil
}

// parseQuantity reads the part of a requirement before >= or <=. The argument 'text' is the whole requirement, which
// error messages quote.
func (r *Requirement) parseQuantity(what, text string) error {
	what, r.best = strings.CutPrefix(what, "best:")
	what, r.certified = strings.CutPrefix(what, "certified:")
	name, where, at := strings.Cut(what, "@")
	name, qualifiers, given := strings.Cut(name, ".")
	k := slices.IndexFunc(metrics, func(m metric) bool { return m.name == name })
	if k < 0 {
		return fmt.Errorf("%s: unknown name %s (one of %s)", quote.Field(text), quote.Field(name), strings.Join(Names(), ", "))
	}
	r.metric = &metrics[k]
	if err := r.qualify(qualifiers, given); err != nil {
		return fmt.Errorf("%s: %w", quote.Field(text), err)
	}
	if err := r.parseWhere(where, at); err != nil {
		return fmt.Errorf("%s: %w", quote.Field(text), err)
	}
	return nil
}

// qualify reads the norm and the claim that follow the name.
func (r *Requirement) qualify(text string, given bool) error {
	if !given {
		return nil
	}
	if !r.metric.radius && !r.metric.length {
		return fmt.Errorf("%s has no radius, so no norm and no claim", r.metric.name)
	}
	for part := range strings.SplitSeq(text, ".") {
		if isClaim, err := r.parseClaim(part); err != nil {
			return err
		} else if isClaim {
			continue
		}
		norm, err := law.Norms.Parse(part)
		if err == nil && r.norm != nil {
			err = errors.New("two norms")
		}
		if err != nil {
			return err
		}
		r.norm = &norm
	}
	return nil
}

// parseClaim reads the claim "safe", "ignore" or "topK". Here K is a number of classes, at least 2, as in "top3".
// parseClaim returns false if the text is none of these claims.
func (r *Requirement) parseClaim(text string) (bool, error) {
	switch k, ranked := strings.CutPrefix(text, "top"); {
	case text == certify.NoneSafe.String(), text == certify.NoneIgnore.String():
		r.claim.None = certify.NoneMode(text)
	case ranked:
		n, err := strconv.Atoi(k)
		if err != nil || n < 2 {
			return true, fmt.Errorf("%s: want a rank from 2, as in top3", quote.Field(text))
		}
		r.claim.TopK = n
	default:
		return false, nil
	}
	if r.metric.ofBounds || r.metric.anyClaim {
		return true, fmt.Errorf("%s is about the answer: it has no claim %s", r.metric.name, text)
	}
	return true, nil
}

// checkClaim compares the claim c of a run's certificates with the claim that the requirement names. It returns an
// error if the two claims differ and the value of the requirement depends on the claim. It ignores RejectBelow.
func (r Requirement) checkClaim(c certify.Claim) error {
	if c.RejectBelow = 0; r.metric.ofBounds || r.metric.anyClaim || !r.metric.radius && !r.metric.length || c == r.claim {
		return nil
	}
	return fmt.Errorf("a certificate of this run claims that %s: such a requirement begins with %s%s", c.Says(), r.metric.name, c.Qualifiers())
}

// Norm returns the norm of the requirement's radius. It returns false if the requirement names no norm and therefore
// uses the norm of the run's noise.
func (r Requirement) Norm() (law.Norm, bool) {
	if r.norm == nil {
		return 0, false
	}
	return *r.norm, true
}

func parseNumber(text string) (*big.Rat, error) {
	if !number.MatchString(text) {
		return nil, fmt.Errorf("%s: want a number such as 0.60", quote.Field(text))
	}
	x, _ := new(big.Rat).SetString(text) // no error, because text matches the regular expression
	return x, nil
}

// parseWhere reads RADIUS or RADIUS,TAU.
func (r *Requirement) parseWhere(where string, given bool) error {
	switch {
	case given && !r.metric.radius:
		return fmt.Errorf("%s has no radius", r.metric.name)
	case !given && r.metric.radius:
		return fmt.Errorf("%s needs a radius, as in %s", r.metric.name, r.metric.example)
	case !given:
		return nil
	}
	at, tau, ok := strings.Cut(where, ",")
	if ok != r.metric.tau {
		return fmt.Errorf("want %s", r.metric.example)
	}
	var err error
	if r.radius, err = parseRadius(at); err == nil && r.metric.tau {
		r.tau, err = parseExact(tau)
	}
	return err
}

// parseRadius reads a radius. It parses a fraction such as 2/255 in the same way as the flags, so a requirement and a
// flag give the same float64 number.
func parseRadius(text string) (*big.Rat, error) {
	if !strings.Contains(text, "/") {
		return parseExact(text)
	}
	x, err := radius.Parse(text)
	return decimal.Of(x), err
}

// parseExact reads a radius or a threshold. The results hold radii and thresholds as float64 values. So parseExact
// rejects a number unless it equals the shortest decimal of its nearest float64.
func parseExact(text string) (*big.Rat, error) {
	x, err := parseNumber(text)
	if err != nil {
		return nil, err
	}
	if f, _ := x.Float64(); decimal.Of(f).Cmp(x) != 0 {
		return nil, fmt.Errorf("%s: has more digits than are kept", text)
	}
	return x, nil
}

// meaningful returns an error for a requirement without a meaning, such as a share above 1.
func (r *Requirement) meaningful() error {
	one := big.NewRat(1, 1)
	switch {
	case r.best && !r.certified:
		return fmt.Errorf("the best of several values is chosen by the results, so it needs a bound that pays for the choice: write best:certified:%s",
			r.metric.name)
	case r.metric.share && r.bound.Cmp(one) > 0:
		return fmt.Errorf("%s is a share from 0 to 1: 60 %% is 0.60", r.metric.name)
	case r.tau != nil && r.tau.Cmp(one) > 0:
		return fmt.Errorf("a confidence is from 0 to 1")
	case r.certified && !r.metric.certifiable:
		return fmt.Errorf("nothing is certified of %s", r.metric.name)
	case r.certified && r.atMost != r.metric.upper:
		return fmt.Errorf("what is certified of %s is a bound from %s", r.metric.name, map[bool]string{true: "above: want <=", false: "below: want >="}[r.metric.upper])
	}
	return nil
}

// Radius returns the radius of the requirement. The second result is false if the requirement names no radius.
func (r Requirement) Radius() (float64, bool) { return floatOf(r.radius) }

// Tau returns the threshold of the requirement. The second result is false if the requirement names no threshold.
func (r Requirement) Tau() (float64, bool) { return floatOf(r.tau) }

func floatOf(x *big.Rat) (float64, bool) {
	if x == nil {
		return 0, false
	}
	f, _ := x.Float64()
	return f, true
}

// Selective reports whether the requirement bounds the error among the answers. To check such a requirement, the
// summary must have been made with a summary.Selection.
func (r Requirement) Selective() bool { return r.metric.name == "selective-error" }

// Grouped reports whether the requirement is about the worst group of examples. To check such a requirement, the
// summary must have been made with summary.Options.Groups.
func (r Requirement) Grouped() bool { return strings.HasPrefix(r.metric.name, "worst-group-") }

// OfBounds reports whether the requirement is about the confidence under attack. To check such a requirement, the run
// must have bounds on the confidence at the requirement's radius.
func (r Requirement) OfBounds() bool { return r.metric.ofBounds }

// Certified reports whether the requirement applies to the bound that holds with probability 1 − δ.
func (r Requirement) Certified() bool { return r.certified }

// Best reports whether the requirement is about the best of several runs. CheckBest checks such a requirement.
func (r Requirement) Best() bool { return r.best }
