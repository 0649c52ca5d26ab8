package run

import (
	"errors"
	"io/fs"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
)

// chooseSelection settles which examples --max takes: the first ones, or, of data that stand class by class, some of all
// classes. A resumed run keeps its own.
func (p *Plan) chooseSelection(data *dataset.Dataset, console Console) error {
	switch {
	case p.FixedSelect != nil:
		p.Select = *p.FixedSelect
		return nil
	case p.Max == 0:
		return nil
	case p.Resume:
		run, err := runfolder.Read(p.Out)
		if err == nil {
			p.Select = run.Parameters.Select
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if data.SortedByLabel() && (data.Len()-1)/p.Skip+1 > p.Max {
		p.Select = runfolder.Spread
		console.notef("examples: %d spread over all of %d, which stand class by class; %s first takes the first ones", p.Max, data.Len(), param.Select)
	}
	return nil
}
