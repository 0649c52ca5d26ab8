package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// MarshalJSON writes null if x is not finite.
func (x Number) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(x))
}

// WriteJSON prints v, a JSON object, as one indented document. The first member of the document names the schema,
// "schema": "rscert/KIND/1". The file docs/schemas/KIND.json describes the document. A change that only adds members
// keeps the number of the schema. A change that removes a member, or changes the meaning of a member, raises the
// number.
func WriteJSON(w io.Writer, kind string, v any) error {
	var encoded bytes.Buffer
	e := json.NewEncoder(&encoded)
	e.SetEscapeHTML(false) // print radius>=0.5, not radius\u003e=0.5
	if err := e.Encode(v); err != nil {
		return err
	}
	members := bytes.TrimSuffix(encoded.Bytes(), []byte("\n"))
	if len(members) < 2 || members[0] != '{' {
		return fmt.Errorf("a document of kind %s is no JSON object", kind)
	}
	head := fmt.Sprintf(`{"schema":%q`, "rscert/"+kind+"/1")
	if members[1] != '}' {
		head += ","
	}
	var text bytes.Buffer
	if err := json.Indent(&text, append([]byte(head), members[1:]...), "", "  "); err != nil {
		return err
	}
	text.WriteByte('\n')
	_, err := w.Write(text.Bytes())
	return err
}
