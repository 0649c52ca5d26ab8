package dataset

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// pillow holds pixels that Pillow computed for two kinds of images: the images in testdata/formats, and resized
// versions of the images in testdata/resize.
type pillow struct {
	Formats map[string][]int
	Resize  []struct {
		Resize, Interpolation string
		Crop, H, W            int
		Levels                []int
	}
}

func readPillow(t *testing.T) (p pillow) {
	t.Helper()
	data, err := os.ReadFile("testdata/images.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// compareLevels checks that values are exactly levels/255.
func compareLevels(t *testing.T, what string, values []float32, levels []int) {
	t.Helper()
	if len(values) != len(levels) {
		t.Fatalf("%s: %d values, want %d", what, len(values), len(levels))
	}
	for j, v := range values {
		if v != float32(levels[j])/255 {
			t.Errorf("%s: value %d is %v, want %d/255", what, j, 255*v, levels[j])
			return
		}
	}
}

// TestImageFormats decodes BMP and WebP images (lossy, lossless, with transparency). Every value must equal Pillow's
// value.
func TestImageFormats(t *testing.T) {
	want := readPillow(t).Formats
	n := 0
	for _, dir := range []string{"testdata/formats", "testdata/formats/odd"} {
		names := write(t, filepath.Join(t.TempDir(), "names"), []byte("0\nodd\n"))
		d, err := Open(context.Background(), dir, Options{ClassNames: names})
		if err != nil {
			t.Fatal(err)
		}
		for i := range d.Len() {
			e, err := d.Example(i)
			if err != nil {
				t.Fatal(err)
			}
			path := strings.TrimPrefix(filepath.ToSlash(d.labelAt(i)), "testdata/")
			compareLevels(t, path, e.Values, want[path])
			n++
		}
	}
	if n != len(want) {
		t.Errorf("%d images, want %d", n, len(want))
	}
}

// TestResize resizes and crops images in a folder and in arrays. Every value must equal the value from Pillow's resize
// and torchvision's crop.
func TestResize(t *testing.T) {
	for _, c := range readPillow(t).Resize {
		what := fmt.Sprintf("resize %s %s crop %d", c.Resize, c.Interpolation, c.Crop)
		var opt Options
		if err := opt.Resize.UnmarshalText([]byte(c.Resize)); err != nil {
			t.Fatal(err)
		}
		if err := opt.Interpolation.UnmarshalText([]byte(c.Interpolation)); err != nil {
			t.Fatal(err)
		}
		opt.Crop.H = c.Crop
		d, err := Open(context.Background(), "testdata/resize", opt)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(d.Shape()); got != fmt.Sprint([]int{3, c.H, c.W}) {
			t.Fatalf("%s: shape %v", what, got)
		}
		e, err := d.Example(0)
		if err != nil {
			t.Fatal(err)
		}
		compareLevels(t, what, e.Values, c.Levels)
		if l, err := d.Lattice(context.Background()); err != nil || l.Kind != ByteLattice {
			t.Errorf("%s: %v, %v", what, l, err)
		}
		plain := mustOpen(t, "testdata/resize")
		if plain.SHA256() == d.SHA256() {
			t.Errorf("%s: the digest does not depend on the resizing", what)
		}
		if err := plain.resize(opt); err != nil {
			t.Fatal(err)
		}
		if e, err = plain.Example(0); err != nil {
			t.Fatal(err)
		}
		compareLevels(t, "array: "+what, e.Values, c.Levels)
	}
}

// TestChannels checks the conversion of grey to three channels and the conversion of colours to one channel. The second
// must agree with Pillow's convert("L"): L of (10, 200, 50) is 126.
func TestChannels(t *testing.T) {
	dir := t.TempDir()
	m := image.NewNRGBA(image.Rect(0, 0, 1, 2))
	m.SetNRGBA(0, 0, color.NRGBA{10, 200, 50, 255})
	m.SetNRGBA(0, 1, color.NRGBA{7, 7, 7, 255})
	writePNG(t, filepath.Join(dir, "rgb/0/1.png"), m)
	d := mustOpen(t, filepath.Join(dir, "rgb"))
	before := d.SHA256()
	if d.FitChannels(3) || !d.FitChannels(1) || d.SHA256() == before {
		t.Error("3 channels made 1: not reported, or the same digest")
	}
	e, err := d.Example(0)
	if err != nil {
		t.Fatal(err)
	}
	compareLevels(t, "grey", e.Values, []int{126, 7})

	grey := image.NewGray(image.Rect(0, 0, 1, 2))
	grey.SetGray(0, 1, color.Gray{9})
	writePNG(t, filepath.Join(dir, "grey/0/1.png"), grey)
	d = mustOpen(t, filepath.Join(dir, "grey"))
	if !d.FitChannels(3) {
		t.Error("1 channel is not made 3")
	}
	if e, err = d.Example(0); err != nil {
		t.Fatal(err)
	}
	compareLevels(t, "colours", e.Values, []int{0, 9, 0, 9, 0, 9})

	deep := image.NewGray16(image.Rect(0, 0, 1, 2))
	deep.SetGray16(0, 1, color.Gray16{1000})
	writePNG(t, filepath.Join(dir, "deep/0/1.png"), deep)
	d = mustOpen(t, filepath.Join(dir, "deep"))
	if !d.FitChannels(3) {
		t.Error("1 channel of 16 bits is not made 3")
	}
	const v = float32(1000) / 65535
	if e, err = d.Example(0); err != nil || !slices.Equal(e.Values, []float32{0, v, 0, v, 0, v}) {
		t.Errorf("16 bits: %v, %v", e.Values, err)
	}
}

// TestDeepImages checks that an image of 16 bits per channel is on the lattice k/65535.
func TestDeepImages(t *testing.T) {
	dir := t.TempDir()
	m := image.NewGray16(image.Rect(0, 0, 2, 1))
	m.SetGray16(0, 0, color.Gray16{1000})
	writePNG(t, filepath.Join(dir, "0/1.png"), m)
	l, err := mustOpen(t, dir).Lattice(context.Background())
	if err != nil || l.Kind != WordLattice {
		t.Errorf("lattice %v, %v; want k/65535", l, err)
	}
}

// TestPhotographs resizes photographs and compares the results with Pillow's results, if RSCERT_PILLOW names a folder
// of photographs. In this folder, NAME.png is a photograph, and NAME.SIZE.INTERPOLATION.png is the photograph as
// resized by Pillow.
func TestPhotographs(t *testing.T) {
	dir := os.Getenv("RSCERT_PILLOW")
	if dir == "" {
		t.Skip("RSCERT_PILLOW is not set")
	}
	results, _ := filepath.Glob(filepath.Join(dir, "*.*.*.png"))
	for _, result := range results {
		part := strings.Split(filepath.Base(result), ".")
		decode := func(path string) ([]float32, int, int) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			m, err := png.Decode(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			values := make([]float32, 3*m.Bounds().Dx()*m.Bounds().Dy())
			pixelValues(values, m, "png", 3)
			return values, m.Bounds().Dy(), m.Bounds().Dx()
		}
		var opt Options
		if opt.Resize.UnmarshalText([]byte(part[1])) != nil || opt.Interpolation.UnmarshalText([]byte(part[2])) != nil {
			t.Fatal(result)
		}
		values, h, w := decode(filepath.Join(dir, part[0]+".png"))
		want, wantH, wantW := decode(result)
		got := make([]float32, len(want))
		if h2, w2, err := opt.finalSize(h, w); err != nil || h2 != wantH || w2 != wantW {
			t.Fatalf("%s: %d×%d, %v", result, w2, h2, err)
		}
		if err := opt.apply(got, values, 3, h, w); err != nil {
			t.Fatal(err)
		}
		worst := 0.
		for i := range got {
			worst = max(worst, 255*math.Abs(float64(got[i]-want[i])))
		}
		t.Logf("%s: greatest difference %v levels", filepath.Base(result), worst)
		if worst > 0 {
			t.Fail()
		}
	}
}
