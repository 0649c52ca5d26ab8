package serve

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/serve/oip"
)

// maxParts is the maximum number of parts of a message. The parts are the messages, texts and byte strings within it. A
// short part takes far more memory than its encoding.
const maxParts = 256

// unmarshal decodes a message.
func unmarshal(data []byte, m proto.Message) error {
	room, err := countParts(data, m.ProtoReflect().Descriptor(), maxParts)
	if err == nil && room < 0 {
		return badf("the message has more than %d parts", maxParts)
	}
	if err == nil {
		err = proto.Unmarshal(data, m)
	}
	if err != nil {
		return badf("the request is no message of the protocol: %v", err)
	}
	return nil
}

// countParts counts the parts of a message, subtracts their number from the argument 'room', and returns the
// difference. It stops counting once the difference is below 0.
func countParts(data []byte, d protoreflect.MessageDescriptor, room int) (int, error) {
	for len(data) > 0 && room >= 0 {
		number, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return room, protowire.ParseError(n)
		}
		value := data[n:]
		length := protowire.ConsumeFieldValue(number, typ, value)
		if length < 0 {
			return room, protowire.ParseError(length)
		}
		data = value[length:]
		f := d.Fields().ByNumber(number)
		if typ != protowire.BytesType || f == nil {
			continue
		}
		inner, _ := protowire.ConsumeBytes(value)
		switch f.Kind() {
		case protoreflect.MessageKind:
			var err error
			if room, err = countParts(inner, f.Message(), room-1); err != nil {
				return room, err
			}
		case protoreflect.StringKind, protoreflect.BytesKind:
			room--
		}
	}
	return room, nil
}

func (s *Server) grpcModelReady(_ context.Context, _ *claim, r *oip.ModelReadyRequest) (proto.Message, error) {
	if s.checkReady() != nil {
		return &oip.ModelReadyResponse{}, nil
	}
	return &oip.ModelReadyResponse{Ready: true}, s.checkModel(r.Name, r.Version)
}

func (s *Server) grpcServerMetadata(context.Context, *claim, *oip.ServerMetadataRequest) (proto.Message, error) {
	return &oip.ServerMetadataResponse{Name: platform, Version: s.config.Version}, nil
}

func (s *Server) grpcModelMetadata(_ context.Context, _ *claim, r *oip.ModelMetadataRequest) (proto.Message, error) {
	if err := s.checkModel(r.Name, r.Version); err != nil {
		return nil, err
	}
	doc := s.metadata()
	return &oip.ModelMetadataResponse{
		Name: doc.Name, Versions: doc.Versions, Platform: doc.Platform,
		Inputs: tensorMetadata(doc.Inputs), Outputs: tensorMetadata(doc.Outputs),
	}, nil
}

func tensorMetadata(tensors []tensorDocument) (all []*oip.ModelMetadataResponse_TensorMetadata) {
	for _, t := range tensors {
		all = append(all, &oip.ModelMetadataResponse_TensorMetadata{
			Name: t.Name, Datatype: string(t.Datatype), Shape: toInt64(t.Shape),
		})
	}
	return all
}

func toInt64(shape []int) []int64 {
	sizes := make([]int64, len(shape))
	for i, n := range shape {
		sizes[i] = int64(n)
	}
	return sizes
}

// grpcInfer returns the response to a call. The response has raw contents if the call has raw contents.
func (s *Server) grpcInfer(ctx context.Context, c *claim, r *oip.ModelInferRequest) (proto.Message, error) {
	if err := s.checkModel(r.ModelName, r.ModelVersion); err != nil {
		return nil, err
	}
	q, err := s.decodeMessage(r)
	if err != nil {
		return nil, err
	}
	answered, err := s.ask(ctx, c, q)
	if err != nil {
		return nil, err
	}
	return s.encodeMessage(q, len(r.RawInputContents) > 0, answered)
}

// decodeMessage decodes a call.
func (s *Server) decodeMessage(r *oip.ModelInferRequest) (query, error) {
	raw := r.RawInputContents
	if len(raw) > 0 && len(raw) != len(r.Inputs) {
		return query{}, badf("%d raw_input_contents: want one for each of %d inputs", len(raw), len(r.Inputs))
	}
	inputs, outputs := make([]tensor, len(r.Inputs)), make([]string, len(r.Outputs))
	for i, in := range r.Inputs {
		typ := datatype(in.Datatype)
		inputs[i] = tensor{in.Name, typ, in.Shape, func(want int) ([]float32, error) {
			if len(raw) == 0 {
				return typ.decodeContents(want, in.Contents)
			}
			if in.Contents != nil {
				return nil, errors.New("both contents and raw_input_contents")
			}
			if len(raw[i]) != want*typ.width() {
				return nil, fmt.Errorf("%d bytes of raw contents: want %d", len(raw[i]), want*typ.width())
			}
			return typ.decodeBinary(raw[i]), nil
		}}
	}
	for i, o := range r.Outputs {
		outputs[i] = o.Name
	}
	return s.newQuery(r.Id, parameter(r.Parameters["certify"]), inputs, outputs)
}

// parameter returns the value of a parameter. The value has the Go type that encoding/json would choose. For an absent
// parameter, the value is nil.
func parameter(p *oip.InferParameter) any {
	switch v := p.GetParameterChoice().(type) {
	case *oip.InferParameter_BoolParam:
		return v.BoolParam
	case *oip.InferParameter_Int64Param:
		return float64(v.Int64Param)
	case *oip.InferParameter_Uint64Param:
		return float64(v.Uint64Param)
	case *oip.InferParameter_DoubleParam:
		return v.DoubleParam
	case *oip.InferParameter_StringParam:
		return v.StringParam
	}
	return nil
}

// decodeContents returns the values of an input with typed contents. Bytes are divided by 255.
func (t datatype) decodeContents(want int, c *oip.InferTensorContents) ([]float32, error) {
	values := c.GetFp32Contents()
	if t == uint8s {
		values = make([]float32, len(c.GetUintContents()))
		for i, b := range c.GetUintContents() {
			if b > 255 {
				return nil, fmt.Errorf("uint_contents: %d is no UINT8", b)
			}
			values[i] = float32(b) / 255
		}
	}
	if len(values) != want {
		return nil, fmt.Errorf("contents have %d values of %s: want %d", len(values), t, want)
	}
	return values, nil
}

// encodeMessage returns the response to a call.
func (s *Server) encodeMessage(q query, raw bool, r run.Answered) (*oip.ModelInferResponse, error) {
	outputs, err := s.outputs(q, r.Answers)
	if err != nil {
		return nil, err
	}
	m := &oip.ModelInferResponse{
		ModelName: s.config.Name, ModelVersion: modelVersion, Id: q.id, Parameters: map[string]*oip.InferParameter{},
	}
	for name, value := range s.conditions(r) {
		m.Parameters[name] = newParameter(value)
	}
	for _, o := range outputs {
		t := &oip.ModelInferResponse_InferOutputTensor{Name: o.name, Datatype: string(o.typ), Shape: toInt64(o.shape)}
		if raw {
			m.RawOutputContents = append(m.RawOutputContents, o.encodeBinary())
		} else {
			t.Contents = o.contents()
		}
		m.Outputs = append(m.Outputs, t)
	}
	return m, nil
}

// newParameter returns a parameter that holds a value from the method 'conditions'.
func newParameter(value any) *oip.InferParameter {
	switch v := value.(type) {
	case float64:
		return &oip.InferParameter{ParameterChoice: &oip.InferParameter_DoubleParam{DoubleParam: v}}
	case int64:
		return &oip.InferParameter{ParameterChoice: &oip.InferParameter_Int64Param{Int64Param: v}}
	}
	return &oip.InferParameter{ParameterChoice: &oip.InferParameter_StringParam{StringParam: fmt.Sprint(value)}}
}

// contents returns the tensor as typed contents.
func (o output) contents() *oip.InferTensorContents {
	switch data := o.data.(type) {
	case []int64:
		return &oip.InferTensorContents{Int64Contents: data}
	case []float64:
		return &oip.InferTensorContents{Fp64Contents: data}
	case []string:
		c := &oip.InferTensorContents{}
		for _, text := range data {
			c.BytesContents = append(c.BytesContents, []byte(text))
		}
		return c
	}
	return nil
}
