package experiment

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/npy"
	"github.com/rscert/rscert/internal/spec"
)

const bundled = "../../testdata/"

// The type 'images' is a set of labelled images. Tests change the images and save them in other forms.
type images struct {
	shape  []int // shape of an example
	values [][]float32
	labels []int
}

// readImages reads the first n examples of a data set.
func readImages(t *testing.T, path string, n int, opt dataset.Options) (s images) {
	t.Helper()
	d, err := dataset.Open(t.Context(), path, opt)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s.shape = d.Shape()
	for i := range min(n, d.Len()) {
		example, err := d.Example(i)
		if err != nil {
			t.Fatal(err)
		}
		s.values, s.labels = append(s.values, example.Values), append(s.labels, example.Label)
	}
	return s
}

// save writes the images as .npz.
func (s images) save(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	w := npy.NewArchiveWriter(&b)
	labels := make([]int64, len(s.labels))
	for i, label := range s.labels {
		labels[i] = int64(label)
	}
	if err := npy.Write(w, "x", append([]int{len(s.values)}, s.shape...), slices.Concat(s.values...)); err != nil {
		t.Fatal(err)
	}
	if err := npy.Write(w, "y", []int{len(labels)}, labels); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return writeFile(t, "x.npz", b.Bytes())
}

// saveTable writes the images as .csv.
func (s images) saveTable(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	for i, values := range s.values {
		for _, v := range values {
			fmt.Fprintf(&b, "%v,", v)
		}
		fmt.Fprintln(&b, s.labels[i])
	}
	return writeFile(t, "x.csv", b.Bytes())
}

func writeFile(t *testing.T, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// The method 'valued' applies the function 'change' to every value, and returns the new images.
func (s images) valued(change func(v float32) float32) images {
	return s.moved(s.shape, func(image []float32, j int) float32 { return change(image[j]) })
}

// The method 'moved' returns images of another shape. Value j of a new image is the result of from(image, j).
func (s images) moved(shape []int, from func(image []float32, j int) float32) images {
	values := make([][]float32, len(s.values))
	for i, image := range s.values {
		values[i] = make([]float32, len(image))
		for j := range image {
			values[i][j] = from(image, j)
		}
	}
	return images{shape, values, s.labels}
}

// The method 'labelled' applies the function 'change' to every label, and returns the images with the new labels. It
// leaves out images whose new label is negative.
func (s images) labelled(change func(i, label int) int) images {
	to := images{shape: s.shape}
	for i, label := range s.labels {
		if label = change(i, label); label >= 0 {
			to.values, to.labels = append(to.values, s.values[i]), append(to.labels, label)
		}
	}
	return to
}

// The method 'first' returns the first n images.
func (s images) first(n int) images { return images{s.shape, s.values[:n], s.labels[:n]} }

// flatHWC returns the images [C,H,W] as flat rows, pixel by pixel.
func (s images) flatHWC() images {
	c, plane := s.shape[0], s.shape[1]*s.shape[2]
	return s.moved([]int{c * plane}, func(image []float32, j int) float32 { return image[j%c*plane+j/c] })
}

func (s images) flatCHW() images { return images{[]int{len(s.values[0])}, s.values, s.labels} }

// exportNames lists the bundled models that machine-learning frameworks exported.
var exportNames = []string{"torch-dynamo", "torch-script", "torch-normalised", "one-file", "keras", "scikit-learn", "lightgbm"}

// exportImages returns the data of a bundled export, with ONNX Runtime's answers as labels.
func exportImages(t *testing.T, name string) images {
	t.Helper()
	text, err := os.ReadFile(bundled + "exports/predictions.json")
	if err != nil {
		t.Fatal(err)
	}
	var exports map[string]struct {
		Data        string
		Predictions []int
	}
	if err := json.Unmarshal(text, &exports); err != nil {
		t.Fatal(err)
	}
	s := readImages(t, bundled+"exports/"+exports[name].Data, 20, dataset.Options{})
	s.labels = exports[name].Predictions
	return s
}

// look opens an experiment and returns the findings of Look, and the accuracy without noise.
func look(t *testing.T, model string, s images, changes ...func(*spec.Spec)) ([]Finding, float64) {
	t.Helper()
	return lookAt(t, model, s.save(t), changes...)
}

// lookAt does the same as the function 'look', for data in a file.
func lookAt(t *testing.T, model, data string, changes ...func(*spec.Spec)) ([]Finding, float64) {
	t.Helper()
	p := quick(data, func(p *spec.Spec) { p.Model, p.Sigma, p.ModelLayout = model, 0.5, true })
	for _, change := range changes {
		change(&p)
	}
	e, err := Open(t.Context(), p, new(said).console())
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	l, err := e.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l.Findings, l.Clean
}

// suspects returns the aspect of each finding whose outcome is Suspect.
func suspects(findings []Finding) (aspects []Aspect) {
	for _, f := range findings {
		if f.Outcome == Suspect {
			aspects = append(aspects, f.Aspect)
		}
	}
	return aspects
}

// TestWrongSetups makes the mistakes that docs/first-model.md lists, and checks that Look finds each of them. The field
// 'wants' is the aspect that Look must call suspect.
func TestWrongSetups(t *testing.T) {
	digits := readImages(t, bundled+"mnist", 200, dataset.Options{})
	keras := exportImages(t, "keras")
	const cnn, nhwc = bundled + "mnist-cnn.onnx", bundled + "exports/keras/my.onnx"
	permutation := []int{3, 5, 0, 1, 4, 9, 8, 7, 2, 6}
	random := rand.New(rand.NewPCG(1, 2))
	for _, k := range []struct {
		mistake string
		model   string
		data    images
		wants   Aspect
		change  func(*spec.Spec)
	}{
		{"flat rows channel by channel, model NHWC", nhwc, keras.flatCHW(), AspectLayout, nil},
		{"flat rows pixel by pixel, --layout chw", nhwc, keras.flatHWC(), AspectLayout, func(p *spec.Spec) { p.ModelLayout, p.Layout = false, graph.CHW }},
		{"bytes kept as floats from 0 to 255", cnn, digits.valued(func(v float32) float32 { return v * 255 }), AspectScale, nil},
		{"bytes kept as floats, σ of a hundred", cnn, digits.valued(func(v float32) float32 { return v * 255 }), AspectScale, func(p *spec.Spec) { p.Sigma = 128 }},
		{"data normalised with MNIST's mean and std", cnn, digits.valued(func(v float32) float32 { return (v - .1307) / .3081 }), AspectScale, nil},
		{"data in [−1,1]", cnn, digits.valued(func(v float32) float32 { return 2*v - 1 }), AspectScale, nil},
		{"data divided by 255 twice", cnn, digits.valued(func(v float32) float32 { return v / 255 }), AspectScale, nil},
		{"black and white exchanged", cnn, digits.valued(func(v float32) float32 { return 1 - v }), AspectScale, nil},
		{"--mean and --std of bytes for data in [0,1]", cnn, digits, AspectScale, func(p *spec.Spec) { p.Mean, p.Std = []float64{33}, []float64{79} }},
		{"--std far too small", cnn, digits, AspectScale, func(p *spec.Spec) { p.Std = []float64{.001} }},
		{"--std of bytes for a model of values in [0,1]", cnn, digits, AspectScale, func(p *spec.Spec) { p.Std = []float64{1 / 255.} }},
		{"--mean far off", cnn, digits, AspectAccuracy, func(p *spec.Spec) { p.Mean, p.Std = []float64{5}, []float64{.1} }},
		{"rows and columns exchanged", cnn, digits.moved(digits.shape, func(x []float32, j int) float32 { return x[j%28*28+j/28] }), AspectScale, nil},
		{"labels one too high, the last class left out", cnn, digits.labelled(func(_, k int) int { return (k+2)%11 - 1 }), AspectOrder, nil},
		{"labels one too low, the first class left out", cnn, digits.labelled(func(_, k int) int { return k - 1 }), AspectOrder, nil},
		{"class names in another order", cnn, digits.labelled(func(_, k int) int { return permutation[k] }), AspectOrder, nil},
		{"class 4 is missing, later labels one too low", cnn, digits.labelled(func(_, k int) int {
			if k == 4 {
				return -1
			}
			return k - k/5
		}), AspectOrder, nil},
		{"two classes exchanged", cnn, digits.labelled(func(_, k int) int {
			if k > 7 {
				return 17 - k
			}
			return k
		}), AspectOrder, nil},
		{"labels of other images", cnn, digits.labelled(func(_, _ int) int { return random.IntN(10) }), AspectAccuracy, nil},
		{"labels 0 and 1 for a model of ten classes", cnn, digits.labelled(func(_, k int) int { return k % 2 }), AspectClasses, nil},
		{"empty images", cnn, digits.valued(func(float32) float32 { return 0 }), AspectAccuracy, nil},
		{"images of noise", cnn, digits.valued(func(float32) float32 { return float32(random.IntN(256)) / 255 }), AspectAccuracy, nil},
		{"15 examples, labels of other images", cnn, digits.first(15).labelled(func(_, k int) int { return (k*3 + 5) % 10 }), AspectAccuracy, nil},
		{"one number per sample, from a regressor", models + "one_output.onnx", randomImages(random, 200), AspectAccuracy, nil},
	} {
		findings, accuracy := look(t, k.model, k.data, func(p *spec.Spec) {
			if k.change != nil {
				k.change(p)
			}
		})
		if got := suspects(findings); !slices.Contains(got, k.wants) {
			t.Errorf("%s: suspects %v at an accuracy of %.2f, want %s: %+v", k.mistake, got, accuracy, k.wants, findings)
		}
	}
}

// randomImages returns images for the small models, with labels 0 and 1 that have nothing to do with the images.
func randomImages(random *rand.Rand, n int) (s images) {
	s.shape = []int{3, 4, 4}
	for i := range n {
		s.values, s.labels = append(s.values, make([]float32, imageSize)), append(s.labels, i%2)
		for j := range imageSize {
			s.values[i][j] = float32(random.IntN(256)) / 255
		}
	}
	return s
}

// Look must find no suspect aspect in a correct set-up.
func TestRightSetups(t *testing.T) {
	digits, keras := readImages(t, bundled+"mnist", 200, dataset.Options{}), exportImages(t, "keras")
	const cnn, nhwc = bundled + "mnist-cnn.onnx", bundled + "exports/keras/my.onnx"
	for _, k := range []struct {
		name, model string
		data        images
		change      func(*spec.Spec)
	}{
		{"the bundled model", cnn, digits, nil},
		{"one example", cnn, digits.first(1), nil},
		{"two examples", cnn, digits.first(2), nil},
		{"one class only", cnn, digits.labelled(func(_, k int) int {
			if k != 3 {
				return -1
			}
			return k
		}), nil},
		{"noise in floats", cnn, digits, func(p *spec.Spec) { p.Noise = spec.Float }},
		{"the model for Gaussian noise", bundled + "mnist-cnn-gaussian.onnx", digits, nil},
		{"the model for Laplace noise", bundled + "mnist-cnn-laplace.onnx", digits, nil},
		{"the model for uniform noise", bundled + "mnist-cnn-uniform.onnx", digits, nil},
		{"a PyTorch export", bundled + "mnist-torch.onnx", digits, nil},
		{"flat rows", cnn, digits.flatCHW(), nil},
		{"images for a Keras model", nhwc, keras, nil},
		{"flat rows pixel by pixel for a Keras model", nhwc, keras.flatHWC(), nil},
		{"flat rows channel by channel, and --layout says so", nhwc, keras.flatCHW(), func(p *spec.Spec) { p.ModelLayout, p.Layout = false, graph.CHW }},
	} {
		findings, accuracy := look(t, k.model, k.data, func(p *spec.Spec) {
			if k.change != nil {
				k.change(p)
			}
		})
		if got := suspects(findings); len(got) > 0 || accuracy < .9 {
			t.Errorf("%s: suspects %v, accuracy %.2f: %+v", k.name, got, accuracy, findings)
		}
	}
	for _, name := range exportNames {
		findings, accuracy := look(t, bundled+"exports/"+name+"/my.onnx", exportImages(t, name))
		if got := suspects(findings); len(got) > 0 || accuracy < .95 {
			t.Errorf("export %s: suspects %v, accuracy %.2f: %+v", name, got, accuracy, findings)
		}
	}
}

// A model of scikit-learn or LightGBM may have been fitted to bytes or to bytes divided by 255. Look must find out from
// the model's answers which of the two is right. It must be unsure if the answers hardly depend on the scale.
func TestModelsFittedToBytes(t *testing.T) {
	linear, trees := exportImages(t, "scikit-learn"), exportImages(t, "lightgbm")
	// The export of LightGBM has 20 examples. They are too few for the significance tests in Look.
	trees.values, trees.labels = slices.Repeat(trees.values, 3), slices.Repeat(trees.labels, 3)
	asBytes := func(v float32) float32 { return float32(math.Round(float64(v) * 255)) }
	for _, k := range []struct {
		name, model string
		data        images
		want        Outcome
	}{
		{"trees fitted to values in [0,1]", "lightgbm", trees.valued(asBytes), Fine},
		{"a linear model, whose answers hardly depend on the scale", "scikit-learn", linear.valued(asBytes), Unsure},
		{"trees fitted to values in [0,1], which are the bytes 0, 1 and 2 in the data", "lightgbm", trees.valued(func(v float32) float32 { return float32(math.Round(2 * float64(v))) }), Suspect},
	} {
		findings, accuracy := lookAt(t, bundled+"exports/"+k.model+"/my.onnx", k.data.saveTable(t), func(p *spec.Spec) { p.DataOptions.LabelColumn = "last" })
		i := slices.IndexFunc(findings, func(f Finding) bool { return f.Aspect == AspectScale })
		if findings[i].Outcome != k.want {
			t.Errorf("%s: %s at an accuracy of %.2f, want %s: %s", k.name, findings[i].Outcome, accuracy, k.want, findings[i].Text)
		}
	}
}
