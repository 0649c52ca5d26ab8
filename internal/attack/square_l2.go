package attack

import (
	"math"
	"slices"
)

const (
	// firstTiles is the approximate number of tiles along each side of an image. Square's first perturbation for L2
	// consists of these tiles.
	firstTiles = 5
	// leastSide is the smallest height and width of a window for L2. A window is a rectangle of the image that a query
	// changes. If a side of the image is shorter than leastSide, the window is as long as the image along this side.
	leastSide = 3
)

// proposeL2 returns the next input to try for L2 (Andriushchenko et al. 2020, algorithm 3). A query draws two windows.
// It sets the perturbation in the second window to 0. The perturbation in the first window grows, so that the whole
// perturbation has norm ε. In each channel, the new perturbation in the first window has the direction of a sum of two
// terms. One term is the old perturbation there, scaled to norm 1 unless it is 0. The other term is a pattern of two
// bumps with a random sign (see twoBumps). If the image has room, the sides of windows are odd and at least 3, as in
// the authors' implementation.
func (w *walk) proposeL2(s *Search, query int) []float32 {
	if query == 0 {
		return w.tile(s)
	}
	d := make([]float64, len(w.Values))
	if w.best != nil {
		for i := range d {
			d[i] = float64(w.best[i]) - float64(w.Values[i])
		}
	}
	height, width := w.window(share(query, s.Steps))
	into, from := w.place(height, width), w.place(height, width)
	unused := max(0, s.Epsilon*s.Epsilon-square(d))
	form := w.form(height, width)
	for c := range w.channels {
		w.gather(d, c, into, from, form, unused/float64(w.channels))
	}
	return w.perturbed(s, d)
}

// tile returns the first input to try. Its perturbation consists of about 5 by 5 tiles and has norm ε. Each tile is
// twoBumps with a random sign for each channel.
func (w *walk) tile(s *Search) []float32 {
	d := make([]float64, len(w.Values))
	height, width := max(1, w.height/firstTiles), max(1, w.width/firstTiles)
	for row := w.height % height / 2; row+height <= w.height; row += height {
		for column := w.width % width / 2; column+width <= w.width; column += width {
			form, at := w.form(height, width), rectangle{row, column, height, width}
			for c := range w.channels {
				sign := w.sign()
				for k, i := range w.offsets(c, at) {
					d[i] = sign * form[k]
				}
			}
		}
	}
	factor := s.Epsilon / math.Sqrt(square(d))
	for i := range d {
		d[i] *= factor
	}
	return w.perturbed(s, d)
}

// perturbed adds d to the example, moves the sum to a nearby input that the threat allows, and returns this input.
func (w *walk) perturbed(s *Search, d []float64) []float32 {
	x := slices.Clone(w.Values)
	for i, v := range d {
		x[i] = float32(float64(x[i]) + v)
	}
	s.Project(x, w.Values)
	return x
}

// rectangle is a part of an image. It covers the same rows and columns in every channel.
type rectangle struct{ row, column, height, width int }

// window returns the height and width of a window. The argument 'share' is the window's area divided by the image's
// area.
func (w *walk) window(share float64) (height, width int) {
	area := share * float64(w.height*w.width)
	side := max(int(math.Round(math.Sqrt(area))), leastSide)
	side += 1 - side%2
	height, width = min(side, w.height), min(side, w.width)
	// If the image is too small along one side, the window grows along the other side.
	if height < side {
		width = min(max(width, int(math.Round(area/float64(height)))), w.width)
	} else if width < side {
		height = min(max(height, int(math.Round(area/float64(width)))), w.height)
	}
	return height, width
}

// place draws a random position for a window.
func (w *walk) place(height, width int) rectangle {
	return rectangle{w.rng.IntN(w.height - height + 1), w.rng.IntN(w.width - width + 1), height, width}
}

// sign draws 1 or −1.
func (w *walk) sign() float64 { return float64(2*int(w.rng.Uint64()&1) - 1) }

// offsets returns the indices of a rectangle's values in a channel, row by row.
func (w *walk) offsets(channel int, r rectangle) []int {
	all := make([]int, 0, r.height*r.width)
	for row := r.row; row < r.row+r.height; row++ {
		for column := r.column; column < r.column+r.width; column++ {
			all = append(all, w.offset(channel, row, column))
		}
	}
	return all
}

// gather changes one channel of the perturbation d. It sets d to 0 in the window "from", and gives new values to the
// window "into". The new values are u·√(S + unused)/‖u‖ with u = ρ·η + ν/‖ν‖. Here S is the squared norm of the old
// values of d in the union of both windows. ν holds the old values in the window "into", η is the argument 'form', ρ is
// a random sign, and the argument 'unused' is this channel's part of ε² − ‖d‖².
func (w *walk) gather(d []float64, channel int, into, from rectangle, form []float64, unused float64) {
	places := w.offsets(channel, into)
	nu := make([]float64, len(places))
	for k, i := range places {
		nu[k] = d[i]
	}
	length, available := math.Sqrt(square(nu)), square(nu)+unused
	rho := w.sign()
	for k := range nu {
		if length > 0 {
			nu[k] /= length
		}
		nu[k] += rho * form[k]
	}
	for _, i := range places {
		d[i] = 0
	}
	for _, i := range w.offsets(channel, from) { // where the windows overlap, d is already 0
		available += d[i] * d[i]
		d[i] = 0
	}
	if length = math.Sqrt(square(nu)); length == 0 {
		return
	}
	for k, i := range places {
		d[i] = nu[k] * math.Sqrt(available) / length
	}
}

// form returns two bumps for a window (see the function twoBumps). A random bit decides whether the bumps lie side by
// side or one above the other.
func (w *walk) form(height, width int) []float64 {
	if across := w.rng.Uint64()&1 == 0; across && width > 1 || height == 1 {
		return transpose(twoBumps(width, height), height)
	}
	return twoBumps(height, width)
}

// twoBumps returns η of Andriushchenko et al. 2020, row by row, with norm 1. It consists of a positive bump on the
// upper half of the rows and a negative bump of the same norm on the lower half.
func twoBumps(height, width int) []float64 {
	upper, lower := bump(height/2, width), bump(height-height/2, width)
	all := make([]float64, 0, height*width)
	all = append(all, upper...)
	for _, v := range lower {
		all = append(all, -v)
	}
	return normalise(all)
}

// bump returns η^(h1,h2) of the paper, equation 2, row by row, with norm 1. Before normalisation, a value is the sum of
// 1/(k+1)² over k from m to n. Here m is the larger of the value's two distances to the centre, in rows and in columns.
// The number n is half of the larger side, rounded down.
func bump(height, width int) []float64 {
	n := max(height, width) / 2
	sums := make([]float64, n+2) // the sum for each distance
	for k := n; k >= 0; k-- {
		sums[k] = sums[k+1] + 1/float64((k+1)*(k+1))
	}
	all := make([]float64, 0, height*width)
	for row := range height {
		for column := range width {
			all = append(all, sums[max(abs(row-height/2), abs(column-width/2))])
		}
	}
	return normalise(all)
}

func abs(n int) int { return max(n, -n) }

// normalise divides d, in place, by its norm.
func normalise(d []float64) []float64 {
	length := math.Sqrt(square(d))
	for i := range d {
		d[i] /= length
	}
	return d
}

// square is ‖d‖².
func square(d []float64) float64 {
	sum := 0.
	for _, v := range d {
		sum += v * v
	}
	return sum
}

// transpose returns the transpose of the matrix d, which is stored row by row and has the given number of columns.
func transpose(d []float64, columns int) []float64 {
	turned := make([]float64, 0, len(d))
	for column := range columns {
		for i := column; i < len(d); i += columns {
			turned = append(turned, d[i])
		}
	}
	return turned
}
