package dataset

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/param"
)

// Options control how a dataset is read. The zero value reads it as it is. run.json records them under the names below.
type Options struct {
	// Labels is the file of the labels, for formats that keep them apart (IDX, .npy, .npz without labels, a flat folder
	// of images). Empty: Open looks for it beside the data.
	Labels string `json:"labels,omitzero"`
	// LabelColumn is the column of a table that holds the labels: first, last, none (they are in Labels), a name or an
	// index from 0. Empty: the header decides, and an unclear table is refused.
	LabelColumn string `json:"label-column,omitzero"`
	// FirstLabel is the label of the model's first class, 0 or 1.
	FirstLabel int `json:"first-label,omitzero"`
	// ClassNames is a file with the names of the model's classes in its order.
	ClassNames string `json:"class-names,omitzero"`
	// Resize and Crop are applied to images of bytes, in this order, as by torchvision.
	Resize        Size          `json:"resize,omitzero"`
	Crop          Size          `json:"crop,omitzero"`
	Interpolation Interpolation `json:"interpolation,omitzero"` // of Resize
}

func (o Options) validate() error {
	switch {
	case o.FirstLabel != 0 && o.FirstLabel != 1:
		return param.Errorf("%s %d: want 0 or 1", param.FirstLabel, o.FirstLabel)
	case o.LabelColumn == "none" && o.Labels == "":
		return param.Errorf("%s none: %s FILE must hold the labels then", param.LabelColumn, param.Labels)
	}
	return nil
}

// Size is the size of an image in pixels. If W is 0, H alone is given: the shorter side for Resize, both for Crop.
type Size struct{ H, W int }

// IsZero reports whether no size is given.
func (s Size) IsZero() bool { return s == Size{} }

func (s Size) String() string {
	switch {
	case s.IsZero():
		return ""
	case s.W == 0:
		return strconv.Itoa(s.H)
	}
	return fmt.Sprintf("%dx%d", s.H, s.W)
}

// MarshalText writes 256 or 256x192.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// maxSide is the greatest height or width accepted.
const maxSide = 1 << 13

// UnmarshalText reads 256 or 256x192, the height first.
func (s *Size) UnmarshalText(text []byte) error {
	first, second, two := strings.Cut(string(text), "x")
	h, err := strconv.Atoi(first)
	w, err2 := 0, error(nil)
	if two {
		w, err2 = strconv.Atoi(second)
	}
	if err != nil || err2 != nil || h < 1 || h > maxSide || two && w < 1 || w > maxSide {
		return fmt.Errorf("%q: want a number of pixels up to %d, or HEIGHTxWIDTH", text, maxSide)
	}
	*s = Size{h, w}
	return nil
}

// Interpolation is the filter of Resize.
type Interpolation uint8

// The interpolations that Resize knows.
const (
	Bilinear Interpolation = iota // torchvision's default
	Bicubic                       // timm's, mostly
)

// Interpolations are the choices of Interpolation.
var Interpolations = choice.Of("interpolation", Bilinear, Bicubic)

func (i Interpolation) String() string {
	if i == Bicubic {
		return "bicubic"
	}
	return "bilinear"
}

// MarshalText writes the name.
func (i Interpolation) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText reads a name.
func (i *Interpolation) UnmarshalText(text []byte) error { return Interpolations.Unmarshal(text, i) }
