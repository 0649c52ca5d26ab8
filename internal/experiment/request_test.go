package experiment

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/spec"
)

// TestRequest sends the values of a data set as requests to an experiment with the lattice of bytes. It checks that the
// inputs of the requests equal the inputs of the data set. It also checks which values Request refuses.
func TestRequest(t *testing.T) {
	open := func(s spec.Spec) *Experiment {
		e, err := Open(t.Context(), s, (&said{}).console())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	data := open(quick(manyImages(t)))
	requests := open(quick("", func(s *spec.Spec) {
		s.Lattice = &spec.RunLattice{Inputs: "values are bytes k/255"}
		s.Requests = &spec.Requests{Shape: data.Shape()}
	}))
	if a, b := data.Record().Noise, requests.Record().Noise; !reflect.DeepEqual(a, b) {
		t.Errorf("noise %+v, of the data %+v", b, a)
	}
	perturbed := func(e Example) []float32 {
		x := make([]float32, e.Input.Len())
		e.Input.Clean(x)
		return x
	}
	for _, position := range []int{0, 1, 2} {
		example, err := data.Example(position)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := data.Values(position)
		if err != nil {
			t.Fatal(err)
		}
		got, err := requests.Request(position, raw.Values, false)
		if err != nil {
			t.Fatal(err)
		}
		for d, want := range perturbed(example) {
			if x := perturbed(got)[d]; x != want {
				t.Fatalf("example %d: value %d is %v, want %v", position, d, x, want)
			}
		}
	}

	values := make([]float32, imageSize)
	values[3] = .5
	for _, c := range []struct {
		name  string
		value float32
		round bool
		want  string // part of the error; empty if the value is accepted
	}{
		{"on the lattice", 7. / 255, false, ""}, {"off it", .5, false, "a value here is not"}, {"rounded", .5, true, ""},
		{"NaN", float32(math.NaN()), true, "finite"}, {"infinite", float32(math.Inf(-1)), true, "finite"}, {"clamped", 1e30, true, ""},
		{"beyond bytes", 2, false, "a value here is not"},
	} {
		values[3] = c.value
		e, err := requests.Request(0, values, c.round)
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		case c.name == "rounded" && math.Abs(e.Quantisation-.5/255) > 1e-6:
			t.Errorf("0.5 moved by %v, want half a step", e.Quantisation)
		}
	}
	if _, err := requests.Request(0, values[1:], false); err == nil {
		t.Error("too few values were accepted")
	}
}
