package run

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/rscert/rscert/internal/attack"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// openDigits opens a search that uses the bundled model and the first images of digits in testdata/mnist.
func openDigits(t *testing.T, method attack.SmoothedMethod, sigma float64, mean, std []float64) (*attack.SmoothedSearch, []attack.Example) {
	t.Helper()
	seed := uint64(3)
	e, err := experiment.Open(t.Context(), spec.Spec{
		Model: filepath.Join("..", "..", "testdata", "mnist-cnn.onnx"), Data: filepath.Join("..", "..", "testdata", "mnist"),
		Threads: 2, FixedSeed: &seed, KeepOutputs: true, KeepSource: true, Smoothing: spec.Smoothing{Sigma: sigma},
		Conditions: spec.Conditions{Noise: spec.Lattice, Skip: 1, Max: 4, Shard: spec.Whole, Mean: mean, Std: std},
	}, new(said).console())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	threat := attack.Threat{Norm: attack.L2, Epsilon: 4, Low: 0, High: 1}
	s, closeSearch, err := openSmoothedSearch(t.Context(), e, method, threat, new(said).console())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeSearch() })
	examples, err := (&AttackPlan{Spec: e.Spec, Threat: threat}).examples(e, e.Positions())
	if err != nil {
		t.Fatal(err)
	}
	return s, examples
}

// noiseOf returns the noise for all noisy copies that one call of Gradients.Run takes. This noise is added to the
// model's input.
func noiseOf(t *testing.T, s *attack.SmoothedSearch, x attack.Example, seed uint64) []float32 {
	t.Helper()
	input, err := s.Input(x.Values)
	if err != nil {
		t.Fatal(err)
	}
	d := input.Len()
	clean, noise := make([]float32, d), make([]float32, s.Gradients.Copies()*d)
	input.Clean(clean)
	for k := range s.Gradients.Copies() {
		row := noise[k*d : (k+1)*d]
		input.Perturb(row, smoothing.NewStream(seed, x.Index, smoothing.Selection), int64(k))
		for i, v := range clean {
			row[i] -= v
		}
	}
	return noise
}

// TestNoisyGradients checks that the gradient of the bundled model under noise agrees with finite differences of its
// loss. The gradient and the finite differences are with respect to the data's values, before mean and std normalise
// them.
func TestNoisyGradients(t *testing.T) {
	s, examples := openDigits(t, attack.SmoothAdv, 1, []float64{.1}, []float64{1.5})
	for _, x := range examples {
		noise := noiseOf(t, s, x, 8)
		run := func(values []float32) (float64, []float32) {
			scores, gradient := make([]float32, s.Gradients.Copies()*10), make([]float32, len(values))
			loss, err := s.Gradients.Run(t.Context(), values, noise, x.Label, scores, gradient)
			if err != nil {
				t.Fatal(err)
			}
			return loss, gradient
		}
		_, gradient := run(x.Values)
		square, direction := 0., make([]float64, len(gradient))
		for i, g := range gradient {
			direction[i] = float64(g)
			square += direction[i] * direction[i]
		}
		loss := func(step float64) float64 {
			moved := make([]float32, len(gradient))
			for i, v := range x.Values {
				moved[i] = v + float32(step*direction[i])
			}
			l, _ := run(moved)
			return l
		}
		h := .02 / math.Sqrt(square)
		if slope := (loss(h) - loss(-h)) / (2 * h); !(math.Abs(slope-square) <= .03*square) {
			t.Errorf("example %d: the gradient's squared norm is %g, differences say %g", x.Index, square, slope)
		}
	}
}

// TestMoveKeeps moves digits on the lattice by .0625 along their gradients, at σ = .5. Without the lattice, a move of
// the same length that keeps all values in [0, 1] could have a larger inner product with the gradient. The moves on the
// lattice must reach at least 95 % of this larger product on average.
func TestMoveKeeps(t *testing.T) {
	s, examples := openDigits(t, attack.SmoothAdv, .5, nil, nil)
	const radius = .0625
	mean := 0.
	for _, x := range examples {
		gradient := make([]float32, len(x.Values))
		if _, err := s.Gradients.Run(t.Context(), x.Values, noiseOf(t, s, x, 8), x.Label, make([]float32, s.Gradients.Copies()*10), gradient); err != nil {
			t.Fatal(err)
		}
		direction, inside := make([]float64, len(gradient)), 0.
		for i, g := range gradient {
			direction[i] = float64(g)
			if v := x.Values[i]; g > 0 && v < 1 || g < 0 && v > 0 {
				inside += direction[i] * direction[i]
			}
		}
		moved, distance := s.Lattice.Move(x.Values, direction, radius)
		product := 0.
		for i, v := range moved {
			product += (float64(v) - float64(x.Values[i])) * direction[i]
		}
		kept := product / (radius * math.Sqrt(inside))
		if !(distance <= radius && kept < 1.001) {
			t.Errorf("example %d: moved by %v, %.1f %% of the inner product remain", x.Index, distance, 100*kept)
		}
		t.Logf("example %d keeps %.1f %%", x.Index, 100*kept)
		mean += kept / float64(len(examples))
	}
	if mean < .95 {
		t.Errorf("%.1f %% of the inner product remain in the mean", 100*mean)
	}
}

// TestScoreGradientsAgree compares two gradients with respect to the data's values. Stein estimates the gradient of the
// margin from many scores. SmoothAdv computes the gradient of the cross-entropy, which has nearly the same direction.
// The two gradients must point in similar directions.
func TestScoreGradientsAgree(t *testing.T) {
	s, examples := openDigits(t, attack.SmoothAdv, 1, []float64{.1}, []float64{1.5})
	scores, _ := openDigits(t, attack.Stein, 1, []float64{.1}, []float64{1.5})
	x := examples[0]
	mean := func(s *attack.SmoothedSearch, runs int) []float64 {
		sum := make([]float64, len(x.Values))
		for r := range runs {
			gradient := make([]float32, len(x.Values))
			if _, err := s.Gradients.Run(t.Context(), x.Values, noiseOf(t, s, x, uint64(r)), x.Label, make([]float32, s.Gradients.Copies()*10), gradient); err != nil {
				t.Fatal(err)
			}
			for i, g := range gradient {
				sum[i] += float64(g)
			}
		}
		return sum
	}
	a, b := mean(s, 10), mean(scores, 60)
	cosine := 0.
	for i := range a {
		cosine += a[i] * b[i]
	}
	if cosine /= norm2(a) * norm2(b); !(cosine > .4) { // estimate of 784 values from 1,920 scores; a random direction has a cosine of about ±.04
		t.Errorf("cosine %.3f", cosine)
	}
}

func norm2(v []float64) float64 {
	sum := 0.
	for _, w := range v {
		sum += w * w
	}
	return math.Sqrt(sum)
}

// TestAnswer checks the smallest number k of unanimous votes that gives an answer. For m classes and the level α, k is
// the smallest number with 2^{1−k} ≤ α·(m+1)/m. Samples that vote for no class count as votes for one more outcome.
func TestAnswer(t *testing.T) {
	for _, c := range []struct {
		votes []int
		none  int
		want  int
	}{
		{[]int{0, 11}, 0, 1}, {[]int{10, 0}, 0, -1}, {[]int{0, 0, 0, 0, 11, 0, 0, 0, 0, 0}, 0, 4}, {[]int{0, 0, 0, 0, 10, 0, 0, 0, 0, 0}, 0, -1},
		{[]int{0, 0, 0}, 0, -1}, {[]int{500, 500, 0}, 0, -1}, {[]int{600, 400, 0}, 0, 0}, {[]int{300, 530, 170}, 0, 1},
		{[]int{400, 0}, 600, -1}, {[]int{600, 0}, 400, 0}, {[]int{40}, 0, 0}, {[]int{0}, 40, -1},
	} {
		n := c.none
		for _, k := range c.votes {
			n += k
		}
		if got := answer(c.votes, n, .001); got != c.want {
			t.Errorf("votes %v: %d, want %d", c.votes, got, c.want)
		}
	}
	if !beats(17, 0, 7.63e-6) || beats(17, 0, 7.62e-6) { // 2⁻¹⁷ = 7.629e-6
		t.Error("17 of 17 votes have p-value 2⁻¹⁷")
	}
}

// TestAnswerWrong simulates the votes for three classes, two of which are nearly equally probable. The function
// 'answer' may return a wrong class in at most 5 % of the simulations, plus about four standard errors. It must return
// a class in at least 5 % of them.
func TestAnswerWrong(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	wrong, answered := 0, 0
	const runs, n, alpha = 4000, 200, .05
	for range runs {
		votes := make([]int, 3)
		for range n {
			switch u := rng.Float64(); {
			case u < .451:
				votes[0]++
			case u < .9:
				votes[1]++
			default:
				votes[2]++
			}
		}
		switch answer(votes, n, alpha) {
		case 0:
			answered++
		case 1, 2:
			answered, wrong = answered+1, wrong+1
		}
	}
	if wrong > runs*alpha+4*15 || answered < runs*alpha {
		t.Errorf("%d answers of %d, %d wrong", answered, runs, wrong)
	}
}
