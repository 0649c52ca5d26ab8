package grad_test

import (
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// The type 'layer' describes a recurrent layer with 3 states. Each step takes 2 values.
type layer struct {
	kind              string
	gates, directions int64
	attributes        []*onnxpb.AttributeProto
	outputs           int
}

// The method 'inputs' returns the names of the layer's first inputs: x, and constants with random weights.
func (l layer) inputs(f *function, x string) []string {
	rows := 3 * l.gates
	return in(x, f.weights(-1, 1, l.directions, rows, 2), f.weights(-1, 1, l.directions, rows, 3), f.weights(-1, 1, l.directions, 2*rows))
}

// The method 'node' adds the layer to f. If the layer has several outputs, the method joins these outputs into one
// vector.
func (l layer) node(f *function, inputs []string) string {
	outputs := f.several(l.kind, l.outputs, inputs, append(l.attributes, integer("hidden_size", 3))...)
	if l.outputs == 1 {
		return outputs[0]
	}
	var flat []string
	for _, y := range outputs {
		flat = append(flat, f.op("Reshape", in(y, f.ints(-1))))
	}
	return f.op("Concat", flat, integer("axis", 0))
}

// The function 'texts' returns an attribute with a list of strings. ONNX stores the strings in field 9, which rscert's
// onnx.proto omits.
func texts(name string, values ...string) *onnxpb.AttributeProto {
	a := &onnxpb.AttributeProto{Name: proto.String(name), Type: onnxpb.AttributeProto_STRINGS.Enum()}
	var raw []byte
	for _, v := range values {
		raw = protowire.AppendString(protowire.AppendTag(raw, 9, protowire.BytesType), v)
	}
	a.ProtoReflect().SetUnknown(raw)
	return a
}

func recurrentCases() []ruleCase {
	rows := list[int64](4, 2, 2) // 4 steps of 2 examples, with 2 values each
	state := func(directions int64) []int64 { return list(directions, 2, 3) }
	both, back := text("direction", "bidirectional"), text("direction", "reverse")
	linear := integer("linear_before_reset", 1)
	var all []ruleCase
	add := func(name string, shape []int64, build func(f *function) string) {
		all = append(all, ruleCase{name: name, single: true, shape: shape, low: -1, high: 1, build: build})
	}
	for _, c := range []struct {
		name string
		layer
	}{
		{"RNN", layer{"RNN", 1, 1, nil, 2}},
		{"RNN both ways", layer{"RNN", 1, 2, list(both), 1}},
		{"LSTM", layer{"LSTM", 4, 1, list(texts("activations", "Sigmoid", "Tanh", "Tanh")), 1}},
		{"LSTM backwards", layer{"LSTM", 4, 1, list(back), 3}},
		{"LSTM both ways", layer{"LSTM", 4, 2, list(both), 3}},
		{"GRU", layer{"GRU", 3, 1, nil, 2}},
		{"GRU both ways", layer{"GRU", 3, 2, list(both), 2}},
		{"GRU with the reset last", layer{"GRU", 3, 1, list(linear), 1}},
		{"GRU with the reset last, backwards", layer{"GRU", 3, 1, list(linear, back), 2}},
	} {
		add(c.name, rows, func(f *function) string { return c.node(f, c.inputs(f, "x")) })
	}
	lstm := layer{"LSTM", 4, 2, list(both), 3}
	add("LSTM from a state", rows, func(f *function) string {
		return lstm.node(f, append(lstm.inputs(f, "x"), lengths(f), f.weights(-1, 1, state(2)...), f.weights(-1, 1, state(2)...)))
	})
	add("LSTM's first state", state(2), func(f *function) string {
		return lstm.node(f, append(lstm.inputs(f, f.weights(-1, 1, rows...)), "", "x"))
	})
	add("LSTM's first cell", state(2), func(f *function) string {
		return lstm.node(f, append(lstm.inputs(f, f.weights(-1, 1, rows...)), "", "", "x"))
	})
	gru := layer{"GRU", 3, 1, nil, 1}
	add("GRU's first state", state(1), func(f *function) string {
		return gru.node(f, append(gru.inputs(f, f.weights(-1, 1, rows...)), "", "x"))
	})
	add("GRU of one step without biases", list[int64](1, 2, 2), func(f *function) string { return gru.node(f, gru.inputs(f, "x")[:3]) })
	add("LSTM's last state alone", rows, func(f *function) string {
		y := f.several("LSTM", 2, layer{"LSTM", 4, 1, nil, 2}.inputs(f, "x"), integer("hidden_size", 3))
		last := y[1]
		y[0] = "" // the layer's first output has no name
		return f.op("Identity", in(last))
	})
	return all
}

// The function 'lengths' adds a constant that holds the lengths of two sequences. Both lengths are 4.
func lengths(f *function) string {
	t := &onnxpb.TensorProto{Name: proto.String("lengths"), Dims: []int64{2}, DataType: proto.Int32(int32(graph.Int32)), Int32Data: []int32{4, 4}}
	f.Graph.Initializer = append(f.Graph.Initializer, t)
	return "lengths"
}
