package sweep

import (
	"reflect"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/param"
)

func grid(t *testing.T, axes ...Axis) Grid {
	t.Helper()
	g, err := NewGrid(axes...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func names(points []Point) (all []string) {
	for _, p := range points {
		all = append(all, p.Name)
	}
	return all
}

// The order of the axes given to NewGrid does not matter. The last axis changes fastest.
func TestPoints(t *testing.T) {
	sigma, law := Axis{"sigma", []string{"1", "0.25"}}, Axis{"law", []string{"laplace", "gaussian"}}
	points := grid(t, sigma, law).Points()
	want := []string{"law-laplace-sigma-1", "law-laplace-sigma-0.25", "law-gaussian-sigma-1", "law-gaussian-sigma-0.25"}
	if got := names(points); !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if again := grid(t, law, sigma).Points(); !reflect.DeepEqual(again, points) {
		t.Errorf("another order of the axes gives %v, not %v", again, points)
	}
	if want := map[param.Name]string{"law": "gaussian", "sigma": "1"}; !reflect.DeepEqual(points[2].Settings, want) {
		t.Errorf("%v, want %v", points[2].Settings, want)
	}
	if k, found := Find(points, "law-gaussian-sigma-1"); k != 2 || !found {
		t.Errorf("point %d, %v", k, found)
	}
	if _, found := Find(points, "sigma-1"); found {
		t.Error("there is no point sigma-1")
	}
}

// Names of folders are readable, distinct (also for file systems that ignore case), and free of characters that a path
// cannot hold.
func TestNames(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, c := range []struct {
		axis Axis
		want []string
	}{
		{Axis{"model", []string{"models/a.onnx", "b.onnx"}}, []string{"model-a", "model-b"}},
		{Axis{"model", []string{"one/net.onnx", "two/net.onnx"}}, []string{"model-one-net", "model-two-net"}},
		{Axis{"model", []string{"one/net.onnx", "one-net.onnx", "one net"}}, []string{"model-one-net-0", "model-one-net-1", "model-one-net-2"}},
		{Axis{"model", []string{"builtin:cnn", "A.onnx", "a.onnx"}}, []string{"model-builtin-cnn-0", "model-A-1", "model-a-2"}},
		{Axis{"model", []string{"a.onnx", "A.onnx"}}, []string{"model-a-0", "model-A-1"}},
		{Axis{"stop", []string{"radius>=0.5", "precision=0.1"}}, []string{"stop-radius-0.5", "stop-precision-0.1"}},
		{Axis{"model", []string{"../../x.onnx", "é.onnx"}}, []string{"model-x", "model-é"}},
		{Axis{"model", []string{long, "a"}}, []string{"point-0", "point-1"}},
	} {
		if got := names(grid(t, c.axis).Points()); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%.60q: %q, want %q", c.axis.Values, got, c.want)
		}
	}
}

func TestTooManyPoints(t *testing.T) {
	values := make([]string, 100)
	for k := range values {
		values[k] = strings.Repeat("1", k+1)
	}
	if _, err := NewGrid(Axis{"n", values}, Axis{"n0", values}); err == nil || !strings.Contains(err.Error(), "1000 points") {
		t.Errorf("error %v", err)
	}
	if _, err := NewGrid(Axis{"n", values}, Axis{"n0", values[:10]}); err != nil {
		t.Error(err)
	}
}
