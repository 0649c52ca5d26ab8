package certify

import "math"

// bettingGrid bounds a mean by betting (Waudby-Smith & Ramdas 2024, "Estimating means of bounded random variables by
// betting", §4). To reject the mean m, the method bets on X − m. The capital
//
//	K_t(m) = Π_{i≤t} (1 + λ_i(X_i − m)),  0 ≤ λ_i ≤ c/m, c < 1,
//
// is nonnegative and starts at 1. If E X_i ≤ m and λ_i depends only on the samples before i, the capital is a
// supermartingale. By Ville's inequality the probability that K ever reaches 1/α is at most α. So K_t(m) ≥ 1/α rejects
// "mean ≤ m". The lower bound is the right end of the longest interval that begins at 0 and in which every m is
// rejected. If this bound is above the true mean μ, then μ itself was rejected. This argument does not need a K that is
// monotone in m. So the bets for different m may be chosen independently. The samples are independent and in a fixed
// order. Their distributions may differ if each distribution has a mean ≤ m.
//
// There are three ways to bet:
//
//   - Betting: λ_t = √(2 ln(1/α)/(nσ̂²_{t−1})), σ̂²_t = (¼+Σ(X_i−μ̂_i)²)/(t+1), μ̂_t = (½+ΣX_i)/(t+1). This is one side
//     of the paper's hedged capital, for a fixed n. c is the larger of ¾ and the fraction that Chernoff stakes (see
//     below). Both ¾ and this fraction are fixed before sampling. If c were always ¾ and all samples were near 1, the
//     distance of the bound from 1 would be a third larger.
//   - STaR (Voráček & Orabona 2025, "STaR-Bets"): like Betting, but each bet depends on the factor 1/(αK_{t−1}(m)). The
//     capital must still grow by this factor to reach 1/α. So λ_t = √(2 ln(1/(αK_{t−1}(m)))/((n−t+1)σ̂²_{t−1})). The
//     code computes the factor once for each block of samples, not for each sample. The code omits the paper's last
//     step, which rejects at a random threshold. Ville's inequality proves that the test is valid without this step.
//   - Chernoff: λ = c/m, with c fixed by (n, α, m). For X in {0,1} the best fraction is c = (x−m)/(1−m). Here x is the
//     number above m with n·KL(x‖m) = ln(1/α). The function ln(1−c+cX/m) is concave in X, so K ≥ exp(n·[x̄ ln(x/m) +
//     (1−x̄) ln((1−x)/(1−m))]). The right side is 1/α at x̄ = x. Hoeffding's (1963) Theorem 1 gives the bound m with
//     n·KL(x̄‖m) = ln(1/α). Apart from the loss that the grid causes, the Chernoff bound is never below this bound. The
//     Chernoff bound is above Hoeffding's bound if some X lies strictly between 0 and 1. The final K does not depend on
//     the order of the samples.
//
// (Another form of betting chooses the best λ after all samples are seen: it rejects m if sup_λ Π(1+λ(X_i−m)) ≥ 1/α.
// This form does not depend on the order of the samples. Its bound follows from Gaffke's bound by Chernoff's
// inequality. rscert does not offer this form, because we know of no proof that this bound holds for every distribution
// at fixed n.)
//
// Memory does not grow with n. The code keeps K at the ends g < g' of the intervals of a fixed grid on [0,1], with one
// bet λ ≤ c/g' for each interval. Suppose that the bets are fixed. Then ln(1+λ(X−m)) is concave in m. So inside an
// interval, ln K lies on or above its chord, which is the line through the values of ln K at the two ends. The code
// rejects the part of the interval where the chord is ≥ ln(1/α). The error from the chord is of second order in the
// width of the interval and always on the safe side.
type bettingGrid struct {
	stake     stake
	n         int64
	logTarget float64 // ln(1/α), plus the maximum that rounding can add to ln K
	edge      []float64
	cap       []float64 // cap[i] is the largest bet in interval i of the grid
	// ln of the largest factor by which one sample can multiply the capital K, for a mean in interval i
	most  []float64
	scale float64 // √(2 ln(1/α)/n); the strategy Betting bets scale/σ̂
}

const (
	// A bet may stake at most the share c of the capital. bettingCap is the smallest c that the strategies Betting and
	// STaR use. If a bet stakes three quarters of the capital, a sample of 0 divides the capital by 4.
	bettingCap = 0.75
	// chernoffCap is the largest value of c that the code uses. It keeps the capital K above 0 if the best fraction is
	// 1. The best fraction is 1 if only samples that are all 1 can reject the mean m. The cap makes the distance of the
	// bound from 1 larger by a factor of at most about 1 + 2⁻¹⁰.
	chernoffCap = 1 - 0x1p-10
	// bettingBlock is the number of samples between comparisons of K with 1/α. The block is so short that the product
	// of its factors stays far inside the range of float64: each factor lies between 2⁻¹⁰ and 2²⁴ (the largest bet on
	// the grid).
	bettingBlock = 16
	// The main edges of the grid lie at the distances 2^−j from 0, j = 1 … gridOctaves, and at the distances 2^−j from
	// 1, j = 1 … gridOctaves − 1. The smallest edge above 0 is 2⁻²⁴. After the division below, the smallest distance of
	// an edge from 1 is also about 2⁻²⁴. This is small enough: even for n = 10⁷ samples that are all 1, the bound lies
	// at the larger distance 2⁻²⁰ from 1. An octave is the interval between two successive main edges, or between the
	// last main edge and 1. Each octave above 2^−fineOctaves is divided into fineSteps intervals. The octaves below
	// 2^−fineOctaves are divided into coarseSteps intervals, because such small means matter only for an upper bound
	// near 1.
	gridOctaves = 24
	fineOctaves = 4
	fineSteps   = 8
	coarseSteps = 2
	// The code drops an interval when the capital at its left end falls below 2^giveUp.
	giveUp = -64
)

// A stake is a betting strategy.
type stake int

const (
	stakeHedged stake = iota // Betting
	stakeLeft                // STaR
	stakeFixed               // Chernoff
)

// bettingBy returns the betting bound with the strategy s. All streams of samples with the same n and α share one grid
// of candidate means (see bettingGrid).
func bettingBy(s stake) newLowerMean {
	return func(n int64, alpha float64) func() lowerMean {
		grid := newBettingGrid(s, n, alpha)
		return func() lowerMean { return newCapital(grid) }
	}
}

func newBettingGrid(s stake, n int64, alpha float64) *bettingGrid {
	l := math.Log(1 / alpha)
	b := &bettingGrid{
		stake: s, n: n, scale: math.Sqrt(2 * l / float64(n)),
		// A factor 1+λ(X−m) ≥ 1−c has a relative error of at most unit·(1 + 2c/(1−c)), from two roundings of λ(X−m) ≥
		// −c and one rounding of the sum. The multiplication of the factors adds one unit. The total per sample is
		// below 2¹² units for c ≤ 1−2⁻¹⁰.
		logTarget: l*(1+4*unit) + float64(n)*0x1p12*unit,
	}
	b.edge = append(b.edge, 0)
	for j := gridOctaves; j > 1; j-- {
		steps := coarseSteps
		if j <= fineOctaves {
			steps = fineSteps
		}
		for k := range steps {
			b.edge = append(b.edge, math.Exp2(float64(k)/float64(steps)-float64(j)))
		}
	}
	for j := fineSteps; j < gridOctaves*fineSteps; j++ {
		b.edge = append(b.edge, 1-math.Exp2(-float64(j)/fineSteps))
	}
	b.edge = append(b.edge, 1)
	for i, g := range b.edge[1:] {
		c := chernoffFraction((b.edge[i]+g)/2, l/float64(n))
		if s != stakeFixed {
			c = max(c, bettingCap)
		}
		limit := c / g
		b.cap = append(b.cap, limit)
		b.most = append(b.most, math.Log1p(min(limit, b.largestBet())*(1-b.edge[i])))
	}
	return b
}

// The method 'hopeless' reports whether the code can drop interval i. The argument e bounds the capital K at the lower
// end of the interval: K is below 2^e. The argument 'left' is the number of remaining samples. The method returns true
// if e < giveUp, or if K cannot reach the target 1/α even if all remaining samples are 1.
func (b *bettingGrid) hopeless(i, e int, left int64) bool {
	return e < giveUp || float64(e)*math.Ln2+float64(left)*b.most[i] < b.logTarget
}

// largestBet returns an upper bound on all bets. For the strategy Betting, the bound follows from σ̂²_{t−1} ≥ ¼/t ≥
// 1/(4n). For the other strategies, it is +∞.
func (b *bettingGrid) largestBet() float64 {
	if b.stake == stakeHedged {
		return b.scale * 2 * math.Sqrt(float64(b.n)) * (1 + 0x1p-40)
	}
	return math.Inf(1)
}

// chernoffFraction returns c = (x−m)/(1−m) for the x above m with KL(x‖m) = d. Any c in [0, 1) gives a valid bound, so
// plain bisection is accurate enough.
func chernoffFraction(m, d float64) float64 {
	if m == 0 || d >= math.Log(1/m) {
		return chernoffCap
	}
	lo, hi := 0.0, 1.0 // lo and hi enclose c
	for range 50 {
		c := (lo + hi) / 2
		x := m + c*(1-m)
		if x*math.Log(x/m)+(1-x)*math.Log1p(-c) < d { // (1−x)/(1−m) = 1−c
			lo = c
		} else {
			hi = c
		}
	}
	return min(lo, chernoffCap)
}

// capital tracks the capital of one stream of samples.
type capital struct {
	*bettingGrid
	count int64
	sum   float64 // ½ + ΣX
	dev   float64 // ¼ + Σ(X−μ̂_i)²

	pending int
	x, bet  [bettingBlock]float64 // samples of the block, and for each sample the bet (Betting) or 1/σ̂ (STaR)

	active   []wager
	rejected []float64 // for each interval, the rejected share of its length; the rejected part begins at the left end
}

// wager is the capital at both ends of an undecided interval.
type wager struct {
	interval    int
	left, right scaled
}

// The type 'scaled' is the positive number f·2^e.
type scaled struct {
	f float64
	e int
}

func (s *scaled) normalise() {
	f, e := math.Frexp(s.f)
	s.f, s.e = f, s.e+e
}

func (s scaled) log() float64 { return math.Log(s.f) + float64(s.e)*math.Ln2 }

func newCapital(b *bettingGrid) *capital {
	c := &capital{bettingGrid: b, sum: 0.5, dev: 0.25, rejected: make([]float64, len(b.cap))}
	for i := range b.cap {
		if !b.hopeless(i, 1, b.n) {
			c.active = append(c.active, wager{i, scaled{1, 0}, scaled{1, 0}})
		}
	}
	return c
}

func (c *capital) add(x float64) {
	t := float64(c.count + 1)
	c.x[c.pending] = x
	switch c.stake {
	case stakeHedged:
		c.bet[c.pending] = c.scale * math.Sqrt(t/c.dev)
	case stakeLeft:
		c.bet[c.pending] = math.Sqrt(t / c.dev)
	}
	c.count++
	c.sum += x
	d := x - c.sum/(t+1)
	c.dev += float64(d * d)
	if c.pending++; c.pending == bettingBlock || c.count == c.n {
		c.settle()
	}
}

// settle applies a block of samples and compares the capitals with the target.
func (c *capital) settle() {
	x, bet := c.x[:c.pending], c.bet[:c.pending]
	left := c.n - c.count // samples after the block
	still := c.active[:0]
	for _, w := range c.active {
		i := w.interval
		w.play(x, bet, c.edge[i], c.edge[i+1], c.cap[i], c.factor(w, left+int64(c.pending)))
		w.left.normalise()
		w.right.normalise()
		if share := c.share(w); share > c.rejected[i] {
			c.rejected[i] = share
		}
		if c.rejected[i] < 1 && !c.hopeless(i, w.left.e, left) {
			still = append(still, w)
		}
	}
	c.active = still
	c.pending = 0
}

// The method 'factor' returns a number f. For sample t, the wager w bets f·bet[t], but at most the largest allowed bet.
func (c *capital) factor(w wager, left int64) float64 {
	switch c.stake {
	case stakeLeft:
		// The variable 'target' says how much ln K at the middle of the interval must still grow to reach ln(1/α). It
		// is at least 1.
		target := max(c.logTarget-(w.left.log()+w.right.log())/2, 1)
		return math.Sqrt(2 * target / float64(left))
	case stakeFixed:
		return math.Inf(1) // always bet the largest allowed amount
	}
	return 1
}

// play multiplies the capitals at both ends of the interval by the factors of a block of samples.
func (w *wager) play(x, bet []float64, g, h, limit, factor float64) {
	l, r := w.left.f, w.right.f
	if math.IsInf(factor, 1) {
		for _, x := range x {
			l *= 1 + float64(limit*(x-g))
			r *= 1 + float64(limit*(x-h))
		}
	} else {
		bet = bet[:len(x)]
		for t, x := range x {
			b := float64(bet[t] * factor)
			if b > limit {
				b = limit
			}
			l *= 1 + float64(b*(x-g))
			r *= 1 + float64(b*(x-h))
		}
	}
	w.left.f, w.right.f = l, r
}

// share returns the rejected fraction of the wager's interval. This is the part on which the chord of ln K, from one
// end of the interval to the other, reaches the target.
func (c *capital) share(w wager) float64 {
	if float64(w.left.e)*math.Ln2 < c.logTarget {
		return 0
	}
	l, r := w.left.log(), w.right.log()
	switch {
	case l < c.logTarget:
		return 0
	case r >= c.logTarget:
		return 1
	}
	return (l - c.logTarget) / (l - r)
}

func (c *capital) lower() float64 {
	for i, share := range c.rejected {
		if share < 1 {
			// logTarget covers the rounding of the logarithms. This line adds four roundings of numbers ≤ 1. The slack
			// of 8 units covers them.
			return inUnit(c.edge[i]+share*(c.edge[i+1]-c.edge[i]), 8*unit)
		}
	}
	return 1
}
