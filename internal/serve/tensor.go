package serve

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
)

// A datatype is the type of the values in a tensor of the protocol.
type datatype string

// These are the types of the tensors in requests and answers.
const (
	fp32   datatype = "FP32"
	uint8s datatype = "UINT8"
	int64s datatype = "INT64"
	fp64   datatype = "FP64"
	text   datatype = "BYTES"
)

// width returns the size of one input value in bytes, or 0 if an input cannot have this type.
func (t datatype) width() int {
	switch t {
	case fp32:
		return 4
	case uint8s:
		return 1
	}
	return 0
}

// decodeBinary returns the values of an input in binary form, little-endian. Bytes are divided by 255.
func (t datatype) decodeBinary(data []byte) []float32 {
	values := make([]float32, len(data)/t.width())
	for i := range values {
		if t == uint8s {
			values[i] = float32(data[i]) / 255
		} else {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
	}
	return values
}

// decodeJSON returns the values of an input. They come from a JSON array, nested or flat. More than n values are an
// error. Bytes are divided by 255.
func (t datatype) decodeJSON(data json.RawMessage, n int) ([]float32, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var values []float32
	for {
		token, err := d.Token()
		if err == io.EOF {
			return values, nil
		}
		if err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
		switch v := token.(type) {
		case json.Delim:
			if v == '{' {
				return nil, fmt.Errorf("data: want an array of numbers")
			}
		case json.Number:
			if len(values) == n {
				return nil, fmt.Errorf("data has more than the %d values of its shape", n)
			}
			x, err := t.parse(string(v))
			if err != nil {
				return nil, err
			}
			values = append(values, x)
		default:
			return nil, fmt.Errorf("data: %v is no number", v)
		}
	}
}

// parse returns the value of a number in JSON.
func (t datatype) parse(s string) (float32, error) {
	if t == uint8s {
		b, err := strconv.ParseUint(s, 10, 8)
		if err != nil {
			return 0, fmt.Errorf("data: %.40s is no UINT8", s)
		}
		return float32(b) / 255, nil
	}
	x, err := strconv.ParseFloat(s, 32)
	if err != nil {
		return 0, fmt.Errorf("data: %.40s is no FP32", s)
	}
	return float32(x), nil
}

// output is a tensor of an answer: the slice 'data' holds []int64, []float64 or []string.
type output struct {
	name  string
	typ   datatype
	shape []int
	data  any
}

// encodeBinary returns the tensor in binary form, little-endian. The length of a string precedes its bytes.
func (o output) encodeBinary() []byte {
	var b []byte
	switch data := o.data.(type) {
	case []int64:
		for _, v := range data {
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		}
	case []float64:
		for _, v := range data {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
	case []string:
		for _, v := range data {
			b = append(binary.LittleEndian.AppendUint32(b, uint32(len(v))), v...)
		}
	}
	return b
}
