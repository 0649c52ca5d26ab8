package pickle

import (
	"math"
	"strings"

	"github.com/rscert/rscert/internal/npy"
	"github.com/rscert/rscert/internal/quote"
)

// A function is one of the Python functions that the pickle of an image batch may name. The machine does not run the
// Python function. Instead, the method 'reduce' makes the array, the type or the text that a call of the function
// returns.
type function int

const (
	reconstruct function = iota + 1 // makes an empty array, which BUILD fills
	frombuffer                      // makes an array (protocol 5)
	dtype                           // makes the type of an array's elements
	encode                          // makes bytes from text (Python 3, protocol 2)
	ndarray                         // occurs only as an argument
)

// functions lists all functions that a pickle may name.
var functions = map[[2]string]function{
	{"numpy.core.multiarray", "_reconstruct"}:  reconstruct,
	{"numpy._core.multiarray", "_reconstruct"}: reconstruct, // NumPy 2
	{"numpy.core.numeric", "_frombuffer"}:      frombuffer,
	{"numpy._core.numeric", "_frombuffer"}:     frombuffer,
	{"numpy", "dtype"}:                         dtype,
	{"numpy", "ndarray"}:                       ndarray,
	{"_codecs", "encode"}:                      encode,
}

// Array is a NumPy array of numbers.
type Array struct {
	npy.Header      // Offset is 0
	Data       Text // the elements
	filled     bool
}

// elements is the type of an array's elements.
type elements struct {
	name  string // for example u1
	order string // one of | < > =, or "" if not yet known
}

func (m *machine) global(module, name string) {
	f, ok := functions[[2]string{module, name}]
	if !ok {
		m.other("it names %s", quote.Name(module+"."+name))
	}
	m.push(f)
}

// reduce makes the value of a call. The argument 'call' holds the function and its arguments.
func (m *machine) reduce(call []any) {
	f, _ := call[0].(function)
	args, _ := call[1].(Tuple)
	var v any
	switch {
	case f == reconstruct && len(args) == 3 && args[0] == any(ndarray):
		v = &Array{} // the call states the shape (0,) and the type int8; BUILD sets the real shape and type
	case f == frombuffer && len(args) == 4 && m.text(args[3]) == "C":
		v = m.fill(&Array{}, args[2], args[1], Int{}, args[0])
	case f == frombuffer && len(args) == 4 && m.text(args[3]) == "F":
		v = m.fill(&Array{}, args[2], args[1], Int{Value: 1}, args[0])
	case f == dtype && len(args) == 3:
		v = &elements{name: m.text(args[0])}
	case f == encode && len(args) == 2:
		v = m.encoded(args)
	}
	if v == nil {
		m.other("it calls something in a way that NumPy does not")
	}
	m.push(v)
}

// The method 'encoded' returns the value of codecs.encode(text, "latin1"), or nil for other arguments.
func (m *machine) encoded(args Tuple) any {
	t, ok := args[0].(Text)
	if name := strings.ReplaceAll(m.text(args[1]), "-", ""); !ok || !t.UTF8 || name != "latin1" {
		return nil
	}
	t.Latin1 = true
	return t
}

// The method 'build' sets the state of an array or a type. A state can be set only once.
func (m *machine) build(state any) {
	args, _ := state.(Tuple)
	switch v := m.top().(type) {
	case *Array:
		if len(args) == 5 && isInt(args[0], 1) && !v.filled {
			m.fill(v, args[1], args[2], args[3], args[4])
			return
		}
	case *elements: // the state holds the version, the byte order, and the fields of structured types
		if len(args) >= 8 && v.order == "" {
			if v.order = m.text(args[1]); len(v.order) == 1 {
				return
			}
		}
	}
	m.other("the state of something is not as NumPy writes it")
}

func isInt(v any, want int64) bool {
	i, ok := v.(Int)
	return ok && i.Value == want
}

// The method 'fill' sets the shape, type, order and data of an array.
func (m *machine) fill(a *Array, shape, kind, fortran, data any) *Array {
	dims, ok1 := shape.(Tuple)
	e, ok2 := kind.(*elements)
	f, ok3 := fortran.(Int)
	t, ok4 := data.(Text)
	if !ok1 || !ok2 || !ok3 || !ok4 || t.UTF8 != t.Latin1 || len(dims) > npy.MaxDims {
		m.other("an array that is not as NumPy writes one of numbers")
		return a
	}
	a.filled, a.Fortran, a.Data = true, f.Value != 0, t
	if a.Type, ok1 = npy.ParseType(e.order, e.name); !ok1 {
		m.fail("an array of type %s, which is not read: not numeric, complex or too wide", quote.Field(e.name))
		return a
	}
	for _, dim := range dims {
		d, ok := dim.(Int)
		if !ok || d.Value < 0 || d.Value > math.MaxInt {
			m.fail("damaged: an array of a shape that NumPy does not have")
			return a
		}
		a.Shape = append(a.Shape, int(d.Value))
	}
	return a
}
