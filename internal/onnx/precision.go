package onnx

import (
	"github.com/rscert/rscert/internal/choice"
)

// Precision is the number type in which a device computes a model's layers. It is part of the classifier, so a result
// for one precision says nothing about another precision.
type Precision uint8

// These are the number types that devices support.
const (
	F32  Precision = iota // float32
	BF16                  // bfloat16: the exponent of float32, 8 bits of precision
	F16                   // float16: 11 bits of precision
	// TF32 is NVIDIA's TensorFloat-32. This is float32, except that a GPU's libraries may round factors to 11 bits of
	// precision.
	TF32
)

// Precisions lists the supported number types and says which devices support each type.
var Precisions = choice.Of("precision", F32, BF16, F16, TF32).Describe(func(p Precision) string {
	return [...]string{F32: "with every device", BF16: "only with openvino", F16: "only with openvino", TF32: "only with cuda"}[p]
})

func (p Precision) String() string { return [...]string{"f32", "bf16", "f16", "tf32"}[p] }

// MarshalText writes "f32", "bf16", "f16" or "tf32".
func (p Precision) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText parses the output of MarshalText.
func (p *Precision) UnmarshalText(text []byte) error { return Precisions.Unmarshal(text, p) }

// unit returns half the distance from 1 to the next larger number of the precision.
func (p Precision) unit() float64 { return [...]float64{0x1p-24, 0x1p-8, 0x1p-11, 0x1p-11}[p] }
