package reliability

import (
	"bytes"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/picture"
)

// The picture leaves out the errors under attack if there is no attack. The file of the picture stays small if there
// are many thresholds.
func TestRejection(t *testing.T) {
	size := picture.Size{Width: 14, Height: 10}
	draw := func(n int, attacked bool) string {
		var clean calib.Answers
		for i := range n {
			clean.Confidence, clean.Right = append(clean.Confidence, float64(i)/float64(n)), append(clean.Right, i%3 > 0)
		}
		var attacks []calib.Answers
		if attacked {
			attacks = append(attacks, calib.Answers{Confidence: clean.Confidence, Right: make([]bool, n)})
		}
		r := Rejection{Title: "errors", Curve: calib.NewRejectionCurve(clean, attacks...), Chosen: []float64{0.5}, Size: size}
		svg, err := r.Draw(picture.SVG)
		if err != nil {
			t.Fatal(err)
		}
		again, err := r.Draw(picture.SVG)
		if err != nil || !bytes.Equal(svg, again) {
			t.Error("two drawings differ")
		}
		return string(svg)
	}
	for _, attacked := range []bool{false, true} {
		svg := draw(20, attacked)
		for name, want := range map[string]bool{"clean error": true, "TPR": true, "robust error": attacked, "FPR": attacked} {
			if strings.Contains(svg, name) != want {
				t.Errorf("attacked %v: %q in the picture is %v", attacked, name, !want)
			}
		}
	}
	if many := draw(200_000, true); len(many) > 1<<20 {
		t.Errorf("a picture of %d bytes", len(many))
	}
}
