package onnx

import (
	"errors"
	"math"
	"testing"

	"github.com/rscert/rscert/internal/param"
)

func TestHasPrecisions(t *testing.T) {
	for name, want := range map[string]bool{"cpu": false, "cuda": true, "openvino": true} {
		if got := device(t, name).HasPrecisions(); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The advice must depend only on the measured speeds, not on the processor's instructions. The rates of the first two
// tests are speeds of ResNet-20 in docs/benchmarks.md, measured on an EPYC and a Xeon. Both processors have
// AVX512-BF16, but not AMX, and only the EPYC is faster in bfloat16.
func TestGainsFollowTheMeasurement(t *testing.T) {
	cpu, openvino, gpu := CPU, device(t, "openvino"), device(t, "openvino:GPU")
	f32 := func(d Device, rate float64) Speed { return Speed{Device: d, Precision: F32, Rate: rate} }
	bf16 := func(d Device, rate float64) Speed { return Speed{Device: d, Precision: BF16, Rate: rate} }
	for name, tt := range map[string]struct {
		speeds  []Speed
		against Device
		ratio   float64
		faster  bool
		text    string
	}{
		"EPYC": {[]Speed{f32(cpu, 1284), f32(openvino, 1681), bf16(openvino, 3163)}, openvino, 3163. / 1681, true,
			"bf16 is 1.88 times as fast as f32 on openvino:CPU here: try device openvino:CPU precision bf16"},
		"Xeon": {[]Speed{f32(openvino, 4170), bf16(openvino, 2610)}, openvino, 2610. / 4170, false,
			"bf16 is 0.63 times as fast as f32 on openvino:CPU here: use device openvino:CPU precision f32"},
		"the CPU provider is faster": {[]Speed{f32(cpu, 3000), f32(openvino, 1000), bf16(openvino, 2000)}, cpu, 2. / 3, false,
			"bf16 is 0.67 times as fast as f32 on cpu here: use device cpu precision f32"},
		"just enough":  {[]Speed{f32(openvino, 100), bf16(openvino, 120)}, openvino, 1.2, true, ""},
		"not enough":   {[]Speed{f32(openvino, 100), bf16(openvino, 119)}, openvino, 1.19, false, ""},
		"other device": {[]Speed{f32(cpu, 9000), f32(openvino, 9000), f32(gpu, 100), bf16(gpu, 300)}, gpu, 3, true, ""},
	} {
		gains := Gains(tt.speeds)
		if len(gains) != 1 {
			t.Errorf("%s: %+v", name, gains)
			continue
		}
		g := gains[0]
		if g.Precision != BF16 || g.Against != tt.against || math.Abs(g.Ratio-tt.ratio) > 1e-12 || g.Faster() != tt.faster {
			t.Errorf("%s: %+v, faster %v", name, g, g.Faster())
		}
		if text := g.Text().Spell(param.Plain); tt.text != "" && text != tt.text {
			t.Errorf("%s: %q, want %q", name, text, tt.text)
		}
	}
	for name, speeds := range map[string][]Speed{
		"bf16 failed": {f32(openvino, 100), {Device: openvino, Precision: BF16, Rate: 500, Err: errors.New("no bf16")}},
		"f32 failed":  {{Device: openvino, Precision: F32, Rate: 100, Err: errors.New("no f32")}, bf16(openvino, 500)},
		"only cpu":    {f32(cpu, 100)},
		"other f32":   {f32(gpu, 100), bf16(openvino, 500)},
		"no rate":     {f32(openvino, 100), bf16(openvino, 0)},
		"nothing":     nil,
	} {
		if gains := Gains(speeds); len(gains) != 0 {
			t.Errorf("%s: %+v", name, gains)
		}
	}
}
