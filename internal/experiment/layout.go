package experiment

import (
	"slices"

	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/param"
)

// chooseLayout maps the examples onto the model's input. If the data are flat rows and Spec.ModelLayout is set, it
// first sets Spec.Layout to the layout of the model's input. If CHW and HWC would give the model different inputs,
// chooseLayout also sets e.other. This is the arrangement for HWC if Spec.Layout is CHW, and vice versa.
func (e *Experiment) chooseLayout() (graph.Arrangement, error) {
	shape := e.data.Shape()
	if own, ok := e.model.Layout(); ok && e.Spec.ModelLayout && len(shape) == 1 {
		e.Spec.Layout = own
	}
	a, err := e.model.Fit(shape, e.Spec.Layout)
	if err != nil {
		return a, err
	}
	if b, err := e.model.Fit(shape, otherLayout(e.Spec.Layout)); err == nil && !slices.Equal(a.Perm, b.Perm) {
		e.other = &b
	}
	return a, nil
}

// otherLayout returns HWC for CHW, and CHW for HWC.
func otherLayout(l graph.Layout) graph.Layout {
	if l == graph.CHW {
		return graph.HWC
	}
	return graph.CHW
}

// layoutText describes the order of flat values. The result 'matters' is true if another order of the flat values would
// give other inputs.
func (e *Experiment) layoutText() (text param.Text, matters bool) {
	if e.other == nil {
		return param.Textf("examples of shape %v, for the model's input %s", e.data.Shape(), e.model.Input()), false
	}
	own, image := e.model.Layout()
	switch {
	case !image:
		return param.Textf("the model's flat input gets the values of an image as %s (%s)", e.Spec.Layout, param.Layout), true
	case own == e.Spec.Layout:
		return param.Textf("flat rows are read as %s, the order of the model's input %s (%s)", own, e.model.Input(), param.Layout), true
	}
	return param.Textf("flat rows are read as %s, and reordered for the model's input %s (%s)", e.Spec.Layout, e.model.Input(), param.Layout), true
}
