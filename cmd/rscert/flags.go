package main

import (
	"encoding"
	"errors"
	"fmt"
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

// explainFlag is the FlagErrorFunc of commands with flags of text values: their errors name the value themselves.
func explainFlag(_ *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	var number *strconv.NumError // of a flag that is no text value
	if errors.As(err, &number) {
		return err
	}
	return fmt.Errorf("--%s: %w", invalid.GetFlag().Name, invalid.Unwrap())
}

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

func (*textList[T, P]) Type() string { return "strings" }

// textOf is the name of v, which has one.
func textOf(v encoding.TextMarshaler) string {
	text, err := v.MarshalText()
	if err != nil {
		panic(err)
	}
	return string(text)
}
