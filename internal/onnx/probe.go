package onnx

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	ort "github.com/yalue/onnxruntime_go"
	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/ortlib"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/scratch"
)

// This file measures how a device computes. It finds the device's real precision, the device's speed, and the nodes
// that the device does not support.

// The probe is a small convolutional net. It takes images [3,32,32], has three convolutions with 64 channels each, and
// returns 10 scores.
const (
	probeBatch, probeWidth, probeSide, probeClasses = 16, 64, 32, 10
)

// probe builds the small convolutional net of the probe, for calls with the given number of samples. The weights are
// scaled so that the values in the net are of order 1.
func probe(batch int) (program, error) {
	rng := rand.New(rand.NewPCG(7, 8))
	b := graph.NewInitializing(graph.Numbered("v"))
	weights := func(dims ...int64) string {
		size, fan := 1, 1
		for i, d := range dims {
			size *= int(d)
			if i > 0 {
				fan *= int(d)
			}
		}
		data := make([]float32, size)
		for i := range data {
			data[i] = float32(rng.NormFloat64() * math.Sqrt(2/float64(fan)))
		}
		return b.Floats(dims, data...)
	}
	value, channels := "x", int64(3)
	for range 3 {
		pads := graph.IntsAttribute("pads", []int64{1, 1, 1, 1})
		value = b.Op("Relu", b.Node("Conv", []string{value, weights(probeWidth, channels, 3, 3)}, pads))
		channels = probeWidth
	}
	flat := b.Op("Flatten", b.Op("GlobalAveragePool", value))
	b.Add(graph.Node("Gemm", []string{flat, weights(probeClasses, probeWidth)}, "scores", graph.IntAttribute("transB", 1)))
	in, out := probeShapes(batch)
	model, err := proto.Marshal(&onnxpb.ModelProto{
		IrVersion: proto.Int64(8),
		Graph: &onnxpb.GraphProto{
			Name: proto.String("probe"), Node: b.Nodes, Initializer: b.Initializers,
			Input: []*onnxpb.ValueInfoProto{graph.FloatTensor("x", in)}, Output: []*onnxpb.ValueInfoProto{graph.FloatTensor("scores", out)},
		},
		OpsetImport: []*onnxpb.OperatorSetIdProto{{Version: proto.Int64(13)}},
	})
	return program{model: model, inputs: []string{"x"}, outputs: []string{"scores"}}, err
}

func probeShapes(batch int) (in, out ort.Shape) {
	return ort.Shape{int64(batch), 3, probeSide, probeSide}, ort.Shape{int64(batch), probeClasses}
}

// runProbe opens the probe on a device. It returns the open session, which the caller must close, and the session's
// scores for random samples.
func runProbe(ctx context.Context, d Device, precision Precision) (*session, []float32, error) {
	g, err := probe(probeBatch)
	if err != nil {
		return nil, nil, err
	}
	return runProbeOf(ctx, g, d, precision)
}

// runProbeOf does the same as runProbe, but it opens the given graph instead of the probe. The graph's input and output
// must have the names and shapes of the probe's input and output.
func runProbeOf(ctx context.Context, g program, d Device, precision Precision) (*session, []float32, error) {
	s, err := openSession(g, d.provider, settings{unit: d.unit, precision: precision, workers: 1})
	if err != nil {
		return nil, nil, err
	}
	in, out := probeShapes(probeBatch)
	scores := make([]float32, out.FlattenedSize())
	if err := s.scores(ctx, in, out, slices.Concat(randomSamples(3 * probeSide * probeSide)[:probeBatch]...), scores); err != nil {
		_ = s.close()
		return nil, nil, err
	}
	return s, scores, nil
}

// checkArithmetic checks that a device with several precisions computes in the requested precision. The check is
// necessary because a device may silently ignore the requested precision. checkArithmetic compares the probe's scores
// with float32 scores of ONNX Runtime's CPU provider. The relative error is the largest difference, divided by the
// largest score. On OpenVINO the relative error was 5e-7 in float32, 1e-3 in float16 and 6e-3 in bfloat16. On the CPU,
// with additional nodes that imitate TF32, it was 4e-4. The bounds in precisionOf lie between these errors. In float32,
// cuDNN's fast convolutions may be less exact than OpenVINO's.
//
// If the user allows TF32, a GPU may still compute in float32, because it lacks TF32 or does not use it. So
// checkArithmetic accepts float32 results for the precision TF32.
func (r *Runtime) checkArithmetic(ctx context.Context, d Device, precision Precision) error {
	if len(d.provider.precisions) == 1 {
		return nil
	}
	key := fmt.Sprint(d, precision)
	if _, checked := r.checked.Load(key); checked {
		return nil
	}
	exact, want, err := runProbe(ctx, CPU, F32)
	if err != nil {
		return err
	}
	defer exact.close()
	s, got, err := runProbe(ctx, d, precision)
	if err != nil {
		return fmt.Errorf("device %s cannot compute in %s: %w", d, precision, err)
	}
	defer s.close()
	if found := precisionOf(got, want, d.provider.precisions); found != precision && !(precision == TF32 && found == F32) {
		return hint.Add(fmt.Errorf("device %s computes in %s, although %s was requested", d, found, precision),
			"this processor or its driver has no %s: use %s %s", precision, param.Precision, found)
	}
	r.checked.Store(key, true)
	return nil
}

// precisionOf infers the precision in which the device computed the scores. It uses the largest error of the scores,
// divided by the largest score.
func precisionOf(scores, exact []float32, has []Precision) Precision {
	var worst, largest float64
	for i, v := range exact {
		largest = max(largest, math.Abs(float64(v)))
		worst = max(worst, math.Abs(float64(scores[i]-v)))
	}
	switch e := worst / largest; {
	case e < 1e-4:
		return F32
	case slices.Contains(has, TF32):
		return TF32
	case e < 2e-3:
		return F16
	}
	return BF16
}

// Speed says how many samples per second the probe processes on one device and in one precision.
type Speed struct {
	Device    Device    `json:"device"`
	Precision Precision `json:"precision"`
	Rate      float64   `json:"samples_per_second"`
	Err       error     `json:"-"` // why the device does not support the precision
}

// MeasureSpeeds measures how fast a small convolutional net runs with the given number of workers. MeasureSpeeds
// measures each device that d names, in every precision that the device may support.
func (r *Runtime) MeasureSpeeds(ctx context.Context, d Device, workers int) ([]Speed, error) {
	if err := r.works(d); err != nil {
		return nil, d.broken(err)
	}
	var speeds []Speed
	all, _ := d.singles()
	for _, one := range all {
		for _, precision := range one.provider.precisions {
			speed := Speed{Device: one, Precision: precision}
			if speed.Err = r.checkArithmetic(ctx, one, precision); speed.Err == nil {
				speed.Rate, speed.Err = measureProbe(ctx, one, precision, workers)
			}
			speeds = append(speeds, speed)
		}
	}
	return speeds, ctx.Err()
}

// measureProbe returns the number of samples per second in calls of the device's reference size. Before this
// measurement, it lets one worker run calls that do not count, because the first call prepares everything.
func measureProbe(ctx context.Context, d Device, precision Precision, workers int) (float64, error) {
	g, err := probe(d.provider.reference)
	if err != nil {
		return 0, err
	}
	s, err := openSession(g, d.provider, settings{unit: d.unit, precision: precision, workers: workers})
	if err != nil {
		return 0, err
	}
	defer s.close()
	in, out := probeShapes(d.provider.reference)
	pool := randomSamples(3 * probeSide * probeSide)
	if _, _, err := s.measure(ctx, 1, in, out, pool); err != nil {
		return 0, err
	}
	rate, _, err := s.measure(ctx, workers, in, out, pool)
	return rate, err
}

// nameNodes takes the error of a strict session that failed to open. It returns an error that names the nodes that the
// provider does not support. To find these nodes, it makes one run with a session that may pass nodes on to the CPU
// provider, and reads the run's profile. If it finds no nodes, nameNodes returns the given error.
func (l *loader) nameNodes(g program, tile int, err error) error {
	if !strings.Contains(err.Error(), "fallback to CPU EP has been explicitly disabled") {
		return err
	}
	nodes, profileErr := l.profile(g, tile)
	if profileErr != nil || len(nodes) == 0 {
		return err
	}
	const most = 5
	if len(nodes) > most {
		nodes = append(nodes[:most], fmt.Sprintf("and %d more", len(nodes)-most))
	}
	return hint.Add(fmt.Errorf("%s cannot run all of the model: not %s", l.device, strings.Join(nodes, ", ")), "run it with %s cpu", param.Device)
}

// profile returns the nodes that run on ONNX Runtime's CPU provider.
func (l *loader) profile(g program, tile int) ([]string, error) {
	folder, err := scratch.Make("", "rscert-profile-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = folder.Remove() }()
	dir := folder.Path()
	s, err := openProfiled(g, l.device.provider, l.settings, false, filepath.Join(dir, "nodes"))
	if err != nil {
		return nil, err
	}
	in, _ := l.shapes(tile)
	err = s.run(l.ctx, []tensor{&held[float32]{s.inputs[0], in, make([]float32, in.FlattenedSize())}}, nil)
	if closeErr := s.close(); err == nil { // closing the session writes the profile
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	files := ortlib.Glob(dir, "nodes*.json")
	if len(files) != 1 {
		return nil, fmt.Errorf("%d profiles", len(files))
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return nil, err
	}
	return readProfile(text)
}

// readProfile returns the nodes that the CPU provider ran, according to a profile that ONNX Runtime wrote. The profile
// is a list of events in Chrome's tracing format.
func readProfile(text []byte) ([]string, error) {
	var events []struct {
		Category string `json:"cat"`
		Name     string
		Args     struct {
			Operator string `json:"op_name"`
			Provider string
		}
	}
	if err := json.Unmarshal(text, &events); err != nil {
		return nil, err
	}
	var nodes []string
	for _, e := range events {
		name, kernel := strings.CutSuffix(e.Name, "_kernel_time")
		if e.Category != "Node" || !kernel || e.Args.Provider != cpuProvider.name {
			continue
		}
		if node := fmt.Sprintf("%s '%s'", quote.Name(e.Args.Operator), quote.Name(name)); !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	return nodes, nil
}
