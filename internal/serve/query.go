package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/rscert/rscert/internal/predict"
	"github.com/rscert/rscert/internal/run"
)

// modelVersion is the version of the model in requests and responses. The model has no other version.
const modelVersion = "1"

// inputName is the name of the only input.
const inputName = "input"

// maxID is the maximum number of bytes of a request's id.
const maxID = 256

// maxInputs is the maximum number of inputs of a request. Because of this limit, the number of values or bytes of a
// tensor cannot overflow an int of 64 bits.
const maxInputs = 1 << 20

// query is a decoded request.
type query struct {
	id       string
	question run.Question
	outputs  []string // names of the requested outputs; empty for all
}

// tensor is an input tensor of a request. Its values are not decoded yet.
type tensor struct {
	name  string
	typ   datatype
	shape []int64
	// values decodes the values. It returns an error if the number of values differs from the argument 'want'.
	values func(want int) ([]float32, error)
}

// newQuery checks a request and decodes its values. The argument 'certify' is the value of the request's parameter
// "certify", as encoding/json decodes it.
func (s *Server) newQuery(id string, certify any, inputs []tensor, outputs []string) (query, error) {
	q := query{id: id, outputs: outputs}
	if err := checkID(id); err != nil {
		return q, err
	}
	if len(inputs) != 1 || inputs[0].name != inputName {
		return q, badf("inputs: want one, %q", inputName)
	}
	in := inputs[0]
	n, err := s.count(in.shape)
	if err != nil {
		return q, err
	}
	if in.typ.width() == 0 || in.typ == uint8s && !s.answerer().About().Bytes {
		return q, badf("input %q: datatype %.20q: want %s", inputName, in.typ, s.inputType())
	}
	each := s.inputLen()
	values, err := in.values(n * each)
	if err != nil {
		return q, badf("input %q: %v", inputName, err)
	}
	for i := range n {
		q.question.Inputs = append(q.question.Inputs, values[i*each:(i+1)*each])
	}
	if err := q.setCertify(certify); err != nil {
		return q, err
	}
	known := outputNames(q.question.Certify, s.answerer().About().Sets != "")
	for _, name := range outputs {
		if !slices.Contains(known, name) {
			return q, badf("output %.40q: want one of %v", name, known)
		}
	}
	return q, nil
}

// checkID returns an error if a request's id is too long. The audit log records the id with every answer to the
// request.
func checkID(id string) error {
	if len(id) > maxID {
		return badf("id: has more than %d bytes", maxID)
	}
	return nil
}

// inputLen returns the number of values of an input.
func (s *Server) inputLen() int {
	n := 1
	for _, d := range s.answerer().About().Shape {
		n *= d
	}
	return n
}

// count returns the number of inputs in a tensor of the given shape.
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

// inputType lists the datatypes that the input may have, for error messages.
func (s *Server) inputType() string {
	if s.answerer().About().Bytes {
		return "FP32 (k/255) or UINT8 (k)"
	}
	return "FP32"
}

// setCertify reads the value of the parameter 'certify', which is a boolean or a radius.
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

// outputNames lists the outputs of a response. The arguments say whether the response has certificates and prediction
// sets.
func outputNames(certify, sets bool) []string {
	names := []string{"class", "votes", "none", "samples", "moved"}
	if sets {
		names = append(names, "set", "prediction_set")
	}
	if certify {
		names = append(names, "certified_class", "radius", "certificate")
	}
	return names
}

// outputs returns the answers as the tensors of a response. If the query names outputs, outputs returns only these.
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
	more, err := setOutputs(answers, m)
	if err != nil {
		return nil, err
	}
	all = append(all, more...)
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
	shape := []int{n}
	return []output{{"certified_class", int64s, shape, class}, {"radius", fp64, shape, radius}, {"certificate", text, shape, lines}}, nil
}

// setOutputs returns the tensors of prediction sets, or none if the answers have no sets. In the tensor "set", a 1
// marks each class in the set of an input.
func setOutputs(answers []predict.Answer, classes int) ([]output, error) {
	n := len(answers)
	if n == 0 || answers[0].Set == nil {
		return nil, nil
	}
	in, lines := make([]int64, n*classes), make([]string, n)
	for i, a := range answers {
		for _, y := range a.Set.Set {
			in[i*classes+y] = 1
		}
		line, err := json.Marshal(a.Set)
		if err != nil {
			return nil, err
		}
		lines[i] = string(line)
	}
	return []output{{"set", int64s, []int{n, classes}, in}, {"prediction_set", text, []int{n}, lines}}, nil
}

// conditions returns the parameters of a response: the key of its noise, and the conditions under which its answers
// hold, such as the law of the noise.
func (s *Server) conditions(r run.Answered) map[string]any {
	about := s.answerer().About()
	c := map[string]any{
		"run_id": about.RunID, "law": about.Law, "sigma": about.Sigma, "alpha": about.Alpha, "rule": about.Rule.String(),
		"budget": about.Budget, "arithmetic": about.Arithmetic, "norm": about.Norm.String(), "claim": about.Claim, "key": formatKey(r.Key),
	}
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == "" })
	return c
}

// formatKey returns the key of a request in hex.
func formatKey(key uint64) string { return fmt.Sprintf("%016x", key) }

// tensorDocument describes a tensor in the model's metadata.
type tensorDocument struct {
	Name     string   `json:"name"`
	Datatype datatype `json:"datatype"`
	Shape    []int    `json:"shape"`
}

// metadataDocument is the model's metadata. The protocol defines every member except Classifier.
type metadataDocument struct {
	Name       string           `json:"name"`
	Versions   []string         `json:"versions"`
	Platform   string           `json:"platform"`
	Inputs     []tensorDocument `json:"inputs"`
	Outputs    []tensorDocument `json:"outputs"`
	Classifier run.Description  `json:"classifier"`
}

// metadata describes the model.
func (s *Server) metadata() metadataDocument {
	about := s.answerer().About()
	in := fp32
	if about.Bytes {
		in = uint8s
	}
	doc := metadataDocument{
		Name: s.config.Name, Versions: []string{modelVersion}, Platform: platform,
		Inputs: []tensorDocument{{inputName, in, append([]int{-1}, about.Shape...)}},
		Outputs: []tensorDocument{
			{"class", int64s, []int{-1}}, {"votes", int64s, []int{-1, about.Classes}}, {"none", int64s, []int{-1}},
			{"samples", int64s, []int{-1}}, {"moved", fp64, []int{-1}},
		},
		Classifier: about,
	}
	if about.Sets != "" {
		doc.Outputs = append(doc.Outputs, tensorDocument{"set", int64s, []int{-1, about.Classes}}, tensorDocument{"prediction_set", text, []int{-1}})
	}
	return doc
}

// platform is the name of the server and of the model's platform.
const platform = "rscert"

// checkReady returns an error until the model has passed its checks.
func (s *Server) checkReady() error {
	if s.ready.Load() == nil {
		return problem{http.StatusServiceUnavailable, errors.New("the model is not ready yet")}
	}
	return nil
}

// checkModel returns an error if the model is not ready, or if a request names another model. An empty version stands
// for any version.
func (s *Server) checkModel(name, version string) error {
	if err := s.checkReady(); err != nil {
		return err
	}
	if name != s.config.Name || version != "" && version != modelVersion {
		err := fmt.Errorf("unknown model: this server has %q, version %s", s.config.Name, modelVersion)
		return problem{http.StatusNotFound, err}
	}
	return nil
}
