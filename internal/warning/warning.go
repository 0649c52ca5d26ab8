// Package warning holds the codes of all warnings. A warning tells the user that a result may not be what the user
// wants. Scripts may rely on the codes, so a code never changes its name. The command 'rscert explain' explains each
// code.
package warning

import (
	"fmt"

	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/param"
)

// Code identifies a kind of warning. The zero value is not a code.
type Code int

// Warning holds the text of a warning and the code of its kind.
type Warning struct {
	Code Code
	Text param.Text
}

// New returns a Warning. The arguments may name parameters, as in param.Textf.
func New(code Code, format string, args ...any) Warning {
	return Warning{code, param.Textf(format, args...)}
}

// Spell returns the line of the warning, which ends with the code in brackets. Parameter names are spelled by s.
func (w Warning) Spell(s param.Spelling) string {
	return fmt.Sprintf("%s [%s]", w.Text.Spell(s), w.Code)
}

// Codes lists all codes with their titles.
var Codes = choice.Of("warning code", all()...).Describe(Code.Title)

// all returns all codes in the order of the table.
func all() []Code {
	codes := make([]Code, 0, len(table)-1)
	for c := range table[1:] {
		codes = append(codes, Code(c+1))
	}
	return codes
}

// String returns the name of the code.
func (c Code) String() string { return table[c].name }

// MarshalText returns the name of the code.
func (c Code) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Title says in a few words what the warnings with this code are about.
func (c Code) Title() string { return table[c].title }

// Explanation says what the warnings with this code mean, and what to do about them.
func (c Code) Explanation() param.Text { return table[c].explanation }

// Equal reports whether two warnings are the same.
func (w Warning) Equal(other Warning) bool {
	return w.Spell(param.Plain) == other.Spell(param.Plain)
}
