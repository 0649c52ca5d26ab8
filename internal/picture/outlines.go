package picture

import (
	"golang.org/x/image/font/sfnt"
	"golang.org/x/image/math/fixed"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
)

// outlines is a canvas that draws text as the outlines of its letters. So a viewer does not need the font and cannot
// replace it by a wider font.
type outlines struct {
	vg.Canvas
	texts *[]string // the texts drawn so far
}

// FillString implements vg.Canvas.
func (o outlines) FillString(face font.Face, at vg.Point, text string) {
	if o.texts != nil {
		*o.texts = append(*o.texts, text)
	}
	size := face.Font.Size
	units := face.Face.UnitsPerEm()
	// The font package returns the outlines exactly at the size at which one dot is one unit of the font's design grid.
	// This size is the number of units per em.
	dots := fixed.I(int(units))
	scale := func(x fixed.Int26_6) vg.Length { return size * vg.Length(x) / vg.Length(64*int(units)) }
	var buffer sfnt.Buffer
	x := at.X
	var path vg.Path
	for _, r := range text {
		glyph, err := face.Face.GlyphIndex(&buffer, r) // if the font lacks the letter, the index is 0, which draws a box
		if err != nil {
			continue
		}
		segments, err := face.Face.LoadGlyph(&buffer, glyph, dots, nil)
		if err != nil {
			continue
		}
		point := func(p fixed.Point26_6) vg.Point { return vg.Point{X: x + scale(p.X), Y: at.Y - scale(p.Y)} }
		for k, s := range segments {
			switch s.Op {
			case sfnt.SegmentOpMoveTo:
				if k > 0 {
					path.Close()
				}
				path.Move(point(s.Args[0]))
			case sfnt.SegmentOpLineTo:
				path.Line(point(s.Args[0]))
			case sfnt.SegmentOpQuadTo:
				path.QuadTo(point(s.Args[0]), point(s.Args[1]))
			case sfnt.SegmentOpCubeTo:
				path.CubeTo(point(s.Args[0]), point(s.Args[1]), point(s.Args[2]))
			}
		}
		if len(segments) > 0 {
			path.Close()
		}
		advance, err := face.Face.GlyphAdvance(&buffer, glyph, dots, 0)
		if err == nil {
			x += scale(advance)
		}
	}
	if len(path) > 0 {
		o.Fill(path)
	}
}
