package certify

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rscert/rscert/internal/binomial"
)

func TestParseStop(t *testing.T) {
	for _, s := range []string{"radius>=0.5", "precision=0.1", "radius>=1e-05"} {
		if r, err := ParseStop(s); err != nil || r.String() != s {
			t.Errorf("%q is read as %v (%v)", s, r, err)
		}
	}
	for _, s := range []string{"", "radius>0.5", "radius>=", "radius>=0", "radius>=-1", "radius>=NaN", "radius>=Inf", "precision=0", "precision=1", "precision=x", "0.5"} {
		if _, err := ParseStop(s); err == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}

func mustStop(t testing.TB, p VoteParams, rule string, budget int64) *Stopping {
	t.Helper()
	r, err := ParseStop(rule)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewStopping(p, r, budget)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCheckpoints(t *testing.T) {
	for _, c := range []struct {
		rule   string
		budget int64
	}{{"radius>=0.5", 100000}, {"radius>=0.25", 100000}, {"radius>=0.01", 1000}, {"precision=0.1", 100000}, {"precision=0.5", 1}, {"precision=0.5", 150}, {"radius>=0.58", 1000}, {"radius>=0.605", 1000}, {"radius>=0.61", 1000}} {
		s := mustStop(t, VoteParams{Target: Target{Alpha: 0.001, Sigma: 0.25}, Method: ExactMargin}, c.rule, c.budget)
		sum, last := 0.0, int64(0)
		for _, p := range s.Checkpoints() {
			if p.N <= last {
				t.Errorf("%s: checkpoints %v do not rise", c.rule, s.Checkpoints())
			}
			sum, last = sum+p.Share, p.N
		}
		if math.Abs(sum-1) > 1e-12 || last != c.budget {
			t.Errorf("%s: shares add up to %v, the last checkpoint is %d", c.rule, sum, last)
		}
	}
	r, _ := ParseStop("radius>=2")
	if _, err := NewStopping(VoteParams{Target: Target{Alpha: 0.001, Sigma: 0.25}, Method: ExactMargin}, r, 100000); !errors.Is(err, ErrOutOfReach) {
		t.Errorf("radius 8σ of 100,000 samples: %v", err)
	}
	if _, err := NewStopping(VoteParams{Target: Target{Alpha: 0.001, Sigma: 0.25}, Method: Moutaouakil}, r, 100000); err == nil {
		t.Error("an unsound method is stopped early")
	}
}

// If all votes are for the class, sampling ends at the first checkpoint that can certify the radius. If few votes are
// for the class, sampling ends at the very first checkpoint.
func TestStopAtFirstCheckpoint(t *testing.T) {
	for _, method := range soundOnes(VoteMethods()) {
		s := mustStop(t, VoteParams{Target: Target{Alpha: 0.001, Sigma: 0.25, Class: Label}, Method: method}, "radius>=0.5", 100000)
		first, err := s.Next(Votes{})
		if err != nil {
			t.Fatal(err)
		}
		classes := 3
		if method == BonferroniClasses {
			classes = 2 // NewStopping assumes two classes
		}
		// The first checkpoint with a share of at least endShare is the first that can certify. At the checkpoints
		// before it, sampling must go on even if all votes are for the class.
		for i, c := range s.Checkpoints() {
			next, err := s.Next(Votes{N: c.N, Counts: []int64{c.N, 0, 0}[:classes]})
			if c.Share < endShare {
				if want := s.Checkpoints()[i+1].N; err != nil || next != want {
					t.Errorf("%v: after %d votes for the class go on to %d, want %d (%v)", method, c.N, next, want, err)
				}
				continue
			}
			if err != nil || next != c.N {
				t.Errorf("%v: after %d votes for the class go on to %d (%v)", method, c.N, next, err)
			}
			break
		}
		if next, err := s.Next(Votes{N: first, Counts: []int64{first / 4, first - first/4, 0}}); err != nil || next != first {
			t.Errorf("%v: after %d votes against the class go on to %d (%v)", method, first, next, err)
		}
		if _, err := s.Next(Votes{N: first + 1, Counts: []int64{first + 1, 0, 0}}); err == nil {
			t.Errorf("%v: %d is taken for a checkpoint", method, first+1)
		}
	}
}

// The certificate of a stopped example uses the share of α that belongs to the checkpoint where sampling stopped.
func TestStoppedVotesAreCertifiedByTheirShare(t *testing.T) {
	s := mustStop(t, VoteParams{Target: Target{Alpha: 0.001, Sigma: 0.25, Class: Label}, Method: ExactMargin}, "radius>=0.5", 100000)
	v := Votes{N: s.Checkpoints()[2].N}
	v.Counts = []int64{v.N - 1, 1, 0}
	fixed := mustVotes(t, VoteParams{Target: Target{Alpha: 0.001 * s.Checkpoints()[2].Share, Sigma: 0.25, Class: Label}, Method: ExactMargin})
	want, err := fixed.Certify(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Mark(&v); err != nil {
		t.Fatal(err)
	}
	got, err := mustVotes(t, VoteParams{Target: Target{Alpha: 0.001, Sigma: 0.25, Class: Label}, Method: ExactMargin}).Certify(v)
	if err != nil || got.Radius != want.Radius || got.Alpha != 0.001 || got.Stop.String() != "radius>=0.5" {
		t.Errorf("%+v, want the radius %v (%v)", got, want.Radius, err)
	}
}

// failureOfStopping returns the exact probability that the certificate of a two-class example with p_A = p is wrong. It
// computes the distribution of the votes at each checkpoint. For each possible number of votes, Next decides whether
// sampling ends.
func failureOfStopping(t *testing.T, s *Stopping, p, radius float64) (fail float64) {
	t.Helper()
	alive := []float64{1} // distribution of the votes for the class
	n := int64(0)
	for {
		var next int64
		grown := map[int64][]float64{}
		if n == 0 {
			next, _ = s.Next(Votes{})
			grown[next] = alive
		} else {
			for x, mass := range alive {
				if mass == 0 {
					continue
				}
				v := Votes{N: n, Counts: []int64{int64(x), n - int64(x)}}
				to, err := s.Next(v)
				if err != nil {
					t.Fatal(err)
				}
				if to > n {
					if grown[to] == nil {
						grown[to] = make([]float64, n+1)
					}
					grown[to][x] += mass
					continue
				}
				if err := s.Mark(&v); err != nil {
					t.Fatal(err)
				}
				cert, err := s.certifier.Certify(v)
				if err != nil {
					t.Fatal(err)
				}
				if cert.Prediction != Abstained && cert.Radius > radius {
					fail += mass
				}
			}
		}
		if len(grown) == 0 {
			return fail
		}
		if len(grown) != 1 {
			t.Fatalf("examples go on to different checkpoints from %d", n)
		}
		for to, before := range grown {
			after := make([]float64, to+1)
			for x, mass := range before {
				if mass > 0 {
					for y := int64(0); y <= to-n; y++ {
						logp, _ := binomial.LogTerm(to-n, y, p, 1-p)
						after[int64(x)+y] += mass * math.Exp(logp)
					}
				}
			}
			alive, n = after, to
		}
	}
}

// The test computes the exact probability that sampling ends with a wrong certificate. This probability must be at most
// α. For each rule, the largest of these probabilities over the tested true radii must be at least α/10. For a rule
// radius>=R, one of the tested true radii is just below R.
func TestStoppingCoverage(t *testing.T) {
	const alpha = 0.05
	for _, rule := range []string{"radius>=0.3", "radius>=1", "precision=0.3"} {
		s := mustStop(t, VoteParams{Target: Target{Alpha: alpha, Sigma: 1, Class: Label}, Method: ClopperPearson}, rule, 400)
		worst := 0.0
		for _, radius := range []float64{0.05, 0.2999999, 0.5, 0.9999999, 1.4, 2} {
			p := 0.5 * math.Erfc(-radius/math.Sqrt2)
			fail := failureOfStopping(t, s, p, radius)
			if fail > alpha*(1+1e-9) {
				t.Errorf("%s: at radius %v the certificate is wrong with probability %v", rule, radius, fail)
			}
			worst = max(worst, fail)
		}
		if worst < alpha/10 {
			t.Errorf("%s: the certificate is wrong with probability %v at most; the test has no power", rule, worst)
		}
	}
}

// The test simulates the votes of four inputs, each with its own p_A and p_B. For each input, the rule must end the
// sampling within a given number of samples.
func TestStoppingSaves(t *testing.T) {
	s := mustStop(t, VoteParams{Target: Target{Alpha: 0.001, Sigma: 0.25, Class: Label}, Method: ExactMargin}, "radius>=0.25", 100000)
	rng := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		pA, pB float64
		most   int64
	}{{0.9999, 0.0001, 200}, {0.97, 0.02, 600}, {0.3, 0.6, 200}, {0.845, 0.15, 100000}} {
		v := Votes{Counts: make([]int64, 3)}
		for {
			next, err := s.Next(v)
			if err != nil {
				t.Fatal(err)
			}
			if next == v.N {
				break
			}
			for ; v.N < next; v.N++ {
				switch u := rng.Float64(); {
				case u < c.pA:
					v.Counts[0]++
				case u < c.pA+c.pB:
					v.Counts[1]++
				default:
					v.Counts[2]++
				}
			}
		}
		if v.N > c.most {
			t.Errorf("p_A = %v, p_B = %v: %d samples, want at most %d", c.pA, c.pB, v.N, c.most)
		}
	}
}
