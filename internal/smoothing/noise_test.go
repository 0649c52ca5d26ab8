package smoothing

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
)

// The golden words and Gaussians come from an independent implementation with Python integers and decimals
// (testdata/noise_golden.py).
func TestNoiseGolden(t *testing.T) {
	var vectors []struct {
		Seed, Example, Key string
		Phase              Phase
		Sample             int64
		Coordinates        []int
		Words              []uint32
		Gaussians, Float32 []string
	}
	data, err := os.ReadFile("testdata/noise_golden.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &vectors); err != nil {
		t.Fatal(err)
	}
	parse := func(s string, base int) uint64 {
		v, err := strconv.ParseUint(s, base, 64)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	neighbours, values := 0, 0
	for _, v := range vectors {
		example := parse(v.Example, 10)
		if uint64(int(example)) != example {
			continue // int has 32 bits on this platform
		}
		s := NewStream(parse(v.Seed, 10), int(example), v.Phase)
		name := fmt.Sprintf("seed %s example %s phase %d sample %d", v.Seed, v.Example, v.Phase, v.Sample)
		if s.key != parse(v.Key, 16) {
			t.Fatalf("%s: key %016x, want %s", name, s.key, v.Key)
		}
		last := v.Coordinates[len(v.Coordinates)-1]
		g := make([]float32, last+1)
		s.Fill(g, v.Sample)
		words := make([]uint32, last+1)
		s.words(words, uint64(v.Sample)*weyl)
		for i, d := range v.Coordinates {
			if words[d] != v.Words[i] {
				t.Errorf("%s: word %d is %d, want %d", name, d, words[d], v.Words[i])
			}
			exact, err := strconv.ParseFloat(v.Gaussians[i], 64)
			if err != nil {
				t.Fatal(err)
			}
			if e := math.Abs(float64(g[d]) - exact); e > 2.5e-7 {
				t.Errorf("%s: coordinate %d is %v, off by %g", name, d, g[d], e)
			}
			values++
			switch bits := uint32(parse(v.Float32[i], 16)); math.Float32bits(g[d]) {
			case bits:
			case bits - 1, bits + 1:
				neighbours++
			default:
				t.Errorf("%s: coordinate %d is %v, not next to %v", name, d, g[d], math.Float32frombits(bits))
			}
		}
	}
	t.Logf("%d of %d values are correctly rounded", values-neighbours, values)
}

// The noise must have the same bytes on every platform. The expected hash was computed on amd64. The hash is the same
// with GOARCH=386, and with GOAMD64=v3, where the compiler may fuse x·y + z.
func TestNoiseBytes(t *testing.T) {
	const want = "0c7b27018af68f01bb9734a7f87fff31a74008c129475155e27179c75b623c3b"
	hash := sha256.New()
	g := make([]float32, 1000)
	buf := make([]byte, 4*len(g))
	for i := range 1000 {
		NewStream(uint64(i), i, Phase(i&1)).Fill(g, int64(i))
		for d, v := range g {
			binary.LittleEndian.PutUint32(buf[4*d:], math.Float32bits(v))
		}
		hash.Write(buf)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != want {
		t.Errorf("the first million values hash to %s, want %s", got, want)
	}
}

// exactPair computes the two Gaussians of a pair of words in float64, directly by their definition. The error of each
// is below 1e-15.
func exactPair(a, b uint32) (float64, float64) {
	k := uint64(a)<<8 + uint64(b&255) + 1
	lnU := math.Log1p(-float64(1<<40-k) / (1 << 40))
	if k < 1<<39 {
		lnU = math.Log(float64(k) / (1 << 40))
	}
	sin, cos := math.Sincos(2 * math.Pi * float64(b>>8) / (1 << 24))
	r := math.Sqrt(-2 * lnU)
	return r * cos, r * sin
}

// The test checks all angles at the largest radius. It then checks radii of every magnitude, mostly in directions close
// to a coordinate axis. In these directions, the absolute value of one coordinate is close to the radius.
func TestBoxMullerError(t *testing.T) {
	var worst, worstInner float64
	var g [2]float32
	check := func(a, b uint32) {
		boxMuller(g[:], []uint32{a, b})
		c, s := exactPair(a, b)
		for i, exact := range []float64{c, s} {
			e := math.Abs(float64(g[i]) - exact)
			worst = max(worst, e)
			// Here e is the whole error, and 'half' is a bound on the error of the final rounding. So the error before
			// this rounding is at least e − half.
			half := math.Abs(float64(math.Nextafter32(g[i], 8))-float64(g[i])) / 2
			worstInner = max(worstInner, e-half)
		}
	}
	step := uint32(1)
	if testing.Short() {
		step = 97
	}
	for angle := uint32(0); angle < 1<<24; angle += step {
		check(0, angle<<8)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2_000_000 / int(step) {
		shift := rng.UintN(33)
		// The names u, e and c are explained at boxMuller.
		check(uint32(rng.Uint64()>>32>>shift), rng.Uint32()&0xff)  // small u
		check(^uint32(rng.Uint64()>>32>>shift), rng.Uint32()&0xff) // u near 1
		check(rng.Uint32(), rng.Uint32())                          // arbitrary words
		// near these words, the number e of boxMuller changes
		check(uint32(1)<<(shift&31)-rng.Uint32N(3), rng.Uint32()&3)
		// near these words, the number c of boxMuller changes
		check(uint32(rng.Uint32N(257))<<24-rng.Uint32N(3), 1<<30-23)
	}
	t.Logf("largest error %.3g, before rounding to float32 %.3g", worst, worstInner)
	if worst > 2.5e-7 || worstInner > 8e-9 {
		t.Errorf("largest error %g (want 2.5e-7), before rounding %g (want 8e-9)", worst, worstInner)
	}
	for _, c := range []struct {
		a, b   uint32
		c0, c1 float64
	}{
		{math.MaxUint32, 255, 0, 0}, // u = 1
		{0, 0, math.Sqrt(80 * math.Ln2), 0},
		{0, 1 << 30, 0, math.Sqrt(80 * math.Ln2)},
		{0, 1 << 31, -math.Sqrt(80 * math.Ln2), 0},
	} {
		boxMuller(g[:], []uint32{c.a, c.b})
		if math.Abs(float64(g[0])-c.c0) > 3e-7 || math.Abs(float64(g[1])-c.c1) > 3e-7 {
			t.Errorf("words %d, %d: %v, want %v %v", c.a, c.b, g, c.c0, c.c1)
		}
	}
}

// The value that Fill computes for a coordinate must not depend on earlier calls of Fill, or on the number of
// coordinates. Perturb must return the clean values plus the scaled values of Fill.
func TestNoiseIsPure(t *testing.T) {
	const d = 3*block + 7
	s := NewStream(5, 17, Estimation)
	whole := make([]float32, d)
	s.Fill(whole, 12)
	base, scale, want := make([]float32, d), make([]float32, d), make([]float32, d)
	for i := range base {
		base[i], scale[i] = float32(i%256)/255, 0.1+float32(i%3)
		want[i] = base[i] + float32(scale[i]*whole[i])
	}
	for _, n := range []int{0, 1, 2, 3, block - 1, block, block + 1, 2 * block, d} {
		got := make([]float32, n+1)
		got[n] = 42
		s.Fill(got[:n], 13) // an earlier call of Fill, for another sample
		s.Fill(got[:n], 12)
		for i := range n {
			if got[i] != whole[i] {
				t.Fatalf("Fill of %d: coordinate %d is %v, want %v", n, i, got[i], whole[i])
			}
		}
		FloatInput{base[:n], scale[:n]}.Perturb(got[:n], s, 12)
		for i := range n {
			if got[i] != want[i] {
				t.Fatalf("Perturb of %d: coordinate %d is %v, want %v", n, i, got[i], want[i])
			}
		}
		copy(got, base[:n])
		FloatInput{got[:n], scale[:n]}.Perturb(got[:n], s, 12)
		for i := range n {
			if got[i] != want[i] {
				t.Fatalf("Perturb of %d in place: coordinate %d is %v, want %v", n, i, got[i], want[i])
			}
		}
		if got[n] != 42 {
			t.Fatalf("length %d: wrote past the end", n)
		}
	}
}

// For 0 < s < 2³¹, consider the distance of s·G from the nearest multiple of 2⁶⁴. This distance is smallest where s is
// the denominator of a convergent of G/2⁶⁴ (best approximation of the second kind). So it suffices to check these
// denominators.
func TestCountersOfSamplesDoNotMeet(t *testing.T) {
	num, den := new(big.Int).SetUint64(weyl), new(big.Int).Lsh(big.NewInt(1), 64)
	q0, q1 := big.NewInt(1), big.NewInt(0)
	seen := 0
	for den.Sign() > 0 {
		a, rest := new(big.Int).DivMod(num, den, new(big.Int))
		num, den = den, rest
		q0, q1 = q1, new(big.Int).Add(new(big.Int).Mul(a, q1), q0)
		if q1.Sign() == 0 {
			continue
		}
		if q1.BitLen() > 31 {
			break
		}
		seen++
		c := q1.Uint64() * weyl
		if gap := min(c, -c); gap <= 1<<32 {
			t.Errorf("samples %v apart start %d words apart", q1, gap)
		}
	}
	if seen < 40 {
		t.Errorf("only %d convergents: the expansion ended early", seen)
	}
}

// keyNumber is the inverse of admissibleKey. For a key that breaks Widynski's rules, the result 'ok' is false.
func keyNumber(key uint64) (n uint64, ok bool) {
	unused := [15]uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	var before, unit uint64 = 0, 1
	for place := range uint64(16) {
		digit := key >> (4 * place) & 15
		if digit == 0 || place == 0 && digit%2 == 0 {
			return 0, false
		}
		switch {
		case place == 0:
			n, unit = digit/2, 8
			unused[digit-1] = unused[0]
		case place < 8:
			i := place
			for ; i < 15 && unused[i] != digit; i++ {
			}
			if i == 15 {
				return 0, false // this digit was used before
			}
			n += unit * (i - place)
			unit *= 15 - place
			unused[i] = unused[place]
		default:
			if digit == before {
				return 0, false
			}
			if digit > before {
				digit--
			}
			n += unit * (digit - 1)
			unit *= 14
			digit = key >> (4 * place) & 15
		}
		before = digit
	}
	return n, true
}

func TestAdmissibleKeys(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range 200_000 {
		n := rng.Uint64N(admissibleKeys)
		switch i {
		case 0:
			n = 0
		case 1:
			n = admissibleKeys - 1
		}
		key := admissibleKey(n)
		if got, ok := keyNumber(key); !ok || got != n {
			t.Fatalf("key number %d is %016x, of which the number is %d (admissible %v)", n, key, got, ok)
		}
		if ones := bits.OnesCount64(key); ones < 20 || ones > 48 {
			t.Errorf("key %016x has %d bits set", key, ones)
		}
	}
}

// The test undoes 'permute' and must get the argument back. So 'permute' is one-to-one, and for one seed, no two pairs
// (example, phase) share a key.
func TestPermuteIsOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 100_000 {
		seed, n := rng.Uint64(), rng.Uint64N(1<<58)
		m := permute(seed, n)
		if m >= 1<<58 {
			t.Fatalf("permute(%d, %d) = %d is out of range", seed, n, m)
		}
		left, right := m>>29, m&(1<<29-1)
		for round := uint64(6); round > 0; round-- {
			left, right = right^mix(left^mix(seed+round*weyl))>>35, left
		}
		if back := left<<29 | right; back != n {
			t.Fatalf("permute(%d, %d) = %d comes back as %d", seed, n, m, back)
		}
	}
}

// Neighbouring seeds, examples and phases must all have different keys. If 200,000 keys were drawn randomly from the
// 2^57.5 admissible keys, two of them would be equal with probability 1e-7.
func TestKeysOfNeighbours(t *testing.T) {
	seen := map[uint64]string{}
	for seed := range uint64(20) {
		for example := range 5000 {
			for phase := Selection; phase <= Estimation; phase++ {
				name := fmt.Sprint(seed, example, phase)
				key := NewStream(seed, example, phase).key
				if other, ok := seen[key]; ok {
					t.Fatalf("%s and %s share key %016x", name, other, key)
				}
				seen[key] = name
			}
		}
	}
}

func TestNewStreamRefuses(t *testing.T) {
	for _, c := range []struct {
		example int
		phase   Phase
	}{{-1, Selection}, {0, 2}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("example %d, phase %d: want a panic", c.example, c.phase)
				}
			}()
			NewStream(1, c.example, c.phase)
		}()
	}
}

func BenchmarkNoise(b *testing.B) {
	const d = 3 * 32 * 32
	dst, base, scale := make([]float32, d), make([]float32, d), make([]float32, d)
	perGaussian := func(b *testing.B) {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/d, "ns/gaussian")
	}
	s := NewStream(1, 0, Estimation)
	b.Run("fill", func(b *testing.B) {
		for i := range b.N {
			s.Fill(dst, int64(i))
		}
		perGaussian(b)
	})
	b.Run("perturb", func(b *testing.B) {
		for i := range b.N {
			FloatInput{base, scale}.Perturb(dst, s, int64(i))
		}
		perGaussian(b)
	})
}
