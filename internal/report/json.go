package report

import (
	"encoding/json"
	"io"
	"math"
)

// MarshalJSON writes null where x is not finite.
func (x Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(x))
}

// WriteJSON prints v as one indented document.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // radius>=0.5 stays readable
	e.SetIndent("", "  ")
	return e.Encode(v)
}
