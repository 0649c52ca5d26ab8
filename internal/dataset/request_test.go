package dataset

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/png"
	"reflect"
	"strings"
	"testing"
)

// TestRequests checks the dataset that the function Requests returns: it must lie on the expected lattice and have the
// given range.
func TestRequests(t *testing.T) {
	for _, c := range []struct {
		bytes     bool
		low, high float32
		want      LatticeKind
	}{{true, 0, 1, ByteLattice}, {false, 0, 1, ByteLattice}, {false, -.1, .3, NoLattice}} {
		d, err := Requests([]int{1, 2, 3}, c.bytes, c.low, c.high)
		if err != nil {
			t.Fatal(err)
		}
		l, err := d.Lattice(t.Context())
		if err != nil || l.Kind != c.want || l.Low != c.low || l.High != c.high || !reflect.DeepEqual(d.Shape(), []int{1, 2, 3}) {
			t.Errorf("%+v: lattice %v from %v to %v, %v", c, l, l.Low, l.High, err)
		}
		if d.Bytes() != c.bytes || d.CheckLabels(2) != nil || d.Close() != nil {
			t.Errorf("%+v: not the data of requests", c)
		}
	}
	if _, err := Requests([]int{1 << 30, 1 << 30}, true, 0, 1); err == nil {
		t.Error("a shape larger than the memory was accepted")
	}
}

// TestHolds checks single inputs against each lattice.
func TestHolds(t *testing.T) {
	parse := func(text string) Lattice {
		l, err := ParseLattice(text)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	bytes, words, binary := parse("values are bytes k/255"), parse("values are 16-bit integers k/65535"), parse("values are multiples of 2^-3")
	for _, c := range []struct {
		l    Lattice
		x    float32
		want bool
	}{
		{bytes, 7. / 255, true}, {bytes, .5, false}, {bytes, -1. / 255, false}, {bytes, 256. / 255, false},
		{words, 7. / 65535, true}, {words, 1.5, false},
		{binary, .125, true}, {binary, -3, true}, {binary, .0625, false}, {binary, 1e30, false},
		{Lattice{}, .123, true},
	} {
		if got := c.l.Holds([]float32{0, c.x, 1}); got != c.want {
			t.Errorf("%v holds %v: %v, want %v", c.l, c.x, got, c.want)
		}
	}
}

// TestDecodeImage decodes grey and coloured images for models with one and with three channels.
func TestDecodeImage(t *testing.T) {
	grey, colours := image.NewGray(image.Rect(0, 0, 2, 1)), image.NewRGBA(image.Rect(0, 0, 2, 1))
	grey.SetGray(1, 0, color.Gray{Y: 51})
	colours.Set(0, 0, color.RGBA{R: 255, A: 255})
	colours.Set(1, 0, color.RGBA{G: 51, B: 102, A: 255})
	encode := func(img image.Image) []byte {
		var b bytes.Buffer
		if err := png.Encode(&b, img); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for _, c := range []struct {
		name  string
		data  []byte
		shape []int
		want  []float32
		fails string
	}{
		{"grey", encode(grey), []int{1, 1, 2}, []float32{0, .2}, ""},
		{"grey for a model of colours", encode(grey), []int{3, 1, 2}, []float32{0, .2, 0, .2, 0, .2}, ""},
		{"colours", encode(colours), []int{3, 1, 2}, []float32{1, 0, 0, .2, 0, .4}, ""},
		{"another size", encode(grey), []int{1, 2, 2}, nil, "the model takes [1 2 2]"},
		{"no image model", encode(grey), []int{2}, nil, "takes no images"},
		{"cut", encode(grey)[:40], []int{1, 1, 2}, nil, "EOF"},
	} {
		got, err := DecodeImage(context.Background(), c.data, c.shape, Options{})
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v, want %s", c.name, err, c.fails)
			}
		} else if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v %v, want %v", c.name, got, err, c.want)
		}
	}
	large := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x01\x00\x00\x00\x01\x00\x00\x08\x00\x00\x00\x00")
	if _, err := DecodeImage(t.Context(), append(large, 0, 0, 0, 0), []int{1, 1, 2}, Options{}); err == nil {
		t.Error("an image of 4 Gpixels was accepted")
	}
}
