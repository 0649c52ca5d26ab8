package experiment

import "github.com/rscert/rscert/internal/graph"

// imageChannels is the number of colour channels, 1 or 3, of the images that a model takes; 0 if it does not say, or
// takes no images.
func imageChannels(model *graph.File) int {
	info, err := model.Info()
	if err != nil || len(info.Inputs) != 1 {
		return 0 // refused when it is loaded
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
