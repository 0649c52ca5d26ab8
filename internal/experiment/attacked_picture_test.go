package experiment

import (
	"image/color"
	"testing"
)

// TestDrawAttacked checks that the picture shows the example, the change and the attacked example side by side. In the
// drawn change, the pixel that changes most must be black or white.
func TestDrawAttacked(t *testing.T) {
	picture := DrawAttacked([]float32{0, .5, 1, .5}, []float32{0, .6, .95, .5}, []int{1, 2, 2})
	if size := picture.Bounds(); size.Dx() != 8 || size.Dy() != 2 {
		t.Fatalf("the size is %v", size)
	}
	for _, c := range []struct {
		x, y int
		want uint8
	}{
		{0, 0, 0}, {1, 0, 128}, {0, 1, 255}, {2, 0, 255}, // the example and a white line
		// changes: none, the largest increase, a decrease half as large, none
		{3, 0, 128}, {4, 0, 255}, {3, 1, 64}, {4, 1, 128},
		{6, 0, 0}, {7, 0, 153}, {6, 1, 242}, {7, 1, 128},
	} {
		if got := picture.At(c.x, c.y).(color.RGBA); got != (color.RGBA{c.want, c.want, c.want, 255}) {
			t.Errorf("at %d, %d: %v, want %d", c.x, c.y, got, c.want)
		}
	}
}
