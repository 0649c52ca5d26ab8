package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/sweep"
)

// sweepable lists the flags of the command 'certify' that take one value or, for a sweep, a list of values. They set
// what a user compares: the classifier, the noise, the numbers of samples and the methods.
var sweepable = []string{
	"model", "sigma", "law", "n", "n0", "alpha", "method", "class", "margin", "lipschitz", "stop", "combine", "temperature",
	"top-k", "none", "reject-below", "confidence", "confidence-bound", "band", "outputs", "average", "noise", "precision",
}

// swept is the value of a flag that takes one value, or a list of values for a sweep. Commas separate the values of a
// list.
type swept struct {
	pflag.Value
	// set gives the flag one value.
	set func(string) error
	// split returns the values of a list, or nil if the text is one value.
	split func(string) []string
	list  []string // the values of a list as run.json spells them; nil: the flag has one value
}

// sweepFlags lets each flag in the list 'sweepable' take a list of values instead of one value.
func sweepFlags(f *pflag.FlagSet) {
	for _, name := range sweepable {
		flag := f.Lookup(name)
		v := &swept{Value: flag.Value, set: flag.Value.Set, split: splitList}
		if m, ok := flag.Value.(models); ok {
			v.set, v.split = m.replace, splitModels
		}
		flag.Value = v
	}
}

// splitList returns the parts of a comma-separated list.
func splitList(text string) []string {
	if !strings.Contains(text, ",") {
		return nil
	}
	return strings.Split(text, ",")
}

// splitModels returns the parts of a list of models. A path with a comma is one model if a file has this path.
func splitModels(text string) []string {
	if _, err := os.Stat(text); err == nil {
		return nil
	}
	return splitList(text)
}

// errListAndModels is the error if --model is given more than once and one of its values is a list of models.
var errListAndModels = errors.New("a list of models, separated by commas, makes a sweep of single models; it cannot be combined with a further model")

// Set sets the value, or the list of values. It checks each value of a list.
func (v *swept) Set(text string) error {
	_, ensemble := v.Value.(models)
	parts := v.split(text)
	switch {
	case ensemble && (v.list != nil || parts != nil && v.Value.String() != ""):
		return errListAndModels
	case parts == nil:
		v.list = nil
		return v.Value.Set(text)
	}
	var list []string
	for _, part := range parts {
		if err := v.set(part); err != nil {
			return err
		}
		value := v.Value.String()
		if slices.Contains(list, value) || value == "" {
			return fmt.Errorf("%q: want a list of different values", text)
		}
		list = append(list, value)
	}
	v.list = list
	return v.set(list[0])
}

// String returns the value, or the values separated by commas.
func (v *swept) String() string {
	if v.Value == nil { // pflag calls String on a zero value
		return ""
	}
	if v.list != nil {
		return strings.Join(v.list, ",")
	}
	return v.Value.String()
}

// inner returns the value of a flag. If the flag takes lists (type swept), inner returns the embedded value, which
// takes no list.
func inner(f *pflag.Flag) pflag.Value {
	if v, ok := f.Value.(*swept); ok {
		return v.Value
	}
	return f.Value
}

// takesList reports whether a config file may give the flag a list that makes a sweep. For --model it returns false,
// because a list of models in a config file makes an ensemble.
func takesList(f *pflag.Flag) bool {
	_, ok := f.Value.(*swept)
	return ok && !repeats(f)
}

// sweptGrid returns the grid of all flags that have lists. It returns nil if no flag has a list.
func sweptGrid(f *pflag.FlagSet) (sweep.Grid, error) {
	var axes []sweep.Axis
	f.VisitAll(func(flag *pflag.Flag) {
		if v, ok := flag.Value.(*swept); ok && v.list != nil {
			axes = append(axes, sweep.Axis{Parameter: param.Name(flag.Name), Values: v.list})
		}
	})
	if axes == nil {
		return nil, nil
	}
	return sweep.NewGrid(axes...)
}

// choosePoint sets the flags to the values of one point of the sweep.
func choosePoint(f *pflag.FlagSet, p sweep.Point) error {
	for name, value := range p.Settings {
		v, ok := f.Lookup(string(name)).Value.(*swept)
		if !ok {
			return fmt.Errorf("--%s takes no list", name)
		}
		if err := v.set(value); err != nil {
			return fmt.Errorf("--%s: %w", name, err)
		}
	}
	return nil
}

// sweepPointFlag adds --point.
func sweepPointFlag(cmd *cobra.Command, point *string) {
	cmd.Flags().StringVar(point, "point", "", "run only this `point` of the sweep, given by its name or its number from 0; 'auto' is the point of this task in a Slurm array or a Kubernetes Indexed Job (docs/sweeps.md)")
	choices(cmd.Flags(), "point", "auto")
}

// errNoSweep is the error for --point without a sweep.
var errNoSweep = hint.Add(badInputf("--point: no flag has a list of values, so there is no sweep"), "give a list, as in --sigma 0.25,0.5")
