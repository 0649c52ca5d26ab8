// Package choice holds lists of values that a user chooses by name. The parser, the help of a flag, shell completion
// and the lists in tests all use one List.
package choice

import (
	"fmt"
	"strings"
)

// List holds the values of one kind, in the order in which help shows them.
type List[T fmt.Stringer] struct {
	kind     string // word for the values in the errors of Unmarshal, for example "precision"
	values   []T
	what     func(T) string
	optional bool
}

// Of returns a List of values. The method String of a value returns the value's name. The argument 'kind' is the word
// by which errors call such a value, for example "precision".
func Of[T fmt.Stringer](kind string, values ...T) List[T] {
	return List[T]{kind: kind, values: values}
}

// Describe returns l with a line of help for each value. The function 'what' returns the line for a value.
func (l List[T]) Describe(what func(T) string) List[T] {
	l.what = what
	return l
}

// Optional returns a List like l in which "" is also a valid name. The name "" stands for the zero value.
func (l List[T]) Optional() List[T] {
	l.optional = true
	return l
}

// Values returns all values.
func (l List[T]) Values() []T { return l.values }

// Names returns the names of all values.
func (l List[T]) Names() []string {
	names := make([]string, len(l.values))
	for i, v := range l.values {
		names[i] = v.String()
	}
	return names
}

// What is the method that returns the line of help for v, or "" if there is none.
func (l List[T]) What(v T) string {
	if l.what == nil {
		return ""
	}
	return l.what(v)
}

// String returns the names as a phrase: "a, b or c".
func (l List[T]) String() string { return Or(l.Names()) }

// Described returns the same phrase as String, but each name is followed by its line of help in brackets.
func (l List[T]) Described() string {
	names := l.Names()
	for i, v := range l.values {
		if what := l.What(v); what != "" {
			names[i] = Described(names[i], what)
		}
	}
	return Or(names)
}

// Described returns a name with its help in brackets.
func Described(name, what string) string { return name + " (" + what + ")" }

// Or joins names into the form "a, b or c".
func Or(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// Parse returns the value with this name. Its error lists the valid names.
func (l List[T]) Parse(name string) (T, error) {
	var none T
	if name == "" && l.optional {
		return none, nil
	}
	for _, v := range l.values {
		if v.String() == name {
			return v, nil
		}
	}
	return none, fmt.Errorf("%.40q: want %s", name, l)
}

// Unmarshal parses a name from a file. A method UnmarshalText (see encoding.TextUnmarshaler) can call it. Its error
// begins with the word for the values that the List got from Of (the argument 'kind'), for example "precision". If the
// name is unknown, the variable *to keeps its value.
func (l List[T]) Unmarshal(text []byte, to *T) error {
	v, err := l.Parse(string(text))
	if err != nil {
		return fmt.Errorf("%s %w", l.kind, err)
	}
	*to = v
	return nil
}
