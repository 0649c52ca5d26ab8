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
	d := Diagram{Title: "five <examples>", Confidence: "confidence", Accuracy: "accuracy", Level: 0.95, Bins: bins, Bands: bands,
		Curve: &Curve{"isotonic", []float64{0, 1}, []float64{0.1, 0.9}}, Size: DefaultSize}
	svg, err := d.Draw(SVG)
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
	picture, err := d.Draw(PNG)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := png.Decode(bytes.NewReader(picture)); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{">five &lt;examples&gt;<", ">isotonic<", ">calibrated<", ">bin, 95 % interval<", "sans-serif"} {
		if !bytes.Contains(svg, []byte(text)) {
			t.Errorf("the SVG has no %s", text)
		}
	}
	pdf, err := d.Draw(PDF)
	if err != nil || !bytes.HasPrefix(pdf, []byte("%PDF-")) || !bytes.Contains(pdf, []byte("/FontFile2")) {
		t.Errorf("no PDF with fonts: %v, %.20q", err, pdf)
	}
	for format, first := range map[Format][]byte{SVG: svg, PNG: picture, PDF: pdf} {
		again, err := d.Draw(format)
		if err != nil || !bytes.Equal(first, again) {
			t.Errorf("format %d: the same input gave another picture", format)
		}
	}
}

func TestFormatOf(t *testing.T) {
	if f, err := FormatOf("a/B.PNG"); f != PNG || err != nil {
		t.Error(f, err)
	}
	if _, err := FormatOf("a.gif"); err == nil || err.Error() != `a.gif: pictures are .svg, .png or .pdf, not ".gif"` {
		t.Error(err)
	}
}

func TestSize(t *testing.T) {
	var s Size
	if err := s.UnmarshalText([]byte("8.5x20")); err != nil || s != (Size{8.5, 20}) || s.String() != "8.5x20" {
		t.Error(s, err)
	}
	for _, text := range []string{"", "8", "8x", "5x20", "20x101", "NaNx8", "8x8x8"} {
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestShorten(t *testing.T) {
	for _, test := range []struct {
		width int
		want  string
	}{{12, "abcdefghij"}, {10, "abcdefghij"}, {9, "abc...hij"}, {5, "a...j"}, {2, ""}, {0, ""}} {
		fits := func(s string) bool { return len([]rune(s)) <= test.width }
		if got := shorten("abcdefghij", fits); got != test.want {
			t.Errorf("width %d: %q, want %q", test.width, got, test.want)
		}
	}
}

func TestSingleBytes(t *testing.T) {
	for text, want := range map[string]string{"plain": "plain", "Zürich – 5 €": "Z\xfcrich \x96 5 \x80", "精度 1": "?? 1"} {
		if got := singleBytes(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
