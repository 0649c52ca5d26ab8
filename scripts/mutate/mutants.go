package main

import (
	"bytes"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gtramontina/ooze/viruses"
	"github.com/gtramontina/ooze/viruses/arithmetic"
	"github.com/gtramontina/ooze/viruses/arithmeticassignment"
	"github.com/gtramontina/ooze/viruses/arithmeticassignmentinvert"
	"github.com/gtramontina/ooze/viruses/bitwise"
	"github.com/gtramontina/ooze/viruses/comparison"
	"github.com/gtramontina/ooze/viruses/comparisoninvert"
	"github.com/gtramontina/ooze/viruses/comparisonreplace"
	"github.com/gtramontina/ooze/viruses/floatdecrement"
	"github.com/gtramontina/ooze/viruses/floatincrement"
	"github.com/gtramontina/ooze/viruses/integerdecrement"
	"github.com/gtramontina/ooze/viruses/integerincrement"
	"github.com/gtramontina/ooze/viruses/loopbreak"
	"github.com/gtramontina/ooze/viruses/loopcondition"
	"github.com/gtramontina/ooze/viruses/rangebreak"
)

// This list holds all changes that ooze can make.
var changes = []viruses.Virus{
	arithmetic.New(), arithmeticassignment.New(), arithmeticassignmentinvert.New(), bitwise.New(),
	comparison.New(), comparisoninvert.New(), comparisonreplace.New(),
	floatdecrement.New(), floatincrement.New(), integerdecrement.New(), integerincrement.New(),
	loopbreak.New(), loopcondition.New(), rangebreak.New(),
}

// A mutant is a file of the package with one change.
type mutant struct {
	name             string
	at               token.Position // position of the change
	function         span           // function around the change; the zero span if the change is outside all functions
	original, source []byte         // text of the file before and after the change
}

// A span is a part of a file.
type span struct{ from, to position }

// A position is a line and a column, both counted from 1.
type position struct{ line, column int }

func (p position) before(q position) bool {
	return p.line < q.line || p.line == q.line && p.column < q.column
}

func (s span) holds(p position) bool { return !p.before(s.from) && p.before(s.to) }

// mutants makes all mutants of the package's files, or of one of these files.
func (p *pkg) mutants(only string) ([]mutant, error) {
	paths, err := filepath.Glob(filepath.Join(p.root, p.folder, "*.go"))
	if err != nil {
		return nil, err
	}
	var all []mutant
	for _, path := range paths {
		if name := filepath.Base(path); strings.HasSuffix(name, "_test.go") || only != "" && name != only {
			continue
		}
		of, err := mutantsOf(path)
		if err != nil {
			return nil, err
		}
		all = append(all, of...)
	}
	return all, nil
}

func mutantsOf(path string) (all []mutant, err error) {
	original, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, original, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	positionOf := func(pos token.Pos) position {
		at := files.Position(pos)
		return position{at.Line, at.Column}
	}
	var function span
	ast.Inspect(file, func(node ast.Node) bool {
		if node == nil {
			return true
		}
		if d, ok := node.(ast.Decl); ok && slices.Contains(file.Decls, d) {
			function = span{}
			if f, ok := d.(*ast.FuncDecl); ok {
				function = span{positionOf(f.Pos()), positionOf(f.End())}
			}
		}
		for _, change := range changes {
			for _, infection := range change.Incubate(node) {
				m := mutant{name: infection.String(), at: files.Position(node.Pos()), function: function, original: original}
				bracket(node, infection).Infect(func() {
					var b bytes.Buffer
					if e := format.Node(&b, files, file); e != nil && err == nil {
						err = e
					}
					m.source = b.Bytes()
				})
				all = append(all, m)
			}
		}
		return true
	})
	return all, err
}

// bracket puts brackets around a number that becomes negative. Otherwise ooze turns 1-0x1p-50 into 1--1,
// which is not Go.
func bracket(node ast.Node, infection *viruses.Infection) *viruses.Infection {
	literal, ok := node.(*ast.BasicLit)
	if !ok {
		return infection
	}
	original, mutated := literal.Value, ""
	infection.Infect(func() { mutated = literal.Value })
	if !strings.HasPrefix(mutated, "-") {
		return infection
	}
	return viruses.NewInfection(infection.String(),
		func() { literal.Value = "(" + mutated + ")" }, func() { literal.Value = original })
}
