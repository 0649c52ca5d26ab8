package main

import (
	"math"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/report"
)

// measurement holds the settings of the calibration metrics.
type measurement struct{ calib.MetricOptions }

func (m measurement) check() error {
	if m.Bins < 1 || m.Bins > 1_000_000 {
		return badInputf("--bins %d: want 1 to 1000000", m.Bins)
	}
	if m.Draws < 0 || m.Draws > 1_000_000 {
		return badInputf("--draws %d: want 1 to 1000000", m.Draws)
	}
	if !(m.Level > 0 && m.Level < 1) {
		return badInputf("--level %v: want a number between 0 and 1", m.Level)
	}
	return nil
}

// estimate holds a metric and its interval, for tables and for JSON.
type estimate struct {
	Value    report.Number `json:"value"`
	Low      report.Number `json:"low"`
	High     report.Number `json:"high"`
	Interval string        `json:"interval,omitempty"` // method of the interval; "": no interval
}

// pointEstimate returns a metric without an interval, or nil if it is NaN.
func pointEstimate(x float64) *estimate {
	if math.IsNaN(x) {
		return nil
	}
	none := report.Number(math.NaN())
	return &estimate{Value: report.Number(x), Low: none, High: none}
}

func newEstimate(e calib.Estimate) *estimate {
	return &estimate{report.Number(e.Value), report.Number(e.Lower), report.Number(e.Upper), string(e.Method)}
}

// interval returns the cell of the interval in a table. It returns nil if there is no interval.
func (e *estimate) interval() report.Cell {
	if math.IsNaN(float64(e.Low)) {
		return nil
	}
	return report.Interval{Low: float64(e.Low), High: float64(e.High)}
}

// calibration holds the metrics of one set of predictions, for tables and for JSON.
type calibration struct {
	// the event whose probability the confidence estimates; the calibration errors, Brier, AUROC and AUPRC are about
	// this event
	Quantity       calib.Quantity       `json:"quantity"`
	Accuracy       *estimate            `json:"accuracy"`
	Prevalence     *estimate            `json:"prevalence,omitempty"` // share of class 1
	MeanConfidence float64              `json:"mean_confidence"`
	ECE            *estimate            `json:"ece"`
	AdaECE         *estimate            `json:"adaece"`
	SmoothECE      *estimate            `json:"smooth_ece"`
	DebiasedL2     *estimate            `json:"debiased_l2,omitempty"`
	RMSCE          *estimate            `json:"rmsce"`
	AdaRMSCE       *estimate            `json:"adarmsce"`
	MCE            *estimate            `json:"mce"`
	Brier          *estimate            `json:"brier"`
	BrierParts     calib.Decomposition  `json:"brier_decomposition"`
	Multiclass     *estimate            `json:"multiclass_brier,omitempty"`
	ClassParts     *calib.Decomposition `json:"multiclass_brier_decomposition,omitempty"`
	NLL            *estimate            `json:"nll,omitempty"` // only if the probabilities of all classes are known
	// nil if the probabilities of all classes are known
	TopLabelNLL  *estimate        `json:"top_label_nll,omitempty"`
	ClasswiseECE *estimate        `json:"classwise_ece,omitempty"`
	ClassECE     []float64        `json:"class_ece,omitempty"` // the ECE of each class
	AUROC        *estimate        `json:"auroc,omitempty"`
	AUPRC        *estimate        `json:"auprc,omitempty"`
	Test         *calibrationTest `json:"calibration_test,omitempty"`
}

// calibrationTest holds tests of the hypothesis that every stated probability is right.
type calibrationTest struct {
	P             report.Number `json:"p"` // valid for any number of independent examples
	Spiegelhalter report.Number `json:"spiegelhalter_z"`
	SpiegelP      report.Number `json:"spiegelhalter_p"` // asymptotic: approximately valid if there are many examples
	// valid for any number of examples; this test has more power than the test whose p-value is P
	MonteCarlo report.Number `json:"monte_carlo_p"`
	Draws      int           `json:"monte_carlo_draws"`
}

func newCalibration(m calib.Metrics) calibration {
	c := calibration{
		Quantity: m.Quantity, Accuracy: newEstimate(m.Accuracy), MeanConfidence: m.MeanConfidence,
		ECE: newEstimate(m.ECE), AdaECE: newEstimate(m.AdaECE), SmoothECE: pointEstimate(m.Smooth.ECE),
		DebiasedL2: pointEstimate(m.DebiasedL2), RMSCE: newEstimate(m.RMSCE), AdaRMSCE: newEstimate(m.AdaRMSCE), MCE: newEstimate(m.MCE),
		Brier: newEstimate(m.Brier), BrierParts: m.BrierParts,
		AUROC: pointEstimate(m.AUROC), AUPRC: pointEstimate(m.AUPRC),
	}
	if t := m.Test; t != nil {
		c.Test = &calibrationTest{report.Number(t.P), report.Number(t.Spiegelhalter), report.Number(t.SpiegelhalterP),
			report.Number(t.MonteCarlo), t.Draws}
	}
	switch nll := newEstimate(m.NLL); {
	case m.Prevalence != nil:
		c.Prevalence, c.NLL = newEstimate(*m.Prevalence), nll
	case m.PerClass == nil:
		c.TopLabelNLL = nll
	default:
		c.NLL, c.ClasswiseECE = nll, newEstimate(m.PerClass.ClasswiseECE)
		c.ClassECE = m.PerClass.ECE
		c.Multiclass, c.ClassParts = newEstimate(m.PerClass.Brier), &m.PerClass.BrierParts
	}
	return c
}

// namedEstimate is a metric and the name that tables show for it.
type namedEstimate struct {
	name string
	*estimate
}

// list returns the metrics that are defined, in the order of the table.
func (c calibration) list() (there []namedEstimate) {
	of := " (top label)"
	auroc, auprc := "AUROC (right against wrong)", "AUPRC (right)"
	if c.Quantity == calib.ClassOneQuantity {
		of, auroc, auprc = " (class 1)", "AUROC (class 1)", "AUPRC (class 1)"
	}
	for _, m := range []namedEstimate{
		{"accuracy", c.Accuracy}, {"share of class 1", c.Prevalence},
		{"ECE", c.ECE}, {"AdaECE", c.AdaECE}, {"smooth ECE", c.SmoothECE}, {"debiased L2 error", c.DebiasedL2},
		{"RMSCE", c.RMSCE}, {"AdaRMSCE", c.AdaRMSCE}, {"MCE", c.MCE}, {"classwise ECE", c.ClasswiseECE},
		{"Brier" + of, c.Brier}, {"Brier (all classes)", c.Multiclass},
		{"NLL", c.NLL}, {"NLL (top label)", c.TopLabelNLL}, {auroc, c.AUROC}, {auprc, c.AUPRC},
	} {
		if m.estimate != nil {
			there = append(there, m)
		}
	}
	return there
}
