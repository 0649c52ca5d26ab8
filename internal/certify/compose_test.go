package certify

import (
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
)

// The tests enumerate all outcomes of small compositions. A member holds if it really gives the claimed answer
// everywhere within the claimed radius. If a member does not hold, it may still certify the claimed answer, and this
// certificate is then wrong.

// worstPoll goes through all possible sets of members that hold: they give the claimed answer everywhere within the
// claimed radius. For each set, it computes the probability that a poll claims a wrong answer. It returns the largest
// of these probabilities. In this computation, each member that holds certifies the claimed answer with probability 1.
// A member that does not hold certifies the claimed answer with a probability equal to the member's alpha,
// independently of the other members.
func worstPoll(alphas []float64, quorum, atLeast int) float64 {
	k, worst := len(alphas), 0.0
	for hold := range 1 << k {
		if bits.OnesCount(uint(hold)) >= quorum {
			continue // the answer is right
		}
		fails := 0.0
		for certify := range 1 << k {
			if hold&^certify != 0 || bits.OnesCount(uint(certify)) < atLeast {
				continue
			}
			p := 1.0
			for i, a := range alphas {
				switch {
				case hold>>i&1 == 1:
				case certify>>i&1 == 1:
					p *= a
				default:
					p *= 1 - a
				}
			}
			fails += p
		}
		worst = max(worst, fails)
	}
	return worst
}

func TestPollAlpha(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for k := 2; k <= 7; k++ {
		for quorum := k/2 + 1; quorum <= k; quorum++ {
			for atLeast := quorum; atLeast <= k; atLeast++ {
				alphas := make([]float64, k)
				for i := range alphas {
					alphas[i] = []float64{0.001, 0.3, rng.Float64(), 0.05}[rng.IntN(4)]
				}
				got, err := PollAlpha(alphas, quorum, atLeast, Label, true)
				want := worstPoll(alphas, quorum, atLeast)
				if err != nil || got < want*(1-1e-14) || got > want*(1+1e-11) {
					t.Errorf("%v, %d, %d: %v, %v; want %v", alphas, quorum, atLeast, got, err, want)
				}
				got, err = PollAlpha(alphas, quorum, atLeast, Predicted, true)
				// all members may be wrong, so c*−q+1 wrong certificates are enough for a wrong claim (c* is atLeast, q
				// is quorum)
				want = worstPoll(alphas, 1, atLeast-quorum+1)
				if err != nil || got < want*(1-1e-14) || got > want*(1+1e-11) {
					t.Errorf("%v, %d, %d, predicted: %v, %v; want %v", alphas, quorum, atLeast, got, err, want)
				}
				slices.Sort(alphas)
				for class, worst := range map[Class][]float64{Label: alphas[quorum-1:], Predicted: alphas} {
					dependent, err := PollAlpha(alphas, quorum, atLeast, class, false)
					sum := 0.0
					for _, a := range worst {
						sum += a
					}
					markov := min(1, sum/float64(atLeast-quorum+1))
					if err != nil || math.Abs(dependent-markov) > 1e-14 {
						t.Errorf("%v, %d, %d, %s, dependent: %v, %v; want %v", alphas, quorum, atLeast, class, dependent, err, markov)
					}
				}
			}
		}
	}
}

// TestPollAlphaOfRandomClass computes how often a poll of two members claims a class although the true answers of the
// members differ. Either member may fail and certify the answer of the other member.
func TestPollAlphaOfRandomClass(t *testing.T) {
	const a = 0.2
	false2 := 2 * a * (1 - a)
	label, err1 := PollAlpha([]float64{a, a}, 2, 2, Label, true)
	predicted, err2 := PollAlpha([]float64{a, a}, 2, 2, Predicted, true)
	if err1 != nil || err2 != nil || label >= false2 || predicted < false2 {
		t.Errorf("label %v (%v), predicted %v (%v): %v of the claims are false", label, err1, predicted, err2, false2)
	}
}

// The expected values follow from the formulas P(Bin(K−q+1, α) ≥ c*−q+1) for the label and P(Bin(K, α) ≥ c*−q+1) for
// the predicted class (see PollAlpha).
func TestPollAlphaOfMath(t *testing.T) {
	const a = 0.001
	for _, c := range []struct {
		k, quorum, atLeast int
		class              Class
		want               float64
	}{
		{2, 2, 2, Label, a}, {3, 2, 2, Label, 1 - (1-a)*(1-a)}, {3, 2, 3, Label, a * a}, {3, 3, 3, Label, a},
		{5, 3, 3, Label, 1 - math.Pow(1-a, 3)}, {5, 3, 4, Label, 3*a*a*(1-a) + a*a*a}, {5, 3, 5, Label, a * a * a},
		{4, 3, 3, Label, 2*a - a*a},
		{2, 2, 2, Predicted, 0.001999}, {3, 2, 2, Predicted, 0.002997001}, {3, 2, 3, Predicted, 2.998e-6},
		{3, 3, 3, Predicted, 0.002997001}, {5, 3, 3, Predicted, 0.004990009995001}, {5, 3, 4, Predicted, 9.980014996e-6},
		{5, 3, 5, Predicted, 9.985006e-9}, {4, 3, 3, Predicted, 0.003994003999},
	} {
		alphas := slices.Repeat([]float64{a}, c.k)
		got, err := PollAlpha(alphas, c.quorum, c.atLeast, c.class, true)
		if err != nil || math.Abs(got/c.want-1) > 1e-11 {
			t.Errorf("%+v: %v, %v", c, got, err)
		}
	}
	for _, c := range [][3]int{{1, 1, 1}, {4, 2, 3}, {3, 2, 1}, {3, 2, 4}, {3, 4, 4}, {MostMembers + 1, MostMembers, MostMembers}} {
		if _, err := PollAlpha(make([]float64, c[0]), c[1], c[2], Predicted, true); err == nil {
			t.Errorf("%v: no error", c)
		}
	}
	if q := []int{Majority.Quorum(2), Majority.Quorum(3), Majority.Quorum(4), Majority.Quorum(5), Agree.Quorum(5)}; !slices.Equal(q, []int{2, 2, 3, 3, 5}) {
		t.Errorf("quorums %v", q)
	}
}

func TestRouterAlpha(t *testing.T) {
	for _, c := range []struct{ router, a, b, want float64 }{
		{0.001, 0.001, 0.001, 0.002}, {0.25, 0.125, 0.0625, 0.375}, {0.25, 0.0625, 0.125, 0.375}, {0, 0.001, 0, 0.001},
	} {
		if got := RouterAlpha(c.router, []float64{c.a, c.b}); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	// 1 + 2⁻⁶⁰ is not a float64, so addUp must return a larger number.
	if got := addUp(1, 0x1p-60); got != math.Nextafter(1, 2) {
		t.Errorf("1 + 2⁻⁶⁰ = %v", got)
	}
	if got := addUp(0x1p-60, 1); got != math.Nextafter(1, 2) {
		t.Errorf("2⁻⁶⁰ + 1 = %v", got)
	}
	if got := addUp(1, 0x1.8p-53); got != math.Nextafter(1, 2) { // here the float64 sum is already rounded up
		t.Errorf("%v", got)
	}
}

func TestRoute(t *testing.T) {
	none := Certificate{Prediction: Abstained}
	of := func(class int, radius float64) Certificate { return Certificate{Prediction: class, Radius: radius} }
	for _, c := range []struct {
		router  Certificate
		experts []Certificate
		want    CombinedClaim
	}{
		{of(0, 0.5), []Certificate{of(7, 0.25), of(3, 1)}, CombinedClaim{7, 0.25, []int{0, 1}}},
		{of(1, 0.5), []Certificate{of(7, 0.25), of(3, 1)}, CombinedClaim{3, 0.5, []int{0, 2}}},
		{none, []Certificate{of(7, 0.25), of(3, 1)}, CombinedClaim{Abstained, 0, []int{0}}},
		{of(1, 0.5), []Certificate{of(7, 0.25), none}, CombinedClaim{Abstained, 0, []int{0, 2}}},
	} {
		if got := Route(c.router, c.experts); got.Class != c.want.Class || got.Radius != c.want.Radius || !slices.Equal(got.Used, c.want.Used) {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

func TestPoll(t *testing.T) {
	none := Certificate{Prediction: Abstained}
	of := func(class int, radius float64) Certificate { return Certificate{Prediction: class, Radius: radius} }
	for _, c := range []struct {
		members []Certificate
		atLeast int
		want    CombinedClaim
	}{
		{[]Certificate{of(7, 0.25), of(7, 1), of(7, 0.5)}, 2, CombinedClaim{7, 0.5, []int{0, 1, 2}}},
		{[]Certificate{of(7, 0.25), of(7, 1), of(7, 0.5)}, 3, CombinedClaim{7, 0.25, []int{0, 1, 2}}},
		{[]Certificate{of(3, 9), of(7, 1), of(7, 0.5)}, 2, CombinedClaim{7, 0.5, []int{1, 2}}},
		{[]Certificate{of(3, 9), of(7, 1), of(7, 0.5)}, 3, CombinedClaim{Class: Abstained}},
		{[]Certificate{none, none, of(7, 0.5)}, 2, CombinedClaim{Class: Abstained}},
		{[]Certificate{of(1, 0.5), of(2, 0.5), of(3, 0.5)}, 2, CombinedClaim{Class: Abstained}},
	} {
		if got := Poll(c.members, c.atLeast); got.Class != c.want.Class || got.Radius != c.want.Radius || !slices.Equal(got.Used, c.want.Used) {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

// TestPollRadius simulates claims whose radius depends on the noise. The answer of member k does not change up to the
// distance rho[k]. With probability alpha the member certifies a larger radius. All members certify one fixed class,
// for example the label. For these members, the share of wrong claims must agree with PollAlpha.
func TestPollRadius(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	const alpha, draws = 0.2, 20000
	rho := []float64{0.1, 0.2, 0.3, 0.4, 0.5}
	for _, atLeast := range []int{3, 4, 5} {
		quorum := Majority.Quorum(len(rho))
		limit, err := PollAlpha(slices.Repeat([]float64{alpha}, len(rho)), quorum, atLeast, Label, true)
		if err != nil {
			t.Fatal(err)
		}
		wrong := 0
		for range draws {
			members := make([]Certificate, len(rho))
			for k := range members {
				members[k] = Certificate{Prediction: 1, Radius: rho[k]}
				if rng.Float64() < alpha {
					members[k].Radius = 1
				}
			}
			if c := Poll(members, atLeast); c.Class == 1 && c.Radius > rho[len(rho)-quorum] {
				wrong++
			}
		}
		if share, sd := float64(wrong)/draws, math.Sqrt(limit*(1-limit)/draws); share > limit+4*sd || share < limit-4*sd {
			t.Errorf("%d of 5 certify: %v of the claims are wrong, want %v, which these members attain", atLeast, share, limit)
		}
	}
}
