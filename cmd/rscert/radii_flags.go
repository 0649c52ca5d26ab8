package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/radius"
)

// radii is the value of a flag that takes a list of radii. The user separates the radii by commas or repeats the flag.
// A repeated radius counts once.
type radii struct {
	values    *[]float64
	ascending bool // sort the radii; false: keep the user's order
	set       bool // whether the user has given radii
}

// radiiVar adds a flag that takes a list of radii for a table. It sorts the radii in ascending order.
func radiiVar(f *pflag.FlagSet, values *[]float64, flag, usage string) {
	f.Var(&radii{values: values, ascending: true}, flag, usage)
}

// orderedRadiiVar adds a flag that takes a list of radii for a run. The radii keep the order in which the user gives
// them.
func orderedRadiiVar(f *pflag.FlagSet, values *[]float64, flag, usage string) {
	f.Var(&radii{values: values}, flag, usage)
}

func (r *radii) Set(s string) error {
	var earlier []float64
	if r.set {
		earlier = *r.values
	}
	all, err := radius.ParseList(earlier, s)
	if err != nil {
		return err
	}
	if r.ascending {
		slices.Sort(all)
	}
	*r.values, r.set = all, true
	return nil
}

func (r *radii) String() string {
	if r.values == nil { // pflag calls String on a zero value
		return "[]"
	}
	return "[" + strings.Join(r.GetSlice(), ",") + "]"
}

// Type returns the name of the type, which --help shows. It is the name that pflag gives to a list of numbers.
func (*radii) Type() string { return "float64Slice" }

// Append, Replace and GetSlice implement pflag.SliceValue. So a config file can give a list.
func (r *radii) Append(s string) error { return r.Set(s) }

// Replace implements pflag.SliceValue.
func (r *radii) Replace(list []string) error {
	r.set = false
	return r.Set(strings.Join(list, ","))
}

// GetSlice implements pflag.SliceValue.
func (r *radii) GetSlice() []string {
	var texts []string
	for _, x := range *r.values {
		texts = append(texts, strconv.FormatFloat(x, 'g', -1, 64))
	}
	return texts
}

// oneRadius is the value of a flag that takes one radius.
type oneRadius struct {
	value *float64
	parse func(string) (float64, error)
}

// radiusVar adds a flag that takes a radius.
func radiusVar(f *pflag.FlagSet, value *float64, flag, usage string) {
	f.Var(oneRadius{value, radius.Parse}, flag, usage)
}

// perturbationVar adds a flag that takes the largest norm of a perturbation.
func perturbationVar(f *pflag.FlagSet, value *float64, flag, usage string) {
	f.Var(oneRadius{value, radius.ParseWithin}, flag, usage)
}

func (r oneRadius) Set(s string) error {
	x, err := r.parse(s)
	if err == nil {
		*r.value = x
	}
	return err
}

func (r oneRadius) String() string {
	if r.value == nil { // pflag calls String on a zero value
		return "0"
	}
	return strconv.FormatFloat(*r.value, 'g', -1, 64)
}

func (oneRadius) Type() string { return "float64" }
