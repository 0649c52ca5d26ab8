package experiment

import "github.com/rscert/rscert/internal/graph"

// imageChannels returns the number of colour channels of the model's input images, 1 or 3. It returns 0 if this number
// is unknown or if the model takes no images.
func imageChannels(model *graph.File) int {
	info, err := model.Info()
	if err != nil || len(info.Inputs) != 1 {
		return 0 // the result has no effect, because rscert refuses to load this model
	}
	shape := info.Inputs[0].Shape
	if len(shape) < 3 || len(shape) > 4 {
		return 0
	}
	shape = shape[len(shape)-3:]
	for _, d := range []graph.Dim{shape[0], shape[2]} {
		if d.Size == 1 || d.Size == 3 {
			return d.Size
		}
	}
	return 0
}
