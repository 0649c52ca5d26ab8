package calib

import (
	"fmt"

	"github.com/rscert/rscert/internal/choice"
)

// Edges lists every Edge.
var Edges = choice.Of("edge", UpperClosed, LowerClosed).Describe(func(e Edge) string { return "bins " + e.Brackets() })

func (e Edge) String() string {
	switch e {
	case UpperClosed:
		return "upper"
	case LowerClosed:
		return "lower"
	}
	return fmt.Sprintf("edge %d", int(e))
}

// Brackets returns the interval notation for the bins, "(lo,hi]" or "[lo,hi)".
func (e Edge) Brackets() string {
	if e == LowerClosed {
		return "[lo,hi)"
	}
	return "(lo,hi]"
}

// MarshalText returns the name of the edge, "upper" or "lower".
func (e Edge) MarshalText() ([]byte, error) {
	_, err := Edges.Parse(e.String())
	return []byte(e.String()), err
}

// UnmarshalText parses the text that MarshalText returns.
func (e *Edge) UnmarshalText(text []byte) error { return Edges.Unmarshal(text, e) }
