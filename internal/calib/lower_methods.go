package calib

import (
	"fmt"

	"github.com/rscert/rscert/internal/choice"
)

// LowerMethod is a method that computes a lower bound on the calibration error. No lower bound needs an assumption.
type LowerMethod int

// The comment after each method names the function that computes its bound.
const (
	LowerBetting LowerMethod = iota // BettingLower
	LowerMixture                    // MixtureLower
)

// LowerMethods lists every LowerMethod.
var LowerMethods = choice.Of("lower bound", LowerBetting, LowerMixture).Describe(func(m LowerMethod) string {
	return [...]string{
		LowerBetting: "takes the rows in random order, and predicts the sign of s − P(y=1|s) at each row from the earlier rows",
		LowerMixture: "combines 'betting' with a second method; the second method divides the scores into bins, and predicts one sign of s − P(y=1|s) for all rows of a bin; it does so for every combination of the signs of the bins, and averages the resulting evidence against a small calibration error; 'mixture' is much better than 'betting' for scores that crowd together, as with rare events",
	}[m]
})

// String returns the method's name.
func (m LowerMethod) String() string {
	return [...]string{LowerBetting: "betting", LowerMixture: "mixture"}[m]
}

// MarshalText implements encoding.TextMarshaler.
func (m LowerMethod) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *LowerMethod) UnmarshalText(text []byte) error { return LowerMethods.Unmarshal(text, m) }

// Compute returns the lower bound.
func (m LowerMethod) Compute(s *Sample, delta float64, seed uint64) (LowerBound, error) {
	switch m {
	case LowerBetting:
		return BettingLower(s, delta, seed)
	case LowerMixture:
		return MixtureLower(s, delta, seed)
	}
	return LowerBound{}, fmt.Errorf("no lower bound %d", m)
}
