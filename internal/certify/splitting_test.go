package certify_test

import (
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/smoothing"
)

// splitParams returns the parameters of the law Splitting with W evaluations on a lattice of step 1/255.
func splitParams(w int) certify.VoteParams {
	return certify.VoteParams{Target: certify.Target{
		Law: law.Of(law.Splitting), Sigma: float64(w) / 510, Step: big.NewRat(1, 255), Arithmetic: certify.Exact,
	}}
}

func splitCertifier(t testing.TB, w int) *certify.VoteCertifier {
	t.Helper()
	c, err := certify.NewVoteCertifier(splitParams(w))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// certifySplit returns the certificate of these counts. The second result is the number of steps, or −1 if nothing is
// certified.
func certifySplit(t testing.TB, c *certify.VoteCertifier, counts []int64, none int64) (certify.Certificate, int64) {
	t.Helper()
	v := certify.Votes{Label: 0, Counts: counts, None: none, N: none, Deterministic: true}
	for _, k := range counts {
		v.N += k
	}
	cert, err := c.Certify(v)
	if err != nil {
		t.Fatal(err)
	}
	if cert.Steps == nil {
		return cert, -1
	}
	return cert, *cert.Steps
}

// The numbers are worked out by hand from S = min ⌊(N_A − N_j − [j < A])/2⌋.
func TestSplittingReference(t *testing.T) {
	for _, c := range []struct {
		w, steps int64
		class    int
		counts   []int64
		none     int64
	}{
		{255, 127, 0, []int64{255, 0}, 0},
		{255, 85, 0, []int64{200, 30, 25}, 0},
		{255, 2, 0, []int64{130, 125}, 0},
		{255, 0, 0, []int64{128, 127}, 0},
		{255, 0, 1, []int64{127, 128}, 0},
		{442, 221, 0, []int64{442, 0}, 0},
		{442, 220, 1, []int64{0, 442}, 0},
		{10, 0, 0, []int64{5, 5}, 0},                  // the lower class wins a tie
		{10, 0, 0, []int64{5, 0}, 5},                  // evaluations without an answer lose a tie
		{10, -1, certify.Abstained, []int64{0, 4}, 6}, // most evaluations have no answer
		{10, -1, certify.Abstained, []int64{3, 3}, 4},
		{10, 1, 1, []int64{0, 6}, 4},
		{10, 2, 2, []int64{2, 1, 7}, 0},
		{10, 2, 2, []int64{1, 2, 7}, 0},
		{11, 2, 0, []int64{7, 2, 2}, 0},
		{12, 2, 1, []int64{3, 8, 1}, 0},
	} {
		cert, steps := certifySplit(t, splitCertifier(t, int(c.w)), c.counts, c.none)
		if steps != c.steps || cert.Prediction != c.class {
			t.Errorf("%v and %d: class %d, %d steps; want class %d, %d steps", c.counts, c.none, cert.Prediction, steps, c.class, c.steps)
		}
		if !cert.Deterministic || !cert.Sound || cert.Alpha != 0 || cert.N != c.w || cert.Method != "splitting" || cert.Norm != law.L1 {
			t.Errorf("%v: certificate %+v", c.counts, cert)
		}
		// The radius is steps/255, rounded down to nine digits.
		exact := big.NewRat(max(steps, 0), 255)
		radius, ok := new(big.Rat).SetString(fmt.Sprint(cert.Radius))
		if short := new(big.Rat).Sub(exact, radius); !ok || short.Sign() < 0 || short.Cmp(new(big.Rat).Mul(exact, big.NewRat(1, 1e8))) > 0 {
			t.Errorf("%v: radius %v of %d steps", c.counts, cert.Radius, steps)
		}
	}
}

// model is a classifier that looks up the class of a lattice point in a table.
type model map[string]int

// splitExample returns, as text, the W noisy inputs that the model gets for the example x.
func splitExample(t testing.TB, noise *smoothing.SplitNoise, w int, x []int32) []string {
	t.Helper()
	identity := func(d int) int { return d }
	input, err := noise.Input(append([]int32(nil), x...), func(int) int { return 0 }, identity)
	if err != nil {
		t.Fatal(err)
	}
	inputs := make([]string, w)
	values := make([]float32, len(x))
	for k := range inputs {
		input.Perturb(values, smoothing.Stream{}, int64(k))
		inputs[k] = fmt.Sprint(values)
	}
	return inputs
}

func splitNoise(t testing.TB, seed uint64, w, d, high int) *smoothing.SplitNoise {
	t.Helper()
	noise, err := smoothing.NewSplitNoise(smoothing.Lattice{Step: big.NewRat(1, 1), High: high}, smoothing.NewSplits(seed, w, d), []float64{0}, []float64{1})
	if err != nil {
		t.Fatal(err)
	}
	return noise
}

// The method 'answer' evaluates the model at all inputs. It returns the votes of each class and the answer, which is
// the class with the most votes, or the lowest such class in a tie.
func (m model) answer(inputs []string, classes int) (counts []int64, class int) {
	counts = make([]int64, classes)
	for _, x := range inputs {
		counts[m[x]]++
	}
	for k, n := range counts {
		if n > counts[class] {
			class = k
		}
	}
	return counts, class
}

func distance(x, y []int32) (d int64) {
	for i := range x {
		d += int64(max(x[i]-y[i], y[i]-x[i]))
	}
	return d
}

// An input and every other input within S steps must get the same answer. The test tries all pairs on small lattices
// with random tables. For some tables the answer changes at S + 1 steps, so S is not too small.
func TestSplittingByBruteForce(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	within, beyond := 0, 0
	for _, c := range []struct{ w, d, high, classes int }{{2, 1, 9, 2}, {3, 2, 3, 2}, {4, 2, 4, 3}, {7, 2, 5, 2}, {8, 2, 5, 3}, {5, 3, 2, 3}} {
		points := [][]int32{{}}
		for range c.d {
			var more [][]int32
			for _, p := range points {
				for k := range c.high + 1 {
					more = append(more, append(append([]int32(nil), p...), int32(k)))
				}
			}
			points = more
		}
		for seed := range uint64(12) {
			noise, certifier := splitNoise(t, seed, c.w, c.d, c.high), splitCertifier(t, c.w)
			common := random.IntN(c.classes) // most inputs are of this class, so that some leads are large
			table := model{}
			inputs := make([][]string, len(points))
			for i, x := range points {
				inputs[i] = splitExample(t, noise, c.w, x)
				for _, k := range inputs[i] {
					if _, known := table[k]; !known {
						table[k] = common
						if random.IntN(3) == 0 {
							table[k] = random.IntN(c.classes)
						}
					}
				}
			}
			for i, x := range points {
				counts, class := table.answer(inputs[i], c.classes)
				cert, steps := certifySplit(t, certifier, counts, 0)
				if cert.Prediction != class {
					t.Fatalf("counts %v: prediction %d, want %d", counts, cert.Prediction, class)
				}
				for j, y := range points {
					_, other := table.answer(inputs[j], c.classes)
					away := distance(x, y)
					switch {
					case away <= steps && other != class:
						t.Fatalf("%+v, seed %d: %v gets class %d within %d steps, and %v gets class %d", c, seed, x, class, steps, y, other)
					case away <= steps && away > 0:
						within++
					case away == steps+1 && other != class:
						beyond++
					}
				}
			}
		}
	}
	if within < 10000 || beyond < 100 {
		t.Errorf("%d pairs within S, %d changes at S + 1", within, beyond)
	}
}

// Take any number of votes with which A wins. Then there is a model for which the smoothed answer changes at S + 1
// steps and not before. The noisy inputs of the perturbed example include some inputs that the unperturbed example does
// not have. At all these new inputs the model answers the other class, not A. Only the first coordinate moves. The
// second coordinate has another value in each evaluation, so no two evaluations share an input.
func TestSplittingIsTight(t *testing.T) {
	const w, high = 12, 20
	noise, certifier := splitNoise(t, 5, w, 2, high), splitCertifier(t, w)
	for a := range 2 {
		for votes := range w + 1 {
			x := []int32{3, 4}
			at := splitExample(t, noise, w, x)
			counts := make([]int64, 2)
			counts[a], counts[1-a] = int64(votes), int64(w-votes)
			cert, steps := certifySplit(t, certifier, counts, 0)
			if cert.Prediction != a {
				continue // the other class leads
			}
			far := splitExample(t, noise, w, []int32{x[0] + int32(steps) + 1, x[1]})
			table, left := model{}, votes
			for pass := range 2 { // the first pass sets the answers at the inputs that the perturbation changes
				for k := range at {
					if (at[k] != far[k]) != (pass == 0) {
						continue
					}
					if table[at[k]] = 1 - a; left > 0 {
						table[at[k]] = a
						left--
					}
				}
			}
			for s := range int32(steps) + 2 {
				moved := splitExample(t, noise, w, []int32{x[0] + s, x[1]})
				changed := int64(0)
				for k := range moved {
					if moved[k] != at[k] {
						table[moved[k]] = 1 - a
						changed++
					}
				}
				if changed != int64(s) {
					t.Fatalf("%d evaluations change at %d steps", changed, s)
				}
				if _, class := table.answer(moved, 2); (class == a) != (int64(s) <= steps) {
					t.Errorf("class %d has %d of %d votes, S = %d: at %d steps the answer is %d", a, votes, w, steps, s, class)
				}
			}
		}
	}
}

// The test tries all sequences of evaluations. Sampling must end as soon as the known evaluations decide whether the
// certified radius from all evaluations reaches the rule's radius. The radius certified at this point must not exceed
// the radius certified from all evaluations.
func TestSplittingStopsAtTheDecision(t *testing.T) {
	const w = 7
	certifier := splitCertifier(t, w)
	for steps := int64(1); steps <= w/2; steps++ {
		rule, err := certify.ParseStop(fmt.Sprintf("radius>=%v", float64(steps)/255-1e-6))
		if err != nil {
			t.Fatal(err)
		}
		stopping, err := certify.NewStopping(splitParams(w), rule, w)
		if err != nil {
			t.Fatal(err)
		}
		all := 1
		for range w {
			all *= 3
		}
		for code := range all {
			votes := func(n int64) certify.Votes { // 0 and 1 are classes, 2 is no answer
				v := certify.Votes{N: n, Counts: make([]int64, 2), Deterministic: true}
				rest := code
				for range n {
					if k := rest % 3; k < 2 {
						v.Counts[k]++
					} else {
						v.None++
					}
					rest /= 3
				}
				return v
			}
			_, full := certifySplit(t, certifier, votes(w).Counts, votes(w).None)
			n := int64(0)
			for {
				next, err := stopping.Next(votes(n))
				if err != nil || next > w {
					t.Fatalf("%d evaluations after %d: %v", next, n, err)
				}
				if next == n {
					break
				}
				n = next
			}
			if want := decided(votes, w, steps); n != want {
				t.Fatalf("sequence %d, S ≥ %d: ended after %d evaluations, want %d", code, steps, n, want)
			}
			v := votes(n)
			if err := stopping.Mark(&v); err != nil {
				t.Fatal(err)
			}
			cert, err := certifier.Certify(v)
			if err != nil {
				t.Fatal(err)
			}
			early := int64(-1)
			if cert.Steps != nil {
				early = *cert.Steps
			}
			if a := cert.Prediction; a >= 0 {
				rival := max(v.None, v.Counts[1-a])
				if want := certify.RoundDown(float64(v.Counts[a]-rival-(w-n)) / w); cert.Margin != want {
					t.Fatalf("sequence %d: margin %v, want %v", code, cert.Margin, want)
				}
			}
			if early > full || (early >= steps) != (full >= steps) || (cert.Radius >= float64(steps)/255-1e-6) != (full >= steps) {
				t.Fatalf("sequence %d, S ≥ %d: %d steps after %d evaluations, %d after all", code, steps, early, n, full)
			}
		}
	}
}

// The function 'decided' returns the least n for which the first n evaluations decide whether S ≥ steps. It tries the
// extreme continuations of these n evaluations: all further evaluations are for one class, or have no answer.
func decided(votes func(int64) certify.Votes, w, steps int64) int64 {
	reaches := func(v certify.Votes, more int64, to int) bool {
		counts := append([]int64{}, v.Counts...)
		none := v.None
		if to < 2 {
			counts[to] += more
		} else {
			none += more
		}
		for a := range counts {
			lead := min(counts[a]-none, counts[a]-counts[1-a]-int64(a))
			if lead >= 2*steps {
				return true
			}
		}
		return false
	}
	for n := int64(1); ; n++ {
		v, yes := votes(n), 0
		for to := range 3 {
			if reaches(v, w-n, to) {
				yes++
			}
		}
		if yes == 0 || yes == 3 || n == w {
			return n
		}
	}
}

func TestSplittingRefuses(t *testing.T) {
	for name, change := range map[string]func(*certify.VoteParams){
		"method margin":  func(p *certify.VoteParams) { p.Method = certify.ExactMargin },
		"law gaussian":   func(p *certify.VoteParams) { p.Method, p.Law = certify.Splitting, "" },
		"alpha":          func(p *certify.VoteParams) { p.Alpha = 0.001 },
		"margin":         func(p *certify.VoteParams) { p.Margin = certify.SecondMargin },
		"top-k":          func(p *certify.VoteParams) { p.TopK = 3 },
		"none":           func(p *certify.VoteParams) { p.None = certify.NoneSafe },
		"scaled":         func(p *certify.VoteParams) { p.Scaled = true },
		"lipschitz":      func(p *certify.VoteParams) { p.Lipschitz = 1 },
		"step":           func(p *certify.VoteParams) { p.Step = nil },
		"no whole width": func(p *certify.VoteParams) { p.Sigma = 0.25 },
		"law unknown":    func(p *certify.VoteParams) { p.Law = "splitting2" },
	} {
		p := splitParams(128)
		change(&p)
		if _, err := certify.NewVoteCertifier(p); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	scores := certify.ScoreParams{Target: splitParams(128).Target}
	if _, err := certify.NewScoreCertifier(scores); err == nil || !strings.Contains(err.Error(), "splitting") {
		t.Errorf("scores: %v", err)
	}
	c := splitCertifier(t, 10)
	for name, v := range map[string]certify.Votes{
		"too few":      {N: 9, Counts: []int64{9, 0}, Deterministic: true},
		"too many":     {N: 11, Counts: []int64{11, 0}, Deterministic: true},
		"selection":    {N: 10, Counts: []int64{10, 0}, N0: 1, Counts0: []int64{1, 0}, Deterministic: true},
		"quantisation": {N: 10, Counts: []int64{10, 0}, Quantisation: 0.1, Deterministic: true},
		"no mark":      {N: 10, Counts: []int64{10, 0}},
	} {
		if _, err := c.Certify(v); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := c.CertifyAtLeast(v, 0.5); err == nil {
			t.Errorf("%s: no error of CertifyAtLeast", name)
		}
	}
	for text, want := range map[string]error{"radius>=0.02": certify.ErrOutOfReach, "precision=0.1": nil} {
		rule, err := certify.ParseStop(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := certify.NewStopping(splitParams(10), rule, 10); err == nil || want != nil && !errors.Is(err, want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// If the prediction is right, the certificate for the label equals the certificate for the prediction. If the
// prediction is wrong, the certificate for the label abstains.
func TestSplittingOfTheLabel(t *testing.T) {
	p := splitParams(10)
	p.Class = certify.Label
	c, err := certify.NewVoteCertifier(p)
	if err != nil {
		t.Fatal(err)
	}
	for label, want := range []int64{-1, 2} {
		cert, err := c.Certify(certify.Votes{Label: label, N: 10, Counts: []int64{2, 8}, Deterministic: true})
		if err != nil {
			t.Fatal(err)
		}
		if want < 0 && (cert.Steps != nil || cert.Prediction != certify.Abstained) || want >= 0 && (cert.Steps == nil || *cert.Steps != want) {
			t.Errorf("label %d: %+v", label, cert)
		}
	}
}
