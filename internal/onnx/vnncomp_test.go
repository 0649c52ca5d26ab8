package onnx

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/graph"
)

// The function 'shared' loads a file from ../shared/data.
func shared(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../../shared/data", path))
	if err != nil {
		t.Skip("needs ../shared: ", err)
	}
	return data
}

// eran loads labels and images from a file in shared/data/eran. It scales the images to [0,1].
func eran(t testing.TB, file string) (labels []int, images [][]float32) {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(string(shared(t, "eran/"+file)))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		var values []int
		for _, s := range row {
			if s == "" { // the empty text after a trailing comma
				continue
			}
			v, err := strconv.Atoi(s)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, v)
		}
		image := make([]float32, len(values)-1)
		for i, v := range values[1:] {
			image[i] = float32(v) / 255
		}
		labels, images = append(labels, values[0]), append(images, image)
	}
	return labels, images
}

// TestVNNComp runs two models of VNN-COMP 2021 on 100 images of ERAN. The models were exported with a batch dimension
// fixed at 1. rscert must run them in whole batches. The scores must have the same bits at every batch size and agree
// with the unedited file's scores. The accuracy must equal the accuracy measured in Python. The CIFAR-10 model needs
// images that are normalised as its specification says.
func TestVNNComp(t *testing.T) {
	for _, c := range []struct {
		model, data string
		mean        [3]float32
		std         float32
		accuracy    int
	}{
		{"cifar10_resnet_2b.onnx", "cifar10_test.csv", [3]float32{0.485, 0.456, 0.406}, 0.225, 75},
		{"mnist-net_256x2.onnx", "mnist_test.csv", [3]float32{}, 1, 100},
	} {
		labels, images := eran(t, c.data)
		file := shared(t, "vnncomp2021/"+c.model)
		var first [][]float32
		for _, batch := range []int{0, 1, 2, 3, 5, 15, 16, 31, 33, 64, 100, 257} {
			m := load(t, file, LoadOptions{Batch: batch, Example: []int{len(images[0])}})
			if m.tile != m.Batch() || len(warningsOf(m)) != 0 || m.Outputs() != graph.Logits || m.Classes() != 10 {
				t.Errorf("%s: batch %d, %d a call, %v outputs, %d classes, warnings %q", c.model, m.Batch(), m.tile, m.Outputs(), m.Classes(), warningsOf(m))
			}
			a, err := m.Fit([]int{len(images[0])}, graph.HWC)
			if err != nil {
				t.Fatal(err)
			}
			in := make([][]float32, len(images))
			for i, x := range images {
				in[i] = make([]float32, len(x))
				a.Arrange(in[i], x)
				for j := range in[i] {
					in[i][j] = (in[i][j] - c.mean[a.Channel(j)]) / c.std
				}
			}
			got := scores(t, m, in)
			if first == nil {
				first = got
				right := 0
				for i, row := range got {
					best := 0
					for k, v := range row {
						if v > row[best] {
							best = k
						}
					}
					if best == labels[i] {
						right++
					}
				}
				if right != c.accuracy { // accuracy measured with onnxruntime in Python
					t.Errorf("%s: %d of 100 images right, want %d", c.model, right, c.accuracy)
				}
				s, err := openSession(program{model: file, inputs: []string{m.contract.Input.Name}, outputs: []string{m.contract.Output.Name}}, &cpuProvider, settings{workers: 1})
				if err != nil {
					t.Fatal(err)
				}
				l := &loader{Model: m, ctx: t.Context()}
				for i, x := range in {
					alone, err := l.rows(s, []int{0}, [][]float32{x})
					if err != nil {
						t.Fatal(err)
					}
					for k, want := range alone[0] {
						// The tolerance for sums of up to 1,024 products of order 1 is 2⁻²⁴·√1024·10, rounded up.
						if math.Abs(float64(got[i][k]-want)) > 1e-4 {
							t.Fatalf("%s: score %d of image %d is %g, alone %g", c.model, k, i, got[i][k], want)
						}
					}
				}
				_ = s.close()
			}
			for i := range got {
				if !sameBits(got[i], first[i]) {
					t.Fatalf("%s: image %d differs between batches of %d and the chosen", c.model, i, batch)
				}
			}
		}
	}
}
