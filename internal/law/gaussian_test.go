package law

import (
	"math"
	"math/big"
	"testing"
)

func TestNormalQuantileIsBelow(t *testing.T) {
	// The function 'below' reports whether Φ(z) ≤ p holds in spite of all rounding errors. For p > ½ it uses Φ(−z) and
	// 1−p, because 1−p is exact there.
	below := func(z, p float64) bool {
		if p > 0.5 {
			v, e := Gaussian.CDF(-z)
			return v*(1-e) >= 1-p
		}
		v, e := Gaussian.CDF(z)
		return v*(1+e) <= p
	}
	for _, p := range []float64{1e-300, 1e-200, 1e-20, 1e-5, 0.01, 0.3, 0.5, 0.7, 0.999, 1 - 1e-12, 1 - unit} {
		lo, hi := Low(Gaussian, p), High(Gaussian, p)
		if !below(lo, p) {
			t.Errorf("Φ(Low(%v) = %v) may be above it", p, lo)
		}
		if p < 1-unit && !below(-hi, 1-p) && p > 1e-15 {
			t.Errorf("Φ(High(%v) = %v) may be below it", p, hi)
		}
		if hi-lo > 1e-11*(1+math.Abs(lo)) || hi < lo {
			t.Errorf("Φ⁻¹(%v) is enclosed in [%v, %v]", p, lo, hi)
		}
	}
	if lo, hi := Low(Gaussian, 1), High(Gaussian, 1); lo < 8.2 || lo > 8.3 || !math.IsInf(hi, 1) {
		t.Errorf("Φ⁻¹(1) is enclosed in [%v, %v]", lo, hi)
	}
	for _, c := range []struct{ p, z float64 }{ // test values of Wichura 1988, AS 241
		{0.25, -0.6744897501960817}, {0.001, -3.090232306167814}, {1e-20, -9.262340089798408},
	} {
		if lo := Low(Gaussian, c.p); lo > c.z+1e-15 || lo < c.z-1e-11 {
			t.Errorf("Low(%v) = %.17g, want %.17g", c.p, lo, c.z)
		}
	}
	if lo := Low(Gaussian, 0); !math.IsInf(lo, -1) {
		t.Errorf("Low(0) = %v", lo)
	}
}

// The test compares Φ with a series of 450 terms in big floats: Φ(z) = ½ + φ(z)Σ z^(2k+1)/(2k+1)!!.
func TestNormalCDFErrorBound(t *testing.T) {
	const prec = 400
	pi, _, err := big.ParseFloat("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798", 10, prec, big.ToNearestEven)
	if err != nil {
		t.Fatal(err)
	}
	for _, z := range []float64{-9, -6.3, -4, -3.09, -1, -0.1, 0, 0.5, 1.7, 3.7, 6} {
		Z := new(big.Float).SetPrec(prec).SetFloat64(z)
		square := new(big.Float).SetPrec(prec).Mul(Z, Z)
		sum, term := new(big.Float).SetPrec(prec), new(big.Float).SetPrec(prec).Set(Z)
		for k := int64(1); k < 900; k += 2 {
			sum.Add(sum, term)
			term.Mul(term, square)
			term.Quo(term, new(big.Float).SetInt64(k+2))
		}
		// e^(−z²/2) is 1/e^(z²/2), and e^(z²/2) comes from its series.
		half := new(big.Float).SetPrec(prec).Quo(square, big.NewFloat(2))
		exp, et := new(big.Float).SetPrec(prec), new(big.Float).SetPrec(prec).SetInt64(1)
		for k := int64(1); k < 700; k++ {
			exp.Add(exp, et)
			et.Mul(et, half)
			et.Quo(et, new(big.Float).SetInt64(k))
		}
		root := new(big.Float).SetPrec(prec).Sqrt(new(big.Float).SetPrec(prec).Add(pi, pi))
		sum.Quo(sum, exp)
		sum.Quo(sum, root)
		sum.Add(sum, big.NewFloat(0.5))
		got, relErr := Gaussian.CDF(z)
		diff := new(big.Float).SetPrec(prec).Sub(new(big.Float).SetPrec(prec).SetFloat64(got), sum)
		d, _ := diff.Quo(diff, sum).Float64()
		if math.Abs(d) > relErr {
			t.Errorf("Φ(%v): relative error %v, stated %v", z, d, relErr)
		}
	}
}

// TestNormalCDFError recomputes the error bound that CDF returns, in units of 2⁻⁵³. Four units in the last place of
// Erfc are at most 8·2⁻⁵³, and the argument's error adds 4·(z² + 1)·2⁻⁵³.
func TestNormalCDFError(t *testing.T) {
	for _, z := range []float64{-8, -1, 0, 0.5, 3} {
		if _, relErr := Gaussian.CDF(z); relErr != 2*(4+2*(z*z+1))*0x1p-53 {
			t.Errorf("Φ(%v): stated error %v", z, relErr)
		}
	}
}

// TestGaussianPeakAllowsForRoundings checks that Peak adds the largest possible rounding error to the value of its
// formula. Each argument z of Φ is off by up to 4·unit·(margin + ln(r)/margin), and Φ magnifies this error by |z| + 1.
// The function CDF, which computes Φ, has a further error.
func TestGaussianPeakAllowsForRoundings(t *testing.T) {
	for _, tt := range []struct{ margin, r float64 }{{60, 1}, {20, 2}, {3.1, 128}, {3, 64}, {2.5, 32}, {2, 16}} {
		shift := math.Log(tt.r) / tt.margin
		z1, z2 := tt.margin/2-shift, -tt.margin/2-shift
		v1, e1 := Gaussian.CDF(z1)
		v2, e2 := Gaussian.CDF(z2)
		argument := 4 * unit * (tt.margin + shift)
		slack := v1*(e1+argument*(math.Abs(z1)+1)) + tt.r*v2*(e2+argument*(math.Abs(z2)+1)) + 4*unit*(v1+tt.r*v2)
		// The rounding error of v1 − r·v2 is only a few times 'unit', because v1 and r·v2 are at most 1.
		if got := Gaussian.Peak(tt.margin, tt.r) - (v1 - tt.r*v2); got < slack-4*unit || got > slack+4*unit {
			t.Errorf("margin %v, r = %v: %v above the formula, want %v", tt.margin, tt.r, got, slack)
		}
	}
}

// The radius σ√(π/2)·margin uses the constant √(π/2), rounded to float64. The test checks the constant.
func TestSqrtHalfPi(t *testing.T) {
	c := new(big.Float).SetPrec(200)
	c.SetString("3.14159265358979323846264338327950288419716939937510")
	c.Sqrt(c.Quo(c, big.NewFloat(2)))
	if want, _ := c.Float64(); want != sqrtHalfPi {
		t.Errorf("√(π/2) = %v, not %v", want, sqrtHalfPi)
	}
}
