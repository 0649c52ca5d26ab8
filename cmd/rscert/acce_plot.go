package main

import (
	"path/filepath"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/reliability"
)

// draw draws the figure of the study and writes it to the files of --plot.
func (o acceOptions) draw(formats []picture.Format, study *acce.Study, results []acce.Result, path string) error {
	if len(formats) == 0 {
		return nil
	}
	attack, err := reliability.OfStudy(study, results)
	if err != nil {
		return err
	}
	attack.Title = filepath.Base(displayPath(path)) + ": calibration under attack"
	if o.plotSize != nil {
		attack.Size = *o.plotSize
	}
	return writePictures(o.plots, formats, attack.Draw)
}
