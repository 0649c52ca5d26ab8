// Package param lets errors, hints and warnings name parameters without knowing how a user sets them. The command line
// spells the parameter 'seed' as --seed. Another front end may spell it differently.
package param

import (
	"fmt"
	"strings"
)

// Name is the name of a parameter in run.json. If run.json does not record the parameter, Name is the name of the flag.
type Name string

// Spelling returns a parameter's name as a front end writes it.
type Spelling func(Name) string

// Plain is the Spelling that leaves a name unchanged.
func Plain(n Name) string { return string(n) }

// speller is an error whose text names parameters.
type speller interface {
	error
	Spell(Spelling) string
}

// Text is a text that names parameters. Its arguments may be names of type Name. They may also be other Texts, or
// errors whose texts name parameters.
type Text struct {
	format string
	args   []any
}

// Textf returns a Text. The format follows fmt.Errorf.
func Textf(format string, args ...any) Text {
	if false {
		_ = fmt.Errorf(format, args...) // this call lets 'go vet' check the callers' formats
	}
	return Text{format, args}
}

// Spell returns the text with parameter names spelled by s.
func (t Text) Spell(s Spelling) string { return t.wrap(s).Error() }

// wrap returns an error with the text. The function s spells the parameter names. If the format has the verb %w, the
// error wraps the argument of this verb.
func (t Text) wrap(s Spelling) error {
	args := make([]any, len(t.args))
	for i, arg := range t.args {
		switch a := arg.(type) {
		case Name:
			args[i] = s(a)
		case Text:
			args[i] = a.Spell(s)
		case error:
			args[i] = spelled{a, Spell(a, s)}
		default:
			args[i] = arg
		}
	}
	return fmt.Errorf(t.format, args...)
}

// The type 'spelled' wraps an error and gives it another text.
type spelled struct {
	error
	text string
}

func (e spelled) Error() string { return e.text }
func (e spelled) Unwrap() error { return e.error }

// namedError is an error whose text names parameters.
type namedError struct {
	text Text
	err  error // an error with the same text, in which the function Plain has spelled the parameter names
}

// Errorf is like fmt.Errorf, for a text that may name parameters. The result's method Error spells the parameter names
// with Plain.
func Errorf(format string, args ...any) error {
	t := Textf(format, args...)
	return &namedError{t, t.wrap(Plain)}
}

func (e *namedError) Error() string           { return e.err.Error() }
func (e *namedError) Unwrap() error           { return e.err }
func (e *namedError) Spell(s Spelling) string { return e.text.Spell(s) }

// Spell returns the text of err with parameter names spelled by s. If err wraps an error that names parameters, Spell
// respells only the text of the wrapped error. It keeps the words that err adds before and after that text.
func Spell(err error, s Spelling) string {
	if e, ok := err.(speller); ok { //nolint:errorlint // the code below handles wrapped errors
		return e.Spell(s)
	}
	text := err.Error()
	for _, inner := range wrapped(err) {
		if inner != nil {
			text = strings.Replace(text, inner.Error(), Spell(inner, s), 1)
		}
	}
	return text
}

func wrapped(err error) []error {
	switch e := err.(type) { //nolint:errorlint // the function unwraps only one step
	case interface{ Unwrap() error }:
		return []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		return e.Unwrap()
	}
	return nil
}
