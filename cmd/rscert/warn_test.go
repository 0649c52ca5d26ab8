package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/warning"
)

// eachSource calls the function 'do' for each Go file of cmd and internal that is not a test.
func eachSource(t *testing.T, do func(path string)) {
	t.Helper()
	files := 0
	for _, root := range []string{"../../cmd", "../../internal"} {
		err := filepath.WalkDir(filepath.FromSlash(root), func(path string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				files++
				do(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if files < 300 {
		t.Errorf("%d files were read", files)
	}
}

// Only the method streams.warn prints warnings, so every warning has a code.
func TestOneEmitterOfWarnings(t *testing.T) {
	prefix := regexp.MustCompile(`(?i)\bwarning: `)
	emitters := 0
	eachSource(t, func(path string) {
		stringsIn(t, path, func(at token.Position, s string) {
			switch {
			case !prefix.MatchString(s):
			case filepath.Base(path) == "warn.go":
				emitters++
			default:
				t.Errorf("%s: %q prints a warning without a code", at, s)
			}
		})
	})
	if emitters != 1 {
		t.Errorf("warn.go prints warnings in %d places, want 1", emitters)
	}
}

// Each code in internal/warning/table.go must be used by at least one warning.
func TestWarningCodesAreUsed(t *testing.T) {
	used := map[string]bool{}
	eachSource(t, func(path string) {
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "warning" {
					used[s.Sel.Name] = true
				}
			}
			return true
		})
	})
	names := 0
	eachCode(t, func(name string) {
		names++
		if !used[name] {
			t.Errorf("no warning has the code %s", name)
		}
	})
	if want := len(warning.Codes.Values()); names != want {
		t.Errorf("%d constants, %d codes", names, want)
	}
}

// eachCode calls the function 'do' for the name of each constant in internal/warning/table.go.
func eachCode(t *testing.T, do func(name string)) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), filepath.FromSlash("../../internal/warning/table.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		for _, s := range g.Specs {
			for _, name := range s.(*ast.ValueSpec).Names {
				do(name.Name)
			}
		}
	}
}
