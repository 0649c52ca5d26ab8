package main

import (
	"encoding"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// given returns value where its flag was set on the command line, and nil where value is the default.
func given[T any](cmd *cobra.Command, flag string, value *T) *T {
	if cmd.Flags().Lookup(flag) == nil {
		panic("no flag --" + flag)
	}
	if !cmd.Flags().Changed(flag) {
		return nil
	}
	return value
}

// integer is the value of a flag that takes a whole number: 100000, 100_000 or 1e5.
type integer[T int | int64 | uint64] struct{ value *T }

// integerVar adds a flag that takes a whole number.
func integerVar[T int | int64 | uint64](f *pflag.FlagSet, value *T, flag string, initial T, usage string) {
	*value = initial
	f.Var(integer[T]{value}, flag, usage)
}

// exactFloats is up to where every whole number is a float64.
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
	if n.value == nil { // pflag asks a zero value for its text
		return "0"
	}
	return fmt.Sprint(*n.value)
}

func (n integer[T]) Type() string { return "int" }

// textList is the value of a flag that takes a list of names, comma-separated or by repeating the flag, each once.
type textList[T encoding.TextMarshaler, P interface {
	*T
	encoding.TextUnmarshaler
}] struct {
	values *[]T
	set    bool // the default has been replaced
}

// textListVar adds a flag whose values are those of T, by their names.
func textListVar[T encoding.TextMarshaler, P interface {
	*T
	encoding.TextUnmarshaler
}](f *pflag.FlagSet, values *[]T, flag string, initial []T, usage string) {
	*values = initial
	f.Var(&textList[T, P]{values: values}, flag, usage)
}

func (l *textList[T, P]) Set(s string) error {
	var list []T
	if l.set {
		list = *l.values
	}
	for name := range strings.SplitSeq(s, ",") {
		var value T
		if err := P(&value).UnmarshalText([]byte(name)); err != nil {
			return err
		}
		if slices.ContainsFunc(list, func(v T) bool { return textOf(v) == textOf(value) }) {
			return fmt.Errorf("%s is given twice", textOf(value))
		}
		list = append(list, value)
	}
	*l.values, l.set = list, true
	return nil
}

func (l *textList[T, P]) String() string {
	if l.values == nil { // pflag asks a zero value for its text
		return "[]"
	}
	var names []string
	for _, v := range *l.values {
		names = append(names, textOf(v))
	}
	return "[" + strings.Join(names, ",") + "]"
}

func (*textList[T, P]) Type() string { return listType }

// listType is the Type of lists, which --help shows.
const listType = "strings"

// textOf is the name of v, which has one.
func textOf(v encoding.TextMarshaler) string {
	text, err := v.MarshalText()
	if err != nil {
		panic(err)
	}
	return string(text)
}
