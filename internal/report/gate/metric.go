package gate

import (
	"errors"
	"fmt"
	"math/big"

	"github.com/rscert/rscert/internal/acce"
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
	upper   bool // a smaller value is better
	length  bool // the value is a radius
	// certifiable means that the metric has a bound that holds with probability 1 − δ.
	certifiable bool
	ofBounds    bool
	anyClaim    bool // the value does not depend on the claim of the run's certificates
	promised    bool // requirements on the metric are unmet if some prediction set has no guarantee
	value       func(s summary.Summary, r Requirement) (value, error)
}

// value is the value of a metric, with a text about the counts that give the value, such as "9 of 10".
type value struct {
	*big.Rat
	detail string // for display; may be empty
}

// metrics lists all metrics.
var metrics = []metric{
	{name: "certified-accuracy", example: "certified-accuracy@0.5>=0.60", what: "share of the examples that are right and certified at this radius",
		radius: true, share: true, certifiable: true, value: certifiedAccuracy},
	{name: "worst-group-accuracy", example: "worst-group-accuracy@0.5>=0.50", what: "certified accuracy of the group in which it is smallest (with groups)",
		radius: true, share: true, certifiable: true, value: worstGroupAccuracy},
	{name: "clean-accuracy", example: "clean-accuracy>=0.95", what: "accuracy of the model without noise",
		share: true, value: func(s summary.Summary, _ Requirement) (value, error) { return shareOf(s.Clean) }},
	{name: "smoothed-accuracy", example: "smoothed-accuracy>=0.90", what: "accuracy of the smoothed classifier, which answers the class with the most votes",
		share: true, value: func(s summary.Summary, _ Requirement) (value, error) { return shareOf(s.Smoothed) }},
	{name: "acr", example: "acr>=0.45", what: "average certified radius", length: true, certifiable: true, value: averageRadius},
	{name: "abstain-rate", example: "abstain-rate<=0.05", what: "share of the examples without a certificate",
		share: true, upper: true, value: func(s summary.Summary, _ Requirement) (value, error) {
			if s.Examples == 0 {
				return value{}, errNoCertificates
			}
			return shareOf(&s.Abstained)
		}},
	{name: "selective-error", example: "selective-error@0.25<=0.05", what: "certified bound, at this radius, on the share of wrong answers among all answers", radius: true, share: true,
		upper: true, certifiable: true, anyClaim: true, value: selectiveError},
	{name: "cbs", example: "cbs@0.25<=0.05", what: "certified Brier score at this radius", radius: true, share: true, upper: true, certifiable: true,
		ofBounds: true, value: calibrationValue(
			func(c summary.Calibration) float64 { return c.CBS }, func(c summary.CertifiedCalibration) float64 { return c.CBS })},
	{name: "cce", example: "cce@0.25<=0.10", what: "certified calibration error at this radius", radius: true, share: true, upper: true, certifiable: true,
		ofBounds: true, value: calibrationValue(
			func(c summary.Calibration) float64 { return c.CCE }, func(c summary.CertifiedCalibration) float64 { return c.CCE })},
	{name: "worst-group-cbs", example: "worst-group-cbs@0.25<=0.08", what: "certified Brier score of the group in which it is largest (with groups)", radius: true, share: true,
		upper: true, certifiable: true, ofBounds: true, value: worstGroupCalibration(
			func(w acce.WorstGroup) *float64 { return &w.CBS }, func(w acce.WorstCertified) *float64 { return &w.CBS })},
	{name: "worst-group-cce", example: "worst-group-cce@0.25<=0.15", what: "certified calibration error of the group in which it is largest (with groups)", radius: true, share: true,
		upper: true, certifiable: true, ofBounds: true, value: worstGroupCalibration(
			func(w acce.WorstGroup) *float64 { return w.CCE }, func(w acce.WorstCertified) *float64 { return w.CCE })},
	{name: "thresholded-error", example: "thresholded-error@0.25,0.9<=0.05", what: "certified bound, at radius 0.25, on the share of wrong answers among the answers with confidence at least 0.9",
		radius: true, tau: true, share: true, upper: true, certifiable: true, ofBounds: true, value: thresholdedError},
	{name: "conformal-coverage", example: "conformal-coverage>=0.90", what: "share of the prediction sets that contain the label (rscert conformal evaluate)",
		share: true, anyClaim: true, promised: true, value: conformalCoverage},
	{name: "conformal-size", example: "conformal-size<=1.2", what: "mean number of classes in a prediction set (rscert conformal evaluate)",
		upper: true, anyClaim: true, value: conformalSize},
	{name: "ce-upper", example: "ce-upper<=0.05", what: "upper bound on the calibration error (rscert ce)",
		share: true, upper: true, anyClaim: true, value: errorUpper(ofAll)},
	{name: "ce-lower", example: "ce-lower<=0.02", what: "lower bound on the calibration error; the requirement fails only if the data show that the error is above the limit (rscert ce)",
		share: true, upper: true, anyClaim: true, value: errorLower(ofAll)},
	{name: "worst-group-ce-upper", example: "worst-group-ce-upper<=0.08", what: "upper bound on the calibration error of the worst group (rscert ce, with groups)",
		share: true, upper: true, anyClaim: true, value: errorUpper(ofWorstGroup)},
	{name: "worst-group-ce-lower", example: "worst-group-ce-lower<=0.05", what: "lower bound on the calibration error of the worst group (rscert ce, with groups)",
		share: true, upper: true, anyClaim: true, value: errorLower(ofWorstGroup)},
	{name: "worst-class-ce-upper", example: "worst-class-ce-upper<=0.08", what: "upper bound on the calibration error of the worst class (rscert ce, with classes)",
		share: true, upper: true, anyClaim: true, value: errorUpper(ofWorstClass)},
	{name: "worst-class-ce-lower", example: "worst-class-ce-lower<=0.05", what: "lower bound on the calibration error of the worst class (rscert ce, with classes)",
		share: true, upper: true, anyClaim: true, value: errorLower(ofWorstClass)},
	{name: "classwise-ce-upper", example: "classwise-ce-upper<=0.03", what: "upper bound on the mean calibration error of the classes (rscert ce, with classes)",
		share: true, upper: true, anyClaim: true, value: errorUpper(ofClasses)},
	{name: "classwise-ce-lower", example: "classwise-ce-lower<=0.01", what: "lower bound on the mean calibration error of the classes (rscert ce, with classes)",
		share: true, upper: true, anyClaim: true, value: errorLower(ofClasses)},
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
	errNoRadius       = errors.New("the bounds have no radius, because the file has no column radius")
	errNoSets         = errors.New("there are no prediction sets: 'rscert conformal evaluate' checks this requirement")
	errNoErrorBounds  = errors.New("there are no bounds on the calibration error: 'rscert ce' checks this requirement")
	errNoGroups       = errors.New("there are no groups of examples")
	errNoParts        = errors.New("there are no bounds for groups or classes")
	errOneRun         = errors.New("there is only one run, and the best one is chosen from several")
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

// errorOf selects some of the bounds on the calibration error, for example those for all rows or those for the worst
// group. The result is nil if these bounds were not computed.
type errorOf func(e *summary.CalibrationError) *summary.CalibrationError

var (
	ofAll        errorOf = func(e *summary.CalibrationError) *summary.CalibrationError { return e }
	ofWorstGroup errorOf = func(e *summary.CalibrationError) *summary.CalibrationError { return e.WorstGroup }
	ofWorstClass errorOf = func(e *summary.CalibrationError) *summary.CalibrationError { return e.WorstClass }
	ofClasses    errorOf = func(e *summary.CalibrationError) *summary.CalibrationError { return e.Classwise }
)

// bounds returns the bounds that o selects from a summary, or an error if these bounds were not computed.
func (o errorOf) bounds(s summary.Summary) (*summary.CalibrationError, error) {
	if s.CalibrationError == nil {
		return nil, errNoErrorBounds
	}
	if e := o(s.CalibrationError); e != nil {
		return e, nil
	}
	return nil, errNoParts
}

func errorUpper(part errorOf) func(summary.Summary, Requirement) (value, error) {
	return func(s summary.Summary, _ Requirement) (value, error) {
		e, err := part.bounds(s)
		switch {
		case err != nil:
			return value{}, err
		case e.UpperMethod == "":
			return value{}, errors.New("there is no sound upper bound on the calibration error")
		}
		return value{decimal.Of(e.Upper), fmt.Sprintf("%s, %d examples", e.UpperMethod, e.Examples)}, nil
	}
}

func errorLower(part errorOf) func(summary.Summary, Requirement) (value, error) {
	return func(s summary.Summary, _ Requirement) (value, error) {
		e, err := part.bounds(s)
		if err != nil {
			return value{}, err
		}
		return value{decimal.Of(e.Lower), fmt.Sprintf("%s, %d examples", e.LowerMethod, e.Examples)}, nil
	}
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
		if c.Radius == nil {
			return summary.Calibration{}, errNoRadius
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

func worstGroupAccuracy(s summary.Summary, r Requirement) (value, error) {
	if err := labelled(s); err != nil {
		return value{}, err
	}
	worst, ok := s.WorstGroupAt(r.radius, r.certified)
	if !ok {
		return value{}, errNoGroups
	}
	v := value{worst.Rat(), fmt.Sprintf("%s: %d of %d", worst.Name, worst.Count, worst.Of)}
	if r.certified {
		v.detail += mayBeWrong(worst.Failures)
	}
	return v, nil
}

func worstGroupCalibration(
	point func(acce.WorstGroup) *float64, certified func(acce.WorstCertified) *float64,
) func(summary.Summary, Requirement) (value, error) {
	return func(s summary.Summary, r Requirement) (value, error) {
		c, err := calibrationAt(s, r)
		if err != nil {
			return value{}, err
		}
		switch {
		case c.ByGroup == nil || c.ByGroup.Of == 0:
			return value{}, errNoGroups
		case len(c.ByGroup.Without) > 0:
			return value{}, fmt.Errorf("no example with %s is certified at this radius", c.ByGroup.Without[0].Name())
		}
		x := point(c.ByGroup.Worst)
		if r.certified {
			x = certified(*c.ByGroup.Worst.Certified)
		}
		return value{decimal.Of(*x), fmt.Sprintf("the worst of %d groups", c.ByGroup.Of)}, nil
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
