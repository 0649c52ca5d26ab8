package conformal

import "errors"

// A Point is one calibration example: the scores of its true class at Design.M noisy copies.
type Point struct {
	Scores []float64
	Label  int
	Group  string // for the guarantee Group
}

// A Calibrator collects the scores of the calibration examples. The result does not depend on their order.
type Calibrator struct {
	design *Design
	points []Point
}

// Calibrator returns an empty Calibrator.
func (d *Design) Calibrator() *Calibrator { return &Calibrator{design: d} }

// Add adds an example. It does not keep p.Scores.
func (c *Calibrator) Add(p Point) error { return errors.New("not written yet") }

// Predictor computes the thresholds. The argument labels is the number of classes.
func (c *Calibrator) Predictor(labels int) (*Predictor, error) {
	return nil, errors.New("not written yet")
}
