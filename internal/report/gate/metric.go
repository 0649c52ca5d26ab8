package gate

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/rscert/rscert/internal/decimal"
	"github.com/rscert/rscert/internal/report/summary"
)

// metric is a value that a requirement can name.
type metric struct {
	name    string
	example string
	what    string
	radius  bool // the metric depends on a radius
	tau     bool // the metric also depends on a threshold
	share   bool // the value is in [0, 1]
	upper   bool // the certified value is an upper bound
	length  bool // the value is a radius
	// certifiable means that the metric has a bound that holds with probability 1 − δ.
	certifiable bool
	ofBounds    bool
	anyClaim    bool // the value does not depend on the claim of the run's certificates
	promised    bool // prediction sets without a guarantee do not meet a requirement
	value       func(s summary.Summary, r Requirement) (value, error)
}

// value is the value of a metric, with the counts behind it.
type value struct {
	*big.Rat
	detail string // for display; may be empty
}

// metrics lists all metrics.
var metrics = []metric{
	{name: "certified-accuracy", example: "certified-accuracy@0.5>=0.60", what: "share of the examples that are right and certified at this radius",
		radius: true, share: true, certifiable: true, value: certifiedAccuracy},
	{name: "clean-accuracy", example: "clean-accuracy>=0.95", what: "accuracy of the model without noise",
		share: true, value: func(s summary.Summary, _ Requirement) (value, error) { return shareOf(s.Clean) }},
	{name: "smoothed-accuracy", example: "smoothed-accuracy>=0.90", what: "accuracy of the smoothed model, which answers the class with the most votes",
		share: true, value: func(s summary.Summary, _ Requirement) (value, error) { return shareOf(s.Smoothed) }},
	{name: "acr", example: "acr>=0.45", what: "average certified radius", length: true, certifiable: true, value: averageRadius},
	{name: "abstain-rate", example: "abstain-rate<=0.05", what: "share of the examples without a certificate",
		share: true, upper: true, value: func(s summary.Summary, _ Requirement) (value, error) {
			if s.Examples == 0 {
				return value{}, errNoCertificates
			}
			return shareOf(&s.Abstained)
		}},
	{name: "selective-error", example: "selective-error@0.25<=0.05", what: "certified bound on the share of wrong answers among the inputs that are answered", radius: true, share: true,
		upper: true, certifiable: true, anyClaim: true, value: selectiveError},
	{name: "cbs", example: "cbs@0.25<=0.05", what: "certified Brier score at this radius", radius: true, share: true, upper: true, certifiable: true,
		ofBounds: true, value: calibrationValue(
			func(c summary.Calibration) float64 { return c.CBS }, func(c summary.CertifiedCalibration) float64 { return c.CBS })},
	{name: "cce", example: "cce@0.25<=0.10", what: "certified calibration error at this radius", radius: true, share: true, upper: true, certifiable: true,
		ofBounds: true, value: calibrationValue(
			func(c summary.Calibration) float64 { return c.CCE }, func(c summary.CertifiedCalibration) float64 { return c.CCE })},
	{name: "thresholded-error", example: "thresholded-error@0.25,0.9<=0.05", what: "certified share of wrong answers among the answers with at least this confidence (0.9)",
		radius: true, tau: true, share: true, upper: true, certifiable: true, ofBounds: true, value: thresholdedError},
	{name: "conformal-coverage", example: "conformal-coverage>=0.90", what: "share of the prediction sets that contain the label (rscert conformal evaluate)",
		share: true, anyClaim: true, promised: true, value: conformalCoverage},
	{name: "conformal-size", example: "conformal-size<=1.2", what: "mean number of classes in a prediction set (rscert conformal evaluate)",
		upper: true, anyClaim: true, value: conformalSize},
	{name: "ce-upper", example: "ce-upper<=0.05", what: "upper bound on the calibration error (rscert ce)",
		share: true, upper: true, anyClaim: true, value: errorUpper},
	{name: "ce-lower", example: "ce-lower<=0.02", what: "lower bound on the calibration error (rscert ce): not met once the data show a larger error",
		share: true, upper: true, anyClaim: true, value: errorLower},
}

// Names returns the names of all metrics.
func Names() []string {
	var names []string
	for _, m := range metrics {
		names = append(names, m.name)
	}
	return names
}

// Help describes each metric in a line.
func Help() string {
	text := ""
	for _, m := range metrics {
		text += fmt.Sprintf("  %-34s %s\n", m.example, m.what)
	}
	return text
}

var (
	errNoCertificates = errors.New("there are no certificates")
	errNoLabels       = errors.New("the examples have no labels")
	errNotKnown       = errors.New("the evidence does not say: it has no votes with the model's class without noise, or no labels")
	errNoAnswers      = errors.New("no answer has this confidence, so there is no error among such answers")
	errNoBounds       = errors.New("there are no bounds on the confidence at this radius")
	errNoSets         = errors.New("there are no prediction sets: 'rscert conformal evaluate' checks this requirement")
	errNoErrorBounds  = errors.New("there are no bounds on the calibration error: 'rscert ce' checks this requirement")
	errNoneCertified  = errors.New("no example is certified at this radius, so there are no bounds on the confidence")
)

func conformalCoverage(s summary.Summary, _ Requirement) (value, error) {
	switch {
	case s.Sets == nil || s.Sets.Inputs == 0:
		return value{}, errNoSets
	case s.Sets.Labelled == 0:
		return value{}, errNoLabels
	case s.Sets.Labelled < s.Sets.Inputs:
		return value{}, fmt.Errorf("only %d of %d sets have a label, and the coverage of the others is not known", s.Sets.Labelled, s.Sets.Inputs)
	}
	return value{big.NewRat(int64(s.Sets.Covered), int64(s.Sets.Labelled)), fmt.Sprintf("%d of %d", s.Sets.Covered, s.Sets.Labelled)}, nil
}

func conformalSize(s summary.Summary, _ Requirement) (value, error) {
	if s.Sets == nil || s.Sets.Inputs == 0 {
		return value{}, errNoSets
	}
	return value{big.NewRat(s.Sets.Size, int64(s.Sets.Inputs)), fmt.Sprintf("%d classes in %d sets", s.Sets.Size, s.Sets.Inputs)}, nil
}

func errorUpper(s summary.Summary, _ Requirement) (value, error) {
	e := s.CalibrationError
	switch {
	case e == nil:
		return value{}, errNoErrorBounds
	case e.UpperMethod == "":
		return value{}, errors.New("there is no sound upper bound on the calibration error")
	}
	return value{decimal.Of(e.Upper), fmt.Sprintf("%s, %d examples", e.UpperMethod, e.Examples)}, nil
}

func errorLower(s summary.Summary, _ Requirement) (value, error) {
	e := s.CalibrationError
	if e == nil {
		return value{}, errNoErrorBounds
	}
	return value{decimal.Of(e.Lower), fmt.Sprintf("%s, %d examples", e.LowerMethod, e.Examples)}, nil
}

func shareOf(s *summary.Share) (value, error) {
	if s == nil {
		return value{}, errNotKnown
	}
	return value{s.Rat(), fmt.Sprintf("%d of %d", s.Count, s.Of)}, nil
}

func labelled(s summary.Summary) error {
	switch {
	case s.Examples == 0:
		return errNoCertificates
	case s.Labelled == 0:
		return errNoLabels
	}
	return nil
}

func certifiedAccuracy(s summary.Summary, r Requirement) (value, error) {
	if err := labelled(s); err != nil {
		return value{}, err
	}
	count := s.CertifiedAt(r.radius)
	detail := fmt.Sprintf("%d of %d", count, s.Examples)
	failures := int64(0)
	if r.certified {
		failures = s.Dataset.Failures
		detail += mayBeWrong(failures)
	}
	return value{big.NewRat(max(0, int64(count)-failures), int64(s.Examples)), detail}, nil
}

func mayBeWrong(failures int64) string { return fmt.Sprintf(", %d of which may be wrong", failures) }

func averageRadius(s summary.Summary, r Requirement) (value, error) {
	if err := labelled(s); err != nil {
		return value{}, err
	}
	v := value{detail: fmt.Sprintf("over %d examples", s.Examples)}
	failures := int64(0)
	if r.certified {
		failures = s.Dataset.Failures
		v.detail += mayBeWrong(failures)
	}
	v.Rat = new(big.Rat).Quo(s.SumOfRadii(failures), big.NewRat(int64(s.Examples), 1))
	return v, nil
}

// calibrationAt returns the calibration at the radius of a requirement.
func calibrationAt(s summary.Summary, r Requirement) (summary.Calibration, error) {
	for _, c := range s.Calibration {
		if c.Radius != nil && decimal.Of(*c.Radius).Cmp(r.radius) == 0 {
			return c, nil
		}
	}
	if s.Run == nil {
		return summary.Calibration{}, errNoBounds
	}
	for _, radius := range s.Run.Parameters.ConfidenceRadii {
		if decimal.Of(radius).Cmp(r.radius) == 0 {
			return summary.Calibration{}, errNoneCertified
		}
	}
	return summary.Calibration{}, errNoBounds
}

func calibrationValue(point func(summary.Calibration) float64, certified func(summary.CertifiedCalibration) float64) func(summary.Summary, Requirement) (value, error) {
	return func(s summary.Summary, r Requirement) (value, error) {
		c, err := calibrationAt(s, r)
		if err != nil {
			return value{}, err
		}
		v := value{decimal.Of(point(c)), fmt.Sprintf("%d examples", c.N)}
		if r.certified {
			v = value{decimal.Of(certified(*c.Certified)), v.detail + mayBeWrong(c.Certified.Failures)}
		}
		return v, nil
	}
}

func selectiveError(s summary.Summary, r Requirement) (value, error) {
	radius, _ := r.Radius()
	x, ok := s.SelectiveAt(radius)
	if !ok {
		return value{}, errors.New("the error among answers is not known in this norm")
	}
	v := value{x.Rat(0), fmt.Sprintf("%d unsafe, %d answered", x.Unsafe, x.Answered)}
	if r.certified {
		v = value{x.Rat(s.Dataset.Failures), v.detail + mayBeWrong(s.Dataset.Failures)}
	}
	return v, nil
}

func thresholdedError(s summary.Summary, r Requirement) (value, error) {
	c, err := calibrationAt(s, r)
	if err != nil {
		return value{}, err
	}
	for _, t := range c.Thresholded {
		if decimal.Of(t.Tau).Cmp(r.tau) != 0 {
			continue
		}
		if t.Answered() == 0 {
			return value{}, errNoAnswers
		}
		v := value{t.Rat(0), fmt.Sprintf("%d of %d", t.Wrong, t.Wrong+t.Right)}
		if r.certified {
			v = value{t.Rat(t.Failures), v.detail + mayBeWrong(t.Failures)}
		}
		return v, nil
	}
	return value{}, fmt.Errorf("the error at the threshold %s was not computed", r.tau.FloatString(4))
}
