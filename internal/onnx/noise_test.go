package onnx

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	ort "github.com/yalue/onnxruntime_go"
	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/smoothing"
)

var _ smoothing.NoiseMaker = (*Model)(nil)

// testNoise returns Gaussian noise with σ = ratio/255, for data that are multiples of 1/255 from 0 to 1. The arguments
// 'mean' and 'std' have one value for each channel of the input.
func testNoise(t testing.TB, ratio float64, mean, std []float64) *smoothing.LatticeNoise {
	t.Helper()
	step := big.NewRat(1, 255)
	sigma, _ := new(big.Rat).Mul(new(big.Rat).SetFloat64(ratio), step).Float64()
	table, err := smoothing.NewLawTable(law.Gaussian, sigma, step)
	if err != nil {
		t.Fatal(err)
	}
	noise, err := smoothing.NewLatticeNoise(smoothing.Lattice{Step: step, High: 255}, table, mean, std)
	if err != nil {
		t.Fatal(err)
	}
	return noise
}

// testInputs returns examples of random bytes. The first value of each example is the smallest byte, and the last value
// is the largest byte.
func testInputs(t testing.TB, noise *smoothing.LatticeNoise, n, d int, channel func(int) int) []smoothing.LatticeInput {
	t.Helper()
	rng := rand.New(rand.NewPCG(11, 12))
	inputs := make([]smoothing.LatticeInput, n)
	for i := range inputs {
		integers := make([]int32, d)
		for k := range integers {
			integers[k] = int32(rng.IntN(256))
		}
		integers[0], integers[d-1] = 0, 255
		var err error
		if inputs[i], err = noise.Input(integers, channel); err != nil {
			t.Fatal(err)
		}
	}
	return inputs
}

// echo returns a model that returns its input as scores. The argument 'sizes' gives the sizes of its input.
func echo(version int64, t graph.ElemType, sizes ...any) *modelBuilder {
	d := 1
	for _, n := range sizes {
		d *= n.(int)
	}
	b := newModel("x", t, append([]any{"N"}, sizes...)...).node("Flatten", "x", "y").output("y", t, "N", d)
	b.OpsetImport[0].Version = proto.Int64(version)
	return b
}

// A drawing is a batch whose noisy inputs are made twice, once by the model's graph and once by Go code.
type drawing struct {
	*Model
	rows *smoothing.Rows
	in   []float32 // the noisy inputs that Go code made
}

func newDrawing(m *Model) *drawing {
	return &drawing{m, smoothing.NewRows(m.Batch()), make([]float32, m.Batch()*m.InputLen())}
}

func (d *drawing) row(i int) []float32 { return d.in[i*d.InputLen() : (i+1)*d.InputLen()] }

func (d *drawing) clean(i int, in smoothing.LatticeInput) {
	d.rows.Clean(i, in)
	in.Clean(d.row(i))
}

func (d *drawing) noisy(i int, in smoothing.LatticeInput, s smoothing.Stream, sample int64) {
	d.rows.Noisy(i, in, s, sample)
	in.Perturb(d.row(i), s, sample)
}

// The method 'compare' runs the batch with noise from Go code, and then with noise from the model's graph. The scores
// and votes of both runs must be equal. A third run again uses noise from the graph, but requests only votes. These
// votes must equal the votes of the second run. The method returns the scores.
func (d *drawing) compare(t testing.TB) []float32 {
	t.Helper()
	b, m := d.Batch(), d.Classes()
	here, there, votes := make([]float32, b*m), make([]float32, b*m), make([]int32, b)
	if err := d.Run(t.Context(), d.in, here); err != nil {
		t.Fatal(err)
	}
	if err := d.RunNoisy(t.Context(), d.rows, votes, there); err != nil {
		t.Fatal(err)
	}
	for i := range b {
		if x, y := here[i*m:(i+1)*m], there[i*m:(i+1)*m]; !sameBits(x, y) {
			k := 0
			for math.Float32bits(x[k]) == math.Float32bits(y[k]) {
				k++
			}
			t.Fatalf("row %d: value %d is %v made on the device, %v here", i, k, y[k], x[k])
		}
		if want := smoothing.Vote(here[i*m : (i+1)*m]); int(votes[i]) != want {
			t.Fatalf("row %d: vote %d on the device, %d here, of %v", i, votes[i], want, here[i*m:min((i+1)*m, i*m+20)])
		}
	}
	again := make([]int32, b)
	if err := d.RunNoisy(t.Context(), d.rows, again, nil); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(again, votes) {
		t.Fatalf("votes alone are %v, with scores %v", again, votes)
	}
	d.rows.Reset()
	return here
}

// TestNoisyInputs uses models that return their inputs. It compares noisy inputs made in the graph with noisy inputs
// made in Go. All bits must agree.
func TestNoisyInputs(t *testing.T) {
	one := func(int) int { return 0 }
	for _, c := range []struct {
		name      string
		model     *modelBuilder
		batch     int
		ratio     float64
		mean, std []float64
		channel   func(d int) int
		rounds    int
	}{
		{"small table", echo(11, graph.Float32, 3, 4, 4), 64, 1.5, []float64{0}, []float64{1}, one, 64},
		{"operator set 13", echo(13, graph.Float32, 3, 4, 4), 64, 30, []float64{0}, []float64{1}, one, 8},
		{"operator set 17, channels", echo(17, graph.Float32, 3, 4, 4), 64, 63.75, []float64{.49, .48, .45}, []float64{.2, .21, .23}, func(d int) int { return d / 16 }, 8},
		{"operator set 21, channels last", echo(21, graph.Float32, 4, 4, 3), 60, 127.5, []float64{.49, .48, .45}, []float64{.2, .21, .23}, func(d int) int { return d % 3 }, 8},
		{"greatest table", echo(18, graph.Float32, 784), 100, 3640, []float64{0}, []float64{1}, one, 20},
		{"operator set 7, greatest table", echo(7, graph.Float32, 784), 100, 3640, []float64{0}, []float64{1}, one, 5},
		{"one channel of many", echo(9, graph.Float32, 3, 32, 32), 32, 63.75, []float64{.5}, []float64{.25}, one, 4},
		{"ImageNet", echo(11, graph.Float32, 3, 224, 224), 2, 127.5, []float64{.485, .456, .406}, []float64{.229, .224, .225}, func(d int) int { return d / (224 * 224) }, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := load(t, c.model.bytes(t), LoadOptions{Batch: c.batch, Device: CPU})
			noise := testNoise(t, c.ratio, c.mean, c.std)
			if err := m.StartNoise(noise); err != nil {
				t.Fatal(err)
			}
			inputs := testInputs(t, noise, 5, m.InputLen(), c.channel)
			draw := newDrawing(m)
			for round := range c.rounds {
				// The rows of a batch belong to 1 to 5 examples. The rows cover both phases of sampling, and the
				// smallest and the largest sample numbers.
				for i := range c.batch {
					in := inputs[(i*(round+1)/c.batch)%len(inputs)]
					phase := smoothing.Phase((i / 3) % 2)
					sample := []int64{int64(i), smoothing.MaxSamples - 1 - int64(i), int64(round) << 26, 1 << 30}[i%4]
					if i%7 == 6 {
						draw.clean(i, in)
					} else {
						draw.noisy(i, in, smoothing.NewStream(uint64(round)<<60|uint64(i), 1<<40+i, phase), sample)
					}
				}
				if scores := draw.compare(t); !sameBits(scores, draw.in) {
					t.Fatal("the model does not give its input back")
				}
			}
		})
	}
}

// TestNoisyModels compares scores and votes for various models. Their batch dimension is free, fixed, freed by rscert
// or missing. Some models run one sample per call. Some have inputs of other types, one input per table column, or only
// one output number per sample.
func TestNoisyModels(t *testing.T) {
	for name, c := range map[string]struct {
		batch, tile int
		outputs     graph.OutputKind
	}{
		"nchw": {20, 20, 0}, "nhwc": {7, 7, 0}, "flat": {33, 33, 0}, "unbatched": {5, 1, 0}, "float16": {20, 20, 0}, "float64": {20, 20, 0},
		"scores_4d": {20, 20, 0}, "old": {20, 20, 0}, "fixed_infer": {20, 20, 0}, "fixed_full": {3, 3, 0}, "fixed_concat": {20, 20, 0},
		"fixed_8": {20, 20, 0}, "baked": {20, 20, 0}, "batch_size": {20, 20, 0}, "nan": {64, 64, 0}, "softmax": {20, 20, 0},
		"label_and_scores": {20, 20, 0}, "one_output": {20, 20, graph.Logits}, "table": {20, 20, 0}, "bytes_input": {20, 20, 0},
		"stuck": {6, 1, 0}, "mixing": {3, 1, 0}, "fixed_token": {20, 20, 0},
		"fixed_8_expand": {20, 20, 0}, "fixed_shared": {20, 20, 0}, "free_size": {20, 20, 0},
	} {
		t.Run(name, func(t *testing.T) {
			opt := LoadOptions{Batch: c.batch, Device: CPU, Outputs: c.outputs}
			if name == "free_size" {
				opt.Example = []int{3, 4, 4}
			}
			m := load(t, testModel(t, name), opt)
			noise := testNoise(t, 63.75, []float64{.25}, []float64{.5})
			if err := m.StartNoise(noise); err != nil {
				t.Fatal(err)
			}
			checkRowsSize(t, m, noise, slices.Contains([]string{"unbatched", "stuck", "mixing"}, name))
			m.SealSource()
			if m.batch%c.tile != 0 || m.tile != c.tile {
				t.Errorf("calls of %d rows, want %d", m.tile, c.tile)
			}
			inputs := testInputs(t, noise, 3, m.InputLen(), func(int) int { return 0 })
			draw := newDrawing(m)
			scores := make(map[float32]bool)
			for round := range 20 {
				for i := range m.Batch() {
					in := inputs[(i+round)*3/(m.Batch()+20)]
					if (i+round)%6 == 0 {
						draw.clean(i, in)
					} else {
						draw.noisy(i, in, smoothing.NewStream(3, round, smoothing.Estimation), int64(i))
					}
				}
				for _, v := range draw.compare(t) {
					scores[v] = true
				}
			}
			if len(scores) < m.Batch() {
				t.Errorf("%d different scores: little is compared", len(scores))
			}
			if err := smoothing.CheckNoise(t.Context(), m, func(int) int { return 0 }); err != nil {
				t.Error(err)
			}
		})
	}
}

// noiseGraphOf returns the graph that makes the noise and the votes for the model. It also returns the names of the
// graph's inputs and output.
func noiseGraphOf(t *testing.T, m *Model, noise *smoothing.LatticeNoise) (*onnxpb.ModelProto, graph.NoiseNames) {
	t.Helper()
	draws, err := noise.Draws()
	if err != nil {
		t.Fatal(err)
	}
	g, names, err := m.noiseGraph(draws)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, g.model), names
}

// checkRowsSize checks the number of rows in the graph with noise. If the argument 'fixed' is true, this number must
// equal the number of samples per call. Otherwise this number must be free. The number of examples must always be free.
func checkRowsSize(t *testing.T, m *Model, noise *smoothing.LatticeNoise, fixed bool) {
	t.Helper()
	parsed, names := noiseGraphOf(t, m, noise)
	info, err := (&graph.File{Model: parsed}).Info()
	if err != nil {
		t.Fatal(err)
	}
	want := -1
	if fixed {
		want = m.tile
	}
	for _, v := range slices.Concat(info.Inputs, info.Outputs) {
		rows := slices.Contains([]string{names.Example, names.Key, names.Start, names.Votes}, v.Name)
		if rows && v.Shape[0].Size != want || v.Name == names.Places && v.Shape[0].Size != -1 {
			t.Errorf("%s, want %d rows", v, want)
		}
	}
}

// TestVoteGraph compares the graph's votes with smoothing.Vote for all kinds of rows.
func TestVoteGraph(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	special := []float32{0, float32(math.Copysign(0, -1)), 1, -1, 1, math.MaxFloat32, -math.MaxFloat32, math.SmallestNonzeroFloat32,
		-math.SmallestNonzeroFloat32, 1 + 0x1p-23, 1 - 0x1p-24}
	rng := rand.New(rand.NewPCG(13, 14))
	for _, version := range []int64{7, 9, 11, 13, 17, 18, 21} {
		for _, m := range []int{2, 3, 10, 1000} {
			t.Run(fmt.Sprintf("%d classes of operator set %d", m, version), func(t *testing.T) {
				const rows = 3000
				scores := make([]float32, 0, rows*m)
				for i := range rows {
					row := make([]float32, m)
					for k := range row {
						row[k] = special[rng.IntN(2+i%(len(special)-1))]
					}
					if i%2 == 0 { // mask some classes, and sometimes all classes
						for k := range row {
							if i%8 == 0 || rng.IntN(2) == 0 {
								row[k] = -inf
							}
						}
					}
					switch i % 10 {
					case 3:
						row[rng.IntN(m)] = nan
					case 5:
						row[rng.IntN(m)] = inf
					case 7:
						row[rng.IntN(m)], row[rng.IntN(m)] = inf, nan
					}
					scores = append(scores, row...)
				}
				model := newModel("x", graph.Float32, "N", m).node("Identity", "x", "y").output("y", graph.Float32, "N", m)
				model.OpsetImport[0].Version = proto.Int64(version)
				name := votesOf(t, model.ModelProto, m)
				s, err := openSession(program{model: model.bytes(t), inputs: []string{"x"}, outputs: []string{name}}, &cpuProvider, settings{workers: 1})
				if err != nil {
					t.Fatal(err)
				}
				defer s.close()
				x, err := ort.NewTensor(ort.Shape{rows, int64(m)}, scores)
				if err != nil {
					t.Fatal(err)
				}
				defer x.Destroy()
				votes := []ort.Value{nil}
				if err := s.ort.Run([]ort.Value{x}, votes); err != nil {
					t.Fatal(err)
				}
				defer votes[0].Destroy()
				c := noisyCall{votes: votes[0].(*ort.Tensor[int32]).GetData()}
				got := make([]int32, rows)
				c.readVotes(got, m)
				seen := make(map[int32]int)
				for i, row := range slices.Collect(slices.Chunk(scores, m)) {
					if want := smoothing.Vote(row); int(got[i]) != want {
						t.Fatalf("vote %d, want %d: %v", got[i], want, row[:min(m, 10)])
					}
					seen[got[i]]++
				}
				if seen[-1] < rows/10 || seen[0] < 10 || seen[1] < 10 {
					t.Errorf("votes %v: too few of a kind", seen)
				}
			})
		}
	}
}

// TestNoiseRefused checks two kinds of errors. StartNoise must fail for models that cannot have noise, and RunNoisy
// must fail for invalid batches.
func TestNoiseRefused(t *testing.T) {
	noise := testNoise(t, 30, []float64{0}, []float64{1})
	old := load(t, echo(6, graph.Float32, 48).bytes(t), LoadOptions{Batch: 4, Device: CPU})
	if err := old.StartNoise(noise); err == nil || !strings.Contains(err.Error(), "operator set 6") {
		t.Errorf("operator set 6: %v", err)
	}
	if old.Noise() != nil {
		t.Error("the model makes noise that it refused")
	}

	m := load(t, echo(11, graph.Float32, 48).bytes(t), LoadOptions{Batch: 4, Device: CPU})
	rows, votes := smoothing.NewRows(4), make([]int32, 4)
	in := testInputs(t, noise, 1, 48, func(int) int { return 0 })[0]
	short := testInputs(t, noise, 1, 47, func(int) int { return 0 })[0]
	if err := m.RunNoisy(t.Context(), rows, votes, nil); err == nil || !strings.Contains(err.Error(), "makes no noise") {
		t.Errorf("without noise: %v", err)
	}
	if err := m.StartNoise(noise); err != nil {
		t.Fatal(err)
	}
	if m.Noise() != noise {
		t.Error("another noise")
	}
	fill := func(in smoothing.LatticeInput) {
		rows.Reset()
		for i := range 4 {
			rows.Clean(i, in)
		}
	}
	run := func(want string, votes []int32, outputs []float32) {
		t.Helper()
		err := m.RunNoisy(t.Context(), rows, votes, outputs)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	rows.Reset()
	run("a row is of example 0 of 0", votes, nil)
	fill(short)
	run("an example has 47 places", votes, nil)
	fill(in)
	run("", votes, nil)
	run("4 rows", votes[:3], nil)
	run("4 rows", votes, make([]float32, 4*48+1))
	for _, k := range []int32{1, -1} {
		rows.Example[2] = k
		run(fmt.Sprintf("a row is of example %d of 1", k), votes, nil)
	}
	for _, wrong := range []*smoothing.Rows{smoothing.NewRows(3), smoothing.NewRows(5)} {
		rows = wrong
		run("4 rows", votes, nil)
	}
	rows = smoothing.NewRows(4)
	fill(in)
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := m.RunNoisy(stopped, rows, votes, nil); err != context.Canceled {
		t.Errorf("cancelled: %v", err)
	}
	run("", votes, nil)
	if err := m.StopNoise(); err != nil {
		t.Fatal(err)
	}
	run("makes no noise", votes, nil)
}

// TestNoiseResults calls RunNoisy several times. From call to call, it changes which results it requests: the votes,
// the scores or both. The requested results must be right.
func TestNoiseResults(t *testing.T) {
	m := load(t, testModel(t, "nchw"), LoadOptions{Batch: 8, Device: CPU})
	noise := testNoise(t, 63.75, []float64{.5}, []float64{.25})
	if err := m.StartNoise(noise); err != nil {
		t.Fatal(err)
	}
	in := testInputs(t, noise, 1, m.InputLen(), func(int) int { return 0 })[0]
	draw := newDrawing(m)
	for round, asked := range [][2]bool{{true, false}, {true, true}, {true, false}, {false, true}, {true, false}, {false, true}, {true, true}} {
		for i := range 8 {
			draw.noisy(i, in, smoothing.NewStream(7, 8, smoothing.Selection), int64(8*round+i))
		}
		want := make([]float32, 8*testClasses)
		if err := m.Run(t.Context(), draw.in, want); err != nil {
			t.Fatal(err)
		}
		var votes []int32
		var scores []float32
		if asked[0] {
			votes = slices.Repeat([]int32{-7}, 8)
		}
		if asked[1] {
			scores = make([]float32, 8*testClasses)
		}
		if err := m.RunNoisy(t.Context(), draw.rows, votes, scores); err != nil {
			t.Fatal(err)
		}
		if scores != nil && !sameBits(scores, want) {
			t.Errorf("round %d: scores %v, want %v", round, scores, want)
		}
		for i, v := range votes {
			if w := smoothing.Vote(want[i*testClasses : (i+1)*testClasses]); int(v) != w {
				t.Errorf("round %d: vote %d of row %d, want %d", round, v, i, w)
			}
		}
		draw.rows.Reset()
	}
}

// TestNoiseResident counts how often values are bound, because a device with its own memory copies a value each time
// that the value is bound. The rows' keys and counters must be bound for every call. The lattice points must be bound
// only if the examples change.
func TestNoiseResident(t *testing.T) {
	m := load(t, testModel(t, "nchw"), LoadOptions{Batch: 16, Device: CPU})
	m.tile, m.in[0], m.out[0] = 8, 8, 8 // two calls per batch
	noise := testNoise(t, 63.75, []float64{.5}, []float64{.25})
	if err := m.StartNoise(noise); err != nil {
		t.Fatal(err)
	}
	inputs := testInputs(t, noise, 4, m.InputLen(), func(int) int { return 0 })
	draw := newDrawing(m)
	var rows, places int
	for round, c := range []struct {
		first, examples, places int
	}{{0, 1, 0}, {0, 1, 0}, {0, 2, 1}, {0, 2, 0}, {0, 1, 0}, {0, 2, 0}, {1, 1, 1}, {1, 1, 0}, {1, 3, 1}, {0, 1, 1}, {1, 1, 1}} {
		for i := range 16 {
			in := inputs[c.first+i*c.examples/16]
			draw.noisy(i, in, smoothing.NewStream(7, round, smoothing.Selection), int64(i))
		}
		rows, places = 0, 0
		draw.compare(t) // this runs RunNoisy twice
		if round == 0 {
			call := m.noisy.free[0]
			bind := call.bind
			call.bind = func(v boundValue) error {
				if slices.Contains(call.inputs, v) {
					rows++
				} else {
					places++
				}
				return bind(v)
			}
			continue
		}
		if rows != 2*2*3 || places != c.places {
			t.Errorf("round %d: rows are bound %d times, places %d times, want 12 and %d", round, rows, places, c.places)
		}
	}
}

// TestNoiseOnDevices makes noise on several devices. Each device opens the graph with its own settings. All devices
// must make noise with the same bits, even after one device stopped making noise.
func TestNoiseOnDevices(t *testing.T) {
	p := units([]string{"A", "A", "A"}, failOn(nil))
	models, err := loadEach(t, "nchw", LoadOptions{Device: Device{provider: p}, Batch: 16})
	if err != nil {
		t.Fatal(err)
	}
	noise := testNoise(t, 63.75, []float64{.5}, []float64{.25})
	inputs := testInputs(t, noise, 3, models[0].InputLen(), func(int) int { return 0 })
	var want []float32
	for i, m := range models {
		if err := m.StartNoise(noise); err != nil {
			t.Fatal(err)
		}
		m.SealSource()
		if unit := m.noisy.options["unit"]; unit != m.device.unit || cap(m.noisy.slots) != p.calls {
			t.Errorf("device %v makes noise on %q, %d calls at a time", m.Device(), unit, cap(m.noisy.slots))
		}
		draw := newDrawing(m)
		for row := range 16 {
			draw.noisy(row, inputs[row%3], smoothing.NewStream(7, row%3, smoothing.Estimation), int64(row))
		}
		got := draw.compare(t)
		if i > 0 && !sameBits(got, want) {
			t.Errorf("device %v gives other scores", m.Device())
		}
		want = got
		if i == 2 {
			continue
		}
		if err := m.StopNoise(); err != nil || m.Noise() != nil || m.RunNoisy(t.Context(), draw.rows, nil, nil) == nil {
			t.Errorf("noise is made after it was stopped, %v", err)
		}
		if err := m.StartNoise(noise); err == nil || m.Noise() != nil {
			t.Errorf("noise is put in front of a model whose source is gone: %v", err)
		}
	}
}

// TestNoiseAgain replaces the noise. The graph of the previous noise must be closed.
func TestNoiseAgain(t *testing.T) {
	m := load(t, testModel(t, "nchw"), LoadOptions{Batch: 8, Device: CPU})
	draw := newDrawing(m)
	var before *noisy
	for _, std := range []float64{.25, .5} {
		noise := testNoise(t, 63.75, []float64{.5}, []float64{std})
		if err := m.StartNoise(noise); err != nil || m.Noise() != noise {
			t.Fatal(err)
		}
		in := testInputs(t, noise, 1, m.InputLen(), func(int) int { return 0 })[0]
		for i := range 8 {
			draw.noisy(i, in, smoothing.NewStream(7, 1, smoothing.Estimation), int64(i))
		}
		draw.compare(t)
		if before != nil && before.session.free != nil {
			t.Error("the session of the noise before is open")
		}
		if before = m.noisy; before.session.free == nil {
			t.Error("a session that is open has no options")
		}
	}
}

// TestNoiseConcurrently runs batches of several examples from several goroutines. Each example must get its own votes.
func TestNoiseConcurrently(t *testing.T) {
	m := load(t, testModel(t, "nchw"), LoadOptions{Batch: 8, Device: CPU, Workers: 4})
	noise := testNoise(t, 63.75, []float64{.5}, []float64{.25})
	if err := m.StartNoise(noise); err != nil {
		t.Fatal(err)
	}
	inputs := testInputs(t, noise, 9, m.InputLen(), func(int) int { return 0 })
	var wait sync.WaitGroup
	for worker := range 4 {
		wait.Go(func() {
			draw := newDrawing(m)
			for round := range 50 {
				first, examples := worker+round, 1+(worker*round)%8
				for i := range 8 {
					draw.noisy(i, inputs[(first+i*examples/8)%len(inputs)], smoothing.NewStream(5, worker, smoothing.Selection), int64(round*8+i))
				}
				draw.compare(t)
			}
		})
	}
	wait.Wait()
	if n := len(m.noisy.free); n < 1 || n > 4 {
		t.Errorf("%d calls are kept for 4 workers", n)
	}
}

// cudaKernels lists the operators that AddNoise and AddVotes use. For each operator, it lists the types for which ONNX
// Runtime's CUDA provider has a kernel. For Mod, the provider has the kernel from operator set 10 on. For all other
// operators in the list, it has the kernels from operator set 7 on. The list is from docs/OperatorKernels.md in the
// repository of ONNX Runtime, as of November 2026.
var cudaKernels = map[string][]graph.ElemType{
	"Add": {graph.Float32, graph.Int32, graph.Uint64}, "Mul": {graph.Float32, graph.Int32, graph.Uint64}, "Div": {graph.Uint64}, "Mod": {graph.Uint64},
	"Gather": {graph.Float32, graph.Int32, graph.Uint64}, "Cast": {graph.Bool, graph.Float32, graph.Int32, graph.Uint64}, "Reshape": {graph.Float32},
	"Less": {graph.Float32}, "Not": {graph.Bool}, "ReduceMax": {graph.Float32}, "ReduceMin": {graph.Float32},
	// Sessions replace Constant nodes by their values, so these nodes need no kernel.
	"Constant": {graph.Float32, graph.Int32, graph.Uint64, graph.ElemType(onnxpb.TensorProto_INT64)},
}

// TestNoiseGraphKernels checks the nodes that AddNoise and AddVotes add to a graph. Each node must have a CUDA kernel.
func TestNoiseGraphKernels(t *testing.T) {
	noise := testNoise(t, 30, []float64{0}, []float64{1})
	for _, version := range []int64{7, 9, 10, 11, 13, 17, 18, 21} {
		m := load(t, echo(version, graph.Float32, 3, 4, 4).bytes(t), LoadOptions{Batch: 4, Device: CPU})
		parsed, names := noiseGraphOf(t, m, noise)
		if info, err := (&graph.File{Model: parsed}).Info(); err != nil || info.Opset != version {
			t.Errorf("operator set %d became %v, %v", version, info, err)
		}
		types := map[string]graph.ElemType{names.Places: graph.Int32, names.Example: graph.Int32, names.Key: graph.Uint64, names.Start: graph.Uint64}
		count := 0
		for _, n := range parsed.Graph.Node {
			if n.GetOpType() == "Flatten" { // the node belongs to the model
				types[n.Output[0]] = types[n.Input[0]]
				continue
			}
			count++
			out := walkKernel(t, n, types)
			types[n.Output[0]] = out
		}
		if known := parsed.Graph.ValueInfo; len(known) != 1 || !proto.Equal(known[0], value("x", graph.Float32, "N", 3, 4, 4)) {
			t.Errorf("operator set %d: what is known of the model's input is %v", version, known)
		}
		if count < 50 || types["y"] != graph.Float32 || types[names.Votes] != graph.Int32 {
			t.Errorf("operator set %d: %d nodes, scores %v, votes %v", version, count, types["y"], types[names.Votes])
		}
	}
}

// walkKernel checks a node against cudaKernels and returns the type of its result.
func walkKernel(t *testing.T, n *onnxpb.NodeProto, types map[string]graph.ElemType) graph.ElemType {
	t.Helper()
	op := n.GetOpType()
	kernels, ok := cudaKernels[op]
	if !ok || n.GetDomain() != "" {
		t.Fatalf("%s of '%s' has no kernel on CUDA", op, n.GetDomain())
	}
	var attribute *onnxpb.AttributeProto
	if len(n.Attribute) > 0 {
		attribute = n.Attribute[0]
	}
	of := graph.ElemType(0)
	if op == "Constant" {
		of = graph.ElemType(attribute.T.GetDataType())
	} else if of, ok = types[n.Input[0]]; !ok {
		t.Fatalf("%s takes '%s', which is computed nowhere before it", op, n.Input[0])
	}
	if !slices.Contains(kernels, of) {
		t.Fatalf("%s of %s has no kernel on CUDA", op, of)
	}
	for i, in := range n.Input[min(1, len(n.Input)):] {
		want := of
		switch op {
		case "Gather":
			want = graph.Int32
		case "Reshape", "ReduceMax", "ReduceMin":
			want = graph.ElemType(onnxpb.TensorProto_INT64)
		}
		if types[in] != want {
			t.Fatalf("input %d of %s is %s, want %s", i+1, op, types[in], want)
		}
	}
	switch op {
	case "Cast":
		to := graph.ElemType(attribute.GetI())
		if !slices.Contains(kernels, to) {
			t.Fatalf("Cast to %s has no kernel on CUDA", to)
		}
		return to
	case "Less":
		return graph.Bool
	}
	return of
}

// steadyAllocations limits the number of allocations per batch. The start and the end of a cancellable run need some
// allocations. Their number and size must not grow with the number of rows, with the number of values per row or with
// the number of examples.
const steadyAllocations = 8

// TestNoiseAllocations counts the allocations per batch. Before it counts, it runs twelve batches.
func TestNoiseAllocations(t *testing.T) {
	var counts, kept []float64
	for _, batch := range []int{16, 256} {
		m := load(t, testModel(t, "nchw"), LoadOptions{Batch: batch, Device: CPU})
		noise := testNoise(t, 63.75, []float64{.5}, []float64{.25})
		if err := m.StartNoise(noise); err != nil {
			t.Fatal(err)
		}
		inputs := testInputs(t, noise, 4, m.InputLen(), func(int) int { return 0 })
		rows, votes, round := smoothing.NewRows(batch), make([]int32, batch), 0
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		// the number of examples per batch alternates between one and two, and the examples change from round to round
		run := func() {
			rows.Reset()
			for i := range batch {
				rows.Noisy(i, inputs[round%3+i*(round%2+1)/batch], smoothing.NewStream(1, 2, smoothing.Estimation), int64(i+round))
			}
			if err := m.RunNoisy(ctx, rows, votes, nil); err != nil {
				t.Error(err)
			}
			round++
		}
		for range 12 {
			run()
		}
		counts = append(counts, testing.AllocsPerRun(100, run))
		kept = append(kept, float64(len(m.noisy.free)))
	}
	if counts[0] != counts[1] || counts[1] > steadyAllocations {
		t.Errorf("%v allocations for batches of 16 and 256, want the same and at most %d", counts, steadyAllocations)
	}
	if kept[0] != 1 || kept[1] != 1 {
		t.Errorf("%v calls are kept of one at a time", kept)
	}
}

// BenchmarkRunNoisy measures the same as BenchmarkRunOverhead, but with noise in the graph.
func BenchmarkRunNoisy(b *testing.B) {
	m := load(b, testModel(b, "scores_4d"), LoadOptions{Batch: 16, Device: CPU})
	noise := testNoise(b, 63.75, []float64{.5}, []float64{.25})
	if err := m.StartNoise(noise); err != nil {
		b.Fatal(err)
	}
	in := testInputs(b, noise, 1, m.InputLen(), func(int) int { return 0 })[0]
	rows, votes := smoothing.NewRows(16), make([]int32, 16)
	for i := range 16 {
		rows.Noisy(i, in, smoothing.NewStream(1, 2, smoothing.Estimation), int64(i))
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ReportAllocs()
	for b.Loop() {
		if err := m.RunNoisy(ctx, rows, votes, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// TestNoiseCancelled cancels batches while they run.
func TestNoiseCancelled(t *testing.T) {
	m := load(t, testModel(t, "nchw"), LoadOptions{Batch: 1 << 13, Device: CPU})
	noise := testNoise(t, 63.75, []float64{.5}, []float64{.25})
	if err := m.StartNoise(noise); err != nil {
		t.Fatal(err)
	}
	in := testInputs(t, noise, 1, m.InputLen(), func(int) int { return 0 })[0]
	draw := newDrawing(m)
	fill := func() {
		for i := range m.Batch() {
			draw.noisy(i, in, smoothing.NewStream(7, 8, smoothing.Selection), int64(i))
		}
	}
	fill()
	for range 10 {
		ctx, cancel := context.WithCancel(t.Context())
		done, begun := make(chan error), make(chan bool, 1)
		go func() {
			votes := make([]int32, m.Batch())
			for {
				select {
				case begun <- true:
				default:
				}
				if err := m.RunNoisy(ctx, draw.rows, votes, nil); err != nil {
					done <- err
					return
				}
			}
		}()
		<-begun
		runtime.Gosched()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
	}
	draw.compare(t) // the model must still work
}

// TestNoiseFixedSizes adds noise to models whose sessions have a fixed batch size, as on CUDA.
func TestNoiseFixedSizes(t *testing.T) {
	fixing := cpuProvider
	fixing.fixSizes = true
	openRuntime(t)
	for _, name := range []string{"nchw", "fixed_infer", "fixed_8"} {
		l, err := newLoader(t.Context(), testModels[name]().file(t), LoadOptions{Batch: 24})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.loadOn(Device{provider: &fixing}, LoadOptions{Batch: 24}); err != nil {
			t.Fatal(err)
		}
		m := l.Model
		t.Cleanup(func() { _ = m.Close() })
		noise := testNoise(t, 63.75, []float64{.5}, []float64{.25})
		if err := m.StartNoise(noise); err != nil {
			t.Fatal(err)
		}
		checkRowsSize(t, m, noise, true)
		inputs := testInputs(t, noise, 3, m.InputLen(), func(int) int { return 0 })
		draw := newDrawing(m)
		for i := range m.Batch() {
			draw.noisy(i, inputs[i*3/m.Batch()], smoothing.NewStream(7, 8, smoothing.Selection), int64(i))
		}
		draw.compare(t)
	}
}

// TestNoiseRealModels checks noise and votes for exported models. In these models ONNX Runtime rearranges convolutions
// and fuses nodes, including nodes next to those that rscert adds for noise and votes.
func TestNoiseRealModels(t *testing.T) {
	bundled, err := os.ReadFile("../../testdata/mnist-cnn.onnx")
	if err != nil {
		t.Fatal(err)
	}
	models := map[string][]byte{"mnist-cnn": bundled}
	for _, name := range []string{"cifar10_resnet_2b", "mnist-net_256x2"} {
		if file, err := os.ReadFile("../../../shared/data/vnncomp2021/" + name + ".onnx"); err == nil { // without the file, the test covers less
			models[name] = file
		}
	}
	for name, file := range models {
		for _, batch := range []int{0, 5} {
			m := load(t, file, LoadOptions{Device: CPU, Batch: batch})
			if err := m.StartNoise(testNoise(t, 63.75, []float64{.5}, []float64{.25})); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if err := smoothing.CheckNoise(t.Context(), m, func(int) int { return 0 }); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// votesOf calls AddVotes for a model whose output 'y' holds the scores of m classes. It returns the name of the output
// with the votes.
func votesOf(t *testing.T, model *onnxpb.ModelProto, m int) string {
	t.Helper()
	a, err := graph.AroundModel(model, 1, m)
	if err != nil {
		t.Fatal(err)
	}
	return a.AddVotes("y")
}
