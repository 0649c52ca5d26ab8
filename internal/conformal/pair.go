package conformal

import (
	"math"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/law"
)

// maxCells is the maximum number of cells that one proof visits.
const maxCells = 1 << 21

// A pairClaim is the inequality P(Bin(m, p) ≥ t) ≤ (H∘g)^Q(p) for all p in [0, 1], with H(p) = P(Bin(m′, p) ≥ t′). If
// the claim is true, the weights w = 1{N ≥ t} are valid.
//
// The proof writes p = F(z) and has three parts. In the middle, it bisects cells [l, r] of z until each cell satisfies
// P(Bin(m, F(r)) ≥ t) ≤ (H∘g)^Q(F(l)). This is enough because both sides increase with p. The code rounds the left side
// up and the right side down. Where the probabilities are close to 1, it evaluates the same inequality for their
// complements. In the two unbounded intervals at the ends, the claim follows from the inequality in the comment on the
// type 'end'.
type pairClaim struct {
	target
	m, t int64
}

// verdict is the result of an attempt to prove a claim.
type verdict int

const (
	unproved verdict = iota
	proved
	refuted
)

// The method 'lower' returns the inequality for the lower end of [0, 1], where p is close to 0. The inequality implies
// the claim there, because P(Bin(m, p) ≥ t) ≤ C(m,t)·p^t and H(g) ≥ P(Bin(m′, g) = t′).
func (c pairClaim) lower() end {
	return end{
		law: c.law, shift: c.shift,
		small: power{c.draws, c.need, c.queries}, big: power{c.m, c.t, 1},
	}
}

// The method 'upper' returns the inequality for the end where p is close to 1. It concerns the complements u = 1−p and
// v = 1−g(p). The inequality implies the claim there, because 1 − P(Bin(m, p) ≥ t) ≥ P(Bin(m, u) = m−t+1) and 1 − H^Q ≤
// Q·(1−H) ≤ Q·C(m′,m′−t′+1)·v^{m′−t′+1}.
func (c pairClaim) upper() end {
	return end{
		law: c.law, shift: c.shift,
		small: power{c.m, c.m - c.t + 1, 1}, big: power{c.draws, c.draws - c.need + 1, 1},
		factor: math.Log(float64(c.queries)),
	}
}

// prove attempts to prove the claim.
func (c pairClaim) prove() verdict {
	if c.shift == 0 && c.queries == 1 && c.m == c.draws {
		// In this case, the two sides of the claim are P(Bin(m, p) ≥ t) and P(Bin(m, p) ≥ t′).
		if c.t >= c.need {
			return proved
		}
		return refuted
	}
	if c.refutedCoarsely() {
		return refuted
	}
	from, to, ok := c.span()
	if !ok {
		return unproved
	}
	return c.middle(from, to)
}

// span returns the interval of z that the middle part of the proof must cover. It lies between the end where p is close
// to 0 and the end where p is close to 1. Outside this interval, the claim follows from the inequality in the comment
// on the type 'end'.
func (c pairClaim) span() (from, to float64, ok bool) {
	x, lower := c.lower().start()
	y, upper := c.upper().start()
	return down(x + c.shift), -y, lower && upper
}

// refutedCoarsely reports whether the claim is false at one of a few points.
func (c pairClaim) refutedCoarsely() bool {
	const reach = 5
	from, to := -reach-c.shift/2, reach+1.5*c.shift
	// As a function of z, each side of the claim rises from almost 0 to almost 1 in an interval. The length of this
	// interval is a few times 1/√m or 1/√m′. The distance between two neighbouring points is smaller than this length.
	points := 64 + 8*int(math.Sqrt(float64(max(c.m, c.draws))))
	for i := range points + 1 {
		if c.fails(from + (to-from)*float64(i)/float64(points)) {
			return true
		}
	}
	return false
}

// The method 'middle' attempts to prove the claim for every z in [from, to].
func (c pairClaim) middle(from, to float64) verdict {
	if !(from < to) {
		return proved
	}
	type cell struct{ l, r float64 }
	stack := []cell{{from, to}}
	for work := 0; len(stack) > 0; work++ {
		if work == maxCells {
			return unproved
		}
		s := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if c.holds(s.l, s.r) {
			continue
		}
		mid := s.l + (s.r-s.l)/2
		if !(s.l < mid && mid < s.r) {
			return unproved
		}
		if c.fails(mid) {
			return refuted
		}
		stack = append(stack, cell{s.l, mid}, cell{mid, s.r})
	}
	return proved
}

// The method 'holds' reports whether the inequality is proved for every z in [l, r]. It is enough to prove the
// inequality for the probabilities or for their complements.
func (c pairClaim) holds(l, r float64) bool {
	if binomial.Tail(c.m, c.t, c.high(r)).Upper <= c.floor(l) {
		return true
	}
	return binomial.Tail(c.m, c.m-c.t+1, c.low(-r)).Lower >= c.missCeiling(l)
}

// The method 'fails' reports whether the inequality is violated at z by more than rounding errors can explain. A wrong
// result can lead to a worse pair, but not to a false proof.
func (c pairClaim) fails(z float64) bool {
	b := binomial.Tail(c.m, c.t, c.low(z)).Lower
	h := math.Pow(binomial.Tail(c.draws, c.need, c.high(z-c.shift)).Upper, float64(c.queries))
	miss := binomial.Tail(c.m, c.m-c.t+1, c.high(-z)).Upper
	ceiling := binomial.Tail(c.draws, c.draws-c.need+1, c.low(c.shift-z)).Lower
	return b > h*(1+1e-9) || c.queries == 1 && miss < ceiling*(1-1e-9)
}

// A power is P(Bin(n, p) = k)^times as a function of p.
type power struct{ n, k, times int64 }

// An end is the inequality
//
//	ln [C(n,k)·small^k·(1−small)^{n−k}]^times ≥ factor + ln C(n′,k′) + k′·ln big
//
// for small = F(x), big = F(x+ρ) and all x up to the result of the method 'start'. The reversed hazard rate λ = f/F of
// the law is nonincreasing. If λ(x) ≤ κ·λ(x+ρ) with κ = k′/(k·times), then k·times·ln small − k′·ln big is
// nonincreasing in x. The term 1 − small is also nonincreasing. So if the inequality holds at the result of 'start', it
// holds for all smaller x.
type end struct {
	law        law.Additive
	shift      float64
	small, big power
	factor     float64
}

// start returns a number such that the inequality in the comment of the type 'end' is proved for all x up to this
// number.
func (e end) start() (x float64, ok bool) {
	limit, ok := hazardLimit(e.law, e.shift, e.small.k*e.small.times, e.big.k)
	if !ok {
		return 0, false
	}
	for x = down(math.Min(limit, 1) - e.shift); x > -farthest; x -= 0.25 {
		if e.holds(x) {
			return x, true
		}
	}
	return 0, false
}

// The method 'holds' reports whether the inequality is proved at x. It demands a margin far above the rounding errors
// of the terms. The rounding error of a term is a few unit round-offs times its absolute value.
func (e end) holds(x float64) bool {
	bounds := target{law: e.law}
	s, sHigh, b := bounds.low(x), bounds.high(x), bounds.high(up(x+e.shift))
	if s <= 0 || sHigh >= 1 {
		return false
	}
	terms := []float64{
		float64(e.small.times) * logChoose(e.small.n, e.small.k),
		float64(e.small.times*e.small.k) * math.Log(s),
		float64(e.small.times*(e.small.n-e.small.k)) * math.Log1p(-sHigh),
		-e.factor,
		-logChoose(e.big.n, e.big.k),
		-float64(e.big.k) * math.Log(b),
	}
	sum, size := 0.0, 1.0
	for _, t := range terms {
		sum += t
		size += math.Abs(t)
	}
	return sum >= 1e-9*size
}

// logChoose returns ln C(n, k) with an error of at most 1e-12·(1 + n·ln 2).
func logChoose(n, k int64) float64 {
	term, _ := binomial.LogTerm(n, k, 0.5, 0.5)
	return term + float64(n)*math.Ln2
}

// hazardLimit returns a number c such that k·λ(x) ≤ k′·λ(x+ρ) for all x with x+ρ ≤ c, where λ = f/F is the reversed
// hazard rate of the law. The result 'ok' is false if there is no such number.
//
//   - ρ = 0: if k ≤ k′, the inequality holds for every x.
//   - Gaussian: let κ = k′/k > 1. We have −1 < λ′ < 0 and λ(y) ≥ −y (Sampford 1953). So λ(x) ≤ λ(x+ρ) + ρ. The right
//     side is at most κ·λ(x+ρ) if λ(x+ρ) ≥ ρ/(κ−1). By the bound on λ(y), this holds if x+ρ ≤ −ρ/(κ−1).
//   - Laplace: λ = 1 on the negative numbers. So if k ≤ k′, the inequality holds for x+ρ ≤ 0.
//   - Uniform: λ(x) = 1/(1+x) is unbounded at the end of the interval, so no such number exists.
func hazardLimit(l law.Additive, shift float64, k, kBig int64) (limit float64, ok bool) {
	switch {
	case shift == 0:
		return math.Inf(1), k <= kBig
	case l == law.Gaussian && k < kBig:
		return down(-shift * float64(k) / float64(kBig-k)), true
	case l == law.Laplace:
		return 0, k <= kBig
	}
	return 0, false
}
