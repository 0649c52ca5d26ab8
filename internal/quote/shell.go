package quote

import (
	"fmt"
	"regexp"
	"strings"
)

// plainWord matches words that need no quotes. It does not match a word that begins with "=", because zsh replaces such
// a word by the path of a program.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_./:,@%+-][A-Za-z0-9_./:,@%+=-]*$`)

// Shell quotes a word for a POSIX shell. The quoted word is on one line. Unprintable characters become escapes in $'…'.
// The shells bash, zsh and ksh understand these escapes, and POSIX has contained them since 2024. Do not write a word
// with these escapes into a script for sh.
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
			fmt.Fprintf(&b, `\%03o`, c) // three digits, because another digit may follow
		}
	}
	return "$'" + b.String() + "'"
}
