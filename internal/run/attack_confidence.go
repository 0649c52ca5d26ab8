package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/rscert/rscert/internal/attack"
	"github.com/rscert/rscert/internal/calib"
)

// DefaultAttackBins is the number of bins of the calibration errors.
const DefaultAttackBins = 15

// AttackedConfidence compares calibration before and after an attack on confidences.
type AttackedConfidence struct {
	Bins   int                 `json:"bins"`
	Before AttackCalibration   `json:"before"`
	After  []AttackCalibration `json:"after"` // one for each name that alteredNames returns
}

// AttackCalibration describes the predictions on all examples, either without an attack or under one.
type AttackCalibration struct {
	Name  string       `json:"name,omitempty"` // name of the altered inputs; absent without an attack
	Eta   int          `json:"eta,omitempty"`  // Eta and Omega are the parameters of the attack ACE
	Omega attack.Omega `json:"omega,omitempty"`

	Accuracy       float64 `json:"accuracy"`
	MeanConfidence float64 `json:"mean_confidence"`
	ECE            float64 `json:"ece"`    // with bins of equal width
	AdaECE         float64 `json:"adaece"` // with bins of equal count
}

// AlteredResult describes an input whose confidence an attack changed.
type AlteredResult struct {
	Name       string  `json:"name"`
	Class      int     `json:"class"`
	Confidence float64 `json:"confidence"`
	Distance   float64 `json:"distance"`
}

// The constant 'adversarial' names the perturbed inputs of every attack except ACE. There is at most one such input for
// each example.
const adversarial = "adversarial"

// An attack with attack.KeepAll keeps one additional input for every example. The constant 'worst' is the name of these
// inputs.
const worst = "worst"

// names returns the names of all inputs that the attack makes.
func (p *AttackPlan) names() []string { return namesOf(p.Method, p.keep) }

func namesOf(m attack.Method, keep attack.Keep) []string {
	names := alteredNames(m)
	if keep == attack.KeepAll {
		names = append(names, worst)
	}
	return names
}

// alteredNames returns the names of the inputs that the attack makes for each example. The files of these inputs have
// the same names, apart from the extension.
func alteredNames(m attack.Method) []string {
	if m != attack.ACE {
		return []string{adversarial}
	}
	var names []string
	for _, s := range attack.Settings {
		names = append(names, s.String())
	}
	return names
}

// clean returns the predictions on the unperturbed examples.
func (r *Attacked) clean() *calib.Predictions {
	p := new(calib.Predictions)
	for _, row := range r.Results {
		p.Confidence, p.Correct = append(p.Confidence, *row.Confidence), append(p.Correct, row.Predicted == row.Label)
	}
	return p
}

// altered takes, for each example, the altered input with the k-th name of alteredNames, and returns the predictions on
// these inputs.
func (r *Attacked) altered(k int) *calib.Predictions {
	p := new(calib.Predictions)
	for _, row := range r.Results {
		a := row.Altered[k]
		p.Confidence, p.Correct = append(p.Confidence, a.Confidence), append(p.Correct, a.Class == row.Label)
	}
	return p
}

// calibrate measures calibration before and after an attack on confidences.
func (r *Attacked) calibrate(bins int) (err error) {
	c := &AttackedConfidence{Bins: bins}
	if c.Before, err = calibrationOf(r.clean(), bins); err != nil {
		return err
	}
	for k, name := range alteredNames(r.Attack) {
		a, err := calibrationOf(r.altered(k), bins)
		if err != nil {
			return err
		}
		a.Name = name
		if r.Attack == attack.ACE {
			a.Eta, a.Omega = attack.Settings[k].Eta, attack.Settings[k].Omega
		}
		c.After = append(c.After, a)
	}
	r.Confidences = c
	return nil
}

func calibrationOf(p *calib.Predictions, bins int) (c AttackCalibration, err error) {
	width, err := calib.EqualWidth(p, bins, calib.UpperClosed)
	if err != nil {
		return c, err
	}
	count, err := calib.EqualCount(p, bins)
	if err != nil {
		return c, err
	}
	return AttackCalibration{
		Accuracy: calib.AccuracyEstimate(p, attackLevel).Value, MeanConfidence: p.MeanConfidence(),
		ECE: calib.ECE(width), AdaECE: calib.ECE(count),
	}, nil
}

// alteredResults describes the altered inputs of an example.
func alteredResults(m attack.Method, f attack.Found) (all []AlteredResult) {
	names := alteredNames(m)
	for k, a := range f.Altered {
		all = append(all, AlteredResult{names[k], a.Class, a.Confidence, a.Distance})
	}
	return all
}

// Bins returns the calibration bins of equal width. The result 'before' holds the bins of the unperturbed examples. The
// result 'after' holds the bins for each entry of Confidences.After.
func (r *Attacked) Bins() (before []calib.Bin, after [][]calib.Bin, err error) {
	before, err = calib.EqualWidth(r.clean(), r.Confidences.Bins, calib.UpperClosed)
	for k := range r.Confidences.After {
		bins, failed := calib.EqualWidth(r.altered(k), r.Confidences.Bins, calib.UpperClosed)
		after, err = append(after, bins), errors.Join(err, failed)
	}
	return before, after, err
}

// writePredictions writes predictions on the examples as a CSV file that 'rscert metrics' reads.
func (r *Attacked) writePredictions(w io.Writer, p *calib.Predictions) error {
	var b bytes.Buffer
	fmt.Fprintln(&b, "index,confidence,correct")
	for i, row := range r.Results {
		right := 0
		if p.Correct[i] {
			right = 1
		}
		fmt.Fprintf(&b, "%d,%s,%d\n", row.Index, strconv.FormatFloat(p.Confidence[i], 'g', -1, 64), right)
	}
	_, err := w.Write(b.Bytes())
	return err
}
