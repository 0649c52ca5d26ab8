package onnx

import (
	"testing"
)

func TestChooseBatch(t *testing.T) {
	for _, c := range []struct {
		sampleLen int
		p         *provider
		want      int
	}{
		{784, &cpuProvider, 128}, {3072, &cpuProvider, 32}, {3 * 224 * 224, &cpuProvider, 8}, {2, &cpuProvider, 256},
		{784, &cudaProvider, 1024}, {3 * 224 * 224, &cudaProvider, 128},
		{784, &openvinoProvider, 256}, {3072, &openvinoProvider, 256}, {3 * 224 * 224, &openvinoProvider, 32},
	} {
		if got := chooseBatch(c.sampleLen, 1, c.p); got != c.want {
			t.Errorf("%d values on %v: %d, want %d", c.sampleLen, c.p.device, got, c.want)
		}
	}
	if got := chooseBatch(1<<28, 4096, &cpuProvider); got != 1 { // one input per worker needs 256 TiB in total
		t.Errorf("no memory: %d", got)
	}
}
