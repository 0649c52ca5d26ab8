package onnx

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"

	ort "github.com/yalue/onnxruntime_go"
	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/warning"
)

// LoadOptions says how to run a model. With the zero value, rscert makes every choice by itself.
type LoadOptions struct {
	Device    Device
	Precision Precision        // F32, or another precision that the device supports
	Tuning    Tuning           // CUDA only
	Batch     int              // samples per Run; 0 means that the loader chooses, depending on model and memory
	Smaller   bool             // the model also runs smaller batches if the provider supports them (see Model.Smaller)
	Workers   int              // number of goroutines that will call Run concurrently; 0 means one
	Outputs   graph.OutputKind // kind of the outputs; if OutputsAuto, the loader detects it
	Scores    bool             // the caller needs confidences, so unknown Outputs are an error
	Output    string           // name of the output with the scores; "" means automatic choice
	Example   []int            // shape of one data example, which sets the sizes that the model leaves free
	Columns   []string         // names of the values of one data example; nil if unnamed
}

// Load does the same as LoadFile for a model in memory. The argument 'model' is the content of the model's only file.
func (r *Runtime) Load(model []byte, opt LoadOptions) (*Model, error) {
	return r.LoadContext(context.Background(), model, opt)
}

// LoadContext is a variant of Load that supports cancellation.
func (r *Runtime) LoadContext(ctx context.Context, model []byte, opt LoadOptions) (*Model, error) {
	file, err := graph.Parse(model, "", "")
	if err != nil {
		return nil, err
	}
	return r.LoadFile(ctx, file, opt)
}

// LoadFile makes a model ready to run.
//
// The scores of a sample must not depend on the other samples of its batch, on its row, or on the batch's size.
// LoadFile proves this from the graph (see rebatch.go in package graph). It also tests on random samples whether the
// bits of a sample's scores are the same in every batch of the provider's reference size (see provider.go). If the
// proof and the test succeed, the model runs a whole batch per call. But if the wanted batch size changes bits of the
// scores, the model runs in calls of the reference size instead. If the proof or the test fails, the model runs one
// input per call, and the method Warnings returns a warning about this. But if the file fixes a batch of several
// samples, and these affect each other, LoadFile refuses the model.
//
// LoadFile refuses a model that draws random numbers or has unknown operators. If ctx is cancelled, the trial runs end,
// even if the model itself would never end.
func (r *Runtime) LoadFile(ctx context.Context, file *graph.File, opt LoadOptions) (*Model, error) {
	devices, err := r.devices(opt)
	if err != nil {
		return nil, err
	}
	l, err := newLoader(ctx, file, opt)
	if err != nil {
		return nil, err
	}
	if opt.Device == (Device{}) && r.CUDA() != nil && haveGPU() {
		l.warn(warning.ModelDevice, "the model runs on the CPU, not on the GPU: %v", r.CUDA())
	}
	for len(devices) > 0 {
		d := devices[0]
		devices = devices[1:]
		err = r.checkArithmetic(ctx, d, opt.Precision)
		if err == nil {
			err = l.loadOn(d, opt)
		}
		if err == nil {
			l.sayEdits()
			return l.Model, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !isDeviceTrouble(err) { // the error would occur on every device of this provider
			devices = slices.DeleteFunc(devices, func(other Device) bool { return other.provider == d.provider })
		}
		if len(devices) > 0 {
			l.warn(warning.ModelDevice, "the model runs on %s, not on %s: %v", devices[0].place(), describeDevice(d), err)
		}
	}
	return nil, l.explainRun(err)
}

// place returns a phrase that names the device, for use in messages.
func (d Device) place() string {
	if d == CPU {
		return "the CPU"
	}
	return describeDevice(d)
}

// devices returns the devices to try, in order.
func (r *Runtime) devices(opt LoadOptions) ([]Device, error) {
	if d := opt.Device; d.provider != nil {
		if err := d.Check(opt.Precision, opt.Tuning); err != nil {
			return nil, err
		}
		if err := r.works(d); err != nil {
			return nil, d.broken(err)
		}
		if err := d.checkIndices(); err != nil {
			return nil, err
		}
		all, named := d.singles()
		if named {
			all = all[:1]
		}
		return all, nil
	}
	var devices []Device
	var refused, broken error
	for _, p := range providers() {
		d := Device{provider: p}
		if !p.auto {
			continue
		}
		if err := d.Check(opt.Precision, opt.Tuning); err != nil {
			refused = err
		} else if err := r.works(d); err != nil {
			broken = d.broken(err)
		} else {
			all, _ := d.singles()
			devices = append(devices, all...)
		}
	}
	if len(devices) == 0 {
		return nil, cmp.Or(broken, refused)
	}
	return devices, nil
}

// If a device does not work, 'broken' adds the device's name and a hint to the error.
func (d Device) broken(err error) error {
	err = fmt.Errorf("device %s: %w", d, err)
	if _, advised := hint.Of(err); advised {
		return err
	}
	return hint.Add(err, "%s", d.provider.hint)
}

// haveGPU reports whether the NVIDIA driver controls a GPU on this machine.
func haveGPU() bool {
	gpus, err := os.ReadDir("/proc/driver/nvidia/gpus")
	return err == nil && len(gpus) > 0
}

// A loader prepares a model for running.
type loader struct {
	*Model
	ctx      context.Context // context passed to LoadFile; the loader does not outlive that call
	sessions map[sessionKey]*session
	halved   int // how often the reference size was halved for lack of memory
	// whether the loader has tried to prove, for the current form of the model, that the samples of a batch do not
	// affect each other
	tried    bool
	unproved error            // error of the proof; nil if it succeeded
	lone     graph.OutputKind // kind of the number if the model gives one number per sample; otherwise OutputsAuto
}

// A source holds the parts from which sessions are built.
type source struct {
	model   *onnxpb.ModelProto // the adapted model of the file
	weights graph.Weights      // external weights of the model
	edits   graph.Edits        // edits found by the proof that the samples of a batch do not affect each other
	loops   bool               // the model has loops
}

// newLoader adapts the model and applies the options.
func newLoader(ctx context.Context, file *graph.File, opt LoadOptions) (*loader, error) {
	m, err := file.Adapt(opt.Columns, opt.Output)
	if err != nil {
		return nil, err
	}
	c := m.Contract
	sample := graph.SizesOf(c.Sample)
	if opt.Example != nil {
		var ok bool
		if sample, _, ok = graph.Fit(c.Sample, opt.Example, graph.CHW); !ok {
			return nil, c.Mismatch(opt.Example)
		}
	}
	if sample == nil {
		return nil, fmt.Errorf("model input %s leaves its sizes free, and no data says what they are", c.Input)
	}
	size := graph.Product(sample)
	if size == 0 {
		return nil, fmt.Errorf("model input %s is too large", c.Input)
	}
	for _, batch := range []int{max(c.Batch, 1), opt.Batch} {
		if batch != 0 && graph.Product([]int{batch, size}) == 0 {
			return nil, fmt.Errorf("a batch of %d samples of %d values is out of bounds", batch, size)
		}
		if err := checkMemory(c.Input, batch, size); err != nil {
			return nil, err
		}
	}
	from := source{model: m.Proto, weights: m.Weights, loops: graph.HasLoops(m.Proto)}
	l := &loader{ctx: ctx, Model: &Model{source: from, contract: c, adapted: m.Adapted, sample: sample, sampleLen: size}}
	l.sayOutput(m.Outputs)
	return l, nil
}

// If the model has several outputs, sayOutput notes which output gives the scores. It warns if another output could
// also hold scores.
func (l *loader) sayOutput(outputs []graph.TensorInfo) {
	if len(outputs) == 1 {
		return
	}
	name := quote.Name(l.contract.Output.Name)
	if floats := slices.DeleteFunc(slices.Clone(outputs), func(o graph.TensorInfo) bool { return !o.Type.IsFloat() }); len(floats) > 1 {
		l.warn(warning.ModelOutputs, "the model has %d outputs; the scores are taken from '%s'", len(outputs), name)
		return
	}
	l.adapted.Note("it has %d outputs; the scores are taken from '%s'", len(outputs), name)
}

// loadOn makes the model ready to run on device d.
func (l *loader) loadOn(d Device, opt LoadOptions) error {
	l.device, l.sessions = d, make(map[sessionKey]*session)
	l.settings = settings{unit: d.unit, precision: opt.Precision, workers: max(opt.Workers, 1), tuning: opt.Tuning}
	l.Model.session = nil
	l.halved = 0
	err := l.load(opt)
	l.closeSessions()
	return err
}

// reference returns the provider's reference size. If the device has too little memory for this size, the result is
// smaller.
func (l *loader) reference() int { return l.device.provider.reference >> l.halved }

// closeSessions closes all sessions except the model's session.
func (l *loader) closeSessions() { l.closeAllBut(l.Model.session) }

func (l *loader) closeAllBut(but *session) {
	for key, s := range l.sessions {
		if s != but {
			_ = s.close()
			delete(l.sessions, key)
		}
	}
}

// A sessionKey says how the graph of a session differs from the model's graph.
type sessionKey struct {
	// whether the graph has the edits that make it accept batches of any size (proved by rebatch in package graph)
	proved bool
	// size at which the session fixes the free batch dimension; 0: the session leaves the dimension as it is
	fixed int
}

// session opens the model's graph. The argument 'tile' is the number of samples per call.
func (l *loader) session(proved bool, tile int) (*session, error) {
	key := sessionKey{proved: proved}
	if l.device.provider.fixSizes && (proved || l.contract.Batch == graph.FreeSize) {
		key.fixed = tile
	}
	if s := l.sessions[key]; s != nil {
		return s, nil
	}
	g, err := l.build(l.edited(key))
	if err != nil {
		return nil, err
	}
	s, err := openSession(g, l.device.provider, l.settings)
	if err != nil {
		return nil, l.nameNodes(g, tile, err)
	}
	l.sessions[key] = s
	return s, nil
}

// The method 'edited' returns a copy of the model, edited for a session.
func (m *Model) edited(key sessionKey) *onnxpb.ModelProto {
	edited := proto.CloneOf(m.model)
	input, output := m.contract.Input.Name, m.contract.Output.Name
	graph.KeepOutput(edited.Graph, output)
	if key.proved && (len(m.edits) > 0 || m.contract.Batch != graph.FreeSize) {
		m.edits.Apply(edited.Graph, input, int64(max(m.contract.Batch, 1)))
	}
	if key.fixed > 0 {
		graph.FixBatch(edited.Graph, input, int64(key.fixed))
	}
	return edited
}

// build makes an edited model ready to be opened. It converts the model's input and output to float32.
func (m *Model) build(edited *onnxpb.ModelProto) (g program, err error) {
	in, out := graph.FeedFloat32(edited.Graph, m.contract.Input.Name, m.contract.Output.Name)
	g = program{inputs: []string{in}, outputs: []string{out}, loops: m.loops, weights: m.weights, tensors: m.weights.Initializers(edited.Graph)}
	g.model, err = proto.Marshal(edited)
	return g, err
}

// shapes returns the shapes of the input and the output of a call. The argument 'tile' is the number of samples in the
// call.
func (m *Model) shapes(tile int) (in, out ort.Shape) {
	if m.contract.Batch != graph.NoBatch {
		in, out = append(in, int64(tile)), append(out, int64(tile))
	}
	for _, n := range m.sample {
		in = append(in, int64(n))
	}
	return in, append(out, m.row...)
}

// The trial runs use poolSize random samples. The first aloneCount of these samples are also run one at a time.
const (
	poolSize   = 24
	aloneCount = 8
)

// randomSamples returns the random samples for the trial runs. Each sample is a random image plus Gaussian noise. The
// noise has one of four strengths. So the samples are similar to the inputs that the model will receive.
func randomSamples(size int) [][]float32 {
	rng := rand.New(rand.NewPCG(1, 2))
	pool := make([][]float32, poolSize)
	for s := range pool {
		sigma := []float64{0.1, 0.3, 1, 3}[s%4]
		pool[s] = make([]float32, size)
		for j := range pool[s] {
			pool[s][j] = float32(rng.Float64() + sigma*rng.NormFloat64())
		}
	}
	return pool
}

// The constant 'dark' is the index of a dark sample in the result of the method 'companions'.
const dark = 4

// companions returns samples that are very different from the random samples. The companions are dark, bright, flat,
// extreme or sparse. The trial runs put these samples into the same batch as random samples. In some models, the
// companions then change the scores of the random samples, for example because the model divides all inputs by the
// brightest value of the batch.
func (m *Model) companions() [][]float32 {
	makers := []func(j int) float32{
		func(int) float32 { return 0 },
		func(int) float32 { return 1 },
		func(int) float32 { return 0.5 },
		func(j int) float32 { return float32(j % 2) },
		func(j int) float32 { return 1e-3 * float32(j%7) },
		func(j int) float32 { return 100 * float32(j%5-2) },
		func(int) float32 { return -30 },
		func(j int) float32 { return 50 * float32(max(0, 1-j)) },
	}
	all := make([][]float32, len(makers))
	for k, value := range makers {
		all[k] = make([]float32, m.sampleLen)
		for j := range all[k] {
			all[k][j] = value(j)
			if m.adapted.Intake == graph.Bytes {
				all[k][j] *= 255
			}
		}
	}
	return all
}

// load determines how many samples the model runs per call and per batch, and what kind of scores it returns.
func (l *loader) load(opt LoadOptions) error {
	pool := l.randomSamples()
	native := max(l.contract.Batch, 1) // number of samples per call that the file declares; 1 if it is free
	want := l.wantedBatch(opt)

	original, err := l.session(false, native)
	if err != nil {
		return l.cannotLoad(err)
	}
	if err := l.readRow(opt, original, native, pool[0]); err != nil {
		return err
	}
	if l.classes == 1 {
		if err := l.makeTwo(opt, original, native, pool); err != nil {
			return err
		}
		return l.load(opt)
	}
	alone, err := l.scoresAlone(original, native, pool)
	if err != nil {
		return err
	}
	if err := l.readOutputs(opt, slices.Concat(alone...)); err != nil {
		return err
	}

	s, scores, err := l.batchableWithin(original, pool, alone)
	if err == nil {
		l.independence = Proved
		if l.measures(opt) {
			want = l.measureBatch(s, pool, want)
		}
		if err := l.runBatched(s, scores, pool, want); err != nil {
			return err
		}
		return l.offerSmaller(opt, scores, pool)
	}
	if l.ctx.Err() != nil {
		return l.ctx.Err()
	}
	if native > 1 {
		if _, err := l.canonical(original, native, pool); err != nil {
			if l.ctx.Err() != nil {
				return l.ctx.Err()
			}
			return hint.New(fmt.Sprintf("the model runs only %d samples at a time, and %v", native, err), l.batchAdvice(err))
		}
	}
	l.use(original, native, want)
	l.runSingly(native, want)
	l.warn(warning.ModelBatch, "%v: it runs 1 at a time, which is slow; %s", err, l.batchAdvice(err))
	return l.offerSmaller(opt, nil, nil)
}

// The method 'measures' reports whether the loader chooses the batch size by measuring speeds.
func (l *loader) measures(opt LoadOptions) bool {
	return opt.Batch == 0 && !opt.Smaller && l.device.provider.measured
}

// wantedBatch returns how many samples a Run should process. The options may give this number. Otherwise wantedBatch
// chooses a default.
func (l *loader) wantedBatch(opt LoadOptions) int {
	switch {
	case opt.Batch != 0:
		return opt.Batch
	case opt.Smaller && l.device.provider.fixSizes:
		return servingBatch
	}
	return chooseBatch(l.sampleLen, l.settings.workers, l.device.provider)
}

// sayEdits tells the user which edits of the graph were found by the proof that the samples of a batch do not affect
// each other.
func (l *loader) sayEdits() {
	if l.independence != Proved {
		return
	}
	if n := l.contract.Batch; n != graph.FreeSize {
		l.adapted.Change("its batch dimension, fixed at %d, is free", n)
	}
	if l.edits.FixSizes() {
		l.adapted.Change("sizes that the graph reads off its values are those of a batch of %d", max(l.contract.Batch, 1))
	}
}

// randomSamples returns random samples for the model's input. If the input takes bytes, the samples consist of bytes.
func (m *Model) randomSamples() [][]float32 {
	pool := randomSamples(m.sampleLen)
	for _, x := range pool {
		for j := range x {
			if m.adapted.Intake == graph.Bytes {
				x[j] *= 255
			}
		}
	}
	return pool
}

// scoresAlone runs each of the pool's first aloneCount samples alone in the unedited model and returns the scores.
// Scores from batches must agree with the returned scores.
func (l *loader) scoresAlone(original *session, native int, pool [][]float32) (alone [][]float32, err error) {
	run := func(x []float32) []float32 {
		var row []float32
		if err == nil {
			row, err = l.alone(original, native, x)
		}
		return row
	}
	for _, x := range pool[:aloneCount] {
		alone = append(alone, run(x))
	}
	again := run(pool[0])
	if err != nil {
		return nil, fmt.Errorf("the model fails on a random input: %w", err)
	}
	if !sameBits(again, alone[0]) {
		return nil, hint.New("the model gives different scores for the same input: it draws random numbers", graph.InferenceHint)
	}
	return alone, nil
}

// The method 'use' selects the session in which the model will run. The argument 'tile' is the number of samples in a
// call of this session. The number of samples in a batch is the argument 'want', rounded up to a multiple of 'tile'.
func (l *loader) use(s *session, tile, want int) {
	l.Model.session, l.tile, l.copies = s, tile, 0
	for key, open := range l.sessions {
		if open == s {
			l.form = key
		}
	}
	l.batch = (want + tile - 1) / tile * tile
	l.in, l.out = l.shapes(tile)
}

// runBatched makes the model run in calls of 'want' samples. If such calls would change any bit of the scores, or need
// more memory than the device has, the model runs in calls of the reference size instead.
func (l *loader) runBatched(s *session, scores, pool [][]float32, want int) error {
	ref := l.reference()
	if want == ref {
		l.use(s, ref, want)
		return nil
	}
	at, err := l.session(true, want)
	if err == nil && l.device.provider.ownMemory {
		in, out := l.shapes(want)
		// As in real runs, several calls are concurrent.
		_, _, err = at.measure(l.ctx, max(1, l.device.provider.calls), in, out, pool)
	}
	if isShortage(err) && want > ref {
		l.use(s, ref, want)
		return nil
	}
	if err != nil {
		return err
	}
	same, err := l.sameBitsAt(at, want, scores, pool)
	if err != nil {
		return err
	}
	if !same {
		l.use(s, ref, want)
		l.warn(warning.ModelBatch, "the last bits of the model's scores change with the size of a batch: it runs in calls of %d samples, whatever the batch", ref)
		return nil
	}
	l.use(at, want, want)
	return nil
}

// The method 'batchable' returns a session that runs the model in batches of the reference size. In this session, a
// sample gets the same scores in a batch as alone, up to rounding errors. The method also returns the session's scores
// for the samples in the argument 'pool'. If there is no such session, the error says why.
func (l *loader) batchable(pool, alone [][]float32) (*session, [][]float32, error) {
	if l.contract.Batch == graph.NoBatch {
		return nil, nil, errors.New("the model has no batch dimension")
	}
	try := func() (*session, [][]float32, error) {
		if err := l.prove(); err != nil {
			return nil, nil, err
		}
		s, err := l.session(true, l.reference())
		if err != nil {
			return nil, nil, err
		}
		scores, err := l.canonical(s, l.reference(), pool)
		if err == nil {
			err = l.compare(scores, alone)
		}
		return s, scores, err
	}
	s, scores, err := try()
	switch {
	case err == nil || isShortage(err):
		return s, scores, err
	case l.contract.Batch != graph.FreeSize:
		return nil, nil, fmt.Errorf("the model's batch dimension is fixed at %d and cannot be freed (%w)", l.contract.Batch, err)
	}
	return nil, nil, fmt.Errorf("the model cannot run batches (%w)", err)
}

// batchableWithin calls batchable at the reference size. If the device's memory is too small for this size, it tries
// smaller sizes.
func (l *loader) batchableWithin(original *session, pool, alone [][]float32) (*session, [][]float32, error) {
	s, scores, err := l.batchable(pool, alone)
	for isShortage(err) && l.device.provider.ownMemory && l.reference() > 1 {
		l.halved++
		l.closeAllBut(original)
		s, scores, err = l.batchable(pool, alone)
	}
	if err == nil && l.halved > 0 {
		l.warn(warning.ModelBatch, "%s has too little memory for %d samples a call: the model runs in calls of %d; on a larger device the last bits of scores may differ",
			describeDevice(l.device), 2*l.reference(), l.reference())
	}
	return s, scores, err
}

// readRow makes a first run to determine the shape of a sample's scores.
func (l *loader) readRow(opt LoadOptions, s *session, native int, x []float32) error {
	in, _ := l.shapes(native)
	first := result[float32]{name: s.outputs[0]}
	if err := s.run(l.ctx, []tensor{&held[float32]{s.inputs[0], in, slices.Repeat(x, native)}}, []tensor{&first}); err != nil {
		return fmt.Errorf("the model fails on an input %v: %w", in, err)
	}
	shape := first.shape
	l.row = shape
	if l.contract.Batch != graph.NoBatch {
		if len(shape) == 0 || shape[0] != int64(native) {
			return fmt.Errorf("model output '%s' is %v for an input %v, want a row of scores for each sample", quote.Name(l.contract.Output.Name), shape, in)
		}
		l.row = shape[1:]
	}
	sizes := make([]int, len(l.row))
	for i, n := range l.row {
		sizes[i] = int(n)
	}
	l.classes = graph.Product(sizes)
	if err := checkMemory(l.contract.Output, max(native, opt.Batch), l.classes); err != nil {
		return err
	}
	if l.classes == 0 || len(graph.WithoutOnes(sizes)) > 1 {
		return fmt.Errorf("model output '%s' is %v for an input %v, want a vector of scores for each sample", quote.Name(l.contract.Output.Name), shape, in)
	}
	return nil
}

// The method 'alone' runs one sample without other samples. If the file declares a batch size, every row of the batch
// holds a copy of the sample.
func (l *loader) alone(s *session, native int, x []float32) ([]float32, error) {
	rows, err := l.rows(s, make([]int, native), [][]float32{x})
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

// The method 'rows' makes one call. Row i of this call holds the sample with the number rows[i] in the pool.
func (l *loader) rows(s *session, rows []int, pool [][]float32) ([][]float32, error) {
	x := make([]float32, 0, len(rows)*l.sampleLen)
	for _, sample := range rows {
		x = append(x, pool[sample]...)
	}
	y := make([]float32, len(rows)*l.classes)
	in, out := l.shapes(len(rows))
	if err := s.scores(l.ctx, in, out, x, y); err != nil {
		return nil, err
	}
	return slices.Collect(slices.Chunk(y, l.classes)), nil
}

// errMates means that a sample's scores depend on other samples of the batch.
var errMates = errors.New("a sample's scores change with the other samples of its batch")

// The method 'canonical' returns the scores of the pool's samples. The argument 'tile' is the number of samples per
// call. The method returns an error if a sample's scores depend on its row or on the other samples of the call.
func (l *loader) canonical(s *session, tile int, pool [][]float32) ([][]float32, error) {
	all := slices.Concat(pool, l.companions())
	scores := make([][]float32, len(all))
	for _, rows := range placements(tile, len(all)) {
		got, err := l.rows(s, rows, all)
		if err != nil {
			return nil, err
		}
		for i, row := range got {
			switch known := scores[rows[i]]; {
			case known == nil:
				scores[rows[i]] = row
			case !sameBits(row, known):
				return nil, errMates
			}
		}
	}
	return scores[:poolSize], nil
}

// placements plans the calls in which the samples run. The argument 'tile' is the number of samples per call, and row i
// of a call holds the sample with the number call[i]. The n samples are poolSize random samples, followed by the
// companions (see the method 'companions'). If a call has more than one row, many random samples occur several times:
// in different rows, and together with different random samples or companions.
func placements(tile, n int) (calls [][]int) {
	add := func(sample func(row int) int) {
		rows := make([]int, tile)
		for i := range rows {
			rows[i] = sample(i)
		}
		calls = append(calls, rows)
	}
	for first := 0; first < poolSize; first += tile {
		add(func(i int) int { return (first + i) % poolSize })
	}
	// This call holds random samples in reverse order, starting in the middle of the pool. So a sample gets other
	// neighbours than in the calls above, and usually another row.
	add(func(i int) int { return (poolSize/2 + (poolSize-1)*i) % poolSize })
	if tile == 1 {
		return calls
	}
	for _, k := range []int{poolSize + dark, n - 1} { // add a call in which every row holds this companion
		add(func(int) int { return k })
	}
	for k, place := range []int{0, tile / 2, tile - 1} {
		add(func(i int) int { // one sample of the pool, with companions in all other rows
			if i == place {
				return k
			}
			return poolSize + (i+k)%(n-poolSize)
		})
		add(func(i int) int { // random samples and companions in alternate rows
			if i%2 == 0 {
				return (7*i + 5*k) % poolSize
			}
			return poolSize + (i/2+k)%(n-poolSize)
		})
	}
	return calls
}

// The method 'compare' checks the scores of samples in a batch against the scores of the same samples alone. Two kinds
// of differences are possible. First, a matrix product may sum in another order if it has a single row. Then the scores
// may differ by some tens of units in the last place of the largest scores. Second, if the graph's edits mix up
// samples, a sample gets the scores of other samples. The error is then as large as the differences between samples.
// The tolerance lies between these two sizes of differences. It is a hundredth of the differences between samples, but
// at least the rounding error.
func (l *loader) compare(scores, alone [][]float32) error {
	var largest, spread float64
	for j := range l.classes {
		low, high := math.Inf(1), math.Inf(-1)
		for _, row := range scores {
			if v := float64(row[j]); !math.IsNaN(v) && !math.IsInf(v, 0) {
				low, high = min(low, v), max(high, v)
				largest = max(largest, math.Abs(v))
			}
		}
		spread = max(spread, high-low)
	}
	unit := l.settings.precision.unit()
	if l.contract.Input.Type == graph.Float16 || l.contract.Output.Type == graph.Float16 {
		unit = max(unit, F16.unit())
	}
	tolerance := max(spread/100, 64*unit*largest)
	if l.settings.precision != F32 { // without this limit, the tolerance could exceed the differences between samples
		tolerance = min(tolerance, spread/4)
	}
	for s, want := range alone {
		for j, w := range want {
			got := float64(scores[s][j])
			if diff := math.Abs(got - float64(w)); diff > tolerance || math.IsNaN(got) != math.IsNaN(float64(w)) {
				return fmt.Errorf("score %g in a batch, %g alone", got, w)
			}
		}
	}
	return nil
}

// readOutputs determines the kind of the outputs. The argument 'scores' holds the scores of random samples.
func (l *loader) readOutputs(opt LoadOptions, scores []float32) error {
	if l.lone != graph.OutputsAuto {
		l.outputs = l.lone
		return nil
	}
	kind, why := graph.TellOutputs(l.model.Graph, l.contract.Output.Name, scores, l.classes)
	l.outputs = opt.Outputs
	switch opt.Outputs {
	case graph.OutputsAuto:
		l.outputs = kind
		if kind == graph.OutputsAuto && opt.Scores {
			return hint.Add(errors.New("cannot tell whether the model gives logits or probabilities: "+why),
				"say so with %s logits or %s probabilities", param.Outputs, param.Outputs)
		}
	case graph.Probabilities:
		if negative, sumsToOne, _ := graph.RowsLookLike(scores, l.classes); opt.Scores && (negative || !sumsToOne) {
			return hint.Add(errors.New("the model's outputs are no probabilities: on a random input they are negative or do not sum to 1"),
				"use %s logits, or export the model with its softmax", param.Outputs)
		}
	case graph.Logits:
		if kind == graph.Probabilities {
			l.warn(warning.ModelOutputs, "the model ends in Softmax, but its outputs are taken for logits, as told")
		}
	}
	return nil
}

// sameBits reports whether the scores have equal bits. All NaNs count as equal.
func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool {
		return math.Float32bits(x) == math.Float32bits(y) || x != x && y != y
	})
}
