package onnx

import (
	"math/rand/v2"
	"os"
	"testing"
)

// TestNoiseChecksum tests the model testdata/noise-checksum.onnx, which scripts/gpu_torch.py writes. For an input with
// the values kᵢ/255, the model's class is (Σ wᵢ·(kᵢ mod 16)) mod 10, where wᵢ = 1 + (7i mod 3). The kᵢ are whole
// numbers and may be negative. scripts/gpu_check.py uses this model to check that runs on a GPU and on the CPU draw the
// same noise.
func TestNoiseChecksum(t *testing.T) {
	model, err := os.ReadFile("../../testdata/noise-checksum.onnx")
	if err != nil {
		t.Fatal(err)
	}
	m := load(t, model, LoadOptions{Device: CPU, Batch: 8})
	random := rand.New(rand.NewPCG(1, 2))
	var samples [][]float32
	var want []int
	for range 100 {
		x, sum := make([]float32, m.InputLen()), 0
		for i := range x {
			k := random.IntN(2400) - 1100
			x[i] = float32(float64(k) / 255)
			sum += (1 + 7*i%3) * (k & 15)
		}
		samples, want = append(samples, x), append(want, sum%10)
	}
	for i, outputs := range scores(t, m, samples) {
		for class, score := range outputs {
			if (class == want[i]) != (score == 0) || score > 0 {
				t.Fatalf("sample %d of class %d has the scores %v", i, want[i], outputs)
			}
		}
	}
}
