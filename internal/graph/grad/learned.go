package grad

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/graph/onnxpb"
)

// This file holds rules for the operators in scikit-learn's models (ai.onnx.ml). It covers only the operators that have
// gradients. The results of these operators are float32.

// These are field numbers of AttributeProto that rscert's onnx.proto omits.
const (
	floatsField  = 7
	stringsField = 9
)

// The function 'omitted' finds each occurrence of a field that rscert's onnx.proto omits. It passes the contents of
// each occurrence to the function 'yield'.
func omitted(a *onnxpb.AttributeProto, field protowire.Number, yield func(raw []byte)) {
	for rest := []byte(a.ProtoReflect().GetUnknown()); len(rest) > 0; {
		number, wire, length := protowire.ConsumeField(rest)
		if length < 0 {
			return
		}
		_, _, tag := protowire.ConsumeTag(rest)
		raw := rest[tag:length]
		if wire == protowire.BytesType {
			raw, _ = protowire.ConsumeBytes(raw)
		}
		if number == field {
			yield(raw)
		}
		rest = rest[length:]
	}
}

// floats reads an attribute that holds floats.
func (n *node) floats(name string) (values []float64) {
	a := n.attribute(name)
	if a == nil {
		return nil
	}
	omitted(a, floatsField, func(raw []byte) { // 'raw' holds packed numbers or one number
		for ; len(raw) >= 4; raw = raw[4:] {
			values = append(values, float64(math.Float32frombits(binary.LittleEndian.Uint32(raw))))
		}
	})
	return values
}

// texts reads an attribute that holds texts.
func (n *node) texts(name string) (values []string) {
	if a := n.attribute(name); a != nil {
		omitted(a, stringsField, func(raw []byte) { values = append(values, string(raw)) })
	}
	return values
}

// scaler is the rule of the operator that computes (x − offset)·scale for each column.
func scaler(t *tape, n *node) error {
	scale := n.floats("scale")
	t.give(n, 0, func() string { return t.mul(n.d[0], t.numbers(n.output(), []int64{int64(len(scale))}, scale...)) })
	return nil
}

// featureVectorizer is the rule of the operator that concatenates its inputs along the columns.
func featureVectorizer(t *tape, n *node) error {
	t.divide(n, 1)
	return nil
}

// normalizer is the rule of the operator that divides each row by its norm. The comment of lpNormalization gives the
// formula of the gradient.
func normalizer(t *tape, n *node) error {
	x, y, d := n.input(0), n.output(), n.d[0]
	norm := map[string]string{"L1": "ReduceL1", "L2": "ReduceL2"}[n.text("norm", "MAX")]
	if norm == "" {
		return n.refuse("no gradient is known for the norm %s", n.text("norm", "MAX"))
	}
	t.give(n, 0, func() string {
		g := y
		if norm == "ReduceL1" {
			g = t.Op("Sign", x)
		}
		return t.Op("Div", t.Op("Sub", d, t.mul(g, t.sum(t.mul(d, y), 1))), t.reduce(norm, x, []int64{1}, true))
	})
	return nil
}

// linearClassifier is the rule of LinearClassifier. It differentiates the second output, the scores. The scores are a
// function of z = W·x + b. If W has only one row and there are two classes, the scores are a function of −z and z.
func linearClassifier(t *tape, n *node) error {
	x, y, d := n.input(0), n.Output[1], n.d[1]
	weights := n.floats("coefficients")
	columns, classes := t.shape(x)[1], t.shape(y)[1]
	rows := int64(len(weights)) / columns
	transform := n.text("post_transform", "NONE")
	lone := rows == 1 && classes == 2
	known := transform == "NONE" || transform == "LOGISTIC" || transform == "SOFTMAX" && !lone
	if !known || d == "" || !lone && rows != classes {
		return n.refuse("no gradient is known for %d rows and transform %s", rows, transform)
	}
	t.give(n, 0, func() string {
		switch transform {
		case "LOGISTIC":
			d = t.mul(d, t.mul(y, t.Op("Sub", t.Floats(nil, 1), y)))
		case "SOFTMAX":
			d = t.softmaxSlope(d, y, 1)
		}
		if lone {
			d = t.Op("MatMul", d, t.numbers(y, []int64{2, 1}, -1, 1))
		}
		dx := t.Op("MatMul", d, t.numbers(y, []int64{rows, columns}, weights...))
		if t.types[x] != graph.Float32 {
			dx = t.Cast(dx, t.floatType(x))
		}
		return dx
	})
	return nil
}
