package law_test

import (
	"encoding/json"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/law/lawtest"
)

// The function 'all' returns the additive laws and an additional law for tests.
func all() []law.Additive { return append([]law.Additive{lawtest.Logistic}, law.Additives()...) }

func cdf(l law.Additive, z float64) float64 {
	p, _ := l.CDF(z)
	return p
}

// integral integrates g over [−60, 60] by the midpoint rule.
func integral(g func(x float64) float64) float64 {
	const step = 0.005
	var sum float64
	for k := range 24_000 {
		sum += g(-60+(float64(k)+0.5)*step) * step
	}
	return sum
}

// The methods CDF, Density, Quantile and Slope of a law must agree with each other, and the density must be
// log-concave.
func TestFunctionsAgree(t *testing.T) {
	for _, l := range all() {
		for z := -7.05; z < 7; z += 0.1 {
			if got := cdf(l, z) + cdf(l, -z); math.Abs(got-1) > 1e-15 {
				t.Errorf("%s: F(%v) + F(−z) = %v", l.Name(), z, got)
			}
			if l.Density(z) == 0 {
				continue
			}
			const h = 1e-5
			if got := (cdf(l, z+h) - cdf(l, z-h)) / (2 * h); math.Abs(got/l.Density(z)-1) > 1e-4 && z < 0 {
				t.Errorf("%s: F'(%v) = %v, f = %v", l.Name(), z, got, l.Density(z))
			}
			p := cdf(l, z)
			if got := l.Quantile(p); math.Abs(got-z) > 1e-4 {
				t.Errorf("%s: Q(F(%v)) = %v", l.Name(), z, got)
			}
			low, high := law.Low(l, p), law.High(l, p)
			if atLow, e := l.CDF(low); low > high || atLow*(1-e) > p || high-low > 1e-4 {
				t.Errorf("%s: Q(%v) is enclosed in [%v, %v]", l.Name(), p, low, high)
			}
			for _, shift := range []float64{-2, 0.3, 1.7} {
				slope := l.Slope(z, shift)
				if want := l.Density(z+shift) / l.Density(z); math.Abs(slope-want) > 1e-9*want {
					t.Errorf("%s: slope %v at %v, %v; want %v", l.Name(), slope, z, shift, want)
				}
				if next := l.Slope(z+0.1, shift); shift > 0 && l.Density(z+0.1) > 0 && next > slope*(1+1e-12) {
					t.Errorf("%s: f is not log-concave at %v", l.Name(), z)
				}
			}
		}
	}
}

// The test searches for the maximum of F(z+margin) − r·F(z). Peak must not be below this maximum, and may exceed it
// only slightly.
func TestPeakIsLargest(t *testing.T) {
	for _, l := range all() {
		for _, margin := range []float64{0.01, 0.4, 1, 3, 7} {
			for _, r := range []float64{1, 1.5, 4, 100} {
				most := 0.0
				for z := -margin / 2; z > -30; z -= 1e-3 {
					most = max(most, cdf(l, z+margin)-r*cdf(l, z))
				}
				if got := l.Peak(margin, r); got < most-1e-15 || got > most+1e-6 {
					t.Errorf("%s: peak %v of margin %v, r = %v; by search %v", l.Name(), got, margin, r, most)
				}
			}
		}
	}
}

// At scale 1, the theorem l.Second() must give the radius R = ½[Q(p_A) − Q(p_B)], and l.First() must give R1 = (p_A −
// p_B)/(2·max f). For another scale the radii are multiplied by the scale. Margin must be the inverse of Radius.
func TestTheorems(t *testing.T) {
	for _, l := range all() {
		for _, c := range []struct {
			theorem law.Theorem
			factor  float64
		}{{l.Second(), 0.5}, {l.First(), 1 / (2 * l.Density(0))}} {
			for _, scale := range []float64{0.1, 1, 12} {
				for _, margin := range []float64{0.02, 0.5, 0.9} {
					radius := c.theorem.Radius(margin, scale)
					if want := scale * margin * c.factor; math.Abs(radius/want-1) > 1e-14 {
						t.Errorf("%s: radius %v of margin %v at scale %v, want %v", l.Name(), radius, margin, scale, want)
					}
					if back := c.theorem.Margin(radius, scale); math.Abs(back/margin-1) > 1e-14 {
						t.Errorf("%s: margin %v of the radius of %v", l.Name(), back, margin)
					}
				}
			}
		}
	}
}

// If the input moves in a direction whose length is 1 in the law's norm, the probability p of an event must not change
// faster than f(Q(p)). The test moves the input in the direction (1, 1) and uses the events {ε₁ + ε₂ ≥ c}. The
// direction has the length √2 in L2 and the length 2 in L1. So p may change at most √2 times as fast as f(Q(p)) if the
// law's norm is L2, and at most twice as fast if the norm is L1. If no p in the test changes more than √2 times as fast
// as f(Q(p)), the law's norm must be L2. Otherwise it must be L1.
func TestNormIsTheLargestBall(t *testing.T) {
	for _, l := range all() {
		fastest := 0.0
		for _, c := range []float64{0, 1, 3, 6, 9} {
			p := integral(func(x float64) float64 { return l.Density(x) * cdf(l, x-c) })
			change := integral(func(x float64) float64 { return 2 * l.Density(x) * l.Density(c-x) })
			fastest = max(fastest, change/l.Density(l.Quantile(p)))
		}
		want := law.L1
		if fastest <= math.Sqrt2*(1+1e-6) {
			want = law.L2
		}
		if fastest > 2*(1+1e-6) {
			t.Errorf("%s: along the diagonal an event changes %v times as fast as along a coordinate", l.Name(), fastest)
		}
		if l.Norm() != want {
			t.Errorf("%s: norm %s, want %s (%v)", l.Name(), l.Norm(), want, fastest)
		}
	}
}

func TestMassesAreOfTheLaw(t *testing.T) {
	for _, l := range all() {
		for _, ratio := range []*big.Rat{big.NewRat(l.Ratios().Least, 1), big.NewRat(61, 2), big.NewRat(187, 5), big.NewRat(l.Ratios().Greatest, 1)} {
			r, _ := ratio.Float64()
			move := 0.0
			if l == law.Uniform && ratio.IsInt() {
				move = 0.5 // the method Masses moves this noise by half a step
			}
			sum := 0.0
			first, masses := l.Masses(ratio)
			for i, m := range masses {
				p := math.Ldexp(float64(m.Hi), -64)
				z := -math.Abs(float64(first+i) + move)
				if want := cdf(l, (z+0.5)/r) - cdf(l, (z-0.5)/r); math.Abs(p-want) > 1e-9 {
					t.Fatalf("%s at %v: P(%d) = %v, want %v", l.Name(), ratio, first+i, p, want)
				}
				sum += p
			}
			if math.Abs(sum-1) > 1e-12 || len(masses) > 1<<16 {
				t.Errorf("%s at %v: %d masses sum to %v", l.Name(), ratio, len(masses), sum)
			}
		}
	}
}

// The test computes Laplace masses again with 600 binary places, from the series of e^x. Each mass of the law must be
// below the exact mass, by less than 2⁻¹²⁷.
func TestLaplaceMassesAreJustBelow(t *testing.T) {
	const prec = 600
	number := func(x float64) *big.Float { return new(big.Float).SetPrec(prec).SetFloat64(x) }
	exp := func(x *big.Float) *big.Float { // for x ≤ 0: the series gives e^(x/2¹⁶), which is then squared 16 times
		small := new(big.Float).SetPrec(prec).SetMantExp(x, -16)
		sum, term := number(1), number(1)
		for k := 1.0; k < 60; k++ {
			term.Mul(term, small)
			term.Quo(term, number(k))
			sum.Add(sum, term)
		}
		for range 16 {
			sum.Mul(sum, sum)
		}
		return sum
	}
	for _, ratio := range []*big.Rat{big.NewRat(1, 1), big.NewRat(255, 4), big.NewRat(710, 1)} {
		t64 := new(big.Float).SetPrec(prec).SetRat(new(big.Rat).Inv(ratio))
		_, masses := law.Laplace.Masses(ratio)
		last := len(masses) / 2
		for _, j := range []int{0, 1, 2, 17, last / 2, last} {
			want := new(big.Float).Sub(number(1), exp(new(big.Float).SetMantExp(new(big.Float).Neg(t64), -1))) // j = 0
			if j > 0 {                                                                                         // ½(e^{−(j−½)t} − e^{−(j+½)t})
				near := exp(new(big.Float).Mul(t64, number(0.5-float64(j))))
				far := exp(new(big.Float).Mul(t64, number(-0.5-float64(j))))
				want.SetMantExp(near.Sub(near, far), -1)
			}
			for _, k := range []int{last - j, last + j} {
				got := new(big.Float).SetPrec(prec).SetUint64(masses[k].Hi)
				got.Add(new(big.Float).SetMantExp(got, 64), new(big.Float).SetPrec(prec).SetUint64(masses[k].Lo))
				got.SetMantExp(got, -128)
				if gap := new(big.Float).Sub(want, got); gap.Sign() < 0 || gap.Cmp(new(big.Float).SetMantExp(number(1), -127)) >= 0 {
					t.Errorf("b/g = %v: P(%d) = %.40g, want %.40g", ratio, k-last, got, want)
				}
			}
		}
	}
}

// If W = 2λ/step is whole, each of the W integers must have the mass 1/W, rounded down to 128 binary places. The mass
// must be exact if W is a power of two. To test Ratios.Round, the test sets λ to the float64 nearest to W·step/2. The
// ratio λ/step is then only almost equal to W/2, and Round must replace it by W/2.
func TestUniformIntegers(t *testing.T) {
	for _, c := range []struct {
		width int64
		first int
	}{{2, -1}, {3, -1}, {128, -64}, {255, -127}, {65532, -32766}} {
		first, masses := law.Uniform.Masses(big.NewRat(c.width, 2))
		if first != c.first || int64(len(masses)) != c.width {
			t.Fatalf("W = %d: %d integers from %d on", c.width, len(masses), first)
		}
		for _, m := range masses {
			value := new(big.Int).SetUint64(m.Hi)
			value.Add(value.Lsh(value, 64), new(big.Int).SetUint64(m.Lo))
			rest := new(big.Int).Lsh(big.NewInt(1), 128)
			rest.Sub(rest, value.Mul(value, big.NewInt(c.width)))
			if rest.Sign() < 0 || rest.Cmp(big.NewInt(c.width)) >= 0 || c.width&(c.width-1) == 0 && rest.Sign() != 0 {
				t.Fatalf("W = %d: a mass times W is %v·2⁻¹²⁸ below 1", c.width, rest)
			}
		}
		scale, _ := big.NewRat(c.width, 2*255).Float64()
		ratio := new(big.Rat).SetFloat64(scale)
		ratio.Mul(ratio, big.NewRat(255, 1))
		limits := law.Uniform.Ratios()
		if got := limits.Round(ratio); got.Cmp(big.NewRat(c.width, 2)) != 0 {
			t.Errorf("W = %d: ratio %v", c.width, got)
		}
		further, _ := ratio.Float64()
		further *= 1 + 0x1p-51
		if got := limits.Round(new(big.Rat).SetFloat64(further)); got.Cmp(big.NewRat(c.width, 2)) == 0 {
			t.Errorf("W = %d: a ratio two roundings away becomes W/2", c.width)
		}
	}
	if got := law.Gaussian.Ratios().Round(big.NewRat(1<<53-1, 1<<46)); got.Cmp(big.NewRat(1<<53-1, 1<<46)) != 0 {
		t.Errorf("Gaussian ratio %v", got)
	}
}

// For each law, the radius theorem that the law's method Second returns is tight. Let R be the radius of this theorem,
// and let the regions of the two classes be half spaces. If the input then moves by R along a coordinate, the two
// classes become equally probable.
func TestRadiusIsAttained(t *testing.T) {
	for _, l := range all() {
		for _, c := range []struct{ pA, pB float64 }{{0.9, 0.05}, {0.7, 0.2}, {0.55, 0.4}} {
			margin := l.Quantile(c.pA) - l.Quantile(c.pB)
			radius := l.Second().Radius(margin, 1)
			// ε₁ is the noise of the first coordinate. At the distance R, the probability of {ε₁ ≤ Q(p_A)} falls to
			// F(Q(p_A) − R), and the probability of {ε₁ > Q(1 − p_B)} grows to F(Q(p_B) + R).
			a, b := cdf(l, l.Quantile(c.pA)-radius), cdf(l, l.Quantile(c.pB)+radius)
			if math.Abs(a-b) > 1e-12 {
				t.Errorf("%s: at the radius %v the classes have the probabilities %v and %v", l.Name(), radius, a, b)
			}
		}
	}
}

// The test computes the norms of (3, −4).
func TestLength(t *testing.T) {
	for norm, want := range map[law.Norm]float64{law.L2: 5, law.L1: 7} {
		if got := norm.Length(norm.Add(norm.Add(0, 3), -4)); got != want {
			t.Errorf("%s of (3, −4): %v, want %v", norm, got, want)
		}
	}
}

// If a file names neither a law nor a norm, the noise must be Gaussian and the norm L2. The functions that parse names
// must accept every name that rscert writes.
func TestNames(t *testing.T) {
	type record struct {
		Law  law.Name `json:"law,omitempty"`
		Norm law.Norm `json:"norm"`
	}
	lawtest.Use(t, lawtest.Logistic)
	for _, c := range []struct {
		read, written string
		law           law.Law
	}{
		{`{}`, `{"norm":"l2"}`, law.Gaussian},
		{`{"law":"gaussian","norm":"l2"}`, `{"norm":"l2"}`, law.Gaussian},
		{`{"law":"test-logistic","norm":"l1"}`, `{"law":"test-logistic","norm":"l1"}`, lawtest.Logistic},
	} {
		var r record
		if err := json.Unmarshal([]byte(c.read), &r); err != nil {
			t.Fatal(err)
		}
		if text, err := json.Marshal(r); string(text) != c.written || err != nil || r.Law.Law() != c.law || r.Law.String() != c.law.Name() {
			t.Errorf("%s: %+v, written as %s, %v", c.read, r, text, err)
		}
	}
	var r record
	for _, text := range []string{`{"law":"cauchy"}`, `{"norm":"l3"}`} {
		if err := json.Unmarshal([]byte(text), &r); err == nil || !strings.Contains(err.Error(), ": want ") {
			t.Errorf("%s: %v", text, err)
		}
	}
}
