package certify

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	"github.com/rscert/rscert/internal/law"
)

// referenceMargins holds lower bounds on Q(p_A) − Q(p_B) at scale 1 and α = 0.001. The map 'want' holds one lower bound
// for each method. Independent programs computed the bounds. The radius in L1 is half of the lower bound. For uniform
// noise, Q(p_A) − Q(p_B) is twice p_A − p_B.
var referenceMargins = []struct {
	law       law.Law
	n, x1, x2 int64
	want      map[VoteMethod]float64
}{
	{law.Laplace, 100, 100, 0, map[VoteMethod]float64{ExactMargin: 4.027436, ClopperPearson: 4.027436}},
	{law.Laplace, 100, 90, 5, map[VoteMethod]float64{Bonferroni: 1.877252, ExactMargin: 1.997379}},
	{law.Laplace, 100, 80, 15, map[VoteMethod]float64{Bonferroni: .858935, ExactMargin: .946677}},
	{law.Laplace, 1000, 950, 30, map[VoteMethod]float64{Bonferroni: 4.136753, ExactMargin: 4.218290}},
	{law.Laplace, 1000, 600, 300, map[VoteMethod]float64{Bonferroni: .458606, ExactMargin: .476508}},
	{law.Uniform, 100, 100, 0, map[VoteMethod]float64{ExactMargin: 2 * .866509, ClopperPearson: 2 * .866509}},
	{law.Uniform, 100, 90, 5, map[VoteMethod]float64{Bonferroni: 2 * .602589, ExactMargin: 2 * .631638}},
	{law.Uniform, 100, 80, 15, map[VoteMethod]float64{Bonferroni: 2 * .346453, ExactMargin: 2 * .377081}},
	{law.Uniform, 1000, 950, 30, map[VoteMethod]float64{Bonferroni: 2 * .871222, ExactMargin: 2 * .876204}},
	{law.Uniform, 1000, 600, 300, map[VoteMethod]float64{Bonferroni: 2 * .198332, ExactMargin: 2 * .205612}},
}

func TestLawsCertify(t *testing.T) {
	const scale = 0.25
	for _, c := range referenceMargins {
		for method, want := range c.want {
			name := fmt.Sprintf("%s (%d; %d, %d) by %s", c.law.Name(), c.n, c.x1, c.x2, method)
			target := Target{Law: law.Of(c.law), Alpha: 0.001, Sigma: scale, Class: Label}
			cert, err := mustVotes(t, VoteParams{Target: target, Method: method}).Certify(
				Votes{N: c.n, Counts: []int64{c.x1, c.x2, c.n - c.x1 - c.x2}})
			if err != nil {
				t.Fatal(err)
			}
			if cert.Margin > want+1e-6 || cert.Margin < want-2e-5 || math.Abs(cert.Radius-scale/2*cert.Margin) > 1e-8 {
				t.Errorf("%s: margin %v, radius %v; want %v", name, cert.Margin, cert.Radius, want)
			}
			if cert.Law != law.Of(c.law) || cert.Norm != law.L1 {
				t.Errorf("%s: %s noise, norm %s", name, cert.Law, cert.Norm)
			}
			if c.law != law.Uniform || method == ClopperPearson {
				continue
			}
			target.Margin = FirstMargin
			first, err := mustVotes(t, VoteParams{Target: target, Method: method}).Certify(
				Votes{N: c.n, Counts: []int64{c.x1, c.x2, c.n - c.x1 - c.x2}})
			if err != nil || math.Abs(first.Radius-cert.Radius) > 1e-5 {
				t.Errorf("%s: radius %v by the first margin, %v by the second (%v)", name, first.Radius, cert.Radius, err)
			}
		}
	}
}

// If the noise is uniform on W integers, the radius in steps is S = ⌈W·m/2⌉ − 1, where m is a lower bound on p_A − p_B.
// The radius in units of the data must stay below (S+1)·g, where g is the step between neighbouring inputs. Two points
// at the distance (S+1)·g share too few noisy inputs to prove that they get the same answer. The field Steps of a
// certificate is nil if the certificate abstains, if the input was rounded, or if the noise is Gaussian.
func TestSteps(t *testing.T) {
	votes := func(n, x1, x2 int64) Votes { return Votes{N: n, Counts: []int64{x1, x2, n - x1 - x2}} }
	target := Target{Law: law.Of(law.Uniform), Alpha: 0.001, Sigma: 64. / 255, Class: Label, Step: big.NewRat(1, 255)}
	for v, want := range map[[3]int64]int64{{100, 100, 0}: 55, {100, 90, 5}: 40, {100, 80, 15}: 24, {1000, 950, 30}: 56, {1000, 600, 300}: 13} {
		cert, err := mustVotes(t, VoteParams{Target: target, Method: ExactMargin}).Certify(votes(v[0], v[1], v[2]))
		if err != nil || cert.Steps == nil || *cert.Steps != want {
			t.Errorf("%v: %+v, %v; want %d steps", v, cert, err, want)
		}
	}
	moved := votes(100, 100, 0)
	moved.Quantisation = 0.01
	gaussian := target
	gaussian.Law = law.Of(law.Gaussian)
	for name, of := range map[string]struct {
		Target
		Votes
	}{"abstained": {target, votes(100, 10, 80)}, "rounded": {target, moved}, "gaussian": {gaussian, votes(100, 100, 0)}} {
		cert, err := mustVotes(t, VoteParams{Target: of.Target, Method: ExactMargin}).Certify(of.Votes)
		if err != nil || cert.Steps != nil {
			t.Errorf("%s: %+v, %v; want no steps", name, cert, err)
		}
	}
}
