package audit

import "math"

// RoundLevel returns γ·6/(π²k²), rounded down. Here γ is the level of all rounds of an image together, and the result
// is the level of round k. The levels of all rounds add up to γ. So each round may choose new candidates in view of the
// results of earlier rounds. Domain: k ≥ 1.
func RoundLevel(gamma float64, k int) float64 {
	return gamma * (6 / (math.Pi * math.Pi * float64(k) * float64(k))) * (1 - 16*unit)
}
