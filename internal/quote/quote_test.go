package quote

import (
	"bytes"
	"errors"
	"io/fs"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"":                   "",
		"a b.csv":            "a b.csv",
		`back\slash "quote"`: `back\slash "quote"`,
		"größe 数":            "größe 数",
		"\x1b[2Jx":           `\x1b[2Jx`,
		"a\nb\r\t\x00":       `a\nb\r\t\x00`,
		"\xff\u009bx":        `\xff\u009bx`,
		"\u202egpj":          `\u202egpj`,
		"\ufffd":             "\ufffd",
		"::error::x":         `\x3a:error::x`,
		" ::error::x":        ` \x3a:error::x`,
		"\n::error::x":       `\n::error::x`, // no longer at the start of a line
		"a::b #1 ##":         "a::b #1 ##",
		"a ##[error]b":       `a \x23#[error]b`,
		"##vso[task]":        `\x23#vso[task]`,
	} {
		if got := Line(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestAtMostALine(t *testing.T) {
	long := strings.Repeat("é", 5000)
	for _, got := range []string{Name(long), Field(long), Field([]byte(long)), Name("x" + long), Field("x" + long)} {
		if len(got) > show+8 || len(got) < show || !strings.HasSuffix(got, "…") || !utf8.ValidString(got) || strings.Contains(got, `\x`) {
			t.Errorf("%d bytes: %s", len(got), got)
		}
	}
	exact := strings.Repeat("x", show)
	if Name(exact) != exact || Field(exact) != `"`+exact+`"` || Name(exact+"y") != exact+"…" {
		t.Error(Name(exact), Field(exact), Name(exact+"y"))
	}
	if got := Field("a\x1b"); got != `"a\x1b"` {
		t.Error(got)
	}
}

func TestError(t *testing.T) {
	plain := errors.New("x.csv: no rows")
	if Error(plain) != plain || Error(nil) != nil {
		t.Error("changed without need")
	}
	odd := &fs.PathError{Op: "open", Path: "a\x1bc", Err: fs.ErrNotExist}
	if got := Error(odd); got.Error() != `open a\x1bc: file does not exist` || !errors.Is(got, fs.ErrNotExist) {
		t.Error(got)
	}
}

func FuzzLine(f *testing.F) {
	f.Add("a\x1b[31m\xff\u202e数")
	f.Fuzz(func(t *testing.T, s string) {
		for _, got := range []string{Line(s), Name(s), Field(s)} {
			if !printable(got) {
				t.Errorf("%q is printed as %q", s, got)
			}
		}
		if Line(Line(s)) != Line(s) {
			t.Errorf("%q is quoted twice", s)
		}
	})
}

// TestShell gives quoted words to bash. The output of bash must be the words, unchanged.
func TestShell(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	for _, word := range []string{"run", "a b", "it's", `back\slash`, "$(touch x)", "`touch x`", "=1+1", "-n", "a;b", "", "*", "~",
		"a\nb", "a\x1b[2J1'\\", "\xff\x01\x7f7", "größe", "\u202egpj", "!x\r", "\x01" + "7"} {
		quoted := Shell(word)
		if strings.ContainsFunc(quoted, func(r rune) bool { return r < ' ' || r == '\x7f' }) {
			t.Errorf("%q is quoted with control bytes: %q", word, quoted)
		}
		got, err := exec.CommandContext(t.Context(), bash, "-c", "printf %s "+quoted).Output()
		if word == "-n" { // here printf itself interprets the word
			got, err = exec.CommandContext(t.Context(), bash, "-c", "printf %s -- "+quoted).Output()
			got = bytes.TrimPrefix(got, []byte("--"))
		}
		if err != nil || string(got) != word {
			t.Errorf("%q is quoted as %s, and read as %q, %v", word, quoted, got, err)
		}
	}
}
