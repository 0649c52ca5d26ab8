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
	f.StringVar(&o.html, "html", "", "write one HTML `file` that holds all: curves, a table of the examples, "+
		"parameters")
	f.StringVar(&o.data, "data", "", "with --html: the `data` set of the runs, for pictures of the examples")
	integerVar(f, &o.pictures, "pictures", 1000, "with --data: pictures of at most this many examples of a run, the "+
		"first ones")
	f.StringVar(&o.classNames, "class-names", "", "with --html: `file` of the names of the classes, as certify "+
		"takes it")
}

// check refuses flags that play no part.
func (o pageOptions) check(inputs ...string) error {
	switch {
	case o.html == "" && (o.data != "" || o.classNames != ""):
		return badInputf("--data and --class-names are of the page: there is no --html")
	case o.pictures < 0:
		return badInputf("--pictures %d: want at least 0", o.pictures)
	}
	return checkOutput("html", o.html, append(inputs, o.data, o.classNames)...)
}

// write writes the page of the runs, if there is to be one.
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
		return badInputf("--data %s: is the data set of none of the runs", o.data)
	}
	var text bytes.Buffer
	if err := p.Write(ctx, &text); err != nil {
		return err
	}
	return durable.WriteFile(o.html, text.Bytes())
}
