package audit

import "math"

// Bet is a bet against the claim that a mean of independent variables in [0, 1] is at most m. Its capital
//
//	K = Π(1 + λ_t(X_t − m)), 0 ≤ λ_t ≤ ½/m
//
// is a supermartingale from 1 under the claim if λ_t depends only on earlier X. So P(K ≥ 1/γ at any time) ≤ γ (Ville;
// Waudby-Smith & Ramdas 2024). The stake is that of their hedged capital, λ_t = √(2 ln(1/γ)/(σ̂²_{t−1} t ln(1+t))).
//
// For the claim that a mean is at least m, bet on 1−X against 1−m.
type Bet struct {
	m, stakes float64
	n         float64
	sum       float64 // Σ X
	squares   float64 // Σ (X_i − μ̂_i)²
	log       float64
	Largest   float64 // largest logarithm of K so far, rounded down
}

// NewBet returns a bet against a mean of at most m, for 0 < m < 1, whose stakes are for the level γ.
func NewBet(m, gamma float64) *Bet { return &Bet{m: m, stakes: -2 * math.Log(gamma)} }

// Add takes the next variable. Values outside [0, 1] count as the nearest end.
func (b *Bet) Add(x float64) {
	x = math.Min(math.Max(x, 0), 1)
	t := b.n + 1
	variance := (.25 + b.squares) / t
	stake := math.Min(math.Sqrt(b.stakes/(variance*t*math.Log1p(t))), .5/b.m)
	gain := stake * (x - b.m) // at least −½
	// Each step is off by at most 8 units of |gain| and of the sum.
	b.log += math.Log1p(gain) - 16*unit*math.Abs(gain) - 2*unit*math.Abs(b.log)
	b.Largest = math.Max(b.Largest, b.log)
	b.n, b.sum = t, b.sum+x
	mean := (.5 + b.sum) / (b.n + 1)
	b.squares += (x - mean) * (x - mean)
}
