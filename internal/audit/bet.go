package audit

import "math"

// Bet is a bet against the claim that independent variables X_t in [0, 1] have a mean of at most m. Its capital is
//
//	K = Π(1 + λ_t(X_t − m)), 0 ≤ λ_t ≤ ½/m
//
// If λ_t depends only on the variables X before X_t, the capital K starts at 1 and is a supermartingale under the
// claim. So P(K ≥ 1/γ at any time) ≤ γ (Ville; Waudby-Smith & Ramdas 2024). The stake λ_t = √(2 ln(1/γ)/(σ̂²_{t−1} t
// ln(1+t))), limited to ½/m, comes from the hedged capital process of Waudby-Smith & Ramdas. Here σ̂²_{t−1} estimates
// the variance from X_1, …, X_{t−1}.
//
// To bet against the claim that a mean is at least m, use NewBet(1−m, γ) and add 1−X for each variable X.
type Bet struct {
	m, stakes float64
	n         float64
	sum       float64 // Σ X
	squares   float64 // Σ (X_i − μ̂_i)², where μ̂_i estimates the mean from X_1, …, X_i
	log       float64
	Largest   float64 // largest logarithm of K so far, rounded down
}

// NewBet returns a bet against the claim that the mean is at most m, for 0 < m < 1. Its stakes are chosen for the level
// γ.
func NewBet(m, gamma float64) *Bet { return &Bet{m: m, stakes: -2 * math.Log(gamma)} }

// Add takes the next variable. It counts a value below 0 as 0 and a value above 1 as 1.
func (b *Bet) Add(x float64) {
	x = math.Min(math.Max(x, 0), 1)
	t := b.n + 1
	variance := (.25 + b.squares) / t
	stake := math.Min(math.Sqrt(b.stakes/(variance*t*math.Log1p(t))), .5/b.m)
	gain := stake * (x - b.m) // at least −½
	// The two subtracted terms are larger than the rounding errors of this step.
	b.log += math.Log1p(gain) - 16*unit*math.Abs(gain) - 2*unit*math.Abs(b.log)
	b.Largest = math.Max(b.Largest, b.log)
	b.n, b.sum = t, b.sum+x
	mean := (.5 + b.sum) / (b.n + 1)
	b.squares += (x - mean) * (x - mean)
}
