package onnx

import (
	"errors"
	"fmt"
	"runtime"
	"slices"

	ort "github.com/yalue/onnxruntime_go"
)

// A tensor is the value of one of a graph's inputs or outputs.
type tensor interface {
	// The method 'label' returns the name of the input or output.
	label() string
	// The method 'open' makes the value for a run, from memory that it pins. If it returns nil, ONNX Runtime allocates
	// memory for the output.
	open(*runtime.Pinner) (ort.Value, error)
	// The method 'take' gets the output value after a run. The run has written into the value or allocated it.
	take(ort.Value) error
}

// The type 'held' is a tensor in Go's memory. ONNX Runtime uses this memory directly.
type held[T ort.TensorData] struct {
	name  string
	shape ort.Shape
	data  []T
}

func (t *held[T]) label() string { return t.name }

func (t *held[T]) open(pin *runtime.Pinner) (ort.Value, error) {
	pin.Pin(&t.data[0])
	v, err := ort.NewTensor(t.shape, t.data)
	if err != nil {
		return nil, err // returning v would give an interface that is not nil
	}
	return v, nil
}

func (t *held[T]) take(ort.Value) error { return nil }

// result is an output whose shape is known only after the run.
type result[T ort.TensorData] struct {
	name  string
	shape ort.Shape
	data  []T
}

func (t *result[T]) label() string { return t.name }

func (t *result[T]) open(*runtime.Pinner) (ort.Value, error) { return nil, nil }

func (t *result[T]) take(v ort.Value) error {
	made, ok := v.(*ort.Tensor[T])
	if !ok {
		return fmt.Errorf("output '%s' is no tensor of %T", t.name, *new(T))
	}
	t.shape, t.data = made.GetShape(), slices.Clone(made.GetData())
	return nil
}

// openTensors opens the tensors, and sets values[i] to the value of the tensor called names[i]. If no tensor has this
// name, values[i] stays nil.
func openTensors(values []ort.Value, names []string, tensors []tensor, pin *runtime.Pinner) error {
	for _, t := range tensors {
		i := slices.Index(names, t.label())
		if i < 0 || values[i] != nil {
			return errors.New("the graph has no such input or output, or it is given twice: " + t.label())
		}
		v, err := t.open(pin)
		if err != nil {
			return err
		}
		values[i] = v
	}
	return nil
}

func destroyTensors(values []ort.Value) {
	for _, v := range values {
		if v != nil {
			_ = v.Destroy()
		}
	}
}
