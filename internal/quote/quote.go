// Package quote makes text of unknown origin printable: fields of a table and the names of files, tensors, classes and
// columns. Text of unknown origin may contain any characters, even codes that move a terminal's cursor.
package quote

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rscert/rscert/internal/param"
)

// At most 'show' bytes of a name or a field are printed. These bytes fill about one line.
const show = 80

// Line returns s on one line, with unprintable characters escaped as in Go. It keeps spaces and the letters of all
// scripts. It escapes marks that change the direction of writing. It also escapes the first character of commands to CI
// services: "::error" at the start of a line, and "##[error]" or "##vso[task]" anywhere.
func Line(s string) string { return disarm(escape(s)) }

// commands matches the beginning of a command to GitHub Actions, Azure Pipelines or TeamCity.
var commands = regexp.MustCompile(`^\s*::|##[a-zA-Z-]*\[`)

func disarm(s string) string {
	return commands.ReplaceAllStringFunc(s, func(command string) string {
		at := strings.IndexAny(command, ":#")
		return fmt.Sprintf(`%s\x%02x%s`, command[:at], command[at], command[at+1:])
	})
}

func escape(s string) string {
	if printable(s) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if valid := r != utf8.RuneError || n > 1; valid && strconv.IsPrint(r) {
			b.WriteString(s[:n])
		} else {
			q := strconv.Quote(s[:n])
			b.WriteString(q[1 : len(q)-1])
		}
		s = s[n:]
	}
	return b.String()
}

func printable(s string) bool {
	for i, r := range s {
		if !strconv.IsPrint(r) {
			return false
		}
		if _, n := utf8.DecodeRuneInString(s[i:]); r == utf8.RuneError && n == 1 {
			return false
		}
	}
	return true
}

// Name applies Line to a name or to a short list of names. It limits the result to about one line.
func Name(s string) string {
	s, more := cut(s)
	return Line(s) + more
}

// Field returns s as a quoted Go string, and limits it to about one line.
func Field[T string | []byte](s T) string {
	text, more := cut(string(s[:min(len(s), show+utf8.UTFMax)]))
	return disarm(strconv.Quote(text)) + more
}

// cut returns the beginning of s. The constant 'show' is the maximum length in bytes. The result 'more' is an ellipsis
// if cut shortened s.
func cut(s string) (text, more string) {
	if len(s) <= show {
		return s, ""
	}
	end := show
	for end > show-utf8.UTFMax && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end], "…"
}

// Error returns an error with printable text. The error wraps err.
func Error(err error) error {
	if err == nil || Line(err.Error()) == err.Error() {
		return err
	}
	return quoted{err}
}

type quoted struct{ error }

func (q quoted) Error() string { return Line(q.error.Error()) }
func (q quoted) Unwrap() error { return q.error }

// Spell returns the text of the error, made printable. The function s spells the names of parameters in this text.
func (q quoted) Spell(s param.Spelling) string { return Line(param.Spell(q.error, s)) }
