package spec

import "github.com/rscert/rscert/internal/choice"

// NoiseKind says how the experiment adds noise to the data: on a lattice, in floating point, or not at all.
type NoiseKind string

// These are the kinds of noise.
const (
	// Lattice adds random multiples of a step to the data. The data are multiples of this step, too. So certificates
	// hold for exactly the numbers that the model received.
	Lattice NoiseKind = "lattice"
	// Float adds the noise in floating point and rounds x + σε to float32, where ε is standard noise. It exists for
	// comparison. Its certificates ignore this rounding.
	Float NoiseKind = "float"
	// NoNoise means that the experiment runs the model without noise. Users cannot choose this kind.
	NoNoise NoiseKind = "none"
)

// NoiseKinds lists the kinds that users can choose. The kind is optional, because run folders of format 1 do not record
// it.
var NoiseKinds = choice.Of("noise", Lattice, Float).Optional().Describe(func(k NoiseKind) string {
	return map[NoiseKind]string{Lattice: "noise on a grid; the certificates hold for the exact numbers that the model receives", Float: "floating-point noise, only for comparison; the certificates ignore rounding errors"}[k]
})

func (k NoiseKind) String() string { return string(k) }

// MarshalText writes the name.
func (k NoiseKind) MarshalText() ([]byte, error) { return []byte(k), nil }

// UnmarshalText parses "lattice", "float" or the empty text.
func (k *NoiseKind) UnmarshalText(text []byte) error { return NoiseKinds.Unmarshal(text, k) }

// NoiseOn says where noise is made and votes are counted. NoiseOn does not affect the votes, and for most models it
// does not affect the scores.
type NoiseOn string

// These are the values of NoiseOn.
const (
	NoiseOnAuto   NoiseOn = "auto" // on a device with its own memory if possible, otherwise on the host
	NoiseOnHost   NoiseOn = "host"
	NoiseOnDevice NoiseOn = "device"
)

// NoiseOns lists all choices.
var NoiseOns = choice.Of("noise", NoiseOnAuto, NoiseOnHost, NoiseOnDevice).Describe(func(n NoiseOn) string {
	return map[NoiseOn]string{
		NoiseOnAuto: "'device' if the model runs on a GPU, otherwise 'host'", NoiseOnHost: "in the program rscert, on the CPU", NoiseOnDevice: "in the model's graph, on the device",
	}[n]
})

func (n NoiseOn) String() string { return string(n) }
