package quote

import (
	"fmt"
	"regexp"
	"strings"
)

// plainWord leaves out what begins with "=": zsh looks for a program of this name.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:,@%+-][A-Za-z0-9_./:,@%+=-]*$`)

// Shell quotes a word for a POSIX shell, on one line. Unprintable characters become escapes in $'…', which bash, zsh,
// ksh and POSIX since 2024 read; do not write such words into a script for sh.
func Shell(s string) string {
	switch {
	case plainWord.MatchString(s):
		return s
	case printable(s):
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\'' || c == '\\':
			b.WriteString(`\` + string(rune(c)))
		case ' ' <= c && c <= '~':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\%03o`, c) // three digits: a digit may follow
		}
	}
	return "$'" + b.String() + "'"
}
