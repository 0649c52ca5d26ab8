package law

import (
	"math/big"
	"strings"
	"testing"
)

func TestWidth(t *testing.T) {
	bytes := big.NewRat(1, 255)
	for w := 2; w <= 600; w++ {
		if got, err := Width(float64(w)/510, bytes); got != w || err != nil {
			t.Fatalf("λ = %d/510: W = %d, %v", w, got, err)
		}
	}
	for _, c := range []struct {
		scale float64
		step  *big.Rat
		want  string // part of the error; if empty, W must be 10
	}{
		{1.25, big.NewRat(1, 4), ""},
		{64. / 255 * (1 + 0x1p-52), bytes, "(W = 128)"}, // 64/255 gives W = 128, this λ is slightly larger
		{0.25, bytes, "the nearest are λ = 0.24901960784313726 (W = 127) and 0.25098039215686274 (W = 128)"},
		{1.3, big.NewRat(1, 4), "the nearest are λ = 1.25 (W = 10) and 1.375 (W = 11)"},
		{0.001, bytes, "want 2 to 65533"},
		{200, bytes, "want 2 to 65533"},
		{0, bytes, "above 0"},
		{1, big.NewRat(-1, 2), "above 0"},
	} {
		got, err := Width(c.scale, c.step)
		if c.want == "" && (got != 10 || err != nil) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("λ = %v, step %s: W = %d, %v; want %q", c.scale, c.step.RatString(), got, err, c.want)
		}
	}
}

func TestSplittingIsNotAdditive(t *testing.T) {
	for _, l := range Laws {
		n := Of(l)
		_, err := n.Additive()
		if isSplitting := l == Splitting; (err != nil) != isSplitting || n.Deterministic() != isSplitting || (n.NeedRandom() != nil) != isSplitting {
			t.Errorf("%s: additive: %v, deterministic: %v", n, err, n.Deterministic())
		}
	}
	if n := len(Additives()); n != len(Laws)-1 {
		t.Errorf("%d of %d laws are additive", n, len(Laws))
	}
}
