package radius

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/rscert/rscert/internal/decimal"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]float64{
		"0": 0, "0.25": 0.25, " 0.5 ": 0.5, "1e-3": 0.001, ".5": 0.5, "-0": 0, "1/4": 0.25, "0.5/2": 0.25, "0/255": 0, "255/255": 1, "5/1": 5,
	} {
		if got, err := Parse(text); err != nil || got != want || math.Signbit(got) {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "-1", "-1/4", "nan", "inf", "1e400", "1/0", "1/0.0", "/2", "1/", "1/2/3", "1 /2", "1e2/3", "2/255%", "25%", "0.5px", "½", "0x1p-2/3", "1/-4",
		"111111111111111111111/3"} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}

// Parse must round a fraction up, and ParseWithin must round it down. The two results must be neighbouring float64
// values. They may be equal only if the shortest decimal of this float64 (decimal.Of) is exactly the fraction.
func TestFractionsAreSafe(t *testing.T) {
	rounded := 0
	for above := range int64(256) {
		for _, below := range []int64{255, 3, 7, 65535} {
			text, exact := big.NewRat(above, 1).RatString()+"/"+big.NewRat(below, 1).RatString(), big.NewRat(above, below)
			up, err := Parse(text)
			if err != nil || decimal.Of(up).Cmp(exact) < 0 {
				t.Fatalf("%s: %v, %v", text, up, err)
			}
			down, err := ParseWithin(text)
			if err != nil || decimal.Of(down).Cmp(exact) > 0 {
				t.Fatalf("%s: %v, %v", text, down, err)
			}
			switch {
			case up == down && decimal.Of(up).Cmp(exact) != 0:
				t.Errorf("%s: %v is not exact", text, up)
			case up != down && math.Nextafter(down, 1e9) != up:
				t.Errorf("%s: %v and %v are not neighbours", text, down, up)
			case up != down:
				rounded++
			}
		}
	}
	if rounded == 0 {
		t.Error("no fraction was rounded")
	}
}

func TestParseList(t *testing.T) {
	got, err := ParseList([]float64{1}, "0.5, 0.25,0.5,1/4,1")
	if err != nil || !slices.Equal(got, []float64{1, 0.5, 0.25}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, text := range []string{"", "0.5,", ",0.5", "0.5,,1", "0.5;1", "0.5,-1"} {
		if got, err := ParseList(nil, text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}
