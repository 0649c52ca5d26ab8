package certify

import (
	"fmt"
	"slices"

	"github.com/rscert/rscert/internal/choice"
)

// A Row says of one method what a user needs to choose it.
type Row[M ~string] struct {
	Name M
	// Sound: the failure probability of what it states is at most α for every
	// classifier. Methods that are not are kept to reproduce a paper.
	Sound bool
	What  string // what it does, in one line
	// Papers are the keys of what it rests on, in docs/references.md, with spaces between.
	Papers string
}

// A table lists all methods of one kind, the default first. Parsing, help, soundness
// and the lists of tests come from it: a new method is a file and an entry here.
//
// A method's zero value means that it is not given: it is "" as text, and the default
// where one is needed.
type table[M named, F any] struct {
	kind    string // in errors
	entries []entry[M, F]
}

// named is a method by its name.
type named interface {
	~string
	fmt.Stringer
}

// entry is a Row and, where a kind has one, the function that carries the method out.
type entry[M named, F any] struct {
	name   M
	sound  bool
	what   string
	papers string
	do     F
}

// find returns the entry of name, or that of the default if name is not given.
func (t *table[M, F]) find(name M) (entry[M, F], error) {
	if name == "" {
		return t.entries[0], nil
	}
	if i := slices.IndexFunc(t.entries, func(e entry[M, F]) bool { return e.name == name }); i >= 0 {
		return t.entries[i], nil
	}
	return entry[M, F]{}, t.list().Unmarshal([]byte(name), new(M))
}

// do returns the function of name, which has been checked.
func (t *table[M, F]) do(name M) F {
	e, err := t.find(name)
	if err != nil {
		panic(err)
	}
	return e.do
}

// list are the names, as a choice.
func (t *table[M, F]) list() choice.List[M] {
	var known []M
	for _, e := range t.entries {
		known = append(known, e.name)
	}
	return choice.Of(t.kind, known...).Optional()
}

// parse reads a name, or nothing: not given.
func (t *table[M, F]) parse(text []byte, to *M) error { return t.list().Unmarshal(text, to) }

// complete puts the default into a name that is not given, and checks one that is.
func (t *table[M, F]) complete(name *M) error {
	e, err := t.find(*name)
	if err == nil {
		*name = e.name
	}
	return err
}

// sound reports whether name is known and sound.
func (t *table[M, F]) sound(name M) bool {
	e, err := t.find(name)
	return err == nil && e.sound
}

func (t *table[M, F]) rows() []Row[M] {
	var rows []Row[M]
	for _, e := range t.entries {
		rows = append(rows, Row[M]{e.name, e.sound, e.what, e.papers})
	}
	return rows
}
