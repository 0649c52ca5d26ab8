package main

import (
	"bytes"
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/report/page"
	"github.com/rscert/rscert/internal/report/tables"
)

// pageOptions are the flags of the HTML page.
type pageOptions struct {
	html       string
	data       string
	classNames string
	pictures   int
}

func pageFlags(cmd *cobra.Command, o *pageOptions) {
	f := cmd.Flags()
	f.StringVar(&o.html, "html", "", "write one HTML `file` with the curves, a table of the examples, "+
		"and the parameters")
	f.StringVar(&o.data, "data", "", "with --html, `path` of the dataset of the runs, for pictures of the examples")
	integerVar(f, &o.pictures, "pictures", 1000, "with --data, maximum number of pictures per run; they show the first examples")
	f.StringVar(&o.classNames, "class-names", "", "with --html, `file` with the class names, in the format of --class-names "+
		"of certify")
}

// check refuses flags that have no effect.
func (o pageOptions) check(inputs ...string) error {
	switch {
	case o.html == "" && (o.data != "" || o.classNames != ""):
		return badInputf("--data and --class-names need --html")
	case o.pictures < 0:
		return badInputf("--pictures %d: want at least 0", o.pictures)
	}
	return checkOutput("html", o.html, append(inputs, o.data, o.classNames)...)
}

// write writes the page of the runs, if --html asks for it.
func (o pageOptions) write(ctx context.Context, r tables.Report) error {
	if o.html == "" {
		return nil
	}
	p := page.Page{Requirements: r.Requirements, Comparisons: r.Comparisons}
	if o.classNames != "" {
		var err error
		if p.ClassNames, err = dataset.ReadClassNames(o.classNames); err != nil {
			return badInput(err)
		}
	}
	drawn := o.data == ""
	for _, sum := range r.Runs {
		shown := page.Run{Summary: sum, Pictures: o.pictures}
		if o.data != "" && sum.Run != nil {
			pictures, err := experiment.OpenPictures(ctx, *sum.Run, o.data)
			switch {
			case err == nil:
				defer pictures.Close()
				shown.Draw, drawn = pictures.Draw, true
			case !errors.Is(err, experiment.ErrOtherData) || len(r.Runs) == 1:
				return err
			}
		}
		p.Runs = append(p.Runs, shown)
	}
	if !drawn {
		return badInputf("--data %s: no run used this dataset", o.data)
	}
	var text bytes.Buffer
	if err := p.Write(ctx, &text); err != nil {
		return err
	}
	return durable.WriteFile(o.html, text.Bytes())
}
