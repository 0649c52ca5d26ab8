package fixedpoint

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// The function 'rational' returns a/2⁶³ as a fraction. It uses math/big and no arithmetic of the package.
func rational(a Sum) *big.Rat {
	r := new(big.Rat).SetInt64(a.hi)
	r.Mul(r, new(big.Rat).SetFloat64(0x1p64))
	r.Add(r, new(big.Rat).SetUint64(a.lo))
	return r.Quo(r, new(big.Rat).SetFloat64(0x1p63))
}

func units(v uint64) *big.Rat { return rational(Sum{0, v}) }

func checkRounding(t *testing.T, x float64) {
	t.Helper()
	exact := new(big.Rat).SetFloat64(x)
	down, up := Floor(x), Ceil(x)
	if units(down).Cmp(exact) > 0 || units(up).Cmp(exact) < 0 || up-down > 1 {
		t.Errorf("%g: [%d, %d] does not enclose it by neighbours", x, down, up)
	}
	if x >= 0x1p-11 && up != down {
		t.Errorf("%g is a multiple of 2⁻⁶³ but is rounded", x)
	}
}

func TestRounding(t *testing.T) {
	for _, x := range []float64{0, 1, 0.5, 0.1, 1.0 / 3, 0x1p-63, 0x1p-64, 0x1.8p-63, 0x1p-11,
		math.Nextafter(0x1p-11, 0), math.Nextafter(1, 0), 5e-324, 1e-300} {
		checkRounding(t, x)
	}
	if Floor(1) != One || Ceil(1) != One || Ceil(5e-324) != 1 || Floor(5e-324) != 0 {
		t.Error("ends of the range")
	}
	if SquareUp(One) != One || SquareUp(0) != 0 || SquareUp(1) != 1 {
		t.Error("squares of the ends of the range")
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 20000 {
		checkRounding(t, r.Float64()*math.Exp2(-float64(r.IntN(70))))
	}
}

// TestArithmetic compares the operations on sums with exact fractions (math/big.Rat).
func TestArithmetic(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 5000 {
		a := Sum{int64(r.Uint64()) >> (2 + r.IntN(61)), r.Uint64()}
		b := Sum{int64(r.Uint64()) >> (2 + r.IntN(61)), r.Uint64()}
		n, v := 1+int(r.Uint64()>>(1+r.IntN(62))), r.Uint64()>>r.IntN(64)
		ra, rb := rational(a), rational(b)
		if rational(a.Add(b)).Cmp(new(big.Rat).Add(ra, rb)) != 0 {
			t.Fatalf("%v + %v", a, b)
		}
		if rational(a.Sub(b)).Cmp(new(big.Rat).Sub(ra, rb)) != 0 {
			t.Fatalf("%v − %v", a, b)
		}
		c := a
		c.AddUnits(v)
		if c != a.Add(Sum{0, v}) {
			t.Fatalf("%v + %d units", a, v)
		}
		c = a
		c.AddProduct(n>>2, v>>1)
		if c != a.Add(Product(n>>2, v>>1)) {
			t.Fatalf("%v + %d × %d", a, n>>2, v>>1)
		}
		if a.Cmp(b) != ra.Cmp(rb) {
			t.Fatalf("%v <=> %v", a, b)
		}
		if rational(a.Abs()).Cmp(new(big.Rat).Abs(ra)) != 0 {
			t.Fatalf("|%v|", a)
		}
		square := new(big.Rat).Mul(units(v>>1), units(v>>1))
		if d := new(big.Rat).Sub(units(SquareUp(v>>1)), square); d.Sign() < 0 || d.Cmp(units(1)) >= 0 {
			t.Fatalf("%d² is %d", v>>1, SquareUp(v>>1))
		}
		small := n >> 2
		want := new(big.Rat).Mul(new(big.Rat).SetInt64(int64(small)), units(v>>1))
		if rational(Product(small, v>>1)).Cmp(want) != 0 {
			t.Fatalf("%d × %d", small, v>>1)
		}
		up, down := a.MeanUp(n), a.MeanDown(n)
		mean := new(big.Rat).Quo(ra, new(big.Rat).SetInt64(int64(n)))
		if new(big.Rat).SetFloat64(up).Cmp(mean) < 0 || new(big.Rat).SetFloat64(down).Cmp(mean) > 0 {
			t.Fatalf("mean of %v over %d: [%g, %g]", a, n, down, up)
		}
		if up != down && math.Nextafter(down, 2*math.Abs(down)+1) != up {
			t.Fatalf("mean of %v over %d: %g and %g are not neighbours", a, n, down, up)
		}
	}
}
