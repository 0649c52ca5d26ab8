package reliability

import (
	"bytes"
	"fmt"
	"image/png"
	"regexp"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/picture"
)

// attackOf returns an Attack with the given number of diagrams.
func attackOf(t *testing.T, diagrams int) Attack {
	t.Helper()
	bins := func(confidence ...float64) []calib.Bin {
		p := &calib.Predictions{Confidence: confidence, Correct: []bool{false, true, true}}
		b, err := calib.EqualWidth(p, 10, calib.LowerClosed)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	a := Attack{Title: "three <examples>", Measures: []Measure{
		{Name: "CCE", Radius: []float64{0.25, 0.5}, Value: []float64{0.1, 0.2}},
		{Name: "CCE, for all", Radius: []float64{0.25, 0.5}, Value: []float64{0.15, 0.25}, ForAll: true},
		{Name: "CBS", Radius: []float64{0.25, 0.5}, Value: []float64{0.05, 0.1}, Brier: true},
		{Name: "CBS, for all", Radius: []float64{0.25, 0.5}, Value: []float64{0.06, 0.11}, Brier: true, ForAll: true},
	}}
	for k := range diagrams {
		a.Diagrams = append(a.Diagrams, AttackDiagram{fmt.Sprintf("diagram %d", k), bins(0.35, 0.5, 0.95), bins(0.95, 0.25, 0.45)})
	}
	return a
}

// The number of diagrams determines the default size of the picture. Drawing the picture again with this size gives the
// same bytes.
func TestDrawAttack(t *testing.T) {
	for diagrams, want := range map[int]string{1: "14x8.5", 2: "21x8.5", 3: "14x15.5", 4: "21x15.5", 5: "21x15.5"} {
		a := attackOf(t, diagrams)
		svg, err := a.Draw(picture.SVG)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{
			"three &lt;examples&gt;", "bins without attack", "under the worst attack", "calibrated", "by radius",
			"CCE", "CCE, for all", "CBS", "CBS, for all", fmt.Sprintf("diagram %d", diagrams-1),
		} {
			if !bytes.Contains(svg, []byte("\n"+text+"\n")) {
				t.Errorf("%d diagrams: the SVG has no text %q", diagrams, text)
			}
		}
		if n := strings.Count(string(svg), "\nconfidence\n"); n != diagrams {
			t.Errorf("%d diagrams: %d axes of confidences", diagrams, n)
		}
		var size picture.Size
		if err := size.UnmarshalText([]byte(want)); err != nil {
			t.Fatal(err)
		}
		a.Size = size
		if again, err := a.Draw(picture.SVG); err != nil || !bytes.Equal(svg, again) {
			t.Errorf("%d diagrams: not of the size %s (%v)", diagrams, want, err)
		}
	}
	a := attackOf(t, 2)
	a.Diagrams[1].Clean = nil // the bins without an attack are unknown
	for format, first := range map[picture.Format]string{picture.PNG: "\x89PNG", picture.PDF: "%PDF-"} {
		drawn, err := a.Draw(format)
		if err != nil || !bytes.HasPrefix(drawn, []byte(first)) {
			t.Errorf("format %d: %v, %.10q", format, err, drawn)
		}
		if format == picture.PNG {
			if _, err := png.Decode(bytes.NewReader(drawn)); err != nil {
				t.Error(err)
			}
		}
	}
}

// The picture has at least three colours, and two of them distinguish clean bins from attacked bins. The diagonals must
// be dashed. The curves that hold with a stated probability must be dashed, too. A reader without colours can then tell
// the curves apart.
func TestAttackWithoutColours(t *testing.T) {
	svg, err := attackOf(t, 1).Draw(picture.SVG)
	if err != nil {
		t.Fatal(err)
	}
	colours := map[string]bool{}
	for _, c := range regexp.MustCompile(`(?:fill|stroke):(#[0-9A-Fa-f]{6})`).FindAllSubmatch(svg, -1) {
		colours[strings.ToUpper(string(c[1]))] = true
	}
	if len(colours) < 3 || !colours["#1F5FA8"] || !colours["#C0392B"] {
		t.Errorf("colours %v", colours)
	}
	if n := bytes.Count(svg, []byte("stroke-dasharray")); n < 4 {
		t.Errorf("%d dashed lines, want those of the statements for all and the diagonals", n)
	}
}

// TestDrawCarriedOut checks a picture without measures, which shows attacks that were carried out. The picture must
// have only the diagrams. Its text must say "the attack" and must not mention the worst attack.
func TestDrawCarriedOut(t *testing.T) {
	for diagrams, want := range map[int]string{1: "7x8.5", 2: "14x8.5", 4: "14x15.5"} {
		a := attackOf(t, diagrams)
		a.Measures = nil
		svg, err := a.Draw(picture.SVG)
		if err != nil {
			t.Fatal(err)
		}
		var size picture.Size
		if err := size.UnmarshalText([]byte(want)); err != nil {
			t.Fatal(err)
		}
		a.Size = size
		if same, err := a.Draw(picture.SVG); err != nil || !bytes.Equal(svg, same) {
			t.Errorf("%d diagrams: the size is not %s (%v)", diagrams, want, err)
		}
		if text := string(svg); !strings.Contains(text, "under the attack") || strings.Contains(text, "worst") || strings.Contains(text, "by radius") {
			t.Errorf("%d diagrams: wrong words", diagrams)
		}
	}
}
