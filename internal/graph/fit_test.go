package graph

import (
	"slices"
	"strings"
	"testing"
)

// TestFit arranges images. Each value is 100·channel + 10·row + column, so the value shows its position in the image.
// TestFit compares the arranged values with the order that the model expects.
func TestFit(t *testing.T) {
	const c, h, w = 3, 2, 4
	value := func(ch, r, col int) float32 { return float32(100*ch + 10*r + col) }
	chw, hwc := make([]float32, c*h*w), make([]float32, c*h*w)
	for ch := range c {
		for r := range h {
			for col := range w {
				chw[(ch*h+r)*w+col] = value(ch, r, col)
				hwc[(r*w+col)*c+ch] = value(ch, r, col)
			}
		}
	}
	for _, k := range []struct {
		input  string // shape of one sample of the model's input
		data   string // shape of the example
		values []float32
		layout Layout
		want   []float32
	}{
		{"[3,2,4]", "[3,2,4]", chw, CHW, chw},
		{"[3,2,4]", "[2,4,3]", hwc, CHW, chw},
		{"[3,2,4]", "[24]", chw, CHW, chw},
		{"[3,2,4]", "[24]", hwc, HWC, chw},
		{"[2,4,3]", "[3,2,4]", chw, CHW, hwc},
		{"[2,4,3]", "[2,4,3]", hwc, CHW, hwc},
		{"[2,4,3]", "[24]", chw, CHW, hwc},
		{"[2,4,3]", "[24]", hwc, HWC, hwc},
		{"[24]", "[3,2,4]", chw, CHW, chw},
		{"[24]", "[3,2,4]", chw, HWC, hwc},
		{"[24]", "[2,4,3]", hwc, HWC, hwc},
		{"[24,1]", "[3,2,4]", chw, CHW, chw},
		{"[24]", "[24]", chw, CHW, chw},
		{"[24]", "[24]", hwc, HWC, hwc}, // both the input and the example are flat, so the order does not change
		{"[1,24]", "[24]", chw, CHW, chw},
		{"[?]", "[3,2,4]", chw, CHW, chw},
		{"[?,?,?]", "[3,2,4]", chw, CHW, chw},
		{"[3,?,?]", "[2,4,3]", hwc, CHW, chw},
		{"[?,?,3]", "[3,2,4]", chw, CHW, hwc},
	} {
		sample, a, ok := Fit(dims(k.input), sizes(k.data), k.layout)
		if !ok {
			t.Errorf("%s does not take %s", k.input, k.data)
			continue
		}
		got := make([]float32, len(k.values))
		a.Arrange(got, k.values)
		if !slices.Equal(got, k.want) || Product(sample) != len(got) {
			t.Errorf("%s from %s %v: %v, want %v", k.input, k.data, k.layout, got, k.want)
		}
		// The channel of a value is known only if the example or the input has a dimension for the channels.
		if len(sizes(k.data)) == 3 || len(dims(k.input)) == 3 {
			for j := range got {
				if int(got[j])/100 != a.Channel(j) {
					t.Errorf("%s from %s %v: value %d is of channel %d, not %d", k.input, k.data, k.layout, j, int(got[j])/100, a.Channel(j))
					break
				}
			}
		}
	}
	for _, k := range []struct{ input, data string }{
		{"[1,28,28]", "[28,28]"}, {"[28,28]", "[1,28,28]"}, {"[28,28,1]", "[1,28,28]"}, {"[784]", "[28,28]"},
		{"[1,28,28]", "[784]"}, {"[784,1]", "[784]"}, {"[1,1,784]", "[1,28,28]"}, {"[28,28]", "[28,28]"}, {"[28,28]", "[784]"}, {"[2,3,4,5]", "[2,3,4,5]"},
	} {
		if _, a, ok := Fit(dims(k.input), sizes(k.data), CHW); !ok || a.Perm != nil || a.Channel(0) != 0 {
			t.Errorf("%s from %s: %v, permutation %v", k.input, k.data, ok, a.Perm)
		}
	}
	for _, k := range []struct{ input, data string }{
		{"[3,32,32]", "[1,28,28]"}, {"[3,32,32]", "[784]"}, {"[784]", "[3,32,32]"}, {"[3,2,4]", "[3,4,2]"},
		{"[3,?,?]", "[24]"}, {"[28,28]", "[785]"}, {"[784]", "[]"}, {"[1,28,28]", "[0,28,28]"},
		{"[?,?,?]", "[1]"},
	} {
		if sample, _, ok := Fit(dims(k.input), sizes(k.data), CHW); ok {
			t.Errorf("%s takes %s as %v", k.input, k.data, sample)
		}
	}
}

// sizes parses a shape such as [3,2,4]. It returns −1 for a free size, which is written as '?'.
func sizes(shape string) []int {
	var all []int
	for _, d := range dims(shape) {
		all = append(all, d.Size)
	}
	return all
}

func dims(shape string) []Dim {
	var all []Dim
	for _, s := range strings.FieldsFunc(shape, func(r rune) bool { return strings.ContainsRune("[,]", r) }) {
		d := Dim{Size: -1}
		if s != "?" {
			d.Size = 0
			for _, digit := range s {
				d.Size = 10*d.Size + int(digit-'0')
			}
		}
		all = append(all, d)
	}
	return all
}

func TestParseLayoutAndOutputs(t *testing.T) {
	for _, l := range []Layout{CHW, HWC} {
		if got, err := Layouts.Parse(l.String()); got != l || err != nil {
			t.Errorf("%v: %v, %v", l, got, err)
		}
	}
	for _, k := range []OutputKind{OutputsAuto, Logits, Probabilities} {
		if got, err := OutputKinds.Parse(k.String()); got != k || err != nil {
			t.Errorf("%v: %v, %v", k, got, err)
		}
	}
	if _, err := Layouts.Parse("nchw"); err == nil {
		t.Error("layout nchw")
	}
	if _, err := OutputKinds.Parse("softmax"); err == nil {
		t.Error("outputs softmax")
	}
}
