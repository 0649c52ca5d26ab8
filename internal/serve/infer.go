package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rscert/rscert/internal/run"
)

// inferRequest is the JSON part of an inference request.
type inferRequest struct {
	ID         string         `json:"id"`
	Parameters map[string]any `json:"parameters"`
	Inputs     []struct {
		Name       string          `json:"name"`
		Shape      []int64         `json:"shape"`
		Datatype   datatype        `json:"datatype"`
		Parameters map[string]any  `json:"parameters"`
		Data       json.RawMessage `json:"data"`
	} `json:"inputs"`
	Outputs []struct {
		Name       string         `json:"name"`
		Parameters map[string]any `json:"parameters"`
	} `json:"outputs"`
}

// binaryOutputs says which outputs a response holds in binary form. The key "" stands for all outputs that have no key
// of their own.
type binaryOutputs map[string]bool

func (b binaryOutputs) has(name string) bool {
	if binary, said := b[name]; said {
		return binary
	}
	return b[""]
}

// maxObjects limits the number of JSON objects in a request, because a short object takes far more memory than its
// text.
const maxObjects = 64

// decodeInfer decodes a request: the JSON part and the binary part after it. Of the request's parameters, only
// 'certify' and 'binary_data_output' have an effect. Clients that were made for Triton may send other parameters, which
// decodeInfer ignores.
func (s *Server) decodeInfer(header, binary []byte) (query, binaryOutputs, error) {
	if bytes.Count(header, []byte("{")) > maxObjects {
		return query{}, nil, badf("the request has more than %d JSON objects", maxObjects)
	}
	var r inferRequest
	if err := json.Unmarshal(header, &r); err != nil {
		return query{}, nil, badf("the request is no JSON of the protocol: %v", err)
	}
	inputs := make([]tensor, len(r.Inputs))
	for i, in := range r.Inputs {
		inputs[i] = tensor{in.Name, in.Datatype, in.Shape, func(want int) ([]float32, error) {
			return in.Datatype.decodeJSONOrBinary(want, in.Data, in.Parameters["binary_data_size"], binary)
		}}
	}
	asBinary, outputs := binaryOutputs{}, make([]string, len(r.Outputs))
	if all, ok := r.Parameters["binary_data_output"].(bool); ok {
		asBinary[""] = all
	}
	for i, o := range r.Outputs {
		outputs[i] = o.Name
		if binary, ok := o.Parameters["binary_data"].(bool); ok {
			asBinary[o.Name] = binary
		}
	}
	q, err := s.newQuery(r.ID, r.Parameters["certify"], inputs, outputs)
	return q, asBinary, err
}

// decodeJSONOrBinary decodes the values of an input. The argument 'size' is the input's parameter "binary_data_size".
// If the input has this parameter, its values are in the binary part. Otherwise they are in the JSON part.
func (t datatype) decodeJSONOrBinary(want int, data json.RawMessage, size any, binary []byte) ([]float32, error) {
	if size == nil {
		if len(binary) > 0 {
			return nil, errors.New("binary data, but no binary_data_size")
		}
		values, err := t.decodeJSON(data, want)
		if err == nil && len(values) != want {
			err = fmt.Errorf("data has %d values: want %d", len(values), want)
		}
		return values, err
	}
	if data != nil {
		return nil, errors.New("both data and binary_data_size")
	}
	if stated, ok := size.(float64); !ok || stated != float64(want*t.width()) || len(binary) != want*t.width() {
		return nil, fmt.Errorf("%d bytes of binary data, and binary_data_size %v: want %d", len(binary), size, want*t.width())
	}
	return t.decodeBinary(binary), nil
}

// outputDocument describes a tensor in the JSON part of a response.
type outputDocument struct {
	Name       string         `json:"name"`
	Datatype   datatype       `json:"datatype"`
	Shape      []int          `json:"shape"`
	Parameters map[string]any `json:"parameters,omitempty"`
	Data       any            `json:"data,omitempty"`
}

// inferResponse is the JSON part of a response.
type inferResponse struct {
	ModelName    string           `json:"model_name"`
	ModelVersion string           `json:"model_version"`
	ID           string           `json:"id,omitempty"`
	Parameters   map[string]any   `json:"parameters"`
	Outputs      []outputDocument `json:"outputs"`
}

// encodeInfer returns the JSON part and the binary part of a response.
func (s *Server) encodeInfer(q query, asBinary binaryOutputs, r run.Answered) (header, binary []byte, err error) {
	outputs, err := s.outputs(q, r.Answers)
	if err != nil {
		return nil, nil, err
	}
	doc := inferResponse{ModelName: s.config.Name, ModelVersion: modelVersion, ID: q.id, Parameters: s.conditions(r)}
	for _, o := range outputs {
		d := outputDocument{Name: o.name, Datatype: o.typ, Shape: o.shape}
		if asBinary.has(o.name) {
			data := o.encodeBinary()
			d.Parameters = map[string]any{"binary_data_size": len(data)}
			binary = append(binary, data...)
		} else {
			d.Data = o.data
		}
		doc.Outputs = append(doc.Outputs, d)
	}
	header, err = json.Marshal(doc)
	return header, binary, err
}
