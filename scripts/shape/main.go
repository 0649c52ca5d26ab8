// Command shape prints figures about Go source code as a table. The table has one column for each argument. An argument
// is a list of folders separated by commas.
//
//	go run ./scripts/shape internal,cmd cmd
//
// Command shape skips generated files. In tests, it counts only Example functions, phrases in comments, and lines with
// a comment. It tells gocyclo and gocognit to skip tests, but not generated files.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Each of these programs lists the functions whose complexity exceeds a given number.
const (
	gocyclo  = "github.com/fzipp/gocyclo/cmd/gocyclo@v0.6.0"
	gocognit = "github.com/uudashr/gocognit/cmd/gocognit@v1.3.0"
)

// shape holds counts of lines, functions and comments for some folders of Go code.
type shape struct {
	files, functions        []int // number of lines of each file and of each function
	comments, code          int   // lines with only a comment; lines with code
	allComments             int   // lines with a comment, in tests too
	inverted, soMany, thats int   // how often the patterns below match in comments
	examples                int
	cyclomatic, cognitive   int // number of functions with a complexity above 15
}

// The patterns below match phrases that often make a sentence hard to read.
var (
	inverted = regexp.MustCompile(`(?i)\bwhat\s+(is|it|its|the|they|a|an|there)\b`)
	soMany   = regexp.MustCompile(`(?i)\bso many\b`)
	thatOf   = regexp.MustCompile(`(?i)\b(that|those) of\b`)
)

func main() {
	columns := os.Args[1:]
	if len(columns) == 0 {
		fmt.Fprintln(os.Stderr, "usage: shape FOLDER[,FOLDER]…")
		os.Exit(2)
	}
	shapes := make([]shape, len(columns))
	for k, folders := range columns {
		if err := shapes[k].measure(strings.Split(folders, ",")); err != nil {
			fmt.Fprintln(os.Stderr, "shape:", err)
			os.Exit(1)
		}
	}
	printTable(columns, shapes)
}

func printTable(columns []string, shapes []shape) {
	fmt.Printf("| | %s |\n|%s\n", strings.Join(columns, " | "), strings.Repeat(" --- |", len(columns)+1))
	for _, row := range []struct {
		name string
		cell func(s shape) string
	}{
		{"files", func(s shape) string { return fmt.Sprint(len(s.files)) }},
		{"lines a file, median / max", func(s shape) string { return fmt.Sprintf("%d / %d", quantile(s.files, 0.5), quantile(s.files, 1)) }},
		{"functions", func(s shape) string { return fmt.Sprint(len(s.functions)) }},
		{"lines a function, median / p90 / max", func(s shape) string {
			return fmt.Sprintf("%d / %d / %d", quantile(s.functions, 0.5), quantile(s.functions, 0.9), quantile(s.functions, 1))
		}},
		{"functions above cyclomatic complexity 15", func(s shape) string { return s.share(s.cyclomatic) }},
		{"functions above cognitive complexity 15", func(s shape) string { return s.share(s.cognitive) }},
		{"comment to code", func(s shape) string { return fmt.Sprintf("%.2f", float64(s.comments)/float64(s.code)) }},
		{"Example functions", func(s shape) string { return fmt.Sprint(s.examples) }},
		{`comments with "what is / it / the …"`, func(s shape) string { return fmt.Sprintf("%d in %d lines", s.inverted, s.allComments) }},
		{`… with "so many", "that of / those of"`, func(s shape) string { return fmt.Sprintf("%d, %d", s.soMany, s.thats) }},
		{"linters", func(shape) string { return fmt.Sprint(linters()) }},
	} {
		fmt.Printf("| %s |", row.name)
		for _, s := range shapes {
			fmt.Printf(" %s |", row.cell(s))
		}
		fmt.Println()
	}
}

// share formats a number of functions together with their share of all functions.
func (s shape) share(functions int) string {
	return fmt.Sprintf("%d, %.1f %%", functions, 100*float64(functions)/float64(len(s.functions)))
}

// quantile returns the smallest value v such that a share q of the values is at most v.
func quantile(values []int, q float64) int {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func (s *shape) measure(folders []string) error {
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") {
				return err
			}
			return s.file(path)
		})
		if err != nil {
			return err
		}
	}
	var err error
	if s.cyclomatic, err = countAbove(gocyclo, folders); err != nil {
		return err
	}
	s.cognitive, err = countAbove(gocognit, folders)
	return err
}

// countAbove runs the program, which measures the complexity of each function in the folders. It returns the number of
// functions with a complexity above 15.
func countAbove(program string, folders []string) (int, error) {
	found, err := exec.Command("go", append([]string{"run", program, "-over", "15", "-ignore", `_test\.go$`}, folders...)...).Output()
	if err != nil && len(found) == 0 { // the program exits with status 1 if it reports any function
		return 0, fmt.Errorf("%s: %w", program, err)
	}
	return strings.Count(string(found), "\n"), nil
}

func (s *shape) file(path string) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, path, source, parser.ParseComments)
	if err != nil || ast.IsGenerated(f) {
		return err
	}
	test := strings.HasSuffix(path, "_test.go")
	for _, d := range f.Decls {
		function, ok := d.(*ast.FuncDecl)
		switch {
		case !ok:
		case !test:
			s.functions = append(s.functions, files.Position(function.End()).Line-files.Position(function.Pos()).Line+1)
		case strings.HasPrefix(function.Name.Name, "Example"):
			s.examples++
		}
	}
	for _, c := range f.Comments {
		text := c.Text()
		s.inverted += len(inverted.FindAllString(text, -1))
		s.soMany += len(soMany.FindAllString(text, -1))
		s.thats += len(thatOf.FindAllString(text, -1))
	}
	code, comment := lines(source)
	s.allComments += len(comment)
	if test {
		return nil
	}
	s.files = append(s.files, strings.Count(string(source), "\n"))
	s.code += len(code)
	for line := range comment {
		if !code[line] {
			s.comments++
		}
	}
	return nil
}

// lines returns the lines with code and the lines with a comment. A line may have both.
func lines(source []byte) (code, comment map[int]bool) {
	code, comment = make(map[int]bool), make(map[int]bool)
	file := token.NewFileSet().AddFile("", -1, len(source))
	var scan scanner.Scanner
	scan.Init(file, source, nil, scanner.ScanComments)
	for {
		at, kind, text := scan.Scan()
		if kind == token.EOF {
			return code, comment
		}
		if kind == token.SEMICOLON && text == "\n" {
			continue
		}
		of := code
		if kind == token.COMMENT {
			of = comment
		}
		for k := range 1 + strings.Count(text, "\n") {
			of[file.Line(at)+k] = true
		}
	}
}

// linters returns the number of linters enabled in .golangci.yml.
func linters() int {
	settings, err := os.ReadFile(".golangci.yml")
	if err != nil {
		return 0
	}
	enabled := regexp.MustCompile(`(?m)^linters:\n(?:  .*\n)*?  enable: \[(.*)\]`).FindSubmatch(settings)
	if enabled == nil {
		return 0
	}
	return len(strings.Split(string(enabled[1]), ","))
}
