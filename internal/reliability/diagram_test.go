package reliability

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"io"
	"testing"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/picture"
)

func TestDraw(t *testing.T) {
	p := &calib.Predictions{Confidence: []float64{0, 0.31, 0.35, 0.9, 1}, Correct: []bool{false, true, false, true, true}}
	bins, err := calib.EqualWidth(p, 10, calib.UpperClosed)
	if err != nil {
		t.Fatal(err)
	}
	bands := calib.Bands(p, bins, 0.95)
	d := Diagram{Title: "five <examples>", Confidence: "confidence", Accuracy: "accuracy", Level: 0.95, Bins: bins, Bands: bands,
		Curve: &Curve{"isotonic", []float64{0, 1}, []float64{0.1, 0.9}}, Size: DefaultSize}
	svg, err := d.Draw(picture.SVG)
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("not XML: %v", err)
		}
	}
	if n := len(svg); n > 100_000 {
		t.Errorf("%d bytes", n)
	}
	d.Consistency = [][2]float64{9: {0.1, 0.9}}
	banded, err := d.Draw(picture.SVG)
	if err != nil || bytes.Count(banded, []byte("<path")) <= bytes.Count(svg, []byte("<path"))+3*4 {
		t.Errorf("consistency bands of four bins add too few lines, %v", err)
	}
	d.Consistency = nil
	image, err := d.Draw(picture.PNG)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(bytes.NewReader(image)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(svg, []byte("<title>Reliability diagram. five &lt;examples&gt;. accuracy against confidence")) || bytes.Contains(svg, []byte("<text")) {
		t.Error("the SVG does not say in words what it shows, or has text that depends on the viewer's fonts")
	}
	pdf, err := d.Draw(picture.PDF)
	if err != nil || !bytes.HasPrefix(pdf, []byte("%PDF-")) {
		t.Errorf("no PDF: %v, %.20q", err, pdf)
	}
	for format, first := range map[picture.Format][]byte{picture.SVG: svg, picture.PNG: image, picture.PDF: pdf} {
		again, err := d.Draw(format)
		if err != nil || !bytes.Equal(first, again) {
			t.Errorf("format %d: the same input gave another picture", format)
		}
	}
}
