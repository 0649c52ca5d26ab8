package calib

import "fmt"

var edgeNames = [...]string{UpperClosed: "upper", LowerClosed: "lower"}

// MarshalText names the edge: upper or lower.
func (e Edge) MarshalText() ([]byte, error) {
	if e < 0 || int(e) >= len(edgeNames) {
		return nil, fmt.Errorf("edge %d does not exist", int(e))
	}
	return []byte(edgeNames[e]), nil
}

// UnmarshalText takes what MarshalText gives.
func (e *Edge) UnmarshalText(text []byte) error {
	for k, name := range edgeNames {
		if string(text) == name {
			*e = Edge(k)
			return nil
		}
	}
	return fmt.Errorf("%q: want upper or lower", text)
}
