package calib

import (
	"math/rand/v2"
	"testing"
)

// For each row of BoundMethods, the function in the field Compute returns the same bound as a direct call of the method
// (for example a call of BinnedVariation). The field Sound has the same value in the row and in the bound.
func TestBoundMethods(t *testing.T) {
	sample := draw(60, 1, func(r *rand.Rand) float64 { return r.Float64() }, func(s float64) float64 { return s })
	p := BoundParams{CrossFit: CrossFit{Delta: 0.05, Folds: 2, Seed: 3}, Variation: 0.25, Bandwidth: 0.25,
		Weighted: equalWeights(sample)}
	want := map[string]func() (Bound, error){
		"binned-tv":          func() (Bound, error) { return BinnedVariation(sample, 0.05, 0.25) },
		"binned-lipschitz":   func() (Bound, error) { return BinnedLipschitz(sample, 0.05, 0.25) },
		"binned-best":        func() (Bound, error) { return BinnedBest(sample, 0.05, 0.25) },
		"binned-bentkus":     func() (Bound, error) { return BinnedBentkus(sample, 0.05, 0.25) },
		"binned-quadratic":   func() (Bound, error) { return BinnedQuadratic(sample, 0.05, 0.25) },
		"tv":                 func() (Bound, error) { return TotalVariation(sample, p.CrossFit, 0.25) },
		"nw":                 func() (Bound, error) { return NadarayaWatson(sample, p.CrossFit, 0.25, Repaired) },
		"nw-second-order":    func() (Bound, error) { return NadarayaWatson(sample, p.CrossFit, 0.25, SecondOrder) },
		"ciosek-nw":          func() (Bound, error) { return NadarayaWatson(sample, p.CrossFit, 0.25, Printed) },
		"lipschitz":          func() (Bound, error) { return Lipschitz(sample, 0.05, 0.25) },
		"binned-tv-weighted": func() (Bound, error) { return WeightedVariation(equalWeights(sample), 0.05, 0.25) },
	}
	if len(BoundMethods) != len(want) {
		t.Errorf("%d methods, %d are tested", len(BoundMethods), len(want))
	}
	for _, m := range BoundMethods {
		got, err := m.Compute(sample, p)
		if err != nil {
			t.Fatal(err)
		}
		w, err := want[m.Name]()
		if err != nil {
			t.Fatal(err)
		}
		if got.Sum() != w.Sum() || got.Sound != w.Sound || got.Sound != m.Sound {
			t.Errorf("%s: sum %v, sound %v; want %v, %v; the row says sound %v", m.Name, got.Sum(), got.Sound, w.Sum(), w.Sound, m.Sound)
		}
		if m.What == "" || m.Default && !m.Sound {
			t.Errorf("row %s: what %q, default %v", m.Name, m.What, m.Default)
		}
		// A method that assumes bounded variation ignores the bandwidth. A method that assumes perturbed scores ignores
		// the variation.
		other := p
		if m.Assumption == PerturbedScores {
			other.Variation *= 2
		} else {
			other.Bandwidth *= 2
		}
		if again, err := m.Compute(sample, other); err != nil || again.Sum() != got.Sum() {
			t.Errorf("%s depends on what it does not assume", m.Name)
		}
	}
}

func TestBoundMethodText(t *testing.T) {
	for _, m := range BoundMethods {
		text, err := m.MarshalText()
		got, err2 := BoundChoices().Parse(string(text))
		if err != nil || err2 != nil || got.Name != m.Name || got.Compute == nil || BoundChoices().What(got) != m.What {
			t.Errorf("%s reads back as %q", m.Name, got.Name)
		}
	}
	_, err := BoundChoices().Parse("nonsense")
	if err == nil || err.Error() != `"nonsense": want binned-tv, binned-lipschitz, binned-best, binned-bentkus, binned-quadratic, binned-tv-weighted, tv, nw, nw-second-order, lipschitz or ciosek-nw` {
		t.Errorf("error %v", err)
	}
	for _, e := range []Edge{UpperClosed, LowerClosed} {
		text, err := e.MarshalText()
		got := Edge(7)
		if err != nil || got.UnmarshalText(text) != nil || got != e {
			t.Errorf("edge %d reads back as %d", e, got)
		}
	}
	if _, err := Edge(2).MarshalText(); err == nil {
		t.Error("an edge that does not exist has a name")
	}
}
