package summary

import (
	"math"
	"testing"
)

func TestAddAudit(t *testing.T) {
	s := Summary{Level: .95, Curve: []CurvePoint{{Radius: 0}, {Radius: 1}, {Radius: 2}}}
	s.AddAudit(Audit{Broken: []float64{math.Inf(1), 0, 1, 1.5}})
	for i, want := range []int{3, 2, 1} {
		p := s.Audit.Curve[i]
		if p.Unbroken.Count != want || p.Unbroken.Of != 4 || p.Radius != s.Curve[i].Radius || !(p.Unbroken.Low < p.Unbroken.Value && p.Unbroken.Value <= p.Unbroken.High) {
			t.Errorf("radius %v: %+v, want %d of 4", p.Radius, p.Unbroken, want)
		}
	}
	s.AddAudit(Audit{})
	if s.Audit.Curve != nil {
		t.Error("a curve of no example")
	}
}
