package spec

import "github.com/rscert/rscert/internal/choice"

// NoiseKind is the arithmetic that adds the noise.
type NoiseKind string

// The kinds of noise.
const (
	// Lattice draws integers and adds them to the integers of the data. Certificates then hold for the numbers that the
	// model received.
	Lattice NoiseKind = "lattice"
	// Float rounds x + σε to float32. It exists for comparison, and its certificates are idealised.
	Float NoiseKind = "float"
	// NoNoise opens an experiment of the model without noise. It is no value of the parameter.
	NoNoise NoiseKind = "none"
)

// NoiseKinds lists all kinds. Run folders of format 1 do not record the kind.
var NoiseKinds = choice.Of("noise", Lattice, Float).Optional().Describe(func(k NoiseKind) string {
	return map[NoiseKind]string{Lattice: "the certificates hold for the exact numbers that the model receives", Float: "the certificates ignore rounding; for comparison"}[k]
})

func (k NoiseKind) String() string { return string(k) }

// MarshalText writes the name.
func (k NoiseKind) MarshalText() ([]byte, error) { return []byte(k), nil }

// UnmarshalText parses "lattice" or "float".
func (k *NoiseKind) UnmarshalText(text []byte) error { return NoiseKinds.Unmarshal(text, k) }

// NoiseOn is the place that makes noise and counts votes. It does not affect the votes, and it does not affect the
// scores of most models.
type NoiseOn string

// The places where noise is made.
const (
	NoiseOnAuto   NoiseOn = "auto" // on a device with its own memory if possible, otherwise on the host
	NoiseOnHost   NoiseOn = "host"
	NoiseOnDevice NoiseOn = "device"
)

// NoiseOns lists all places.
var NoiseOns = choice.Of("noise", NoiseOnAuto, NoiseOnHost, NoiseOnDevice)

func (n NoiseOn) String() string { return string(n) }
