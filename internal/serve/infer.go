package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/rscert/rscert/internal/predict"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/spec"
)

// inputName is the name of the only input.
const inputName = "input"

// inferRequest is the JSON part of a request of the protocol.
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

// query is a decoded request.
type query struct {
	id       string
	question run.Question
	outputs  []string        // names of the requested outputs; empty for all
	binary   map[string]bool // outputs in binary form; the key "" stands for all that outputs does not name
}

// maxObjects limits the objects of a request, because each takes far more memory than its text.
const maxObjects = 64

// maxID limits the id of a request.
const maxID = 256

func badf(format string, args ...any) error { return spec.BadInputf(format, args...) }

// decodeInfer decodes a request: the JSON part and the binary part after it.
func (s *Server) decodeInfer(header, binary []byte) (query, error) {
	if bytes.Count(header, []byte("{")) > maxObjects {
		return query{}, badf("the request has more than %d JSON objects", maxObjects)
	}
	var r inferRequest
	if err := json.Unmarshal(header, &r); err != nil {
		return query{}, badf("the request is no JSON of the protocol: %v", err)
	}
	if len(r.ID) > maxID {
		return query{}, badf("id: has more than %d bytes", maxID)
	}
	q := query{id: r.ID, binary: map[string]bool{}}
	if len(r.Inputs) != 1 || r.Inputs[0].Name != inputName {
		return q, badf("inputs: want one, %q", inputName)
	}
	in := r.Inputs[0]
	n, err := s.count(in.Shape)
	if err != nil {
		return q, err
	}
	values, err := s.values(in.Datatype, n, in.Data, in.Parameters["binary_data_size"], binary)
	if err != nil {
		return q, badf("input %q: %v", inputName, err)
	}
	each := s.inputLen()
	for i := range n {
		q.question.Inputs = append(q.question.Inputs, values[i*each:(i+1)*each])
	}
	if err := q.setParameters(r.Parameters); err != nil {
		return q, err
	}
	return q, q.chooseOutputs(r)
}

// inputLen returns the number of values of an input.
func (s *Server) inputLen() int {
	n := 1
	for _, d := range s.answerer().About().Shape {
		n *= d
	}
	return n
}

// maxInputs limits the inputs of a request, so that products of sizes cannot overflow.
const maxInputs = 1 << 20

// count returns the number of inputs in a tensor of a shape.
func (s *Server) count(shape []int64) (int, error) {
	want := s.answerer().About().Shape
	if len(shape) != len(want)+1 || shape[0] < 1 || shape[0] > maxInputs {
		return 0, badf("shape %v: want %s", shape, describeShape(want))
	}
	for i, n := range want {
		if shape[i+1] != int64(n) {
			return 0, badf("shape %v: want %s", shape, describeShape(want))
		}
	}
	return int(shape[0]), nil
}

func describeShape(shape []int) string {
	text := "[n"
	for _, d := range shape {
		text += fmt.Sprintf(",%d", d)
	}
	return text + "]"
}

// values decodes the values of n inputs.
func (s *Server) values(t datatype, n int, data json.RawMessage, size any, binary []byte) ([]float32, error) {
	if t.width() == 0 || t == uint8s && !s.answerer().About().Bytes {
		return nil, fmt.Errorf("datatype %.20q: want %s", t, s.inputType())
	}
	want := n * s.inputLen()
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

// inputType returns the datatypes of the input, for messages.
func (s *Server) inputType() string {
	if s.answerer().About().Bytes {
		return "FP32 (k/255) or UINT8 (k)"
	}
	return "FP32"
}

// setParameters reads the parameters of a request. Others than certify and binary_data_output are Triton's, and have no
// meaning here.
func (q *query) setParameters(p map[string]any) error {
	if all, ok := p["binary_data_output"].(bool); ok {
		q.binary[""] = all
	}
	return q.setCertify(p["certify"])
}

// setCertify reads the value of certify: true, or a radius.
func (q *query) setCertify(value any) error {
	switch v := value.(type) {
	case nil:
	case bool:
		q.question.Certify = v
	case float64:
		if !(v > 0) {
			return badf("certify %v: want true, or a radius above 0", v)
		}
		q.question.Certify, q.question.Radius = true, v
	default:
		return badf("certify %v: want true, or a radius above 0", v)
	}
	return nil
}

// chooseOutputs reads the requested outputs.
func (q *query) chooseOutputs(r inferRequest) error {
	known := outputNames(q.question.Certify)
	for _, o := range r.Outputs {
		if !slices.Contains(known, o.Name) {
			return badf("output %.40q: want one of %v", o.Name, known)
		}
		q.outputs = append(q.outputs, o.Name)
		if binary, ok := o.Parameters["binary_data"].(bool); ok {
			q.binary[o.Name] = binary
		}
	}
	return nil
}

// outputNames lists the outputs.
func outputNames(certify bool) []string {
	names := []string{"class", "votes", "none", "samples", "moved"}
	if certify {
		names = append(names, "certified_class", "radius", "certificate")
	}
	return names
}

// outputs returns the tensors of answers.
func (s *Server) outputs(q query, answers []predict.Answer) ([]output, error) {
	n, m := len(answers), s.answerer().About().Classes
	class, none, samples := make([]int64, n), make([]int64, n), make([]int64, n)
	moved, votes := make([]float64, n), make([]int64, 0, n*m)
	for i, a := range answers {
		class[i], none[i], samples[i], moved[i] = int64(a.Class), a.None, a.Samples, a.Moved
		votes = append(votes, a.Votes...)
	}
	all := []output{
		{"class", int64s, []int{n}, class}, {"votes", int64s, []int{n, m}, votes}, {"none", int64s, []int{n}, none},
		{"samples", int64s, []int{n}, samples}, {"moved", fp64, []int{n}, moved},
	}
	if q.question.Certify {
		more, err := certificateOutputs(answers)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	if len(q.outputs) > 0 {
		all = slices.DeleteFunc(all, func(o output) bool { return !slices.Contains(q.outputs, o.name) })
	}
	return all, nil
}

// certificateOutputs returns the tensors of certificates.
func certificateOutputs(answers []predict.Answer) ([]output, error) {
	n := len(answers)
	class, radius, lines := make([]int64, n), make([]float64, n), make([]string, n)
	for i, a := range answers {
		class[i], radius[i] = int64(a.Certificate.Prediction), a.Certificate.Radius
		line, err := json.Marshal(a.Certificate)
		if err != nil {
			return nil, err
		}
		lines[i] = string(line)
	}
	return []output{{"certified_class", int64s, []int{n}, class}, {"radius", fp64, []int{n}, radius}, {"certificate", text, []int{n}, lines}}, nil
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
func (s *Server) encodeInfer(q query, r run.Answered) (header, binary []byte, err error) {
	outputs, err := s.outputs(q, r.Answers)
	if err != nil {
		return nil, nil, err
	}
	doc := inferResponse{ModelName: s.config.Name, ModelVersion: modelVersion, ID: q.id, Parameters: s.conditions(r)}
	for _, o := range outputs {
		d := outputDocument{Name: o.name, Datatype: o.typ, Shape: o.shape}
		asBinary, said := q.binary[o.name]
		if !said {
			asBinary = q.binary[""]
		}
		if asBinary {
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

// conditions returns the parameters of a response: the conditions of its answers.
func (s *Server) conditions(r run.Answered) map[string]any {
	about := s.answerer().About()
	c := map[string]any{
		"run_id": about.RunID, "law": about.Law, "sigma": about.Sigma, "alpha": about.Alpha, "rule": about.Rule.String(),
		"budget": about.Budget, "arithmetic": about.Arithmetic, "key": formatKey(r.Key),
	}
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == "" })
	return c
}

// formatKey returns the key of a request in hex.
func formatKey(key uint64) string { return fmt.Sprintf("%016x", key) }
