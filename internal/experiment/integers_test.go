package experiment

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// wholeImages writes a CSV file of images. The values of the images are bytes, written as whole numbers.
func wholeImages(t *testing.T, images ...[]int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("label")
	for d := range images[0] {
		fmt.Fprintf(&b, ",v%d", d)
	}
	for label, image := range images {
		fmt.Fprintf(&b, "\n%d", label)
		for _, v := range image {
			fmt.Fprintf(&b, ",%d", v)
		}
	}
	path := filepath.Join(t.TempDir(), "bytes.csv")
	if err := os.WriteFile(path, []byte(b.String()+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func ramp(from int) []int {
	image := make([]int, imageSize)
	for d := range image {
		image[d] = (from + 5*d) % 256
	}
	image[0], image[1] = 0, 255
	return image
}

// A model that takes bytes must receive 255·x for each value x. Without noise, the numbers 255·x are bytes. With noise
// on the lattice of bytes, they are integers, some of them outside 0…255. On a lattice with 'parts' steps per byte,
// they are the float32 numbers nearest to multiples of 1/parts. With noise in floats, they are arbitrary numbers.
func TestBytesReachTheModel(t *testing.T) {
	image := ramp(3)
	for _, tt := range []struct {
		sigma float64
		noise spec.NoiseKind
		parts float64 // lattice steps per byte; 0: noise in floats
	}{{.25, spec.Lattice, 1}, {.05, spec.Lattice, 3}, {.01, spec.Lattice, 12}, {.25, spec.Float, 0}} {
		p := quick(wholeImages(t, image), func(p *spec.Spec) { p.Model, p.Sigma, p.Noise = models+"bytes_input.onnx", tt.sigma, tt.noise })
		in, err := Open(t.Context(), p, new(said).console())
		if err != nil {
			t.Fatal(err)
		}
		example, err := in.data.Example(0)
		if err != nil {
			t.Fatal(err)
		}
		input, _, err := in.noise.input(example.Values)
		if err != nil {
			t.Fatal(err)
		}
		values := make([]float32, imageSize)
		input.Clean(values)
		for d, v := range values {
			if tt.parts > 0 && v != float32(image[d]) || math.Abs(float64(v)-float64(image[d])) > 1e-4 {
				t.Fatalf("σ = %v: byte %d reaches the model as %v", tt.sigma, image[d], v)
			}
		}
		low, high, sum, n := math.Inf(1), math.Inf(-1), 0., 0.
		for sample := range int64(200) {
			input.Perturb(values, smoothing.NewStream(1, 0, smoothing.Estimation), sample)
			for d, v := range values {
				k := math.Round(float64(v) * tt.parts)
				if tt.parts > 0 && v != float32(k/tt.parts) {
					t.Fatalf("σ = %v: %v is no multiple of 1/%v", tt.sigma, v, tt.parts)
				}
				low, high = min(low, float64(v)), max(high, float64(v))
				sum += (float64(v) - float64(image[d])) * (float64(v) - float64(image[d]))
				n++
			}
		}
		if got := math.Sqrt(sum/n) / 255; math.Abs(got-tt.sigma) > .03*tt.sigma || low >= 0 || high <= 255 {
			t.Errorf("σ = %v: noise of %v, from %v to %v", tt.sigma, got, low, high)
		}
		if tt.noise == spec.Lattice && !slices.Contains(in.Record().Model.Changes, "values are given as 255·x") {
			t.Errorf("run.json says %q", in.Record().Model.Changes)
		}
		if err := in.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A model that takes bytes refuses other data, unless --mean or --std is given. If one of them is given, the model's
// graph rounds (x − mean)/std and clamps it to 0…255.
func TestBytesRefused(t *testing.T) {
	image := make([]float64, imageSize)
	for d := range image {
		image[d] = float64(d) + .5
	}
	data := writeImages(t, image)
	p := quick(data, func(p *spec.Spec) { p.Model = models + "bytes_input.onnx" })
	_, err := Open(t.Context(), p, new(said).console())
	var hinted hint.Hinted
	if !errors.As(err, &hinted) || !strings.Contains(err.Error(), "takes bytes (uint8), and the values are multiples of 2^-1 of ") {
		t.Errorf("floats: %v", err)
	}
	p.Std = []float64{0.5}
	in, err := Open(t.Context(), p, new(said).console())
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	example, _ := in.data.Example(0)
	input, _, err := in.noise.input(example.Values)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, imageSize)
	if input.Clean(values); values[3] != 7 {
		t.Errorf("with --std 0.5 the model gets %v of 3.5", values[3])
	}
	if slices.Contains(in.changes(), "values are given as 255·x") {
		t.Error("with --std the values are not bytes")
	}
}
