package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../.."

// read returns the texts of files in the given folders of the project and in the folders below them. The expression
// 'name' selects the files by their names.
func read(t *testing.T, name *regexp.Regexp, folders ...string) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, folder := range folders {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !name.MatchString(filepath.Base(path)) {
				return err
			}
			text, err := os.ReadFile(path)
			texts[path] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(texts) == 0 {
		t.Fatalf("no %v in %v", name, folders)
	}
	return texts
}

var (
	made    = regexp.MustCompile(`<!-- (made|test): (.+?) -->`)
	by      = regexp.MustCompile(`<!-- by: go run (\./studies/\w+)(?: (\w+))?, \d+ \w+ \d{4} -->`)
	printed = regexp.MustCompile(`(?:made: |-name |\b(?:printMarked|marked)\(")([\w-]+)`)
	tests   = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	figures = regexp.MustCompile(`(?m)^.*\|\s*\d+\.\d.*\|$`)
	// The pattern 'below' matches a block that studies/papers runs, together with the mark after the block.
	below  = regexp.MustCompile(`<!-- run by: make papers -->\n\n(?:(?: {4}.*)?\n)+<!-- made: (\S+) -->`)
	shared = regexp.MustCompile(`(?:^|[^\w-])shared/`)
)

// names returns all matches of the pattern's first group in the texts.
func names(texts map[string]string, pattern *regexp.Regexp) map[string]bool {
	found := map[string]bool{}
	for _, text := range texts {
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			found[m[1]] = true
		}
	}
	return found
}

// checkMark reports a mark 'made' that names no part of a study, and a mark 'test' that names a missing test.
func checkMark(t *testing.T, path, kind, name string, parts, tests map[string]bool) {
	t.Helper()
	if kind == "made" {
		if !parts[name] {
			t.Errorf("%s: no study makes %s", path, name)
		}
		return
	}
	for test := range strings.SplitSeq(name, ", ") {
		if !tests[test] {
			t.Errorf("%s: there is no test %s", path, test)
		}
	}
}

// withoutMarked returns a page without the text between marks.
func withoutMarked(t *testing.T, path, page string) string {
	t.Helper()
	for {
		at := made.FindStringSubmatchIndex(page)
		if at == nil {
			return page
		}
		name := page[at[4]:at[5]]
		inside, after, found := strings.Cut(page[at[1]:], "<!-- end: "+name+shut)
		if !found || made.MatchString(inside) {
			t.Fatalf("%s: %s does not end", path, name)
		}
		page = page[:at[0]] + after
	}
}

// A mark is a comment in a page, such as 'made: near'. A mark must name either a part that a study prints, or one or
// more tests. If a page has a mark for a part of a study, a script must put this part into the page.
func TestMarks(t *testing.T) {
	programs := read(t, regexp.MustCompile(`^(.*[^t]\.go|.*\.sh|.*\.py)$`), "studies", "scripts")
	for path := range programs {
		if strings.Contains(path, "studies/page/") {
			delete(programs, path)
		}
	}
	parts := names(programs, printed)
	known := names(read(t, regexp.MustCompile(`_test\.go$`), "internal", "cmd"), tests)
	scripts := read(t, regexp.MustCompile(`^(studies\.sh|Makefile)$`), "scripts", "Makefile")
	count := 0
	for path, page := range read(t, regexp.MustCompile(`\.md$`), "docs") {
		withoutMarked(t, path, page)
		seen := map[string]bool{}
		parts := parts
		if strings.Contains(path, "/papers/") {
			parts = names(map[string]string{path: page}, below)
		}
		for _, m := range made.FindAllStringSubmatch(page, -1) {
			checkMark(t, path, m[1], m[2], parts, known)
			if seen[m[2]] {
				t.Errorf("%s: two marks %s", path, m[2])
			}
			seen[m[2]] = true
			count++
		}
		commands := by.FindAllStringSubmatch(page, -1)
		if len(commands) != strings.Count(page, "<!-- by: ") {
			t.Errorf("%s: a mark 'by' is not a command of studies and a day", path)
		}
		for _, m := range commands {
			source, err := os.ReadFile(filepath.Join(root, m[1], "main.go"))
			if err != nil || m[2] != "" && !strings.Contains(string(source), `case "`+m[2]+`":`) {
				t.Errorf("%s: no command %s %s", path, m[1], m[2])
			}
		}
		name, err := filepath.Rel(root, path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(page, mark) && name != "docs/scores-tables.md" && !filled(scripts, name) {
			t.Errorf("%s: no script fills it", path)
		}
	}
	if count < 15 {
		t.Errorf("only %d marks", count)
	}
}

// filled reports whether a script puts parts into the page. 'make papers' fills all pages of docs/papers.
func filled(scripts map[string]string, page string) bool {
	if strings.HasPrefix(page, "docs/papers/") {
		page = "docs/papers/$$page.md"
	}
	for _, text := range scripts {
		if strings.Contains(text, "./studies/page "+page+" <") {
			return true
		}
	}
	return false
}

// In the pages about calibration and confidence, every table of numbers must be between marks. The marks mean that a
// program makes the table.
func TestFiguresAreMarked(t *testing.T) {
	for _, name := range []string{"calibration-under-attack.md", "calibration-error.md", "metrics.md", "confidence.md", "scores-tables.md"} {
		path := filepath.Join(root, "docs", name)
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if row := figures.FindString(withoutMarked(t, path, string(page))); row != "" {
			t.Errorf("%s: a table that nothing makes: %s", path, row)
		}
	}
}

// Pages must not mention the folder shared/, which their readers do not have.
func TestPagesNameNothingUnpublished(t *testing.T) {
	for path, page := range read(t, regexp.MustCompile(`\.(md|ipynb|json)$`), "docs") {
		if shared.MatchString(page) {
			t.Errorf("%s names shared/", path)
		}
	}
}
