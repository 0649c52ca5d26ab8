package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/warning"
)

// flagNames returns the names of the flags of all commands.
func flagNames() map[string]bool {
	names := map[string]bool{"help": true}
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
		for _, c := range cmd.Commands() {
			visit(c)
		}
	}
	visit(newRoot(streams{}, new(bool)))
	return names
}

// stringsIn calls the function 'do' for each string constant in a Go file.
func stringsIn(t *testing.T, file string, do func(at token.Position, value string)) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			do(set.Position(lit.Pos()), constant.StringVal(constant.MakeFromLiteral(lit.Value, lit.Kind, 0)))
		}
		return true
	})
}

// TestParametersAreFlags checks that each parameter in package param is the name of a flag.
func TestParametersAreFlags(t *testing.T) {
	flags, seen := flagNames(), 0
	stringsIn(t, "../../internal/param/names.go", func(at token.Position, name string) {
		seen++
		if !flags[name] {
			t.Errorf("%s: there is no flag --%s", at, name)
		}
	})
	if seen < 30 {
		t.Errorf("%d names were found", seen)
	}
}

// If an error, a hint or a note names a parameter, the command line must print the name as a flag.
func TestSpellsParametersAsFlags(t *testing.T) {
	err := hint.Add(badInput(fmt.Errorf("run: %w", param.Errorf("%s 0: want more", param.Sigma))), "give %s", param.Seed)
	if got := errorText(err); got != "run: --sigma 0: want more" {
		t.Error(got)
	}
	if got, _ := hint.Of(withSeeHelp(newRoot(streams{}, new(bool)), err)); got != "give --seed see 'rscert --help'" {
		t.Error(got)
	}
	var said strings.Builder
	console := streams{err: &said}.console(false)
	console.Warnf(warning.ShardSeed, "%s is 0", param.N)
	console.Note(param.Textf("%s is drawn", param.Seed))
	if got := said.String(); got != "warning: --n is 0 [shard-seed]\n--seed is drawn\n" {
		t.Error(got)
	}
}

// namesFlags lists files in the folder 'internal'. Strings in these files may name flags, because the files write
// command lines.
var namesFlags = []string{"cluster/array.go", "cluster/indexed_job.go", "cluster/slurm.go", "onnx/gpus.go", "setup/source.go"}

// Internal packages name parameters, not flags: param.Sigma, not --sigma.
func TestInternalStringsNameNoFlags(t *testing.T) {
	flags := flagNames()
	named := regexp.MustCompile(`--([a-z][a-z0-9-]*)`)
	files := 0
	root := filepath.FromSlash("../../internal")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		below, err := filepath.Rel(root, path)
		for _, exempt := range namesFlags {
			if strings.HasPrefix(filepath.ToSlash(below), exempt) {
				return err
			}
		}
		files++
		stringsIn(t, path, func(at token.Position, s string) {
			for _, m := range named.FindAllStringSubmatch(s, -1) {
				if flags[m[1]] {
					t.Errorf("%s: %q names a flag: say param.Name", at, s)
				}
			}
		})
		return err
	})
	if err != nil || files < 100 {
		t.Errorf("%d files were read: %v", files, err)
	}
}
