package run

import (
	"math"
	"math/big"
	"testing"

	"github.com/rscert/rscert/internal/attack"
)

// A distance is computed from two inputs that are rounded to float32, so it may be off by two roundings. The slack must
// cover this error. The test tries pairs of 16-bit integers from 32,768 to 32,999.
func TestSlackOfLatticePoints(t *testing.T) {
	v := attackVerifier{threat: attack.Threat{Norm: attack.L2, Epsilon: 1, Low: 0, High: 1}}
	l := attack.Lattice{Step: big.NewRat(1, 65535), Low: 0, High: 65535}
	for from := 32768; from < 33000; from++ {
		for to := from; to < 33000; to++ {
			x, moved := []float32{l.Value(from)}, []float32{l.Value(to)}
			exact := math.Abs(float64(to-from)) / 65535
			if d, slack := v.threat.Distance(moved, x), v.slack(moved, x); math.Abs(d-exact) > slack+0x1p-52 {
				t.Fatalf("from %d to %d: %v for %v, slack %v", from, to, d, exact, slack)
			}
		}
	}
}
