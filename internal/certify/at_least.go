package certify

import "math"

// CertifyAtLeast returns a certificate as Certify does, but it first tries to prove only the given margin. If this
// fails, it searches for the largest margin that v proves. So checking a certificate usually takes a fraction of the
// time of Certify.
func (c *VoteCertifier) CertifyAtLeast(v Votes, margin float64) (Certificate, error) {
	return c.certify(v, func(o observation) marginBound {
		if b, found := c.proved(o, margin); found {
			return b
		}
		return c.bound(o)
	})
}

// A claim says that an observation proves a margin. The cache VoteCertifier.claims records which claims are true and
// which are false. A claim whose margin is at most the bonferroni margin of the observation needs no search, so it is
// not in the cache.
type claim struct {
	observation
	margin float64
}

// The method 'proved' uses the exact margin search to prove a bound with at least the given margin. The result 'found'
// says whether it proved the bound b. If the bonferroni margin is large enough, the bound is the bonferroni margin.
// Otherwise the method tries to prove a bound slightly above the given margin, because margins in files are rounded
// down. The search's method 'prove' decides whether this bound holds.
func (c *VoteCertifier) proved(o observation, margin float64) (b marginBound, found bool) {
	if c.params.Method != ExactMargin || o.two || o.beaten() || o.n-o.a > mostOthers || math.IsNaN(margin) {
		return b, false
	}
	const rounding = 1 + 0x1p-27 // factor that covers the rounding of a margin to nine digits
	b = c.bonferroni(o)
	if b.margin >= margin*rounding || !(margin > 0) {
		return b, true
	}
	if b.margin = margin * rounding; !(b.margin > leastMargin && b.margin < c.scaleOf(o).widest()) {
		return b, false
	}
	c.mu.Lock()
	holds, known := c.claims[claim{o, margin}]
	c.mu.Unlock()
	if !known {
		s := c.newSearch(o)
		holds = s.prove(frontier{s.scale, b.margin}) < 0
		c.mu.Lock()
		c.claims[claim{o, margin}] = holds
		c.mu.Unlock()
	}
	return b, holds
}
