package smoothing

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/rscert/rscert/internal/law"
)

// latticeGolden holds vectors that testdata/lattice_golden.py computed.
type latticeGolden struct {
	Tables []struct {
		Ratio, Masses string
		First, Labels int
		Eta           uint64
	}
	Words []struct {
		Seed, Example string
		Phase         Phase
		Sample        int64
		Coordinates   []int
		Words         []string
	}
}

func readLatticeGolden(t *testing.T) (g latticeGolden) {
	t.Helper()
	data, err := os.ReadFile("testdata/lattice_golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// greatestRatio is the largest σ/g of Gaussian noise.
const greatestRatio = 3640

// gaussianTable returns the table for σ/g = num/den.
func gaussianTable(t testing.TB, num, den int64) *Table {
	t.Helper()
	table, err := NewLawTable(law.Gaussian, float64(num), big.NewRat(den, 1))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// cellsOf computes from a table's entries how many words of the given width draw each label. TestAliasesWordByWord
// compares these numbers with the results of draw.
func cellsOf(entries []uint64, width int) []*big.Int {
	n := uint64(len(entries))
	full := new(big.Int).Lsh(big.NewInt(1), uint(width))
	full.Quo(full, big.NewInt(int64(n)))
	cells := make([]*big.Int, n)
	for c := range cells {
		cells[c] = new(big.Int)
	}
	for c, e := range entries {
		own, alias := new(big.Int).SetUint64(e/n), e%n
		if uint64(c) <= alias {
			own.Add(own, big.NewInt(1))
		}
		if uint64(c) == alias {
			own.Set(full)
		}
		cells[c].Add(cells[c], own)
		cells[alias].Add(cells[alias], own.Sub(full, own))
	}
	return cells
}

// A Python program computed the masses of the same tables with erfc. The masses must agree in all 64 bits.
func TestTableGolden(t *testing.T) {
	for _, want := range readLatticeGolden(t).Tables {
		ratio, _ := new(big.Rat).SetString(want.Ratio)
		sigma, exact := new(big.Rat).SetInt(ratio.Num()).Float64()
		step := new(big.Rat).SetInt(ratio.Denom())
		if !exact {
			sigma, step = 0.12, big.NewRat(1, 255)
		}
		got, err := NewLawTable(law.Gaussian, sigma, step)
		if err != nil {
			t.Fatal(err)
		}
		if got.Name() != "gaussian "+want.Ratio {
			t.Errorf("σ/g = %s: name %q", want.Ratio, got.Name())
		}
		if got.First != want.First || got.Last != want.First+want.Labels-1 {
			t.Errorf("σ/g = %s: from %d to %d, want %d labels from %d",
				want.Ratio, got.First, got.Last, want.Labels, want.First)
		}
		if eta := math.Ldexp(float64(want.Eta), -92); got.Eta != eta {
			t.Errorf("σ/g = %s: η = %x, want %x", want.Ratio, got.Eta, eta)
		}
		var q []byte
		for label, c := range cellsOf(got.entries, 64) {
			if label < want.Labels {
				q = binary.LittleEndian.AppendUint64(q, c.Uint64())
			} else if c.Sign() != 0 {
				t.Errorf("σ/g = %s: label %d has mass", want.Ratio, label)
			}
		}
		if sum := sha256.Sum256(q); hex.EncodeToString(sum[:]) != want.Masses {
			t.Errorf("σ/g = %s: other masses", want.Ratio)
		}
		t.Logf("σ/g = %s: %d entries, η = 2^%.2f", want.Ratio, got.Entries(), math.Log2(got.Eta))
	}
}

// The tables must be the same on every machine, entry by entry.
func TestTableDigests(t *testing.T) {
	for _, c := range []struct {
		sigma float64
		step  *big.Rat
		want  string
	}{
		{0.12, big.NewRat(1, 255), "5167c60007b75e970965d78e9fe3b991f9666cc02def99a8c8afcbeaf0f7201f"},
		{0.25, big.NewRat(1, 255), "1dd9b82ea6bf5e844cb620b099d10669d40b839af8e102d2e0327cc26becbf19"},
		{0.5, big.NewRat(1, 255), "a2f876db41453e0cc3f5999b08bd730134c8acb95408c1b6728332622fcac439"},
		{1, big.NewRat(1, 255), "ce310f01cfd1827e72ee1bc3244182fe4dfcabd18a180951c2ee2df72562b161"},
		{0.5, big.NewRat(1, 256), "7fec4c4d13b36645c8d089bf53a0183488be8e236ca73f737a4f300f6bd6c8ef"},
		{0.05, big.NewRat(1, 65535), "fac11a570d7dd6f82c0003c0875d63142d592a005397c1ae6c4b0ef056b74fca"},
		{3640, big.NewRat(1, 1), "3169ae3cc0111a350b19340514360ce2f8805ef7765ca61ae37edf503392927c"},
	} {
		table, err := NewLawTable(law.Gaussian, c.sigma, c.step)
		if err != nil {
			t.Fatal(err)
		}
		if got := table.Digest(); got != c.want {
			t.Errorf("σ = %v, step %v: digest %s, want %s", c.sigma, c.step, got, c.want)
		}
	}
}

// The test uses words of only a few bits, and draws with every such word. The number of words that draw a label must
// equal the label's number of cells.
func TestAliasesWordByWord(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		width := 4 + rng.IntN(9)
		columns := 1 + rng.IntN(min(width-1, 6))
		labels := 1<<(columns-1) + 1 + rng.IntN(1<<(columns-1))
		counts := make([]uint64, labels)
		left := uint64(1)<<width - uint64(labels)
		for j := range counts {
			counts[j] = 1
			if j < labels-1 && rng.IntN(4) > 0 {
				k := rng.Uint64N(left/2 + 1)
				counts[j], left = 1+k, left-k
			}
		}
		counts[labels-1] += left
		rng.Shuffle(labels, func(i, j int) { counts[i], counts[j] = counts[j], counts[i] })
		entries := aliases(counts, columns, width)
		got := make([]uint64, 1<<columns)
		for w := range uint64(1) << width {
			label := draw(entries, w)
			if e := entries[w%uint64(len(entries))]; label != min(w, e)%uint64(len(entries)) {
				t.Fatalf("word %d with entry %d draws %d", w, e, label)
			}
			got[label]++
		}
		if !slices.Equal(got[:labels], counts) || slices.Max(append(got[labels:], 0)) > 0 {
			t.Fatalf("width %d, %d columns: labels are drawn %d times, want %d", width, columns, got, counts)
		}
		for label, c := range cellsOf(entries, width) {
			if c.Uint64() != got[label] {
				t.Fatalf("label %d: cellsOf counts %v words, draw %d", label, c, got[label])
			}
		}
	}
}

// For 64-bit words, the function 'draw' must return min(w, e) mod n. The test uses small, medium, large and random
// words, and words close to the entries e.
func TestDraw(t *testing.T) {
	table := gaussianTable(t, 30, 1)
	n := uint64(table.Entries())
	rng := rand.New(rand.NewPCG(3, 4))
	for c := range n {
		e := table.entries[c]
		for _, w := range []uint64{0, 1 << 63, math.MaxUint64, rng.Uint64(), e, e - n, e + n} {
			w = w/n*n + c
			if got, want := table.Integer(w), table.First+int(min(w, e)%n); got != want {
				t.Fatalf("word %#x draws %d, want %d", w, got, want)
			}
		}
	}
}

// normalCDF returns Φ(x) − ½ for x ≥ 0 as φ(x)·Σ x^{2n+1}/(1·3·…·(2n+1)) (DLMF 7.6.2). All terms are positive.
// normalCDF computes with 400 bits. Its error is below 2⁻³⁰⁰ for x ≤ 10.
func normalCDF(x *big.Float) *big.Float {
	f := func() *big.Float { return new(big.Float).SetPrec(400) }
	square := f().Mul(x, x)
	term, sum := f().Set(x), f()
	for n := int64(3); term.Sign() > 0 && term.MantExp(nil) > -400; n += 2 {
		sum.Add(sum, term)
		term.Quo(f().Mul(term, square), f().SetInt64(n))
	}
	// Use e^{−x²/2} = (e^{−x²/2¹²})^{2¹¹}.
	y := f().SetMantExp(square, -12)
	e, power := f().SetInt64(1), f().SetInt64(1)
	for n := int64(1); n < 80; n++ {
		power.Quo(f().Mul(power, f().Neg(y)), f().SetInt64(n))
		e.Add(e, power)
	}
	for range 11 {
		e.Mul(e, e)
	}
	pi, _, err := big.ParseFloat("3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348"+
		"2534211706798214808651", 10, 400, big.ToNearestEven)
	if err != nil {
		panic(err)
	}
	return sum.Mul(sum, e.Quo(e, pi.Sqrt(pi.Mul(pi, f().SetInt64(2)))))
}

// idealMass returns p_j = Φ((j+½)/ratio) − Φ((j−½)/ratio) for j ≥ 0, with an error below 2⁻²⁹⁰.
func idealMass(ratio *big.Rat, j int64) *big.Float {
	cdf := func(twice int64) *big.Float {
		x := new(big.Rat).Quo(big.NewRat(max(twice, -twice), 2), ratio)
		v := normalCDF(new(big.Float).SetPrec(400).SetRat(x))
		if twice < 0 {
			v.Neg(v)
		}
		return v
	}
	upper := cdf(2*j + 1)
	return upper.Sub(upper, cdf(2*j-1))
}

// The masses must be lower bounds that are too low by less than 2⁻¹²⁷. The test also checks that an integer of the
// table has at most (1+η) times its ideal mass. It computes with 400 bits, and allows for an error of 2⁻²⁹⁰ in the
// ideal mass. In larger tables, it checks only every 'stride'-th integer.
func TestNoMassAboveItsIdeal(t *testing.T) {
	unit := new(big.Float).SetMantExp(big.NewFloat(1), -290)
	for _, c := range []struct{ num, den, stride int64 }{
		{1, 1, 1}, {3, 2, 1}, {30, 1, 7}, {255, 4, 29}, {3640, 1, 2521},
	} {
		if testing.Short() {
			c.stride *= 8
		}
		ratio := big.NewRat(c.num, c.den)
		_, all := law.Gaussian.Masses(ratio)
		masses := all[len(all)/2:] // masses of the integers 0, 1, …
		table := gaussianTable(t, c.num, c.den)
		cells := cellsOf(table.entries, 64)
		onePlusEta := new(big.Float).SetPrec(400).SetFloat64(table.Eta)
		onePlusEta.Add(onePlusEta, big.NewFloat(1))
		for j := int64(0); j < int64(len(masses)); j += c.stride {
			ideal := idealMass(ratio, j)
			low := new(big.Float).SetPrec(400).SetUint64(masses[j].Hi)
			low.SetMantExp(low, 64)
			low.Add(low, new(big.Float).SetUint64(masses[j].Lo))
			low.SetMantExp(low, -128)
			gap := new(big.Float).Sub(ideal, low)
			if gap.Sign() <= 0 || gap.Cmp(new(big.Float).SetMantExp(big.NewFloat(1), -127)) >= 0 {
				t.Fatalf("σ/g = %v, j = %d: mass %.40g is %.3g below %.40g", ratio, j, low, gap, ideal)
			}
			for _, k := range []int64{j, -j} {
				if int(k) < table.First || int(k) > table.Last {
					continue
				}
				mass := new(big.Float).SetPrec(400).SetInt(cells[int(k)-table.First])
				mass.SetMantExp(mass, -64)
				limit := new(big.Float).Mul(new(big.Float).Sub(ideal, unit), onePlusEta)
				if mass.Cmp(limit) > 0 {
					t.Errorf("σ/g = %v: mass of %d is %.20g, above (1+η)·%.20g", ratio, k, mass, ideal)
				}
			}
		}
	}
}

// η must be minimal: with η − 2⁻⁹² in place of η, the masses must sum to less than 1.
func TestEtaIsLeast(t *testing.T) {
	for _, ratio := range []int64{1, 30, 1000} {
		_, masses := law.Gaussian.Masses(big.NewRat(ratio, 1))
		eta := uint64(math.Ldexp(gaussianTable(t, ratio, 1).Eta, etaPlaces))
		total := func(eta uint64) *big.Int {
			sum := new(big.Int)
			for j, p := range masses {
				// Compute ⌊p(1+η)2⁶⁴⌋ with big integers.
				q := new(big.Int).SetUint64(p.Hi)
				q.Add(q.Lsh(q, 64), new(big.Int).SetUint64(p.Lo))
				factor := new(big.Int).Lsh(big.NewInt(1), etaPlaces)
				q.Mul(q, factor.Add(factor, new(big.Int).SetUint64(eta)))
				q.Rsh(q, 64+etaPlaces)
				if q.Cmp(new(big.Int).SetUint64(cells(p, eta))) != 0 {
					t.Fatalf("σ/g = %d: %v cells of %d, want %v", ratio, cells(p, eta), j, q)
				}
				sum.Add(sum, q)
			}
			return sum
		}
		one := new(big.Int).Lsh(big.NewInt(1), 64)
		if total(eta).Cmp(one) < 0 || total(eta-1).Cmp(one) >= 0 {
			t.Errorf("σ/g = %d: η = %d·2⁻⁹² is not the least", ratio, eta)
		}
	}
}

// massOf returns a fraction as a Mass, rounded down.
func massOf(p *big.Rat) Mass {
	x := new(big.Int).Lsh(p.Num(), 128)
	x.Quo(x, p.Denom())
	hi := new(big.Int).Rsh(x, 64)
	return Mass{Hi: hi.Uint64(), Lo: x.Sub(x, new(big.Int).Lsh(hi, 64)).Uint64()}
}

// The test uses three kinds of distributions that are not Gaussian: a uniform distribution whose masses need no
// rounding (η = 0), a uniform distribution whose masses are rounded, and the two-sided geometric distribution P(J = j)
// = (1−θ)/(1+θ)·θ^|j|.
func TestOtherDistributions(t *testing.T) {
	for _, n := range []int64{2, 3, 64, 65, 1000} {
		masses := slices.Repeat([]Mass{massOf(big.NewRat(1, n))}, int(n))
		table, err := NewTable(fmt.Sprint("uniform ", n), -5, masses)
		if err != nil {
			t.Fatal(err)
		}
		if (table.Eta == 0) != (n&(n-1) == 0) || table.First != -5 || table.Last != int(n)-6 {
			t.Errorf("uniform on %d: from %d to %d, η = %v", n, table.First, table.Last, table.Eta)
		}
		total := new(big.Int)
		for label, c := range cellsOf(table.entries, 64) {
			share, _ := new(big.Rat).SetFrac(c, new(big.Int).Lsh(big.NewInt(1), 64)).Float64()
			if want := 1 / float64(n); label < int(n) && math.Abs(share-want) > 1e-17+float64(n)*0x1p-64 {
				t.Errorf("uniform on %d: label %d has mass %v", n, label, share)
			}
			total.Add(total, c)
		}
		if total.BitLen() != 65 || total.TrailingZeroBits() != 64 {
			t.Errorf("uniform on %d: %v words in all", n, total)
		}
	}
	theta, p := big.NewRat(15, 16), big.NewRat(1, 31)
	var half []Mass
	for range 700 {
		half = append(half, massOf(p))
		p = new(big.Rat).Mul(p, theta)
	}
	reversed := slices.Clone(half[1:])
	slices.Reverse(reversed)
	table, err := NewTable("two-sided geometric 15/16", -699, append(reversed, half...))
	if err != nil {
		t.Fatal(err)
	}
	var variance float64
	for label, c := range cellsOf(table.entries, 64) {
		j := float64(table.First + label)
		share, _ := new(big.Rat).SetFrac(c, new(big.Int).Lsh(big.NewInt(1), 64)).Float64()
		variance += j * j * share
	}
	if want := 2 * 15. / 16 * 256; math.Abs(variance-want) > 1e-9 || !(table.Eta > 0 && table.Eta < 0x1p-53) {
		t.Errorf("two-sided geometric: variance %v, want %v; η = %v", variance, want, table.Eta)
	}
}

func TestTableRefuses(t *testing.T) {
	half, third := massOf(big.NewRat(1, 2)), massOf(big.NewRat(1, 3))
	for name, masses := range map[string][]Mass{
		"nothing":         nil,
		"too little":      {half, third},
		"too much":        {half, half, third},
		"a unit too much": {half, half, {Hi: 1}},
		"a gap":           {half, {}, half},
		"too many":        slices.Repeat([]Mass{massOf(big.NewRat(1, 1<<17))}, 1<<17),
		"a single label":  {{Hi: math.MaxUint64, Lo: math.MaxUint64}},
	} {
		if _, err := NewTable(name, 0, masses); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	for _, c := range []struct {
		sigma float64
		step  *big.Rat
	}{
		{0, one}, {-1, one}, {math.Inf(1), one}, {math.NaN(), one}, {1, new(big.Rat)},
		{1, big.NewRat(-1, 255)}, {1, big.NewRat(2, 1)}, {1, big.NewRat(1, 3641)}, {1e300, one},
	} {
		if _, err := NewLawTable(law.Gaussian, c.sigma, c.step); err == nil {
			t.Errorf("σ = %v, step %v: no error", c.sigma, c.step)
		}
	}
}

// Deflate must be a lower bound on α·e^{−Nη} and almost equal to it. The test computes with 300 bits.
func TestDeflate(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 2_000 {
		alpha := math.Exp(-20 * rng.Float64())
		eta := math.Ldexp(1+rng.Float64(), -45-rng.IntN(20))
		draws := int64(1) << rng.IntN(46) * (1 + rng.Int64N(3))
		y := new(big.Float).SetPrec(300).SetInt64(draws)
		y.Mul(y, new(big.Float).SetFloat64(eta))
		if approx, _ := y.Float64(); approx > 3 {
			continue
		}
		exact := new(big.Float).SetPrec(300).SetInt64(1)
		term := new(big.Float).SetPrec(300).SetInt64(1)
		for n := int64(1); n < 100; n++ {
			term.Mul(term, y)
			term.Quo(term, big.NewFloat(float64(-n)))
			exact.Add(exact, term)
		}
		exact.Mul(exact, big.NewFloat(alpha))
		got := Deflate(alpha, eta, draws)
		if big.NewFloat(got).Cmp(exact) >= 0 {
			t.Fatalf("α = %v, η = %v, %d draws: %v is not below %v", alpha, eta, draws, got, exact)
		}
		f, _ := y.Float64()
		want, _ := exact.Float64()
		if loss := (want - got) / alpha; loss > 1e-14+f*f*f*f/24 {
			t.Fatalf("α = %v, η = %v, %d draws: %v loses %g of %v", alpha, eta, draws, got, loss, want)
		}
	}
	// For ImageNet with n = 100,000 and η = 2⁻⁵², Deflate lowers α by 3.35e-6·α.
	if loss := 1 - Deflate(1e-3, 0x1p-52, 100_100*150_528)/1e-3; math.Abs(loss-3.35e-6) > 1e-8 {
		t.Errorf("ImageNet loses %v of α", loss)
	}
	if Deflate(0.001, 0x1p-45, 1<<50) != 0 {
		t.Error("α is left after 2⁵⁰ draws")
	}
}

func BenchmarkTable(b *testing.B) {
	for _, ratio := range []int64{30, 100, 400, 1000, 3640} {
		b.Run(strconv.FormatInt(ratio, 10), func(b *testing.B) {
			for range b.N {
				gaussianTable(b, ratio, 1)
			}
		})
	}
}

// TestColumns checks that the number of a table's columns is the smallest power of two that holds all labels.
func TestColumns(t *testing.T) {
	for labels, want := range map[int]int{2: 2, 3: 4, 4: 4, 5: 8, 8: 8, 9: 16} {
		table, err := NewTable("equal", 0, slices.Repeat([]Mass{massOf(big.NewRat(1, int64(labels)))}, labels))
		if err != nil {
			t.Fatal(err)
		}
		if 1<<table.bits != want || len(table.entries) != want {
			t.Errorf("%d labels: 2^%d columns, %d entries, want %d", labels, table.bits, len(table.entries), want)
		}
	}
}
