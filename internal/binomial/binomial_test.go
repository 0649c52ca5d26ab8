package binomial

import (
	"fmt"
	"math"
	"math/big"
	"testing"
)

// exactTail returns the exact value of P(Bin(n, p) ≥ k) for the float64 p.
func exactTail(n, k int64, p float64) *big.Rat {
	P := new(big.Rat).SetFloat64(p)
	Q := new(big.Rat).Sub(big.NewRat(1, 1), P)
	// All terms have the common denominator 2^(s·n), so the code adds only the numerators, which are integers.
	s := max(P.Denom().BitLen(), Q.Denom().BitLen()) - 1
	one := new(big.Int).Lsh(big.NewInt(1), uint(s))
	a := new(big.Int).Div(new(big.Int).Mul(P.Num(), one), P.Denom())
	b := new(big.Int).Sub(one, a)
	sum := new(big.Int)
	for j := k; j <= n; j++ {
		term := new(big.Int).Binomial(n, j)
		term.Mul(term, new(big.Int).Exp(a, big.NewInt(j), nil))
		sum.Add(sum, term.Mul(term, new(big.Int).Exp(b, big.NewInt(n-j), nil)))
	}
	return new(big.Rat).SetFrac(sum, new(big.Int).Lsh(big.NewInt(1), uint(int64(s)*n)))
}

// The test compares Tail with exact rational arithmetic.
func TestBinomialTailEnclosesExactValue(t *testing.T) {
	for _, n := range []int64{1, 2, 5, 17, 40} {
		for _, p := range []float64{1e-12, 1e-3, 0.1, 0.3, 0.5, 0.7, 0.999, 1 - 1e-12} {
			for k := int64(0); k <= n; k++ {
				exact := exactTail(n, k, p)
				got := Tail(n, k, p)
				lo, hi := new(big.Rat).SetFloat64(got.Lower), new(big.Rat).SetFloat64(got.Upper)
				value, _ := exact.Float64()
				if value < 1e-290 {
					continue // the enclosure of a tail below 1e-290 may be wide
				}
				if lo.Cmp(exact) > 0 || hi.Cmp(exact) < 0 || got.Lower < 0 || got.Upper > 1 {
					t.Errorf("P(Bin(%d, %v) ≥ %d) = %v, enclosed in [%v, %v]", n, p, k, value, got.Lower, got.Upper)
				}
				if got.Upper-got.Lower > 1e-11*value {
					t.Errorf("P(Bin(%d, %v) ≥ %d) = %v: the enclosure is %v wide", n, p, k, value, got.Upper-got.Lower)
				}
			}
		}
	}
}

// The test compares Tail with a sum in 160-bit floats: the sum of the probabilities of k, k+1, … successes. A
// recurrence gives these probabilities.
func TestBinomialTailLarge(t *testing.T) {
	const prec = 160
	f := func(x float64) *big.Float { return new(big.Float).SetPrec(prec).SetFloat64(x) }
	for _, c := range []struct {
		n, k int64
		p    float64
	}{
		{100000, 93642, 0.934}, {20000, 19998, 0.9998}, {20000, 10150, 0.5}, {20000, 3, 1e-5},
		{20000, 4000, 0.21}, {5000, 4999, 0.9985}, {30000, 100, 0.001},
		// Here k is below the mean. The rounded 1−p has lost most digits of p, so Tail must compute λ from p.
		{100000, 4, 6.68e-5}, {1000000, 30, 4.1234567891e-5}, {1000000, 7, 1.2345678912e-5},
	} {
		// p and 1−p are exact numbers here. Tail rounds 1−p, and its bound covers this rounding.
		p := f(c.p)
		q := new(big.Float).SetPrec(prec).Sub(f(1), p)
		// The recurrence starts at j = 0, where term(0) = qⁿ comes from repeated squaring.
		term, square := f(1), new(big.Float).SetPrec(prec).Set(q)
		for e := c.n; e > 0; e >>= 1 {
			if e&1 == 1 {
				term.Mul(term, square)
			}
			square.Mul(square, square)
		}
		odds := new(big.Float).SetPrec(prec).Quo(p, q)
		sum := f(0)
		for j := int64(0); ; j++ {
			if j >= c.k {
				sum.Add(sum, term)
			}
			if j == c.n || j > 2*c.k && term.MantExp(nil) < sum.MantExp(nil)-prec {
				break
			}
			term.Mul(term, odds)
			term.Mul(term, f(float64(c.n-j)))
			term.Quo(term, f(float64(j+1)))
		}
		got := Tail(c.n, c.k, c.p)
		if f(got.Lower).Cmp(sum) > 0 || f(got.Upper).Cmp(sum) < 0 {
			t.Errorf("P(Bin(%d, %v) ≥ %d) = %v, enclosed in [%v, %v]", c.n, c.p, c.k, sum, got.Lower, got.Upper)
		}
		if got.Upper-got.Lower > 1e-9*got.Upper {
			t.Errorf("P(Bin(%d, %v) ≥ %d): the enclosure [%v, %v] is wide", c.n, c.p, c.k, got.Lower, got.Upper)
		}
	}
}

// bigLog returns ln x. It splits x into m·2^e and computes ln m by the series of 2 artanh((m−1)/(m+1)). It computes ln
// 2 by the same series.
func bigLog(x *big.Float) *big.Float {
	const prec = 200
	m := new(big.Float).SetPrec(prec)
	e := x.MantExp(m)
	artanh := func(y *big.Float) *big.Float {
		sum, power := new(big.Float).SetPrec(prec), new(big.Float).SetPrec(prec).Set(y)
		square := new(big.Float).SetPrec(prec).Mul(y, y)
		for k := int64(1); k < 300; k += 2 {
			sum.Add(sum, new(big.Float).SetPrec(prec).Quo(power, new(big.Float).SetInt64(k)))
			power.Mul(power, square)
		}
		return sum.Add(sum, sum)
	}
	one := big.NewFloat(1)
	log := func(m *big.Float) *big.Float {
		a, b := new(big.Float).SetPrec(prec).Sub(m, one), new(big.Float).SetPrec(prec).Add(m, one)
		return artanh(a.Quo(a, b))
	}
	ln2 := log(new(big.Float).SetPrec(prec).SetInt64(2))
	return ln2.Mul(ln2, new(big.Float).SetInt64(int64(e))).Add(ln2, log(m))
}

// TestStirlingTable computes ln n! − (n+½)ln n + n − ½ln 2π to 50 digits. For n ≤ 15 it compares these values with the
// table, and for larger n with the series.
func TestStirlingTable(t *testing.T) {
	const prec = 200
	// π has 60 digits here (OEIS A000796).
	pi, _, err := big.ParseFloat("3.14159265358979323846264338327950288419716939937510582097494", 10, prec, big.ToNearestEven)
	if err != nil {
		t.Fatal(err)
	}
	factorial := big.NewInt(1)
	for n := int64(1); n <= 60; n++ {
		factorial.Mul(factorial, big.NewInt(n))
		N := new(big.Float).SetPrec(prec).SetInt64(n)
		half := new(big.Float).SetPrec(prec).SetFloat64(0.5)
		v := bigLog(new(big.Float).SetPrec(prec).SetInt(factorial))
		v.Sub(v, new(big.Float).SetPrec(prec).Mul(new(big.Float).SetPrec(prec).Add(N, half), bigLog(N)))
		v.Add(v, N)
		v.Sub(v, new(big.Float).SetPrec(prec).Mul(half, bigLog(new(big.Float).SetPrec(prec).Add(pi, pi))))
		want, _ := v.Float64()
		if got := stirlingError(n); math.Abs(got-want) > 4*unit {
			t.Errorf("Stirling error of %d is %.17g, want %.17g", n, got, want)
		}
	}
}

// exactLogTerm returns ln P(Bin(n, p) = k) and LogTerm's bound on its own error. It computes both numbers from 200-bit
// logarithms of the exact p and 1−p.
func exactLogTerm(n, k int64, p float64) (logp, allowance float64) {
	f := func(x float64) *big.Float { return new(big.Float).SetPrec(200).SetFloat64(x) }
	mul := func(x, y *big.Float) *big.Float { return new(big.Float).SetPrec(200).Mul(x, y) }
	N, x, y, P := f(float64(n)), f(float64(k)), f(float64(n-k)), f(p)
	Q := new(big.Float).SetPrec(1200).Sub(f(1), P)
	sum := bigLog(new(big.Float).SetPrec(200).SetInt(new(big.Int).Binomial(n, k)))
	sum.Add(sum, mul(x, bigLog(P)))
	sum.Add(sum, mul(y, bigLog(Q)))
	logp, _ = sum.Float64()
	if k == 0 || k == n {
		return logp, 8 * unit * (1 - logp)
	}
	// D(k, np) + D(n−k, nq) = k ln(k/np) + (n−k) ln((n−k)/nq).
	part := func(x, p *big.Float) *big.Float {
		return mul(x, bigLog(new(big.Float).SetPrec(200).Quo(x, mul(N, p))))
	}
	d, _ := new(big.Float).Add(part(x, P), part(y, Q)).Float64()
	off, _ := new(big.Float).Sub(x, mul(N, P)).Float64()
	return logp, unit * (24*math.Abs(off) + 24*d - 4*logp + 64)
}

// The error of LogTerm is within the bound that LogTerm returns. This bound equals the bound that exactLogTerm
// computes. A smaller bound would have no proof, and a larger bound would widen the enclosure of every tail.
func TestLogTermBound(t *testing.T) {
	for _, n := range []int64{1, 2, 7, 30, 300, 20000} {
		for _, p := range []float64{1e-300, 1e-17, 1e-9, 0.01, 0.37, 0.5, 0.93, 1 - 1e-9, 1 - unit} {
			for _, k := range []int64{0, 1, 2, 3, n / 3, n / 2, int64(float64(n) * p), n - 3, n - 1, n} {
				if k < 0 || k > n {
					continue
				}
				want, allowance := exactLogTerm(n, k, p)
				got, bound := LogTerm(n, k, p, 1-p)
				if !(math.Abs(got-want) <= bound+unit*math.Abs(want)) {
					t.Errorf("ln P(Bin(%d, %v) = %d) = %v, want %v: off by %v, stated %v", n, p, k, got, want, got-want, bound)
				}
				if !(math.Abs(bound-allowance) <= 1e-6*allowance) {
					t.Errorf("ln P(Bin(%d, %v) = %d): the error is stated as %v, documented as %v", n, p, k, bound, allowance)
				}
			}
		}
	}
}

// If the continued fraction ends after b = n−k+1 steps, the relative width of the enclosure is 4(e + (32b+16)·unit),
// where e is the error bound of LogTerm. Each end also has a rounding error of a few units. The test averages over n,
// so these rounding errors nearly cancel.
func TestTailWidth(t *testing.T) {
	for _, b := range []int64{1, 2, 5, 8} {
		first, last := 20*b, 220*b
		excess := 0.0
		for n := first; n < last; n++ {
			k := n - b + 1
			p := (float64(k) - 0.3) / float64(n+1)
			_, e := LogTerm(n, k, p, 1-p)
			got := Tail(n, k, p)
			excess += 2*(got.Upper-got.Lower)/(got.Upper+got.Lower)/unit - 4*(e/unit+float64(32*b+16))
		}
		if excess /= float64(last - first); !(math.Abs(excess) < 1) {
			t.Errorf("tails of %d terms are %v units wider than documented", b, excess)
		}
	}
}

// If pⁿ < e⁻⁷⁰⁰, Tail encloses P(Bin(n, p) ≥ n) = pⁿ between 0 and 2e⁻⁷⁰⁰.
func TestTailBelowNormalNumbers(t *testing.T) {
	for _, n := range []int64{2, 50, 1000} {
		for _, logp := range []float64{-700.1, -720, -800, -1400} {
			got := Tail(n, n, math.Exp(logp/float64(n)))
			want := 2 * math.Exp(-700)
			if got.Lower != 0 || got.Upper < math.Exp(logp) || math.Abs(got.Upper-want) > 1e-9*want {
				t.Errorf("P(Bin(%d, p) = %d) = exp(%v) is enclosed in [%v, %v]", n, n, logp, got.Lower, got.Upper)
			}
		}
	}
}

func TestTailEdges(t *testing.T) {
	for _, n := range []int64{1, 6, 100} {
		for _, p := range []float64{0, 1e-300, 0.3, 0.9, 1 - unit, 1} {
			for _, k := range []int64{-1, 0} {
				if got := Tail(n, k, p); got != (Span{1, 1}) {
					t.Errorf("P(Bin(%d, %v) ≥ %d) is enclosed in [%v, %v]", n, p, k, got.Lower, got.Upper)
				}
			}
			for _, k := range []int64{n + 1, n + 2} {
				if got := Tail(n, k, p); got != (Span{0, 0}) {
					t.Errorf("P(Bin(%d, %v) ≥ %d) is enclosed in [%v, %v]", n, p, k, got.Lower, got.Upper)
				}
			}
		}
		for k := int64(1); k <= n; k++ {
			if none, all := Tail(n, k, 0), Tail(n, k, 1); none != (Span{0, 0}) || all != (Span{1, 1}) {
				t.Errorf("P(Bin(%d, p) ≥ %d) is %v for p = 0, %v for p = 1", n, k, none, all)
			}
		}
	}
}

// The test checks the definition: the exact tail is ≤ α at the bound, and > α slightly above it.
func TestLowerBoundIsExact(t *testing.T) {
	for _, n := range []int64{1, 3, 10, 35} {
		for _, alpha := range []float64{1e-30, 1e-6, 0.001, 0.05, 0.5, 0.99} {
			A := new(big.Rat).SetFloat64(alpha)
			for x := int64(1); x <= n; x++ {
				p := LowerBound(x, n, alpha)
				if exactTail(n, x, p).Cmp(A) > 0 {
					t.Errorf("lower(%d, %d, %v) = %v is above the bound", x, n, alpha, p)
				}
				if above := p * (1 + 1e-9); above < 1 && exactTail(n, x, above).Cmp(A) <= 0 {
					t.Errorf("lower(%d, %d, %v) = %v is not tight", x, n, alpha, p)
				}
				s := LowerSpan(x, n, alpha)
				if s.Lower != p || s.Upper > p*(1+1e-9)+1e-15 || (s.Upper < 1 && exactTail(n, x, s.Upper).Cmp(A) < 0) {
					t.Errorf("lower(%d, %d, %v) is enclosed in [%v, %v]", x, n, alpha, s.Lower, s.Upper)
				}
				u := UpperBound(n-x, n, alpha)
				// At the upper bound u, P(Bin(n, u) ≤ n−x) must be at most α.
				tail := new(big.Rat).Sub(big.NewRat(1, 1), exactTail(n, n-x+1, u))
				if tail.Cmp(A) > 0 {
					t.Errorf("upper(%d, %d, %v) = %v is below the bound", n-x, n, alpha, u)
				}
			}
		}
	}
	if got := LowerBound(0, 10, 0.1); got != 0 {
		t.Errorf("lower(0) = %v", got)
	}
	if got := UpperBound(10, 10, 0.1); got != 1 {
		t.Errorf("upper(n) = %v", got)
	}
}

// The test uses closed forms: lower(n, n, α) = α^(1/n), lower(1, n, α) = 1 − (1−α)^(1/n).
func TestLowerBoundClosedForms(t *testing.T) {
	for _, n := range []int64{1, 10, 100, 100000, 1000000000} {
		for _, alpha := range []float64{1e-50, 0.001, 0.3} {
			want := math.Exp(math.Log(alpha) / float64(n))
			if got := LowerBound(n, n, alpha); got > want*(1+1e-15) || got < want*(1-1e-9) {
				t.Errorf("lower(%d, %d, %v) = %v, want %v", n, n, alpha, got, want)
			}
			if s := LowerSpan(n, n, alpha); s.Upper < want*(1-1e-15) || s.Upper > want*(1+1e-9) {
				t.Errorf("lower(%d, %d, %v) is enclosed in [%v, %v], want %v", n, n, alpha, s.Lower, s.Upper, want)
			}
			want = -math.Expm1(math.Log1p(-alpha) / float64(n))
			if got := LowerBound(1, n, alpha); got > want*(1+1e-14) || got < want*(1-1e-9) {
				t.Errorf("lower(1, %d, %v) = %v, want %v", n, alpha, got, want)
			}
		}
	}
}

// The exact bound α^(1/n) is very close to 1. Tail cannot prove for any float64 below 1 that this number lies above the
// exact bound. So the upper end must be 1.
func TestLowerSpanNearOne(t *testing.T) {
	for _, n := range []int64{1, 5, 100} {
		if s := LowerSpan(n, n, 1-unit); !(s.Lower > 1-1e-13) || s.Upper != 1 {
			t.Errorf("lower(%d, %d, 1 − 2⁻⁵³) is enclosed in [%v, %v]", n, n, s.Lower, s.Upper)
		}
	}
}

func FuzzLowerBound(f *testing.F) {
	f.Add(int64(100), int64(99), 0.001)
	f.Add(int64(100000), int64(3), 0.0005)
	f.Add(int64(1), int64(1), 0.999)
	f.Add(int64(1)<<40, int64(1)<<39, 1e-100)
	f.Fuzz(func(t *testing.T, n, x int64, alpha float64) {
		if n < 1 || n > 1<<30 || x < 0 || x > n || !(alpha >= MinLevel && alpha < 1) {
			t.Skip()
		}
		p := LowerBound(x, n, alpha)
		if !(p >= 0 && p < 1) || (x > 0 && p == 0) {
			t.Fatalf("lower(%d, %d, %v) = %v", x, n, alpha, p)
		}
		if tail := Tail(n, x, p); x > 0 && tail.Upper > alpha {
			t.Fatalf("lower(%d, %d, %v) = %v has a tail up to %v", x, n, alpha, p, tail.Upper)
		}
	})
}

func BenchmarkLowerBound(b *testing.B) {
	for _, n := range []int64{1000, 100000} {
		b.Run(fmt.Sprint("n=", n), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				LowerBound(n*9/10+int64(i%64), n, 0.001)
			}
		})
	}
}

// The tail at the bound is proved to be at most α, because the upper end of its enclosure is at most α.
func TestLowerBoundIsProved(t *testing.T) {
	const steps = 60
	for _, alpha := range []float64{1e-10, 1e-4, 0.001, 0.01, 0.05, 0.5, 0.9} {
		for _, n := range []int64{1, 2, 3, 5, 10, 17, 100, 101, 1e3, 1e4, 1e5, 1e6, 1e8} {
			for i := range min(n, steps) {
				x := 1 + i*(n-1)/steps
				if tail := Tail(n, x, LowerBound(x, n, alpha)); tail.Upper > alpha {
					t.Errorf("lower(%d, %d, %v): the tail there is in [%v, %v]", x, n, alpha, tail.Lower, tail.Upper)
				}
			}
		}
	}
}
