package onnx

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"sync"

	ort "github.com/yalue/onnxruntime_go"
	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/smoothing"
)

// This file runs graphs that add noise to the inputs and turn scores into votes. For each batch, rscert sends keys and
// counters to the device. If the batch's examples differ from the previous batch's examples, rscert also sends the
// lattice points of the batch's examples. The device returns a vote of 4 bytes for each row. The device could return
// counts of votes per example instead. But these counts would take fewer bytes than the votes only if the model has few
// classes. The graph would also have to know which rows belong to each example.

// The type 'noisy' is a session whose graph makes the noise.
type noisy struct {
	*session
	noise  *smoothing.LatticeNoise
	names  graph.NoiseNames
	scores string // name of the output with the scores

	mu   sync.Mutex
	free []*noisyCall // calls that are not in use
}

// noiseGraph copies the graph that the model's session runs, and extends the copy: the new graph adds noise to the
// inputs and turns the scores into votes.
func (m *Model) noiseGraph(draws smoothing.Draws) (g program, names graph.NoiseNames, err error) {
	if m.model == nil {
		return g, names, errors.New("the model's source was given back: noise can no longer be put in front of it")
	}
	if m.copies > 1 {
		return g, names, errors.New("the model runs one input a call, and every row of the batch that its file fixes holds a copy of this input")
	}
	edited := m.edited(m.form)
	a, err := graph.AroundModel(edited, m.sampleLen, m.classes)
	if err != nil {
		return g, names, err
	}
	in, out := graph.FeedFloat32(edited.Graph, m.contract.Input.Name, m.contract.Output.Name)
	if m.form.fixed > 0 || m.contract.Batch >= 0 && !m.form.proved {
		a.Rows = int64(m.tile)
	}
	if m.contract.Batch != graph.NoBatch {
		a.Shape = append(a.Shape, a.Rows)
	}
	for _, n := range m.sample {
		a.Shape = append(a.Shape, int64(n))
	}
	names = a.AddNoise(in, draws)
	names.Votes = a.AddVotes(out)
	g = program{
		inputs: []string{names.Places, names.Example, names.Key, names.Start}, outputs: []string{out, names.Votes},
		loops: m.loops, weights: m.weights, tensors: m.weights.Initializers(edited.Graph),
	}
	g.model, err = proto.Marshal(edited)
	return g, names, err
}

// A noisyCall holds the values that a call binds to the session. Each of several concurrent calls has its own
// noisyCall. The values are allocated once and reused. In the comments on the fields, T is the number of rows per call,
// m is the number of classes, and D is the number of values per sample.
type noisyCall struct {
	bound   binding
	bind    func(boundValue) error // bound.bind; a test replaces it to count the calls
	rows    tensors                // tensors of the fields 'example', 'key', 'start', 'votes' and 'scores'
	inputs  []boundValue           // tensors of the fields 'example', 'key' and 'start'
	example []int32                // T values
	key     []uint64               // T values
	start   []uint64               // T values
	votes   []int32                // T values
	scores  []float32              // T·m values; nil until requested
	results [2]string              // names of the outputs with the votes and the scores
	outputs [2]ort.Value           // values of the outputs with the votes and the scores
	gives   [2]bool                // whether each of the two outputs is bound

	examples tensors
	places   []int32            // positions of the examples on the lattice, D numbers per example
	held     [][]int32          // the examples in 'places'; they must stay alive, because setPlaces compares addresses
	byCount  map[int]boundValue // tensors that use the memory of 'places'; the key is the number of examples
}

// The type 'tensors' holds tensors in Go's memory. This memory is pinned until the tensors are destroyed.
type tensors struct {
	pin runtime.Pinner
	all []boundValue
}

// addTensor makes a tensor that uses the memory of the slice 'data', and adds the tensor to t. The argument 'name' is
// the name of an input or output of the graph.
func addTensor[T ort.TensorData](t *tensors, name string, data []T, shape ...int64) (boundValue, error) {
	t.pin.Pin(&data[0])
	v, err := newBoundValue(name, shape, data)
	if err == nil {
		t.all = append(t.all, v)
	}
	return v, err
}

func (t *tensors) destroy() error {
	var errs []error
	for _, v := range t.all {
		errs = append(errs, v.destroy())
	}
	t.all = nil
	t.pin.Unpin()
	return errors.Join(errs...)
}

// StartNoise opens the graph for RunNoisy. This graph is a copy of the model's graph. The copy also makes the noise and
// the votes. If this copy cannot be opened, the model stays unchanged.
func (m *Model) StartNoise(noise *smoothing.LatticeNoise) error {
	draws, err := noise.Draws()
	if err != nil {
		return err
	}
	g, names, err := m.noiseGraph(draws)
	if err != nil {
		return err
	}
	s, err := openSession(g, m.device.provider, m.settings)
	if err != nil {
		return err
	}
	if err := m.StopNoise(); err != nil {
		return errors.Join(err, s.close())
	}
	m.noisy = &noisy{session: s, noise: noise, names: names, scores: g.outputs[0]}
	return nil
}

// StopNoise closes the graph that StartNoise opened.
func (m *Model) StopNoise() error {
	n := m.noisy
	m.noisy = nil
	if n == nil {
		return nil
	}
	var errs []error
	for _, c := range n.free {
		errs = append(errs, c.close())
	}
	return errors.Join(append(errs, n.close())...)
}

// SealSource frees the memory that is needed only to open further graphs of the model.
func (m *Model) SealSource() { m.source = source{} }

// Noise returns the noise that the device makes, or nil if it makes none.
func (m *Model) Noise() *smoothing.LatticeNoise {
	if m.noisy == nil {
		return nil
	}
	return m.noisy.noise
}

// MakesNoiseWell reports whether the device should make the noise. The result is true for a device with its own memory.
// If such a device did not make the noise, the host would have to send all noisy inputs to it.
func (m *Model) MakesNoiseWell() bool { return m.device.provider.ownMemory }

// RunNoisy implements smoothing.NoiseMaker.
func (m *Model) RunNoisy(ctx context.Context, rows *smoothing.Rows, votes []int32, outputs []float32) error {
	if err := m.checkRows(rows, votes, outputs); err != nil {
		return err
	}
	c, err := m.noisy.take(m)
	if err != nil {
		return err
	}
	err = m.runCall(ctx, c, rows, votes, outputs)
	if err == nil || !m.noisy.abandoned.Load() {
		m.noisy.give(c)
		return m.explainRun(err)
	}
	abandonedSessions.Store(c, true) // ONNX Runtime still uses the values of the call
	return err
}

// checkRows refuses rows that the graph cannot run or that refer to missing examples.
func (m *Model) checkRows(rows *smoothing.Rows, votes []int32, outputs []float32) error {
	if m.noisy == nil {
		return errors.New("the model makes no noise")
	}
	if len(rows.Example) != m.batch || len(rows.Key) != m.batch || len(rows.Start) != m.batch ||
		votes != nil && len(votes) != m.batch || outputs != nil && len(outputs) != m.batch*m.classes {
		return fmt.Errorf("a run takes %d rows and gives as many votes and %d×%d scores, not %d, %d and %d",
			m.batch, m.batch, m.classes, len(rows.Example), len(votes), len(outputs))
	}
	for _, p := range rows.Places {
		if len(p) != m.sampleLen {
			return fmt.Errorf("an example has %d places, the model's input %d values", len(p), m.sampleLen)
		}
	}
	for _, k := range rows.Example {
		if k < 0 || int(k) >= len(rows.Places) {
			return fmt.Errorf("a row is of example %d of %d", k, len(rows.Places))
		}
	}
	return nil
}

// runCall splits the rows of a batch into calls of m.tile rows and makes these calls.
func (m *Model) runCall(
	ctx context.Context, c *noisyCall, rows *smoothing.Rows, votes []int32, outputs []float32,
) error {
	if err := c.setPlaces(rows.Places, m.sampleLen, m.noisy.names.Places); err != nil {
		return err
	}
	if err := c.setOutputs(votes != nil, outputs != nil, m.out, m.classes); err != nil {
		return err
	}
	for i := 0; i < m.batch; i += m.tile {
		j := i + m.tile
		copy(c.example, rows.Example[i:j])
		copy(c.key, rows.Key[i:j])
		copy(c.start, rows.Start[i:j])
		for _, v := range c.inputs {
			if err := c.bind(v); err != nil {
				return plain(err)
			}
		}
		if err := m.noisy.call(ctx, c.bound.run); err != nil {
			return err
		}
		if votes != nil {
			c.readVotes(votes[i:j], m.classes)
		}
		if outputs != nil {
			copy(outputs[i*m.classes:j*m.classes], c.scores)
		}
	}
	return nil
}

// readVotes converts the votes that the graph returned into class numbers. The graph's vote for class k of m
// classes is m − k. Its vote for no class is 0, which readVotes converts to −1.
func (c *noisyCall) readVotes(votes []int32, m int) {
	for i, rank := range c.votes {
		votes[i] = int32(m) - rank
		if rank == 0 {
			votes[i] = -1
		}
	}
}

func (n *noisy) take(m *Model) (*noisyCall, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if last := len(n.free) - 1; last >= 0 {
		c := n.free[last]
		n.free = n.free[:last]
		return c, nil
	}
	return n.newCall(m.tile)
}

func (n *noisy) give(c *noisyCall) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.free = append(n.free, c)
}

func (n *noisy) newCall(tile int) (c *noisyCall, err error) {
	c = &noisyCall{
		example: make([]int32, tile), key: make([]uint64, tile), start: make([]uint64, tile),
		votes: make([]int32, tile), results: [2]string{n.names.Votes, n.scores}, byCount: make(map[int]boundValue),
	}
	if c.bound, err = newBinding(n.ort); err != nil {
		return nil, err
	}
	c.bind = c.bound.bind
	t := int64(tile)
	example, err1 := addTensor(&c.rows, n.names.Example, c.example, t)
	key, err2 := addTensor(&c.rows, n.names.Key, c.key, t, 1)
	start, err3 := addTensor(&c.rows, n.names.Start, c.start, t, 1)
	votes, err4 := addTensor(&c.rows, n.names.Votes, c.votes, t, 1)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, errors.Join(err, c.close())
	}
	c.inputs = []boundValue{example, key, start}
	c.outputs[0] = votes.tensor
	return c, nil
}

func (c *noisyCall) close() error {
	return errors.Join(c.bound.Destroy(), c.rows.destroy(), c.examples.destroy())
}

// setPlaces binds the lattice points of the examples to the input with the given name. Each example has d lattice
// points. setPlaces binds nothing if these examples are already bound. It rounds the number of examples up to a power
// of two, so that few different shapes occur.
func (c *noisyCall) setPlaces(examples [][]int32, d int, name string) error {
	count := 1 << bits.Len(uint(len(examples)-1))
	if err := c.makeRoom(count, d); err != nil {
		return err
	}
	changed := false // whether c.places lacked any of these examples
	for k, places := range examples {
		if k < len(c.held) && &c.held[k][0] == &places[0] {
			continue
		}
		copy(c.places[k*d:], places)
		c.held = append(c.held[:min(k, len(c.held))], places)
		changed = true
	}
	if !changed {
		return nil
	}
	v, ok := c.byCount[count]
	if !ok {
		var err error
		if v, err = addTensor(&c.examples, name, c.places[:count*d], int64(count), int64(d)); err != nil {
			c.held = nil
			return err
		}
		c.byCount[count] = v
	}
	err := c.bind(v)
	if err != nil {
		c.held = nil // the next call must bind the lattice points again
	}
	return plain(err)
}

// makeRoom makes the slice 'places' long enough for 'count' examples of d lattice points each.
func (c *noisyCall) makeRoom(count, d int) error {
	if len(c.places) >= count*d {
		return nil
	}
	err := c.examples.destroy()
	c.places, c.held = make([]int32, count*d), nil
	clear(c.byCount)
	return err
}

// setOutputs binds the outputs that a run must return.
func (c *noisyCall) setOutputs(votes, scores bool, row ort.Shape, classes int) error {
	if gives := [2]bool{votes, scores}; gives == c.gives {
		return nil
	}
	if scores && c.scores == nil {
		c.scores = make([]float32, len(c.votes)*classes)
		v, err := addTensor(&c.rows, c.results[1], c.scores, row...)
		if err != nil {
			return err
		}
		c.outputs[1] = v.tensor
	}
	c.bound.ClearBoundOutputs()
	c.gives = [2]bool{}
	for i, want := range []bool{votes, scores} {
		if !want {
			continue
		}
		if err := c.bound.BindOutput(c.results[i], c.outputs[i]); err != nil {
			return plain(err)
		}
	}
	c.gives = [2]bool{votes, scores}
	return nil
}
