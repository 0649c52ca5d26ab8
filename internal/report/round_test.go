package report

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// Each wanted string is the number in the first column of the table, rounded by hand.
func TestRound(t *testing.T) {
	for _, test := range []struct {
		x               float64
		to              Rounding
		shift, decimals int
		want            string
	}{
		{0.11956, Up, 0, 4, "0.1196"},
		{0.11956, Down, 0, 4, "0.1195"},
		{0.11951, Up, 0, 4, "0.1196"},
		{0.1195, Up, 0, 4, "0.1195"},
		{0.81 + 0x1p-53, Up, 0, 4, "0.8101"},
		{0.99999, Down, 0, 4, "0.9999"},
		{0.99999, Up, 0, 4, "1.0000"},
		{0.99999, Nearest, 0, 4, "1.0000"},
		{9.99, Up, 0, 0, "10"},
		{0.57, Down, 2, 1, "57.0"}, // 100·0.57 is 56.99999999999999 in float64
		{2.0 / 3, Down, 2, 1, "66.6"},
		{0.07, Up, 2, 1, "7.0"},
		{1e-20, Down, 0, 4, "0.0000"},
		{1e-20, Up, 0, 4, "0.0001"},
		{-1e-20, Up, 0, 4, "0.0000"},
		{-1e-20, Down, 0, 4, "-0.0001"},
		{-0.11956, Up, 0, 4, "-0.1195"},
		{0.00005, Nearest, 0, 4, "0.0001"},
		{0.00004999, Nearest, 0, 4, "0.0000"},
		{0.000005, Nearest, 0, 4, "0.0000"},
		{0, Up, 0, 2, "0.00"},
		{math.Copysign(0, -1), Down, 0, 2, "0.00"},
		{3e15, Down, 0, 1, "3000000000000000.0"},
		{1234.5, Down, 0, 0, "1234"},
		{0.25, Nearest, 0, Shortest, "0.25"},
		{0.57, Nearest, 2, Shortest, "57"},
		{1e-7, Nearest, 0, Shortest, "1e-07"},
		{math.Inf(1), Down, 0, 4, "∞"}, {math.Inf(-1), Down, 0, 4, "−∞"},
		{math.NaN(), Down, 0, 4, Missing},
	} {
		if got := Round(test.x, test.to, test.shift, test.decimals); got != test.want {
			t.Errorf("Round(%v, %d, %d, %d) = %s, want %s", test.x, test.to, test.shift, test.decimals, got, test.want)
		}
	}
}

// checkRound checks the promises of Round in exact rational arithmetic. After rounding down, the printed number must be
// at most the shortest decimal of x. After rounding up, it must be at least this decimal. The distance of the printed
// number from this decimal is less than one unit of the last decimal. For rounding to nearest, the distance is at most
// half a unit. If the printed number is read back as a float64, it is at most x after rounding down, and at least x
// after rounding up.
func checkRound(t *testing.T, x float64, decimals int) {
	t.Helper()
	exact, ok := new(big.Rat).SetString(strconv.FormatFloat(x, 'g', -1, 64))
	if !ok {
		t.Fatalf("%v is no number", x)
	}
	unit, _ := new(big.Rat).SetString(fmt.Sprintf("1e-%d", decimals))
	for _, to := range []Rounding{Nearest, Down, Up} {
		s := Round(x, to, 0, decimals)
		printed, ok := new(big.Rat).SetString(s)
		if !ok {
			t.Fatalf("Round(%v, %d, %d) = %q, not a number", x, to, decimals, s)
		}
		if _, fraction, _ := strings.Cut(s, "."); len(fraction) != decimals {
			t.Errorf("Round(%v, %d, %d) = %s: %d decimals", x, to, decimals, s, len(fraction))
		}
		read, _ := strconv.ParseFloat(s, 64)
		off := new(big.Rat).Sub(printed, exact)
		good := true
		switch to {
		case Down:
			good = off.Sign() <= 0 && read <= x
		case Up:
			good = off.Sign() >= 0 && read >= x
		case Nearest:
			good = new(big.Rat).Add(off, off).Cmp(unit) <= 0 && new(big.Rat).Add(off, off).Cmp(new(big.Rat).Neg(unit)) >= 0
		}
		if !good || off.Abs(off).Cmp(unit) >= 0 {
			t.Errorf("Round(%v, %d, %d) = %s", x, to, decimals, s)
		}
	}
}

func TestRoundProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		x := r.Float64()
		switch r.IntN(4) {
		case 0: // short decimals, and their neighbours
			x = float64(r.IntN(20000)) / 10000
			x = math.Nextafter(x, float64(r.IntN(3)-1))
		case 1:
			x = math.Exp(80 * (x - 0.5))
		case 2:
			x = -x
		}
		checkRound(t, x, r.IntN(7))
	}
}

func FuzzRound(f *testing.F) {
	f.Add(0.11956, uint8(4))
	f.Add(-9.9999e-7, uint8(6))
	f.Fuzz(func(t *testing.T, x float64, decimals uint8) {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			t.Skip()
		}
		checkRound(t, x, int(decimals%20))
	})
}
