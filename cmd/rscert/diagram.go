package main

import (
	"fmt"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/reliability"
)

// diagramOptions are the flags of the reliability diagram.
type diagramOptions struct {
	title *string // nil: made from the file name, the number of rows and the ECE
	size  picture.Size
	curve curveKind
}

// curveKind is a kind of curve for the reliability diagram.
type curveKind string

const (
	kernelCurve   curveKind = "kernel"
	isotonicCurve curveKind = "isotonic"
	noCurve       curveKind = "none"
)

var curveKinds = choice.Of("curve", kernelCurve, isotonicCurve, noCurve).Describe(func(c curveKind) string {
	return map[curveKind]string{kernelCurve: "a kernel regression with the smooth ECE as its bandwidth", isotonicCurve: "an isotonic regression", noCurve: "no curve"}[c]
})

func (c curveKind) String() string { return string(c) }

// line returns the curve of kind c for the diagram of m. It returns nil if c is noCurve.
func (c curveKind) line(m calib.Metrics) *reliability.Curve {
	switch c {
	case isotonicCurve:
		x, y := m.Ranked.Isotonic()
		return &reliability.Curve{Name: "isotonic", Confidence: x, Accuracy: y}
	case kernelCurve:
		x, y := m.Smooth.Points(400)
		return &reliability.Curve{Name: fmt.Sprintf("kernel, width %.2g", m.Smooth.ECE), Confidence: x, Accuracy: y}
	}
	return nil
}

// pictureFormats checks the files of --plot and returns their formats.
func pictureFormats(plots []string, inputs ...string) ([]picture.Format, error) {
	formats := make([]picture.Format, len(plots))
	for k, plot := range plots {
		if err := checkOutput("plot", plot, inputs...); err != nil {
			return nil, err
		}
		var err error
		if formats[k], err = picture.FormatOf(plot); err != nil {
			return nil, badInput(fmt.Errorf("--plot: %w", err))
		}
	}
	return formats, nil
}

// drawDiagrams writes the files of --plot. The argument 'around' holds the consistency bands, or is nil without them.
func (o metricsOptions) drawDiagrams(formats []picture.Format, m calib.Metrics, bands, around [][2]float64, title string) error {
	if len(o.plots) == 0 {
		return nil
	}
	if o.diagram.title != nil {
		title = *o.diagram.title
	}
	diagram := reliability.Diagram{Title: title, Confidence: "confidence", Accuracy: "accuracy", Level: o.Level,
		Bins: m.Bins, Bands: bands, Consistency: around, Joint: o.jointBands,
		Curve: o.diagram.curve.line(m), Size: o.diagram.size}
	if m.Quantity == calib.ClassOneQuantity {
		diagram.Confidence, diagram.Accuracy = "score of class 1", "share of class 1"
	}
	return writePictures(o.plots, formats, diagram.Draw)
}

// writePictures draws each file of --plot in its format.
func writePictures(plots []string, formats []picture.Format, draw func(picture.Format) ([]byte, error)) error {
	for k, plot := range plots {
		content, err := draw(formats[k])
		if err != nil {
			return err
		}
		if err := durable.WriteFile(plot, content); err != nil {
			return err
		}
	}
	return nil
}
