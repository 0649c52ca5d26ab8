package certify

import (
	"fmt"
	"slices"

	"github.com/rscert/rscert/internal/choice"
)

// A Row describes a method to users: its name, whether it is sound, what it does and which papers it comes from.
type Row[M ~string] struct {
	Name M
	// Sound means that the failure probability of the method's statements is at most α for every classifier. Unsound
	// methods are kept to reproduce a paper.
	Sound bool
	What  string // what the method does, in one line
	// Papers holds the keys of the method's sources in docs/references.md, separated by spaces.
	Papers string
}

// A table lists all methods of one kind, the default first. The parser, the help, the method 'sound' and the tests all
// read the table. So a new method needs one file and one entry in its table.
//
// The zero value of a method means "not given". Its text is "". If a method is required, the zero value stands for the
// default.
type table[M named, F any] struct {
	kind    string // word that errors use for a method of this kind
	entries []entry[M, F]
}

// The constraint 'named' admits string types with a method String. These are the types of method names, for example
// VoteMethod.
type named interface {
	~string
	fmt.Stringer
}

// entry is one method in a table of methods. It holds the method's row in help and docs, and the function that
// implements the method, if there is one.
type entry[M named, F any] struct {
	name   M
	sound  bool
	what   string
	papers string
	do     F
}

// find returns the entry with the given name, or the default entry if no name is given.
func (t *table[M, F]) find(name M) (entry[M, F], error) {
	if name == "" {
		return t.entries[0], nil
	}
	if i := slices.IndexFunc(t.entries, func(e entry[M, F]) bool { return e.name == name }); i >= 0 {
		return t.entries[i], nil
	}
	return entry[M, F]{}, t.list().Unmarshal([]byte(name), new(M))
}

// do returns the function that implements the method with this name. It panics if there is no such method.
func (t *table[M, F]) do(name M) F {
	e, err := t.find(name)
	if err != nil {
		panic(err)
	}
	return e.do
}

// list returns the names of the methods as a choice.List.
func (t *table[M, F]) list() choice.List[M] {
	var known []M
	for _, e := range t.entries {
		known = append(known, e.name)
	}
	return choice.Of(t.kind, known...).Optional()
}

// parse parses a name. Empty text means "not given".
func (t *table[M, F]) parse(text []byte, to *M) error { return t.list().Unmarshal(text, to) }

// The method 'complete' replaces an absent name by the default, and checks a given name.
func (t *table[M, F]) complete(name *M) error {
	e, err := t.find(*name)
	if err == nil {
		*name = e.name
	}
	return err
}

// The method 'sound' reports whether the name is known and its method is sound.
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
