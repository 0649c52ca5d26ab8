package picture

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// labels is a plotter that writes the name of each line beside the line. It prefers a place where the name covers no
// line and no other label. If there is no room beside the line, a thin leader connects the label to the line.
type labels struct{ lines []Line }

// Plot implements plot.Plotter.
func (l labels) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	paths := make([][]vg.Point, len(l.lines))
	for k, line := range l.lines {
		paths[k] = resample(line, func(i int) vg.Point { return vg.Point{X: x(line.X[i]), Y: y(line.Y[i])} })
	}
	style := text.Style{Font: font.Font{Typeface: p.X.Label.TextStyle.Font.Typeface, Variant: "Sans", Size: vg.Points(9)}, Handler: p.TextHandler}
	var taken []vg.Rectangle
	for k, line := range l.lines {
		if line.Name == "" || len(paths[k]) == 0 {
			continue
		}
		box := vg.Point{X: style.Width(line.Name), Y: style.Font.Size * 0.8}
		best := placeLabel(box, k, paths, taken, c.Rectangle)
		style.Color = line.labelColor()
		if best.leader {
			c.StrokeLines(draw.LineStyle{Color: line.labelColor(), Width: vg.Points(0.5)}, []vg.Point{best.anchor, nearestPoint(best.rect, best.anchor)})
		}
		c.FillText(style, vg.Point{X: best.rect.Min.X, Y: best.rect.Min.Y}, line.Name)
		taken = append(taken, grow(best.rect, vg.Points(2)))
	}
}

// resample returns points of a line at small steps, so that the distance from a label to the line is approximately the
// distance to the nearest of these points.
func resample(line Line, at func(i int) vg.Point) []vg.Point {
	const step = 3 // in typographic points
	var path []vg.Point
	for i := range line.X {
		to := at(i)
		if i == 0 {
			path = append(path, to)
			continue
		}
		from := path[len(path)-1]
		length := math.Hypot(float64(to.X-from.X), float64(to.Y-from.Y))
		for k, n := 1, int(length/step); k <= n; k++ {
			t := vg.Length(k) / vg.Length(n+1)
			path = append(path, vg.Point{X: from.X + t*(to.X-from.X), Y: from.Y + t*(to.Y-from.Y)})
		}
		if length >= step || i == len(line.X)-1 {
			path = append(path, to)
		}
	}
	return path
}

// The type 'placed' is a possible position of a label.
type placed struct {
	rect   vg.Rectangle
	anchor vg.Point // point on the line
	leader bool     // the label is so far from the line that it needs a leader
	cost   float64
}

// placeLabel returns the position that has the least cost (see the function 'price') for a label of line k.
func placeLabel(size vg.Point, k int, paths [][]vg.Point, taken []vg.Rectangle, room vg.Rectangle) placed {
	best := placed{cost: math.Inf(1)}
	every := max(1, len(paths[k])/60)
	for i := 0; i < len(paths[k]); i += every {
		anchor := paths[k][i]
		if anchor.X < room.Min.X || anchor.X > room.Max.X {
			continue
		}
		for _, away := range []float64{4, 14, 26, 42} {
			for _, d := range directions {
				p := placed{anchor: anchor, leader: away > 6, rect: rectangleAt(anchor, size, d, vg.Length(away))}
				if p.cost = price(p, away, k, paths, taken, room); p.cost < best.cost {
					best = p
				}
			}
		}
	}
	return best
}

// directions lists the directions from a line to its label, the preferred one first.
var directions = [][2]float64{{1, 1}, {-1, -1}, {0, 1}, {0, -1}, {-1, 1}, {1, -1}, {1, 0}, {-1, 0}}

// rectangleAt returns a rectangle of the given size near the point 'at'. The argument d is the direction from the point
// to the rectangle, and the argument 'away' is the distance between them.
func rectangleAt(at, size vg.Point, d [2]float64, away vg.Length) vg.Rectangle {
	low := vg.Point{
		X: at.X + vg.Length(d[0])*away - size.X*vg.Length(1-d[0])/2,
		Y: at.Y + vg.Length(d[1])*away - size.Y*vg.Length(1-d[1])/2,
	}
	return vg.Rectangle{Min: low, Max: low.Add(size)}
}

// price returns the cost of a position. The cost has four terms. The cost is infinite if the position crosses the edge
// of the chart. A position costs more if it covers a line or a label, or if it is near to other lines. The cost also
// grows with the distance between the label and its own line.
func price(p placed, away float64, k int, paths [][]vg.Point, taken []vg.Rectangle, room vg.Rectangle) float64 {
	if p.rect.Min.X < room.Min.X+2 || p.rect.Max.X > room.Max.X-2 || p.rect.Min.Y < room.Min.Y+2 || p.rect.Max.Y > room.Max.Y-2 {
		return math.Inf(1)
	}
	cost := away / 2
	for _, t := range taken {
		if overlap(p.rect, t) {
			cost += 1000
		}
	}
	close := grow(p.rect, 1.5)
	for j, path := range paths {
		clearest := math.Inf(1)
		for _, q := range path {
			if contains(close, q) {
				cost += 20
			}
			if j != k {
				clearest = min(clearest, distance(p.rect, q))
			}
		}
		if j != k {
			cost += 60 / (3 + clearest)
		}
	}
	return cost
}

func grow(r vg.Rectangle, by vg.Length) vg.Rectangle {
	return vg.Rectangle{Min: vg.Point{X: r.Min.X - by, Y: r.Min.Y - by}, Max: vg.Point{X: r.Max.X + by, Y: r.Max.Y + by}}
}

func contains(r vg.Rectangle, p vg.Point) bool {
	return p.X >= r.Min.X && p.X <= r.Max.X && p.Y >= r.Min.Y && p.Y <= r.Max.Y
}

func overlap(a, b vg.Rectangle) bool {
	return a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y
}

// nearestPoint returns the point of a rectangle that is nearest to p.
func nearestPoint(r vg.Rectangle, p vg.Point) vg.Point {
	return vg.Point{X: min(max(p.X, r.Min.X), r.Max.X), Y: min(max(p.Y, r.Min.Y), r.Max.Y)}
}

func distance(r vg.Rectangle, p vg.Point) float64 {
	q := nearestPoint(r, p)
	return math.Hypot(float64(p.X-q.X), float64(p.Y-q.Y))
}
