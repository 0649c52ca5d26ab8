package main

import (
	"math"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/report"
)

// measurement says how calibration metrics are computed.
type measurement struct {
	bins  int
	edge  calib.Edge
	level float64
	seed  uint64 // of the bootstrap
}

func (m measurement) check() error {
	if m.bins < 1 || m.bins > 1_000_000 {
		return badInputf("--bins %d: want 1 to 1000000", m.bins)
	}
	if !(m.level > 0 && m.level < 1) {
		return badInputf("--level %v: want a number between 0 and 1", m.level)
	}
	return nil
}

// estimate is a metric and its interval as printed.
type estimate struct {
	Value    report.Number `json:"value"`
	Low      report.Number `json:"low"`
	High     report.Number `json:"high"`
	Interval string        `json:"interval"`
}

func newEstimate(e calib.Estimate) *estimate {
	return &estimate{report.Number(e.Value), report.Number(e.Lower), report.Number(e.Upper), string(e.Method)}
}

// interval is nil where there is none.
func (e *estimate) interval() report.Cell {
	if math.IsNaN(float64(e.Low)) {
		return nil
	}
	return report.Interval{Low: float64(e.Low), High: float64(e.High)}
}

// calibration are the metrics of one set of predictions.
type calibration struct {
	Accuracy       *estimate `json:"accuracy"`
	MeanConfidence float64   `json:"mean_confidence"`
	ECE            *estimate `json:"ece"`
	AdaECE         *estimate `json:"adaece"`
	MCE            *estimate `json:"mce"`
	Brier          *estimate `json:"brier"`
	NLL            *estimate `json:"nll,omitempty"`           // of the probability vectors
	TopLabelNLL    *estimate `json:"top_label_nll,omitempty"` // where these are not known
	ClasswiseECE   *estimate `json:"classwise_ece,omitempty"`
}

// measure computes every metric that p allows, and the bins of the ECE.
func (m measurement) measure(p *calib.Predictions) (calibration, []calib.Bin, error) {
	width, err := calib.EqualWidth(p, m.bins, m.edge)
	if err != nil {
		return calibration{}, nil, err
	}
	count, err := calib.EqualCount(p, m.bins)
	if err != nil {
		return calibration{}, nil, err
	}
	c := calibration{
		Accuracy:       newEstimate(calib.AccuracyEstimate(p, m.level)),
		MeanConfidence: p.MeanConfidence(),
		ECE:            newEstimate(calib.ECEEstimate(p, width, m.level)),
		AdaECE:         newEstimate(calib.ECEEstimate(p, count, m.level)),
		MCE:            newEstimate(calib.MCEEstimate(p, width, m.level)),
		Brier:          newEstimate(calib.BrierEstimate(p, m.level)),
	}
	nll := newEstimate(calib.NLLEstimate(p, m.level, m.seed))
	if p.Probability == nil {
		c.TopLabelNLL = nll
		return c, width, nil
	}
	c.NLL = nll
	classwise, err := calib.ClasswiseEstimate(p, m.bins, m.edge, m.level)
	if err != nil {
		return calibration{}, nil, err
	}
	c.ClasswiseECE = newEstimate(classwise)
	return c, width, nil
}

// namedEstimate is a metric with its name in tables.
type namedEstimate struct {
	name string
	*estimate
}

// list is the metrics there are, in the order they are printed.
func (c calibration) list() (there []namedEstimate) {
	for _, m := range []namedEstimate{
		{"accuracy", c.Accuracy},
		{"ECE", c.ECE}, {"AdaECE", c.AdaECE}, {"MCE", c.MCE}, {"classwise ECE", c.ClasswiseECE},
		{"Brier (top label)", c.Brier}, {"NLL", c.NLL}, {"NLL (top label)", c.TopLabelNLL},
	} {
		if m.estimate != nil {
			there = append(there, m)
		}
	}
	return there
}
