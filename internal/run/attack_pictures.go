package run

import (
	"fmt"
	"image/png"
	"io"

	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
)

// checkPictures returns an error if the plan asks for pictures but the examples are not images. It is called before the
// attack begins.
func (p *AttackPlan) checkPictures(shape []int) error {
	if p.Pictures > 0 && !experiment.Drawable(shape) {
		return spec.BadInputf("%s: examples of shape %v are no images of 1 or 3 channels", param.Pictures, shape)
	}
	return nil
}

// drawPictures writes picture-INDEX-NAME.png for the first inputs in the folder. Each picture shows the example, the
// change and the perturbed input.
func (a *attacking) drawPictures() error {
	if a.plan.Pictures == 0 {
		return nil
	}
	positions, drawn := a.e.Positions(), 0
	return a.folder.EachInput(a.lines, a.e.Model().InputLen(), func(line, input int, values []float32) error {
		if drawn == a.plan.Pictures {
			return nil
		}
		drawn++
		x, err := a.e.Values(positions[line])
		if err != nil {
			return err
		}
		name := fmt.Sprintf("picture-%d-%s.png", a.lines[line].Index, a.lines[line].Inputs[input].Name)
		return a.folder.Write(name, func(w io.Writer) error {
			return png.Encode(w, experiment.DrawAttacked(x.Values, values, a.e.Shape()))
		})
	})
}
