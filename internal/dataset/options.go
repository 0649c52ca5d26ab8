package dataset

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/param"
)

// Options control how Open reads a dataset. The zero value leaves the dataset as it is. run.json records the options
// under the names below.
type Options struct {
	// Labels is the file of the labels, for formats that store them separately (IDX, .npy, .npz without labels, a flat
	// folder of images). If Labels is empty, Open looks for the labels of an IDX or .npy file in the folder of the
	// data. For a .npz file without labels and for a flat folder of images, Open returns an error if Labels is empty.
	// The value NoLabels means that Open reads no labels.
	Labels string `json:"labels,omitzero"`
	// LabelColumn is the label column of a table: 'first', 'last', a name, or an index from 0. If LabelColumn is
	// 'none', no column holds labels, and Labels must name a file of labels or be NoLabels. If LabelColumn is empty,
	// Open finds the column itself. It returns an error if the table does not show clearly which column this is.
	LabelColumn string `json:"label-column,omitzero"`
	// FirstLabel is the label of the model's first class, 0 or 1.
	FirstLabel int `json:"first-label,omitzero"`
	// ClassNames is a file with the names of the model's classes, in the order of the model.
	ClassNames string `json:"class-names,omitzero"`
	// ModelClasses lists the labels of the model's classes, as the model's file holds them. ModelClasses determines the
	// class of each label if three conditions hold: ClassNames is empty, FirstLabel is 0, and ModelClasses contains all
	// labels of the data.
	ModelClasses []string `json:"model-classes,omitempty"`
	// Open applies Resize and then Crop, as torchvision does. Both need images of bytes (8 bits per channel).
	Resize        Size          `json:"resize,omitzero"`
	Crop          Size          `json:"crop,omitzero"`
	Interpolation Interpolation `json:"interpolation,omitzero"` // filter of Resize
}

// NoLabels is the value of Options.Labels that makes Open read no labels. Every label is then −1.
const NoLabels = "none"

func (o Options) unlabelled() bool { return o.Labels == NoLabels }

func (o Options) validate() error {
	switch {
	case o.FirstLabel != 0 && o.FirstLabel != 1:
		return param.Errorf("%s %d: want 0 or 1", param.FirstLabel, o.FirstLabel)
	case o.FirstLabel != 0 && o.unlabelled():
		return param.Errorf("%s %d has no use with %s %s", param.FirstLabel, o.FirstLabel, param.Labels, NoLabels)
	case o.LabelColumn == "none" && o.Labels == "":
		return param.Errorf("%s none: %s FILE must hold the labels then", param.LabelColumn, param.Labels)
	}
	return nil
}

// Size is the size of an image in pixels. If W is 0, the user gave only one number, H. For Resize, H is then the length
// of the shorter side. For Crop, H is the length of both sides.
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

// MarshalText returns text such as 256 or 256x192.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// maxSide is the largest accepted height or width.
const maxSide = 1 << 13

// UnmarshalText parses text such as 256 or 256x192. The height comes first.
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

// These are the interpolations that Resize knows.
const (
	Bilinear Interpolation = iota // the default of torchvision
	Bicubic                       // the filter that most models in timm use
)

// Interpolations lists every Interpolation.
var Interpolations = choice.Of("interpolation", Bilinear, Bicubic)

func (i Interpolation) String() string {
	if i == Bicubic {
		return "bicubic"
	}
	return "bilinear"
}

// MarshalText returns the name.
func (i Interpolation) MarshalText() ([]byte, error) { return []byte(i.String()), nil }

// UnmarshalText parses a name.
func (i *Interpolation) UnmarshalText(text []byte) error { return Interpolations.Unmarshal(text, i) }
