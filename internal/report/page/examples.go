package page

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/draw"
	"image/jpeg"
	"image/png"

	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/report/summary"
)

// examples holds the rows of a run, stored by column.
type examples struct {
	Name       string    `json:"name"`
	Index      []int     `json:"index"`
	Label      []int     `json:"label"`      // −1: unknown
	Prediction []int     `json:"prediction"` // −1: abstained
	Norm       string    `json:"norm"`       // norm of the radii, as a title
	Radius     []float64 `json:"radius"`
	Shown      []string  `json:"shown"` // the radius, rounded down
	Confidence []number  `json:"confidence,omitempty"`
	Clean      []int     `json:"clean,omitempty"` // −1: no answer, −2: unknown
	N          []int64   `json:"n,omitempty"`     // set if the number of samples varies

	// Sheets are images that contain many pictures. Each example has a pair of pictures: the input and, to the right,
	// the noisy input. Each line of a sheet holds several pairs; Columns is the number of pairs in a line.
	Sheets  [][]byte `json:"sheets,omitempty"`
	Columns int      `json:"columns,omitempty"`
	Rows    int      `json:"rows,omitempty"` // lines of a sheet
	Width   int      `json:"width,omitempty"`
	Height  int      `json:"height,omitempty"` // height of a picture
	// distance from a picture to the next one on the right, and distance to the next one below
	Pitch [2]int `json:"pitch,omitzero"`
	Scale int    `json:"scale,omitempty"` // magnification on the screen
	Drawn int    `json:"drawn,omitempty"` // number of examples with pictures
}

func (r Run) examples(ctx context.Context) (examples, error) {
	e := examples{Name: r.Name, Norm: r.Conditions.NormTitle()}
	differ := false
	for _, row := range r.Rows {
		e.Index, e.Label, e.Prediction = append(e.Index, row.Index), append(e.Label, row.Label), append(e.Prediction, row.Prediction)
		e.Radius, e.Shown = append(e.Radius, row.Radius), append(e.Shown, shownRadius(row))
		e.N = append(e.N, row.N)
		differ = differ || row.N != r.Rows[0].N
		if row.Smoothed != summary.Unknown {
			e.Confidence = append(e.Confidence, number(row.Confidence))
		}
		e.Clean = append(e.Clean, row.Clean)
	}
	if !differ {
		e.N = nil
	}
	if len(e.Confidence) < len(e.Index) {
		e.Confidence = nil
	}
	if r.Clean == nil {
		e.Clean = nil
	}
	if r.Draw == nil {
		return e, nil
	}
	return e, e.draw(ctx, r)
}

func shownRadius(row summary.Row) string {
	switch {
	case row.Unbounded:
		return "∞"
	case row.Prediction < 0:
		return ""
	}
	return report.Round(row.Radius, report.Down, 0, 3)
}

// pictureSize is the largest size of a picture on the screen, in pixels. Larger pictures are scaled down.
const pictureSize = 64

// pictureGrid is the spacing of a grid, in pixels. Each picture begins at a point of the grid. JPEG averages colours in
// small squares (4:2:0). Because of the grid, no square contains parts of two pictures.
const pictureGrid = 16

// These constants limit the number of pairs of pictures in a sheet.
const (
	sheetColumns = 8
	sheetRows    = 16
)

// draw creates the sheets: images that hold the pictures of the first examples.
func (e *examples) draw(ctx context.Context, r Run) error {
	e.Columns, e.Rows, e.Drawn = sheetColumns, sheetRows, min(r.Pictures, len(r.Rows))
	var sheet *image.RGBA
	for i, row := range r.Rows[:e.Drawn] {
		if err := ctx.Err(); err != nil {
			return err
		}
		input, noisy, err := r.Draw(row.Index)
		if err != nil {
			return err
		}
		input, noisy = shrink(input), shrink(noisy)
		if i == 0 {
			e.size(input.Bounds())
		}
		place := i % (sheetColumns * sheetRows)
		if place == 0 {
			left := (min(e.Drawn-i, sheetColumns*sheetRows) + sheetColumns - 1) / sheetColumns
			sheet = image.NewRGBA(image.Rect(0, 0, 2*sheetColumns*e.Pitch[0], left*e.Pitch[1]))
		}
		at := image.Pt(place%sheetColumns*2*e.Pitch[0], place/sheetColumns*e.Pitch[1])
		for k, picture := range []image.Image{input, noisy} {
			to := image.Rectangle{Max: image.Pt(e.Width, e.Height)}.Add(at).Add(image.Pt(k*e.Pitch[0], 0))
			draw.Draw(sheet, to, picture, picture.Bounds().Min, draw.Src)
		}
		if place == sheetColumns*sheetRows-1 || i == e.Drawn-1 {
			data, err := encode(sheet)
			if err != nil {
				return fmt.Errorf("%s: pictures: %w", r.Name, err)
			}
			e.Sheets = append(e.Sheets, data)
		}
	}
	return nil
}

func (e *examples) size(of image.Rectangle) {
	e.Width, e.Height = of.Dx(), of.Dy()
	e.Scale = max(1, pictureSize/max(e.Width, e.Height))
	for k, n := range []int{e.Width, e.Height} {
		e.Pitch[k] = (n + pictureGrid - 1) / pictureGrid * pictureGrid
	}
}

// If a side of a picture is longer than pictureSize pixels, shrink replaces square blocks of pixels by their averages,
// so that no side is longer than this.
func shrink(from image.Image) image.Image {
	b := from.Bounds()
	k := (max(b.Dx(), b.Dy()) + pictureSize - 1) / pictureSize
	if k <= 1 {
		return from
	}
	to := image.NewRGBA(image.Rect(0, 0, max(1, b.Dx()/k), max(1, b.Dy()/k)))
	for y := range to.Rect.Dy() {
		for x := range to.Rect.Dx() {
			var sum [3]uint32
			count := uint32(0)
			for j := y * k; j < min((y+1)*k, b.Dy()); j++ {
				for i := x * k; i < min((x+1)*k, b.Dx()); i++ {
					r, g, bl, _ := from.At(b.Min.X+i, b.Min.Y+j).RGBA()
					sum[0], sum[1], sum[2] = sum[0]+r>>8, sum[1]+g>>8, sum[2]+bl>>8
					count++
				}
			}
			p := to.Pix[to.PixOffset(x, y):]
			p[0], p[1], p[2], p[3] = uint8(sum[0]/count), uint8(sum[1]/count), uint8(sum[2]/count), 255
		}
	}
	return to
}

// jpegQuality is the quality of JPEG sheets. It is high enough that noise still looks like noise.
const jpegQuality = 85

// encode returns the sheet as PNG or JPEG, whichever is smaller.
func encode(sheet image.Image) ([]byte, error) {
	var a, b bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestSpeed}).Encode(&a, sheet); err != nil {
		return nil, err
	}
	if err := jpeg.Encode(&b, sheet, &jpeg.Options{Quality: jpegQuality}); err != nil {
		return nil, err
	}
	if a.Len() <= b.Len() {
		return a.Bytes(), nil
	}
	return b.Bytes(), nil
}
