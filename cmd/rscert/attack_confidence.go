package main

import (
	"fmt"
	"path/filepath"

	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/reliability"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/run"
)

// attackTitle returns the heading for an attack on confidences. For the attack ace, the heading shows the parameters η
// and ω of the objective η·CE(f(x), ω).
func attackTitle(c run.AttackCalibration) string {
	if c.Eta == 0 {
		return "under the attack"
	}
	class := map[bool]string{true: "y", false: "ŷ"}[c.Omega == "label"]
	return fmt.Sprintf("η = %s, ω = %s", map[bool]string{true: "+1", false: "−1"}[c.Eta > 0], class)
}

// tabulateConfidences returns a table of accuracy and calibration. It has one row without an attack, and one row for
// each attack.
func tabulateConfidences(c *run.AttackedConfidence) *report.Table {
	t := &report.Table{Columns: []report.Column{
		report.TextColumn(""), {Name: "accuracy", Decimals: 4}, {Name: "confidence", Decimals: 4},
		{Name: "ECE", Decimals: 4}, {Name: "AdaECE", Decimals: 4},
	}}
	add := func(name string, c run.AttackCalibration) {
		t.AddRow(report.Text(name), report.Number(c.Accuracy), report.Number(c.MeanConfidence), report.Number(c.ECE), report.Number(c.AdaECE))
	}
	add("no attack", c.Before)
	for _, a := range c.After {
		add(attackTitle(a), a)
	}
	return t
}

// plot writes the reliability diagrams of --plot. There is one diagram for each attack. It shows the bins before the
// attack and the bins under the attack.
func (o attackOptions) plot(formats []picture.Format, r *run.Attacked) error {
	if len(formats) == 0 {
		return nil
	}
	before, after, err := r.Bins()
	if err != nil {
		return err
	}
	drawn := reliability.Attack{
		Title: fmt.Sprintf("%s: %s, %s ≤ %.3g", filepath.Base(r.Model.File), r.Attack, r.Norm, r.Epsilon), Size: o.plotSize,
	}
	for k, a := range r.Confidences.After {
		title := fmt.Sprintf("%s: AdaECE %.4f, was %.4f", attackTitle(a), a.AdaECE, r.Confidences.Before.AdaECE)
		drawn.Diagrams = append(drawn.Diagrams, reliability.AttackDiagram{Title: title, Clean: before, Attacked: after[k]})
	}
	return writePictures(o.plots, formats, drawn.Draw)
}
