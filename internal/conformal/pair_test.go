package conformal

import (
	"testing"
	"time"

	"github.com/rscert/rscert/internal/law"
)

// The table of shared/MATH.md, section 16.
func TestBestPairs(t *testing.T) {
	draws := []int64{5, 10, 20, 50, 100}
	for shift, want := range map[float64][]countPair{
		0.25: {{3, 2}, {6, 4}, {12, 9}, {28, 22}, {55, 45}},
		0.5:  {{4, 2}, {7, 4}, {13, 8}, {30, 20}, {60, 40}},
		1:    {{4, 1}, {7, 3}, {14, 6}, {35, 15}, {70, 31}},
	} {
		for i, m := range draws {
			begin := time.Now()
			s := pairSearch{law: law.Gaussian, shift: shift, m: m, draws: m, queries: 1}
			got, ok := s.bestPair(countPair{})
			t.Log(shift, m, got, time.Since(begin))
			if !ok || got != want[i] {
				t.Errorf("rho %v, m %d: %v, want %v", shift, m, got, want[i])
			}
		}
	}
}
