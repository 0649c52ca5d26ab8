package dataset

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/param"
)

// Options say what a path alone does not: the flags of certify that are about the data. Their zero value reads a
// dataset as it is. They are recorded in run.json under these names.
type Options struct {
	// Labels is the file of the labels, for formats that keep them apart (IDX, .npy, .npz without labels, a flat folder
	// of images). Empty: looked for beside the data.
	Labels string `json:"labels,omitzero"`
	// LabelColumn is the column of a table that holds the labels: first, last, none (they are in Labels), a name or an
	// index from 0. Empty: told from the header, or refused where that is not clear.
	LabelColumn string `json:"label-column,omitzero"`
	// FirstLabel is the label of the model's first class, 0 or 1.
	FirstLabel int `json:"first-label,omitzero"`
	// ClassNames is a file with the names of the model's classes in its order.
	ClassNames string `json:"class-names,omitzero"`
	// Resize and Crop are done to images of bytes, in this order, as torchvision does them.
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

// Size is the size of an image: H×W, or one number, which is W = 0: for Resize the shorter side, for Crop both.
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

// maxSide is the greatest height or width that is asked for.
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

// Interpolation is how Resize computes pixels.
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
