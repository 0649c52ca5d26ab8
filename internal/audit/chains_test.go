package audit

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestChains(t *testing.T) {
	for _, c := range []struct {
		name string
		p    [][]float64
		want []int
	}{
		{"no images", nil, []int{}},
		{"fixed sequence: the first that is not rejected ends it", [][]float64{{.001, .04, .06, .001}}, []int{2}},
		{"Holm: .05/3, .05/2, .05", [][]float64{{.016}, {.024}, {.049}}, []int{1, 1, 1}},
		{"Holm stops", [][]float64{{.016}, {.026}, {.026}}, []int{1, 0, 0}},
		{"an image without candidates shares nothing", [][]float64{{}, {.026}}, []int{0, 0}},
		{"a chain keeps its level until its end", [][]float64{{.02, .03}, {.03}}, []int{1, 0}},
		{"the end of a chain is shared", [][]float64{{.02, .02}, {.03}}, []int{2, 1}},
	} {
		if got := Chains(c.p, .05); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Chains must keep the familywise level in a simulation with a fixed seed. In image i, the hypotheses of the first
// truths[i] candidates are false and have the p-value 0. The hypotheses of the other candidates are true and have
// uniform p-values. The order of the images must not change the results.
func TestChainsFamilywiseLevel(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 0))
	const gamma, trials = .1, 20000
	for _, truths := range [][]int{{0, 0, 0}, {1, 0, 2}, {3, 1, 0}, {3, 3, 2}} {
		wrong := 0
		for range trials {
			p := make([][]float64, 3)
			for i := range p {
				for j := range 3 {
					p[i] = append(p[i], 0)
					if j >= truths[i] {
						p[i][j] = r.Float64()
					}
				}
			}
			rejected := Chains(p, gamma)
			bad := false
			for i, k := range rejected {
				bad = bad || k > truths[i]
			}
			if bad {
				wrong++
			}
			slices.Reverse(p)
			again := Chains(p, gamma)
			slices.Reverse(again)
			if !slices.Equal(rejected, again) {
				t.Fatalf("%v: %v in this order of images, %v in the other", p, rejected, again)
			}
		}
		if wrong > trials*gamma*11/10 || wrong < trials/100 {
			t.Errorf("%v: a true hypothesis was rejected in %d of %d trials at level %v", truths, wrong, trials, gamma)
		}
	}
}
