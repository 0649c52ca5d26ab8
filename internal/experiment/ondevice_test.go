package experiment

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/spec"
)

// The function 'placed' opens an experiment, and loads one model from each file. The experiment treats these models as
// if each ran on its own device. The function 'placed' does not call placeNoise.
func placed(t *testing.T, p spec.Spec, files ...string) *Experiment {
	t.Helper()
	in, err := Open(t.Context(), p, new(said).console())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
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

// unpackedDigits decompresses the repository's MNIST digits, and writes them to files from which rscert can load single
// examples.
func unpackedDigits(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	packed, err := filepath.Glob("../../testdata/mnist/*.gz")
	if err != nil || len(packed) == 0 {
		t.Fatal(packed, err)
	}
	for _, path := range packed {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		if data, err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, strings.TrimSuffix(filepath.Base(path), ".gz")), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestPlaceNoise uses devices that can make noise and devices that cannot. If one device cannot make noise, the host
// must make the noise for all devices.
func TestPlaceNoise(t *testing.T) {
	data := manyImages(t)
	good := models + "nchw.onnx"
	for name, c := range map[string]struct {
		on     spec.NoiseOn
		device bool
	}{
		"device": {spec.NoiseOnDevice, true}, "host": {spec.NoiseOnHost, false}, "auto": {spec.NoiseOnAuto, false}, "not said": {"", false},
	} {
		in := placed(t, quick(data), good, good, good)
		if err := in.placeNoise(t.Context(), c.on, 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i, m := range in.models() {
			if want := in.noise.lattice; (m.Noise() == want) != c.device || (m.Noise() == nil) == c.device {
				t.Errorf("%s: device %d makes the noise: %v, want %v", name, i, m.Noise() != nil, c.device)
			}
		}
	}
	// placeNoise checks the noise on examples of the data. It must fail if the data are closed.
	digits := unpackedDigits(t)
	in := placed(t, quick(digits, func(p *spec.Spec) { p.Model = "../../testdata/mnist-cnn.onnx" }), "../../testdata/mnist-cnn.onnx")
	if err := in.data.Close(); err != nil {
		t.Fatal(err)
	}
	if err := in.placeNoise(t.Context(), spec.NoiseOnDevice, 1); err == nil || !strings.Contains(err.Error(), digits) {
		t.Errorf("data that are closed: %v", err)
	}
	for place, files := range [][]string{{"", good, good}, {good, "", good}, {good, good, ""}} {
		files[place] = models + "opset_6.onnx"
		in := placed(t, quick(data), files...)
		if err := in.placeNoise(t.Context(), spec.NoiseOnDevice, 1); err == nil || !strings.HasPrefix(err.Error(), "cpu: the model is of operator set 6") {
			t.Errorf("place %d: %v", place, err)
		}
		for i, m := range in.models() {
			if m.Noise() != nil {
				t.Errorf("place %d: device %d makes noise", place, i)
			}
		}
		if in.noiseOn() != spec.NoiseOnHost {
			t.Errorf("place %d: the noise is on the %s", place, in.noiseOn())
		}
	}
}
