package dataset

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/law"
)

// csvOf writes rows of decimals, with labels 0, 1, ….
func csvOf(t *testing.T, format string, rows ...[]float64) string {
	t.Helper()
	var b strings.Builder
	for label, row := range rows {
		fmt.Fprint(&b, label)
		for _, v := range row {
			fmt.Fprintf(&b, ","+format, v)
		}
		b.WriteByte('\n')
	}
	return write(t, filepath.Join(t.TempDir(), "rows.csv"), []byte(b.String()))
}

// npzOf writes rows of the given NumPy type.
func npzOf(t *testing.T, dtype string, rows ...[]float64) string {
	t.Helper()
	var flat []float64
	var narrow []float32
	labels := make([]int64, len(rows))
	for i, row := range rows {
		labels[i] = int64(i)
		for _, v := range row {
			flat, narrow = append(flat, v), append(narrow, float32(v))
		}
	}
	var x []byte
	if shape := fmt.Sprintf("%d, %d", len(rows), len(rows[0])); dtype == "<f8" {
		x = npyFile(dtype, shape, flat)
	} else {
		x = npyFile(dtype, shape, narrow)
	}
	y := npyFile("<i8", fmt.Sprintf("%d,", len(rows)), labels)
	return write(t, filepath.Join(t.TempDir(), "rows.npz"), npz(t, 0, "x", x, "y", y))
}

// distance returns ‖x − float32(x)‖₂, computed with 200 bits.
func distance(row []float64) *big.Float {
	sum := new(big.Float).SetPrec(200)
	for _, v := range row {
		d := new(big.Float).SetPrec(200).Sub(big.NewFloat(v), big.NewFloat(float64(float32(v))))
		sum.Add(sum, new(big.Float).SetPrec(200).Mul(d, d))
	}
	return sum.Sqrt(sum)
}

// distanceL1 returns ‖x − float32(x)‖₁, computed with 200 bits.
func distanceL1(row []float64) *big.Float {
	sum := new(big.Float).SetPrec(200)
	for _, v := range row {
		d := new(big.Float).SetPrec(200).Sub(big.NewFloat(v), big.NewFloat(float64(float32(v))))
		sum.Add(sum, d.Abs(d))
	}
	return sum
}

// TestFloat64ThatIsNoFloat32 reads two inputs. Except for one value, the values are 1e6 − 0.03 in the first input and
// 1e6 + 0.03 in the second. float32 rounds both numbers to 1e6. The inputs are on no lattice, and each example must
// have the right Rounding.
func TestFloat64ThatIsNoFloat32(t *testing.T) {
	const d = 1024
	rows := [][]float64{make([]float64, d), make([]float64, d)}
	for i := range d {
		rows[0][i], rows[1][i] = 1e6-.03, 1e6+.03
	}
	rows[1][5] = -1e6 + .01
	for name, path := range map[string]string{"npz": npzOf(t, "<f8", rows...), "csv": csvOf(t, "%.3f", rows...)} {
		data := mustOpen(t, path)
		l, err := data.Lattice(context.Background())
		if err != nil || l.Kind != NoLattice || !l.Rounded {
			t.Fatalf("%s: %v, rounded %v (%v)", name, l, l.Rounded, err)
		}
		for i, row := range rows {
			e, err := data.Example(i)
			if err != nil {
				t.Fatal(err)
			}
			want := distance(row)
			if got := big.NewFloat(e.Rounding); got.Cmp(want) < 0 || e.Rounding > .96*(1+1e-6) || e.Rounding < .95 {
				t.Errorf("%s: example %d is moved by %v, want %v", name, i, e.Rounding, want)
			}
			want = distanceL1(row)
			w, _ := want.Float64()
			if got := big.NewFloat(e.RoundingL1); got.Cmp(want) < 0 || e.RoundingL1 > w*(1+1e-6) {
				t.Errorf("%s: example %d is moved by %v in L1, want %v", name, i, e.RoundingL1, want)
			}
		}
		if got, want := l.ReadingRounding(law.L1, d), 1024*0x1p-24*1e6; !(got >= want) || got > want*(1+1e-9) {
			t.Errorf("%s: reading may move others by %v in L1, want %v", name, got, want)
		}
		if got, want := l.ReadingRounding(law.L2, d), 32*0x1p-24*1e6; !(got >= want) || got > want*(1+1e-9) {
			t.Errorf("%s: reading may move others by %v, want %v", name, got, want)
		}
	}
}

// If a file holds a lattice point in a usual spelling, as a float64 number or as a decimal, this value must count as a
// lattice point. Numbers next to these spellings must not count as lattice points.
func TestFloat64OnALattice(t *testing.T) {
	var bytes, words, powers []float64
	for k := range 256 {
		bytes, words, powers = append(bytes, float64(k)/255), append(words, float64(251*k+1)/65535), append(powers, float64(k-128)/8)
	}
	var fine, shortest, nine, beside []float64
	for k := range 256 {
		v := float64(131*k+1) / (1 << 15)
		fine = append(fine, v)
		name, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', -1, 32), 64)
		shortest = append(shortest, name)
		name, _ = strconv.ParseFloat(fmt.Sprintf("%.9g", v), 64)
		nine = append(nine, name)
		beside = append(beside, v*(1+0x1p-30))
	}
	for _, tt := range []struct {
		name, path string
		kind       LatticeKind
		rounded    bool
		rounding   float64 // upper limit on the rounding of the file's values
	}{
		{"k/255 in float64", npzOf(t, "<f8", bytes), ByteLattice, true, 0x1p-24},
		{"k/255 in float32", npzOf(t, "<f4", bytes), ByteLattice, false, 0x1p-25},
		{"k/255 in decimals", csvOf(t, "%v", bytes, bytes), ByteLattice, true, 0x1p-24},
		{"k/65535 in float64", npzOf(t, "<f8", words), WordLattice, true, 0x1p-24},
		{"k/8 in float64", npzOf(t, "<f8", powers), BinaryLattice, false, 0},
		{"k/8 in decimals", csvOf(t, "%v", powers, powers), BinaryLattice, false, 0},
		{"k/2¹⁵, shortest", csvOf(t, "%v", shortest, shortest), BinaryLattice, true, 0x1p-24},
		{"k/2¹⁵, nine digits", csvOf(t, "%.9g", fine, fine), BinaryLattice, true, 0x1p-24},
		{"k/2¹⁵, nine digits of float64", npzOf(t, "<f8", nine), BinaryLattice, true, 0x1p-24},
		{"k/2¹⁵, next to it", npzOf(t, "<f8", beside), NoLattice, true, 0},
	} {
		l, err := mustOpen(t, tt.path).Lattice(context.Background())
		if err != nil || l.Kind != tt.kind || l.Rounded != tt.rounded || l.rounding > tt.rounding || tt.rounded && l.rounding == 0 && tt.rounding > 0 {
			t.Errorf("%s: %v, rounded %v, by up to %g (%v)", tt.name, l, l.Rounded, l.rounding, err)
		}
		if !tt.rounded && l.ReadingRounding(law.L2, 7) != 0 {
			t.Errorf("%s: reading costs %v", tt.name, l.ReadingRounding(law.L2, 7))
		}
	}
}

// TestRoundingIsUpward checks that Rounding is at least ‖x − float32(x)‖₂, also for numbers that float32 rounds to 0.
func TestRoundingIsUpward(t *testing.T) {
	for _, row := range [][]float64{{.1, .2, .3}, {1e-60, 1}, {1e-320, 0}, {1 + 0x1p-40}, {math.Pi * 1e30, -math.E * 1e-30, 5}} {
		for name, path := range map[string]string{"npz": npzOf(t, "<f8", row, row), "csv": csvOf(t, "%v", row, row)} {
			e, err := mustOpen(t, path).Example(0)
			if err != nil {
				t.Fatal(err)
			}
			want := distance(row)
			w, _ := want.Float64()
			if big.NewFloat(e.Rounding).Cmp(want) < 0 || e.Rounding > w*(1+1e-6)+0x1p-140 {
				t.Errorf("%s of %v: %v, want %v", name, row, e.Rounding, want)
			}
		}
		if e, err := mustOpen(t, npzOf(t, "<f4", row, row)).Example(0); err != nil || e.Rounding != 0 {
			t.Errorf("float32 of %v: %v (%v)", row, e.Rounding, err)
		}
	}
}
