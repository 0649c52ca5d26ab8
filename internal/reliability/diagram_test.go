package reliability

import (
	"bytes"
	"encoding/xml"
	"image/png"
	"io"
	"testing"

	"github.com/rscert/rscert/internal/calib"
)

func TestDraw(t *testing.T) {
	p := &calib.Predictions{Confidence: []float64{0, 0.31, 0.35, 0.9, 1}, Correct: []bool{false, true, false, true, true}}
	bins, err := calib.EqualWidth(p, 10, calib.UpperClosed)
	if err != nil {
		t.Fatal(err)
	}
	bands := calib.Bands(p, bins, 0.95)
	svg, err := Draw(bins, bands, "five <examples>", SVG)
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
	picture, err := Draw(bins, bands, "five", PNG)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(bytes.NewReader(picture)); err != nil {
		t.Fatal(err)
	}
	again, err := Draw(bins, bands, "five <examples>", SVG)
	if err != nil || !bytes.Equal(svg, again) {
		t.Error("the same input gave another picture")
	}
}

func TestFormatOf(t *testing.T) {
	if f, err := FormatOf("a/B.PNG"); f != PNG || err != nil {
		t.Error(f, err)
	}
	if _, err := FormatOf("a.pdf"); err == nil || err.Error() != `a.pdf: pictures are .svg or .png, not ".pdf"` {
		t.Error(err)
	}
}
