package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/onnx"
)

// If bf16 is measured to be faster than f32, doctor must advise bf16. If bf16 is measured to be slower, doctor must
// advise f32.
func TestDoctorAdvice(t *testing.T) {
	openvino, err := onnx.ParseDevice("openvino")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		bf16 onnx.Speed
		want string // "": no advice
	}{
		{onnx.Speed{Rate: 2000}, "bf16 is 2.00 times as fast as f32 on openvino:CPU here: try --device openvino:CPU --precision bf16"},
		{onnx.Speed{Rate: 500}, "bf16 is 0.50 times as fast as f32 on openvino:CPU here: use --device openvino:CPU --precision f32"},
		{onnx.Speed{Err: errors.New("device openvino:CPU computes in f32, although bf16 was requested")}, ""},
	} {
		tt.bf16.Device, tt.bf16.Precision = openvino, onnx.BF16
		e := examination{GPUs: []string{}, Vector: []string{}, Looked: []placeReport{}}
		e.addSpeed(onnx.Speed{Device: onnx.CPU, Precision: onnx.F32, Rate: 900})
		e.addSpeed(onnx.Speed{Device: openvino, Precision: onnx.F32, Rate: 1000})
		e.addSpeed(tt.bf16)
		for _, asJSON := range []bool{false, true} {
			var b strings.Builder
			if err := e.write(&b, asJSON); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(b.String(), "advice"); got != (tt.want != "") || !strings.Contains(b.String(), tt.want) {
				t.Errorf("%+v, JSON %v: want %q in\n%s", tt.bf16, asJSON, tt.want, b.String())
			}
			if asJSON {
				if err := checkDocument("../../docs/schemas", []byte(b.String())); err != nil {
					t.Errorf("%+v: %v", tt.bf16, err)
				}
			}
		}
	}
}
