package experiment

import (
	"errors"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// TestPictures compares the pictures with the data, and the noise of the pictures with σ.
func TestPictures(t *testing.T) {
	const path = "../../testdata/mnist"
	data, err := dataset.Open(t.Context(), path, dataset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	for _, kind := range []spec.NoiseKind{spec.Lattice, spec.Float} {
		r := runfolder.Run{
			Data:       runfolder.Data{SHA256: data.SHA256(), Shape: data.Shape(), Examples: data.Len()},
			Parameters: runfolder.Parameters{Smoothing: spec.Smoothing{Sigma: 0.1}, Conditions: spec.Conditions{Seed: 7, Noise: kind}},
		}
		p, err := OpenPictures(t.Context(), r, path)
		if err != nil {
			t.Fatal(err)
		}
		example, err := data.Example(11)
		if err != nil {
			t.Fatal(err)
		}
		input, noisy, err := p.Draw(11)
		if err != nil {
			t.Fatal(err)
		}
		grey := func(m image.Image, i int) float64 {
			return float64(color.GrayModel.Convert(m.At(i%28, i/28)).(color.Gray).Y) / 255
		}
		var squares, n float64
		for i, v := range example.Values {
			if got := grey(input, i); math.Abs(got-float64(v)) > 1e-6 {
				t.Fatalf("%s: pixel %d is %v, the data's %v", kind, i, got, v)
			}
			if v > 0.35 && v < 0.65 { // v is far from the clipping limits
				d := grey(noisy, i) - float64(v)
				squares, n = squares+d*d, n+1
			}
		}
		// The noise is measured at about 20 pixels. Its root mean square must be between σ/2 and 2σ.
		if s := math.Sqrt(squares / n); n < 10 || s < 0.05 || s > 0.2 {
			t.Errorf("%s: the noise of %v pixels has standard deviation %v, want about 0.1", kind, n, s)
		}
		for _, index := range []int{-1, data.Len()} {
			if _, _, err := p.Draw(index); err == nil {
				t.Errorf("example %d is drawn", index)
			}
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		r.Data.SHA256 = "other"
		if _, err := OpenPictures(t.Context(), r, path); !errors.Is(err, ErrOtherData) {
			t.Errorf("other data: %v", err)
		}
		r.Data.SHA256, r.Data.Shape = data.SHA256(), []int{784}
		if _, err := OpenPictures(t.Context(), r, path); err == nil || errors.Is(err, ErrOtherData) {
			t.Errorf("rows that are no images: %v", err)
		}
	}
}

// TestColourPictures checks the order of channels, rows and columns.
func TestColourPictures(t *testing.T) {
	root := t.TempDir()
	want := image.NewRGBA(image.Rect(0, 0, 3, 2))
	for i := range 6 {
		want.SetRGBA(i%3, i/3, color.RGBA{uint8(10 * i), uint8(100 + i), uint8(250 - 30*i), 255})
	}
	for _, class := range []string{"0", "1"} {
		if err := os.Mkdir(filepath.Join(root, class), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join(root, class, "a.png"))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(png.Encode(f, want), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	data, err := dataset.Open(t.Context(), root, dataset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	p, err := OpenPictures(t.Context(), runfolder.Run{
		Data:       runfolder.Data{SHA256: data.SHA256(), Shape: data.Shape(), Examples: data.Len()},
		Parameters: runfolder.Parameters{Smoothing: spec.Smoothing{Sigma: 0.25}, Conditions: spec.Conditions{Seed: 7, Noise: spec.Lattice}},
	}, root)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	input, noisy, err := p.Draw(1)
	if err != nil {
		t.Fatal(err)
	}
	if input.Bounds() != want.Bounds() || noisy.Bounds() != want.Bounds() {
		t.Fatalf("sizes %v and %v, want %v", input.Bounds(), noisy.Bounds(), want.Bounds())
	}
	for y := range 2 {
		for x := range 3 {
			if got := input.At(x, y); got != want.At(x, y) {
				t.Errorf("pixel %d, %d is %v, want %v", x, y, got, want.At(x, y))
			}
		}
	}
}
