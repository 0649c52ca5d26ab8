package run

import (
	"os"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/onnx"
)

// placed loads models, of which each is one device's, as inputs whose noise is to be made.
func placed(t *testing.T, p Plan, files ...string) *inputs {
	t.Helper()
	in, err := openInputs(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.close)
	var models []*onnx.Model
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		m, err := in.library.Load(data, onnx.LoadOptions{Device: onnx.CPU, Batch: 5, Example: in.data.Shape()})
		if err != nil {
			t.Fatal(err)
		}
		models = append(models, m)
	}
	_ = in.model.Close()
	in.model, in.replicas = models[0], models[1:]
	return in
}

// TestPlaceNoise has devices that make noise, and others that cannot: where one of them cannot, all have it from the host.
func TestPlaceNoise(t *testing.T) {
	data := manyImages(t)
	good := models + "nchw.onnx"
	for name, c := range map[string]struct {
		on     NoiseOn
		device bool
	}{
		"device": {NoiseOnDevice, true}, "host": {NoiseOnHost, false}, "auto": {NoiseOnAuto, false}, "not said": {"", false},
	} {
		in := placed(t, quick(t, data), good, good, good)
		if err := in.placeNoise(t.Context(), c.on); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i, m := range in.models() {
			if want := in.noise.lattice; (m.Noise() == want) != c.device || (m.Noise() == nil) == c.device {
				t.Errorf("%s: device %d makes the noise: %v, want %v", name, i, m.Noise() != nil, c.device)
			}
		}
	}
	for place, files := range [][]string{{"", good, good}, {good, "", good}, {good, good, ""}} {
		files[place] = models + "opset_6.onnx"
		in := placed(t, quick(t, data), files...)
		if err := in.placeNoise(t.Context(), NoiseOnDevice); err == nil || !strings.HasPrefix(err.Error(), "cpu: the model is of operator set 6") {
			t.Errorf("place %d: %v", place, err)
		}
		for i, m := range in.models() {
			if m.Noise() != nil {
				t.Errorf("place %d: device %d makes noise", place, i)
			}
		}
		if in.noiseOn() != NoiseOnHost {
			t.Errorf("place %d: the noise is on the %s", place, in.noiseOn())
		}
	}
}
