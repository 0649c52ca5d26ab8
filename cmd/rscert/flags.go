package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/choice"
)

// The function 'given' returns the argument 'value' if the flag is on the command line, and nil otherwise.
func given[T any](cmd *cobra.Command, flag string, value *T) *T {
	if cmd.Flags().Lookup(flag) == nil {
		panic("no flag --" + flag)
	}
	if !cmd.Flags().Changed(flag) {
		return nil
	}
	return value
}

// integer is the value of a flag that takes a whole number, in a form such as 100000, 100_000 or 1e5.
type integer[T int | int64 | uint64] struct{ value *T }

// integerVar adds a flag that takes a whole number.
func integerVar[T int | int64 | uint64](f *pflag.FlagSet, value *T, flag string, initial T, usage string) {
	*value = initial
	f.Var(integer[T]{value}, flag, usage)
}

// exactFloats is 2⁵³. A float64 represents every whole number up to 2⁵³.
const exactFloats = 1 << 53

func (n integer[T]) Set(s string) error {
	if v, err := strconv.ParseInt(s, 0, 64); err == nil && int64(T(v)) == v && (T(v) < 0) == (v < 0) {
		*n.value = T(v)
		return nil
	}
	if v, err := strconv.ParseUint(s, 0, 64); err == nil && uint64(T(v)) == v && T(v) >= 0 {
		*n.value = T(v)
		return nil
	}
	x, err := strconv.ParseFloat(s, 64)
	if err == nil && x == math.Trunc(x) && math.Abs(x) <= exactFloats && (x >= 0 || T(0)-1 < 0) {
		*n.value = T(x)
		return nil
	}
	return fmt.Errorf("%q: want a whole number, as 100000 or 1e5", s)
}

func (n integer[T]) String() string {
	if n.value == nil { // pflag calls String on a zero value
		return "0"
	}
	return fmt.Sprint(*n.value)
}

func (n integer[T]) Type() string { return "int" }

// choiceValue is the value of a flag that takes one value from a list. The user gives the name of this value.
type choiceValue[T fmt.Stringer] struct {
	value *T
	list  choice.List[T]
}

// choiceVar adds a flag that takes one value from a list.
func choiceVar[T fmt.Stringer](f *pflag.FlagSet, value *T, flag string, initial T, list choice.List[T], usage string) {
	*value = initial
	f.Var(choiceValue[T]{value, list}, flag, usage)
	choices(f, flag, described(list)...)
}

func (c choiceValue[T]) Set(s string) error {
	v, err := c.list.Parse(s)
	if err == nil {
		*c.value = v
	}
	return err
}

func (c choiceValue[T]) String() string {
	if c.value == nil { // pflag calls String on a zero value
		return ""
	}
	return (*c.value).String()
}

// Type returns "". So --help names the value only if the usage text has a name in backquotes. For the flags of TextVar,
// too, --help names the value only in this case.
func (choiceValue[T]) Type() string { return "" }

// choiceList is the value of a flag that takes several values from a list. The user gives the names of these values,
// separated by commas, or repeats the flag. Each name may occur once.
type choiceList[T fmt.Stringer] struct {
	values *[]T
	list   choice.List[T]
	set    bool // whether the user has replaced the default in the field 'values'
}

// choiceListVar adds a flag that takes several values from a list.
func choiceListVar[T fmt.Stringer](f *pflag.FlagSet, values *[]T, flag string, initial []T, list choice.List[T], usage string) {
	*values = initial
	f.Var(&choiceList[T]{values: values, list: list}, flag, usage)
	choices(f, flag, described(list)...)
}

func (l *choiceList[T]) Set(s string) error {
	var chosen []T
	if l.set {
		chosen = *l.values
	}
	for name := range strings.SplitSeq(s, ",") {
		value, err := l.list.Parse(name)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(chosen, func(v T) bool { return v.String() == value.String() }) {
			return fmt.Errorf("%s is given twice", value)
		}
		chosen = append(chosen, value)
	}
	*l.values, l.set = chosen, true
	return nil
}

func (l *choiceList[T]) String() string {
	if l.values == nil { // pflag calls String on a zero value
		return "[]"
	}
	var names []string
	for _, v := range *l.values {
		names = append(names, v.String())
	}
	return "[" + strings.Join(names, ",") + "]"
}

func (*choiceList[T]) Type() string { return listType }

// listType is the type that --help shows for flags with lists.
const listType = "strings"
