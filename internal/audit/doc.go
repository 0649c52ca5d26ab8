// Package audit tests certificates against attacks. It takes counts and scores from fresh noise, and returns verified
// statements. It reads no files and has no state. Every rounding favours the certificate. The functions return:
//
//   - Flip, FlipPValue: evidence that the rival class is more probable than the certified class at a
//     perturbed input.
//   - Slack: an upper bound on the margin at a perturbed input. The bound can be below the margin that the certificate
//     implies there. This can happen even if the answer does not change.
//   - Bet: evidence that a mean score is above or below a claimed bound.
//   - Chains: the results of tests of several candidates of several images, at one familywise level.
//   - Rate, ChancePValue, Threshold: numbers that show whether the number of contradicted certificates exceeds
//     chance.
//   - Curve: upper bounds on robust accuracy, next to the certified lower bounds.
//
// docs/audit.md explains the protocol.
package audit

import "math"

// unit is the unit round-off of float64.
const unit = 0x1p-53

// down returns a number below x. The difference is larger than the sum of a few rounding errors, if each of them is at
// most unit·(|x| + scale).
func down(x, scale float64) float64 { return x - 16*unit*(math.Abs(x)+scale) }
