package dataset

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/param"
)

// tiff makes Exif data that hold the field Orientation after another field.
func tiff(order binary.AppendByteOrder, code int) []byte {
	mark := "II*\x00"
	if order == binary.AppendByteOrder(binary.BigEndian) {
		mark = "MM\x00*"
	}
	b := order.AppendUint32([]byte(mark), 8)
	b = order.AppendUint16(b, 2)
	for _, field := range [][2]uint16{{0x0100, 77}, {orientationTag, uint16(code)}} {
		b = order.AppendUint16(b, field[0])
		b = order.AppendUint16(b, 3)
		b = order.AppendUint32(b, 1)
		b = order.AppendUint16(b, field[1])
		b = order.AppendUint16(b, 0)
	}
	return order.AppendUint32(b, 0)
}

// withExif puts Exif data into a PNG or JPEG file.
func withExif(file, exif []byte) []byte {
	if bytes.HasPrefix(file, []byte("\xff\xd8")) {
		exif = slices.Concat([]byte("Exif\x00\x00"), exif)
		segment := binary.BigEndian.AppendUint16([]byte("\xff\xe1"), uint16(len(exif)+2))
		return slices.Concat(file[:2], segment, exif, file[2:])
	}
	const header = 8 + 25 // signature and IHDR
	data := append([]byte("eXIf"), exif...)
	chunk := slices.Concat(binary.BigEndian.AppendUint32(nil, uint32(len(exif))), data, binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(data)))
	return slices.Concat(file[:header], chunk, file[header:])
}

// The variable 'sides' lists two sides of the upright image for each orientation: the side where the stored image's row
// 0 is, and the side where its column 0 is (Exif 2.32, section 4.6.4, table 6).
var sides = [][2]string{1: {"top", "left"}, {"top", "right"}, {"bottom", "right"}, {"bottom", "left"},
	{"left", "top"}, {"right", "top"}, {"right", "bottom"}, {"left", "bottom"}}

// Open must turn images as the Exif field Orientation says, in folders, archives and Parquet files. Open must also warn
// if it turns images, and only then.
func TestOrientation(t *testing.T) {
	const w, h = 5, 3
	stored := image.NewGray(image.Rect(0, 0, w, h))
	for i := range stored.Pix {
		stored.Pix[i] = uint8(10 * i)
	}
	var file bytes.Buffer
	if err := png.Encode(&file, stored); err != nil {
		t.Fatal(err)
	}
	plain := mustOpen(t, filepath.Dir(filepath.Dir(write(t, filepath.Join(t.TempDir(), "0", "a.png"), file.Bytes()))))
	for code := 1; code <= 8; code++ {
		height, width := h, w
		if sides[code][0] == "left" || sides[code][0] == "right" {
			height, width = w, h
		}
		at := map[string]func(k int) (y, x int){
			"top": func(k int) (y, x int) { return k, 0 }, "bottom": func(k int) (y, x int) { return height - 1 - k, 0 },
			"left": func(k int) (y, x int) { return 0, k }, "right": func(k int) (y, x int) { return 0, width - 1 - k },
		}
		want := make([]float32, w*h)
		for i := range h {
			for j := range w {
				y0, x0 := at[sides[code][0]](i)
				y1, x1 := at[sides[code][1]](j)
				want[(y0+y1)*width+x0+x1] = unit[10*(i*w+j)]
			}
		}
		turned := withExif(file.Bytes(), tiff(binary.BigEndian, code))
		dir := t.TempDir()
		write(t, filepath.Join(dir, "folder", "0", "a.png"), turned)
		write(t, filepath.Join(dir, "d.tar"), tarFile(t, "0.png", string(turned), "0.cls", "0"))
		write(t, filepath.Join(dir, "d.parquet"), parquetFile(t, hfRows(turned)))
		for _, name := range []string{"folder", "d.tar", "d.parquet"} {
			d := mustOpen(t, filepath.Join(dir, name))
			values, _ := rows(t, d)
			if shape := []int{1, height, width}; !slices.Equal(d.Shape(), shape) || !slices.Equal(values[0], want) {
				t.Errorf("%s, orientation %d: shape %v, values %v, want %v %v", name, code, d.Shape(), values[0], shape, want)
			}
			said := false
			for _, w := range d.Warnings() {
				said = said || strings.Contains(w.Text.Spell(param.Plain), "have an Exif orientation")
			}
			if said != (code > 1) {
				t.Errorf("%s, orientation %d: warnings %v", name, code, d.Warnings())
			}
		}
		if code > 1 && mustOpen(t, filepath.Join(dir, "folder")).SHA256() == plain.SHA256() {
			t.Errorf("orientation %d does not change the digest", code)
		}
	}
}

// The resized and cropped image must be upright, too.
func TestOrientationResized(t *testing.T) {
	m := image.NewGray(image.Rect(0, 0, 8, 4))
	for i := range 4 {
		m.SetGray(7, i, color.Gray{255}) // the right column, which becomes the last row
	}
	var file bytes.Buffer
	if err := jpeg.Encode(&file, m, &jpeg.Options{Quality: 100}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "0", "a.jpg"), withExif(file.Bytes(), tiff(binary.LittleEndian, 6)))
	var opt Options
	if err := opt.Crop.UnmarshalText([]byte("4x2")); err != nil {
		t.Fatal(err)
	}
	d, err := Open(t.Context(), dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if got := d.Shape(); !slices.Equal(got, []int{1, 4, 2}) {
		t.Errorf("shape %v", got)
	}
	d = mustOpen(t, dir)
	values, _ := rows(t, d)
	if last, first := values[0][8*4-1], values[0][0]; last < .9 || first > .1 {
		t.Errorf("values %v", values[0])
	}
}

// Damaged Exif data are ignored.
func TestDamagedExif(t *testing.T) {
	whole := tiff(binary.LittleEndian, 6)
	webp := slices.Concat([]byte("RIFF\x00\x00\x00\x00WEBPVP8 \x01\x00\x00\x00x\x00EXIF"), binary.LittleEndian.AppendUint32(nil, uint32(len(whole))), whole)
	if got := orientation(webp); got != 6 {
		t.Errorf("WebP has orientation %d, want 6", got)
	}
	for cut := range webp {
		if got := orientation(webp[:cut]); got != 1 {
			t.Errorf("%d bytes of WebP have orientation %d", cut, got)
		}
	}
	for n := range len(whole) - 4 {
		if got := tiffOrientation(whole[:n]); got != 0 && n < len(whole)-6 {
			t.Errorf("%d bytes give orientation %d", n, got)
		}
	}
	for _, code := range []int{0, 9, 65535} {
		jpeg := withExif([]byte("\xff\xd8\xff\xd9"), tiff(binary.LittleEndian, code))
		if got := orientation(jpeg); got != 1 {
			t.Errorf("code %d gives orientation %d", code, got)
		}
	}
}
