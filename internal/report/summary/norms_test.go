package summary

import (
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/runfolder"
)

// ofBytes returns the examples of the function 'small', as a run on inputs of four bytes. One of the radii is 1.8
// instead of 1.
func ofBytes() Source {
	s := small()
	s.Certificates[7].Radius = 1.8
	for i := range s.Certificates {
		s.Certificates[i].Sigma = 1 // the largest radius is then 2.6
	}
	s.Run = &runfolder.Run{
		Data:  runfolder.Data{Shape: []int{1, 2, 2}, Selected: len(s.Certificates)},
		Noise: runfolder.Noise{Inputs: "values are bytes k/255"},
	}
	return s
}

// For a change δ of four values, ‖δ‖₂ ≤ ‖δ‖₁ and ‖δ‖₂ ≤ 2‖δ‖∞. So a certified L2 radius R gives the certified radius R
// in L1 and the certified radius R/2 in L∞. A change of k bytes moves the input by at most √k in L2, so R = 1.8 allows
// 3 changed bytes. The other radii allow no changed byte.
func TestNorms(t *testing.T) {
	o := Default()
	o.Radii = []float64{0.24, 0.26, 1}
	o.Norms = []law.Norm{law.L2, law.L1, law.LInf, law.L0}
	s := mustNew(t, ofBytes(), o)
	if len(s.Norms) != 3 {
		t.Fatalf("%d further norms, want 3: L2 is the norm of the noise", len(s.Norms))
	}
	for k, want := range []struct {
		norm    law.Norm
		counts  []int   // numbers of correct examples with a radius of at least 0.24, 0.26 and 1 in this norm
		average float64 // average radius of the ten examples
	}{
		{law.L1, []int{5, 3, 1}, 3.65 / 10}, {law.LInf, []int{3, 2, 0}, 3.65 / 20}, {law.L0, []int{1, 1, 1}, 0.3},
	} {
		in := s.Norms[k]
		var counts []int
		for _, p := range in.Curve {
			counts = append(counts, p.Accuracy.Count)
		}
		if in.Norm != want.norm || !slices.Equal(counts, want.counts) {
			t.Errorf("%s: counts %v, want %v in %s", in.Norm, counts, want.counts, want.norm)
		}
		a := in.AverageRadius
		if a.Value > want.average+1e-12 || a.Value < want.average-1e-8 {
			t.Errorf("%s: average radius %v, want %v", in.Norm, a.Value, want.average)
		}
		if a.Low == nil || !(*a.Low <= a.Value && a.Value <= *a.High) {
			t.Errorf("%s: interval of the average radius %+v", in.Norm, a)
		}
		// If all n votes agree, the radius is the largest possible. This radius is 2.6 in L2 and in L1, and 1.3 in L∞.
		// In L0 it is 4, which allows changes of all four values.
		if most, limit := *s.AverageRadius.Largest, []float64{1, 0.5, 0}[k]; *a.Largest < most*limit-1e-8 || k == 2 && *a.Largest != 4 {
			t.Errorf("%s: largest radius %v from %v in L2", in.Norm, *a.Largest, most)
		}
		whole := in.Whole()
		if whole.Conditions.Norm != want.norm || whole.Norms != nil || whole.Abstained != s.Abstained || len(whole.Classes) != 2 {
			t.Errorf("%s: the whole summary is %+v", in.Norm, whole)
		}
		// 6/25 is the radius 0.24.
		if found, ok := s.InNorm(want.norm); !ok || found.CertifiedAt(big.NewRat(6, 25)) != want.counts[0] {
			t.Errorf("InNorm(%s): %v", want.norm, ok)
		}
	}
	if own, ok := s.InNorm(law.L2); !ok || own.CertifiedAt(big.NewRat(1, 4)) != 5 {
		t.Error("InNorm does not give the summary itself for the norm of the noise")
	}
	plain := mustNew(t, ofBytes(), Default())
	if _, ok := plain.InNorm(law.L1); ok || plain.Norms != nil {
		t.Error("a summary without Options.Norms has radii in L1")
	}
	if s.Rows[7].Radius != 1.8 || s.Curve[0].Accuracy.Count != 5 {
		t.Errorf("the conversion changed the summary itself: %+v", s.Rows[7])
	}
}

// If the options give no radii, each norm must have its own round radii, chosen from the certified radii in this norm.
func TestNormsChooseTheirRadii(t *testing.T) {
	o := Default()
	o.Norms, o.Round = []law.Norm{law.LInf}, []float64{0, 0.25, 0.5, 5}
	s := mustNew(t, ofBytes(), o)
	curve := s.Norms[0].Curve
	if last := curve[len(curve)-1].Radius; last > 0.9 || last < 0.45 {
		t.Errorf("the L∞ radii end at %v; the largest is 0.9", last)
	}
	if len(s.Curve) != 4 {
		t.Errorf("the L2 radii are %v", s.Curve)
	}
}

func TestNormsInJSON(t *testing.T) {
	o := Default()
	o.Norms = []law.Norm{law.L1}
	text, err := json.Marshal(mustNew(t, ofBytes(), o))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"norms":[{"norm":"l1","certified_accuracy":[{"radius":0,`, `"average_certified_radius":{"value":0.365`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	if plain, _ := json.Marshal(mustNew(t, ofBytes(), Default())); strings.Contains(string(plain), "norms") {
		t.Error("norms without a request")
	}
}

func TestNormsNeedARun(t *testing.T) {
	o := Default()
	o.Norms = []law.Norm{law.L1}
	if _, err := New(small(), o); err == nil || !strings.Contains(err.Error(), "no run.json") {
		t.Errorf("without run.json: %v", err)
	}
	unlimited := ofBytes()
	unlimited.Run.Noise.Inputs = ""
	o.Norms = []law.Norm{law.L0}
	if _, err := New(unlimited, o); err == nil || !strings.Contains(err.Error(), "without limit") {
		t.Errorf("L0 of values without limits: %v", err)
	}
}

// The distribution of the bounds must count wrong and abstained examples as 0.
func TestPA(t *testing.T) {
	s := small()
	// The examples 2, 3, 8 and 9 are wrong or abstained.
	for i, p := range []float64{0.7, 0.8, 0.99, 0.45, 0.9, 0.8, 0.95, 0.991, 0.6, 0.3} {
		s.Certificates[i].Bounds = map[string]float64{"p_a": p}
	}
	o := Default()
	o.PA = true
	p := mustNew(t, s, o).PA
	var counts []int
	for _, share := range p.Shares {
		counts = append(counts, share.Share.Count)
	}
	// These are the numbers of bounds that reach 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99 and 0.999.
	if !slices.Equal(counts, []int{6, 6, 6, 5, 3, 2, 1, 0}) || p.Shares[3].AtLeast != 0.8 || p.Shares[0].Share.Of != 10 {
		t.Errorf("shares %+v", p.Shares)
	}
	if p.Median != 0.8 || p.Largest != 0.991 || p.Reach(0) != 10 || p.Reach(0.9) != 3 || p.Reach(math.Nextafter(0.9, 1)) != 2 {
		t.Errorf("%+v", p)
	}
	if !slices.Equal(p.Steps(), []float64{0.7, 0.8, 0.9, 0.95, 0.991}) {
		t.Errorf("steps %v", p.Steps())
	}
	delete(s.Certificates[3].Bounds, "p_a")
	if _, err := New(s, o); err == nil || !strings.Contains(err.Error(), "example 3 has no bound p_a") {
		t.Errorf("without a bound: %v", err)
	}
	if mustNew(t, s, Default()).PA != nil {
		t.Error("a distribution without a request")
	}
}
