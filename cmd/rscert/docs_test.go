package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/calibrator"
	"github.com/rscert/rscert/internal/certify"
)

// pages returns the texts of the project's Markdown files. The keys are the paths of the files from the root of the
// repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/papers/*.md", "docs/schemas/*.md", "python/*.md"} {
		files, err := filepath.Glob("../../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all[strings.TrimPrefix(file, "../../")] = string(text)
		}
	}
	if len(all) < 20 {
		t.Fatalf("only %d pages", len(all))
	}
	return all
}

var (
	linkTarget = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading    = regexp.MustCompile(`(?m)^#+ +(.+)$`)
	notInID    = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	fence      = regexp.MustCompile("(?ms)^```.*?^```")
	anchorID   = regexp.MustCompile(`<a id="([^"]+)"></a>`)
	inlineCode = regexp.MustCompile("`[^`\n]*`")
)

// anchors returns the link targets in a page: the anchors of its headings, and the ids of its elements <a id="…">.
func anchors(page string) (all []string) {
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		id := notInID.ReplaceAllString(strings.ToLower(h[1]), "")
		all = append(all, strings.ReplaceAll(id, " ", "-"))
	}
	for _, id := range anchorID.FindAllStringSubmatch(page, -1) {
		all = append(all, id[1])
	}
	return all
}

// The test checks that links between pages lead to existing files and headings.
func TestDocsLinks(t *testing.T) {
	all := pages(t)
	links := 0
	for path, page := range all {
		for _, m := range linkTarget.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := path
			if file != "" {
				target = filepath.Join(filepath.Dir(path), file)
			}
			if _, err := os.Stat("../../" + target); err != nil {
				t.Errorf("%s: %s: no such file", path, m[1])
				continue
			}
			if anchor != "" && !slices.Contains(anchors(all[target]), anchor) {
				t.Errorf("%s: %s: no such heading", path, m[1])
			}
		}
	}
	if links < 50 {
		t.Errorf("only %d links found", links)
	}
}

var continued = regexp.MustCompile(`\s*\\\n\s*`)

// commandLines returns the rscert commands in a page. The commands are lines in blocks of code, or code within a line
// of text.
func commandLines(page string) (all []string) {
	page = continued.ReplaceAllString(page, " ")
	inFence := false
	for _, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(line, "```") {
			inFence = !inFence
		}
		block := inFence || strings.HasPrefix(line, "    ")
		line = strings.TrimSpace(line)
		if block && strings.HasPrefix(line, "rscert ") {
			all = append(all, line)
			continue
		}
		for _, code := range inlineCode.FindAllString(line, -1) {
			if strings.HasPrefix(code, "`rscert ") {
				all = append(all, strings.Trim(code, "`"))
			}
		}
	}
	return all
}

// The test checks that the command lines in the pages name existing commands and flags.
func TestDocsCommands(t *testing.T) {
	checked := 0
	for path, page := range pages(t) {
		if path == "CHANGELOG.md" { // the changelog also names removed flags
			continue
		}
		for _, line := range commandLines(page) {
			if problem := wrongCommand(line); problem != "" {
				t.Errorf("%s: %q: %s", path, line, problem)
			}
			checked++
		}
	}
	if checked < 100 {
		t.Errorf("only %d commands found", checked)
	}
	for _, wrong := range []string{"rscert certfy x", "rscert certify --sigmas 1", "rscert ce x --no-such=1",
		"rscert slurm --shards 2 -- certify --sigmas 1"} {
		if wrongCommand(wrong) == "" {
			t.Errorf("%q is not noticed", wrong)
		}
	}
}

// TestDocsValues runs the commands of the pages my-model.md and my-data.md in a folder that has no model. Each command
// must fail only because the model is missing: its flags must parse, and their values must be valid together.
func TestDocsValues(t *testing.T) {
	all := pages(t)
	t.Chdir(t.TempDir())
	checked := 0
	for _, path := range []string{"docs/my-model.md", "docs/my-data.md"} {
		for _, line := range commandLines(all[path]) {
			if !strings.HasPrefix(line, "rscert certify ") || line == "rscert certify --check" {
				continue
			}
			checked++
			if said := withoutModel(line); !strings.Contains(said, "no such file") {
				t.Errorf("%s: %q: %s", path, line, said)
			}
		}
	}
	if checked < 10 {
		t.Errorf("only %d commands found", checked)
	}
	for _, wrong := range []string{"--sigma x", "--sigma -1", "--outputs logit", "--scores-output logits --no-such", "--crop 0"} {
		if said := withoutModel("rscert certify … " + wrong); strings.Contains(said, "no such file") {
			t.Errorf("%q is not noticed: %s", wrong, said)
		}
	}
}

// words matches a word of a shell command. Parts of the word may be in single or double quotes.
var words = regexp.MustCompile(`(?:[^\s'"]|'[^']*'|"[^"]*")+`)

// withoutModel runs a command of a page in the working directory, where the files of the page are missing. It returns
// the error output. If the exit code is not exitUsage, the result begins with the exit code.
func withoutModel(line string) string {
	line = strings.Replace(line, "…", "MODEL --data my-data", 1)
	line = strings.Replace(line, "MODEL", "--model my.onnx --sigma 0.25 --out run", 1)
	if end := shellEnd.FindStringIndex(line); end != nil {
		line = line[:end[0]]
	}
	args := words.FindAllString(line, -1)[1:]
	for i := range args {
		args[i] = strings.NewReplacer(`'`, "", `"`, "").Replace(args[i])
	}
	var said strings.Builder
	code := execute(args, streams{in: strings.NewReader(""), out: io.Discard, err: &said})
	if code != exitUsage {
		return fmt.Sprintf("exit code %d: %s", code, &said)
	}
	return said.String()
}

// shellEnd matches the beginning of the text that ends a command in a line. This text begins with a shell operator
// (such as a pipe), or it is a comment or the description of the command in a list.
var shellEnd = regexp.MustCompile(`\s[|>&;#]|\s\(|  +\S`)

// wrongCommand describes the mistake in a command line. It returns "" for a correct command line.
func wrongCommand(line string) string {
	var started bool
	root := newRoot(streams{in: strings.NewReader(""), out: io.Discard, err: io.Discard}, &started)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	root.InitDefaultVersionFlag()
	if end := shellEnd.FindStringIndex(line); end != nil {
		line = line[:end[0]]
	}
	// a line such as 'rscert slurm --shards 2 -- certify', which splits a run into shards
	line, inner, split := strings.Cut(line, " -- ")
	if split {
		if problem := wrongCommand("rscert " + inner); problem != "" {
			return problem
		}
	}
	words := strings.Fields(line)[1:]
	if len(words) == 0 || strings.HasPrefix(words[0], "…") {
		return ""
	}
	cmd := root
	if !strings.HasPrefix(words[0], "-") {
		name := strings.Trim(words[0], ",.:")
		k := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
		if k < 0 {
			return "no such command"
		}
		cmd = root.Commands()[k]
		if cmd.HasSubCommands() && len(words) > 1 {
			k := slices.IndexFunc(cmd.Commands(), func(c *cobra.Command) bool { return c.Name() == words[1] })
			if k < 0 && !strings.HasPrefix(words[1], "-") {
				return "no such subcommand"
			}
			if k >= 0 {
				cmd = cmd.Commands()[k]
			}
		}
	}
	cmd.InitDefaultHelpFlag()
	for _, word := range words {
		name, isFlag := strings.CutPrefix(word, "--")
		name, _, _ = strings.Cut(name, "=")
		name = strings.TrimRight(name, ",.:;|])'\"")
		foreign := cmd.DisableFlagParsing // the line may have flags of another program, such as sbatch
		if isFlag && name != "" && !foreign && cmd.Flags().Lookup(name) == nil && cmd.PersistentFlags().Lookup(name) == nil {
			return "no flag --" + name
		}
	}
	return ""
}

// citation matches a paper in the forms that the texts use: Cohen et al. 2019, Maurer & Pontil (2009), Platt's (1999).
var citation = regexp.MustCompile(`\p{Lu}[\p{L}-]+(?:(?:,? (?:&|and) \p{Lu}[\p{L}-]+)| et al\.)?(?:'s)?,? \(?((?:19|20)\d{2})\b`)

// notPapers matches the beginnings of phrases that only look like citations.
var notPapers = regexp.MustCompile(`^(January|February|March|April|May|June|July|August|September|October|November|December|RFC|In|Of|Since|COMP|CIFAR|OpenVINO|SAND|Until) `)

var surname = regexp.MustCompile(`\p{Lu}[\p{L}]+`)

// Help texts, pages and comments name only papers that docs/references.md lists.
func TestReferences(t *testing.T) {
	all := pages(t)
	rows := papers(t, all["docs/references.md"])
	delete(all, "docs/references.md")
	delete(all, "CHANGELOG.md")
	for path, text := range goSources(t) {
		all[path] = wrapped.ReplaceAllString(text, " ")
	}
	cited := map[string]bool{}
	for path, text := range all {
		for _, m := range citation.FindAllStringSubmatch(text, -1) {
			if notPapers.MatchString(m[0]) {
				continue
			}
			cited[m[0]] = true
			if !slices.ContainsFunc(slices.Collect(maps.Values(rows)), func(row string) bool { return namesPaper(row, m[0], m[1]) }) {
				t.Errorf("%s: %s is not in docs/references.md", path, m[0])
			}
		}
	}
	if len(cited) < 30 {
		t.Errorf("only %d papers found", len(cited))
	}
}

// wrapped matches a line break within a Go comment.
var wrapped = regexp.MustCompile(`\n\s*// ?`)

// paperRow matches a row of docs/references.md: key, name, authors, title and place of publication.
var paperRow = regexp.MustCompile(`(?m)^\| <a id="([a-z]+\d{4})"></a>([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)

// papers returns the rows of docs/references.md without their anchors, by key.
func papers(t *testing.T, page string) map[string]string {
	t.Helper()
	rows := map[string]string{}
	for _, m := range paperRow.FindAllStringSubmatch(page, -1) {
		if rows[m[1]] != "" {
			t.Errorf("docs/references.md has two rows %s", m[1])
		}
		rows[m[1]] = fmt.Sprintf("| %s | %s | %s | %s |", m[2], m[3], m[4], m[5])
	}
	if table := strings.Count(page, "\n| ") - 2; len(rows) != table {
		t.Errorf("docs/references.md: %d of %d rows have a key and four columns", len(rows), table)
	}
	return rows
}

var (
	// paperLink matches a link to a paper: its text and the key.
	paperLink = regexp.MustCompile(`\[([^\]]+)\]\((?:docs/|\.\./)?references\.md#(\w+)\)`)
	// notProse matches the parts of a page in which a paper needs no link: blocks, headings, code and HTML comments.
	notProse = regexp.MustCompile("(?m)^```(?:.*\n)*?```$|^ {4}.*$|^#.*$|`[^`\n]*`|<!-- .*? -->")
)

// The function 'unlinked' returns the papers that a page names without a link. It also returns the links that lead to a
// wrong paper.
func unlinked(page string, rows map[string]string) (wrong []string) {
	page = notProse.ReplaceAllString(outsideMarks(page), "")
	page = paperLink.ReplaceAllStringFunc(page, func(link string) string {
		m := paperLink.FindStringSubmatch(link)
		paper := citation.FindStringSubmatch(m[1])
		if paper == nil || rows[m[2]] == "" || !namesPaper(rows[m[2]], paper[0], paper[1]) {
			wrong = append(wrong, link)
		}
		return ""
	})
	for _, m := range citation.FindAllString(page, -1) {
		if !notPapers.MatchString(m) {
			wrong = append(wrong, m)
		}
	}
	return wrong
}

// outsideMarks returns a page without its generated parts.
func outsideMarks(page string) string {
	for {
		before, rest, found := strings.Cut(page, "<!-- made: ")
		if !found {
			return page
		}
		name, _, _ := strings.Cut(rest, " -->")
		_, after, _ := strings.Cut(rest, "<!-- end: "+name+" -->")
		page = before + after
	}
}

// TestPapersAreLinked checks that each name of a paper in a page is a link to the row of this paper.
func TestPapersAreLinked(t *testing.T) {
	all := pages(t)
	rows := papers(t, all["docs/references.md"])
	links := 0
	for path, page := range all {
		if path == "docs/references.md" || !strings.HasPrefix(path, "docs/") && path != "README.md" && path != "python/README.md" {
			continue
		}
		links += len(paperLink.FindAllString(page, -1))
		for _, wrong := range unlinked(page, rows) {
			t.Errorf("%s: %s: want a link [%s](references.md#KEY)", path, wrong, wrong)
		}
	}
	if links < 30 {
		t.Errorf("only %d links", links)
	}
	for page, want := range map[string]int{
		"by Cohen et al. 2019.":                                   1,
		"[Cohen et al. 2019](references.md#cohen2019)":            0,
		"[Cohen et al. 2019](references.md#salman2019)":           1,
		"[Cohen et al. 2019](references.md#nobody2019)":           1,
		"[Platt's (1999)](references.md#platt1999)":               0,
		"<!-- made: x -->\nby Cohen et al. 2019\n<!-- end: x -->": 0,
		"    by Cohen et al. 2019":                                0,
		"Maurer & Pontil (2009)":                                  1,
	} {
		if got := unlinked(page, rows); len(got) != want {
			t.Errorf("%q: %q", page, got)
		}
	}
}

// namesPaper reports whether a row of the table describes the paper: it must contain the year and all surnames.
func namesPaper(row, paper, year string) bool {
	key, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
	if !strings.HasSuffix(key, year) {
		return false
	}
	for _, name := range surname.FindAllString(paper, -1) {
		if !strings.Contains(row, name) {
			return false
		}
	}
	return true
}

// goSources returns the texts of the program's Go files. The keys are their paths.
func goSources(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir("../..", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "testdata" || d.Name() == "out" || d.Name() == ".git") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" || filepath.Base(path) == "docs_test.go" {
			return nil
		}
		text, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, "../../")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestDocsLayout checks that the section Layout of README.md has a row for each package of the program, and no row for
// a folder that does not exist.
func TestDocsLayout(t *testing.T) {
	_, layout, _ := strings.Cut(pages(t)["README.md"], "\n## Layout\n")
	layout, _, _ = strings.Cut(layout, "\n## ")
	rows := map[string]bool{}
	for _, line := range strings.Split(layout, "\n") {
		if fields := strings.Fields(line); strings.HasPrefix(line, "    ") && len(fields) > 1 {
			rows[fields[0]] = true
		}
	}
	for file := range goSources(t) {
		folder := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../../") + "/"
		if isPackage := strings.HasPrefix(folder, "internal/") || strings.HasPrefix(folder, "cmd/"); isPackage && !rows[folder] {
			t.Errorf("README.md: the layout has no row for %s", folder)
		}
	}
	for folder := range rows {
		if info, err := os.Stat("../../" + folder); err != nil || !info.IsDir() {
			t.Errorf("README.md: the layout names %s, which is no folder", folder)
		}
	}
}

// The test checks that no file refers to a document outside the repository.
func TestDocsAreInside(t *testing.T) {
	outside := regexp.MustCompile(`\bDESIGN\.md|\bMATH\.md|\bSTYLE\.md|shared/(papers|gpu|DESIGN|MATH)`)
	all := pages(t)
	for path, text := range goSources(t) {
		all[path] = text
	}
	for path, text := range all {
		if found := outside.FindString(text); found != "" {
			t.Errorf("%s names %s", path, found)
		}
	}
}

// 'rscert help methods' lists every method, says whether it is sound, and names papers in docs/references.md.
func TestMethodsTopic(t *testing.T) {
	var out strings.Builder
	if code := execute([]string{"help", "methods"}, streams{in: strings.NewReader(""), out: &out, err: io.Discard}); code != exitDone {
		t.Fatalf("exit code %d", code)
	}
	for _, want := range []string{
		`margin +sound +takes Buehler's bound: .*\[moutaouakil2024, buehler1957\]$`, `moutaouakil +not sound`, `star +sound`, `taylor +not sound`,
		`tangent +sound`, `ciosek-nw +not sound`, `binned-tv +sound`, `isotonic +– `,
	} {
		if !regexp.MustCompile(`(?m)^ +` + want).MatchString(out.String()) {
			t.Errorf("no line %q in\n%s", want, &out)
		}
	}
	rows := papers(t, pages(t)["docs/references.md"])
	methods := regexp.MustCompile(`(?m)^  \S+ +(?:sound|not sound|–) .*$`).FindAllString(out.String(), -1)
	if want := len(certify.VoteMethods()) + len(certify.MeanBounds()) + len(certify.Combines()) + len(certify.ConfidenceMethods()) +
		len(calib.BoundMethods) + len(calibrator.Methods); len(methods) != want {
		t.Errorf("%d methods, want %d", len(methods), want)
	}
	keys := regexp.MustCompile(`\[([a-z0-9, ]+)\]$`)
	for _, line := range methods {
		m := keys.FindStringSubmatch(line)
		if m == nil {
			t.Errorf("no paper: %s", line)
			continue
		}
		for key := range strings.SplitSeq(m[1], ", ") {
			if rows[key] == "" {
				t.Errorf("docs/references.md has no %s: %s", key, line)
			}
		}
	}
}
