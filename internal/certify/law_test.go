package certify

import (
	"math"
	"testing"

	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/law/lawtest"
)

// An independent program computed the expected lower bounds on Q(p_A) − Q(p_B) by the methods bonferroni and margin,
// for Laplace noise of scale b at α = 0.001. The L1 radius is b/2 times the bound.
func TestAnotherLawCertifies(t *testing.T) {
	lawtest.Use(t, lawtest.Laplace)
	const b = 0.25
	target := Target{Law: law.Of(lawtest.Laplace), Alpha: 0.001, Sigma: b, Class: Label}
	for _, c := range []struct {
		n, x1, x2 int64
		want      map[VoteMethod]float64
	}{
		{100, 100, 0, map[VoteMethod]float64{ExactMargin: 4.027436, ClopperPearson: 4.027436}},
		{100, 90, 5, map[VoteMethod]float64{Bonferroni: 1.877252, ExactMargin: 1.997379}},
		{100, 80, 15, map[VoteMethod]float64{Bonferroni: .858935, ExactMargin: .946677}},
		{1000, 950, 30, map[VoteMethod]float64{Bonferroni: 4.136753, ExactMargin: 4.218290}},
		{1000, 600, 300, map[VoteMethod]float64{Bonferroni: .458606, ExactMargin: .476508}},
	} {
		for method, want := range c.want {
			cert, err := mustVotes(t, VoteParams{Target: target, Method: method}).Certify(
				Votes{N: c.n, Counts: []int64{c.x1, c.x2, c.n - c.x1 - c.x2}})
			if err != nil {
				t.Fatal(err)
			}
			if cert.Margin > want+1e-6 || cert.Margin < want-2e-5 || math.Abs(cert.Radius-b/2*cert.Margin) > 1e-8 {
				t.Errorf("(%d; %d, %d) by %s: margin %v, radius %v; want %v", c.n, c.x1, c.x2, method, cert.Margin, cert.Radius, want)
			}
			if cert.Law != "test-laplace" || cert.Norm != law.L1 {
				t.Errorf("%s noise, norm %s", cert.Law, cert.Norm)
			}
		}
	}
}
