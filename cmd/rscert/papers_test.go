package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// paperBlock is a block of commands on a page in docs/papers. 'make papers' runs the commands.
type paperBlock struct {
	heading, script string
	needs           []string // files that the block needs
	result          string   // what the page shows below the block; empty if it shows nothing
}

var (
	paperMark   = regexp.MustCompile(`(?m)((?:^<!-- needs: .+ -->\n)*)^<!-- run by: make papers -->\n\n((?:(?: {4}.*)?\n)+)`)
	paperNeeds  = regexp.MustCompile(`<!-- needs: (.+) -->`)
	paperResult = regexp.MustCompile(`^<!-- made: (\S+) -->\n`)
	indent      = regexp.MustCompile(`(?m)^ {4}`)
	headingLine = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// paperBlocks returns the blocks that 'make papers' runs, in the order of the page.
func paperBlocks(page string) (all []paperBlock) {
	for _, at := range paperMark.FindAllStringSubmatchIndex(page, -1) {
		b := paperBlock{script: strings.TrimSpace(indent.ReplaceAllString(page[at[4]:at[5]], "")) + "\n"}
		for _, m := range headingLine.FindAllStringSubmatch(outsideMarks(page[:at[0]]), -1) {
			b.heading = m[1]
		}
		for _, m := range paperNeeds.FindAllStringSubmatch(page[at[2]:at[3]], -1) {
			b.needs = append(b.needs, m[1])
		}
		if m := paperResult.FindStringSubmatch(page[at[5]:]); m != nil {
			result, _, _ := strings.Cut(page[at[5]+len(m[0]):], "<!-- end: "+m[1]+" -->")
			b.result = strings.Trim(strings.TrimSpace(result), "`")
		}
		all = append(all, b)
	}
	return all
}

// The test lists tables and figures of papers, with a command for each. Below the heading of the table or figure, the
// page of the paper must have a block with this command.
func TestPapersHaveCommands(t *testing.T) {
	all := pages(t)
	for _, c := range []struct{ page, heading, command string }{
		{"cohen2019", "Table: certified accuracy by radius and σ", `rscert report data/cohen2019/.* --plot`},
		{"cohen2019", "Table: average certified radius", `rscert report data/cohen2019/`},
		{"cohen2019", "Figure: approximate and high-probability accuracy", `rscert radius .*\n *rscert report`},
		{"ciosek2025", "Figure 2", `rscert perturb .* --auroc .* --plot`},
		{"ciosek2025", "Figure 3", `rscert ce .* --sizes .* --plot`},
		{"ciosek2025", "Table 1", `slope of log gap`},
		{"ciosek2025", "Figure 4", `rscert ce .* --sizes .* --plot`},
		{"ciosek2025", "Figure 5", `rscert ce .* --fits .* --plot`},
		{"moutaouakil2024", "Table 1", `rscert radius votes.jsonl .* --sizes 100 .* --by margin .* --gain-over bonferroni`},
		{"moutaouakil2024", "Table 2", `rscert radius .* --margin first .* --sizes 100,300,500 .* --gain-over`},
		{"moutaouakil2024", "Table 3", `rscert radius .*taylor.* --margin second .* --sizes 100,300,500 .* --gain-over`},
		{"moutaouakil2024", "Figure 3", `rscert radius votes.jsonl .* --sizes 100,1000,10000 .* --curve margin --plot`},
		{"moutaouakil2024", "Figure 4", `rscert radius mnist-0.25 mnist-0.5 .* --curve margin --plot`},
		{"moutaouakil2024", "Figure 5", `rscert radius .* --sizes 100,300,500 .* --curve margin --plot`},
		{"moutaouakil2024", "Figure 6", `rscert radius mnist-0.25 mnist-0.5 .* --temperature 0.1 .* --curve margin --plot`},
		{"moutaouakil2024", "Figure 7", `rscert radius .* --temperature 0.1,1,2 .* --curve margin --plot`},
		{"emde2025", "Table 1", `rscert attack .* --attack ace .* --plot`},
		{"emde2025", "Table 2", `rscert report .* --families .* --by-model --within 0.03`},
		{"emde2025", "Table 3", `rscert acce example.csv --bins 3`},
		{"emde2025", "Tables 4 and 5", `by-model.txt`},
		{"emde2025", "Figures 2 and 16(a)", `rscert acce .* --curve cbs --plot`},
		{"emde2025", "Figure 16(b)", `rscert acce .* --same-examples --curve cbs --plot`},
		{"emde2025", "Figures 3 and 15", `rscert acce .* --solver exact,admm,dece,brier .* --curve solvers --plot`},
		{"emde2025", "Figures 12, 13 and 14", `--admm-starts clean --dece-starts clean`},
		{"emde2025", "Figure 8", `rscert confidence .* --compare .* --plot`},
		{"emde2025", "Figures 9, 10 and 11", `(?s)--curve lagrangian --plot.*--curve constraints --plot.*--curve assignment --plot`},
		{"emde2025", "Figures 4, 17 and 18", `rscert report .* --by-model .* --curve pareto --plot`},
		{"emde2025", "Figure 19", `by-model.txt`},
	} {
		blocks := paperBlocks(all["docs/papers/"+c.page+".md"])
		if !slices.ContainsFunc(blocks, func(b paperBlock) bool {
			script := strings.ReplaceAll(b.script, "\\\n", " ")
			return strings.HasPrefix(b.heading, c.heading) && regexp.MustCompile(c.command).MatchString(script)
		}) {
			t.Errorf("%s: no block below %q has the command %q", c.page, c.heading, c.command)
		}
	}
}

// The cheap blocks must print what their page shows. The other blocks take minutes; 'make papers' runs them.
func TestPapersCheapBlocks(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the last digits can differ on other processors")
	}
	all := pages(t)
	cheap := map[string]string{
		"cohen2019":       "Table|Figure",
		"ciosek2025":      "Figure 2",
		"moutaouakil2024": "The votes|Table 1",
		"emde2025":        "Table 3",
	}
	for page, headings := range cheap {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			folder := papersFolder(t)
			compared := 0
			for _, b := range paperBlocks(all["docs/papers/"+page+".md"]) {
				if !regexp.MustCompile(headings).MatchString(b.heading) || !present(folder, b.needs) {
					continue
				}
				// The page shows what the commands print to stdout.
				said, err := bash(folder, "{\n"+b.script+"} 2>said")
				if err != nil {
					t.Fatalf("%s: %v\n%s%s", b.heading, err, b.script, said)
				}
				if b.result != "" && strings.TrimSpace(said) != strings.TrimSpace(b.result) {
					t.Errorf("%s: it prints\n%s\nand not\n%s", b.heading, said, b.result)
				}
				compared++
			}
			if compared == 0 {
				t.Skip("the data of these blocks are not here")
			}
		})
	}
}

// papersFolder makes a folder in which the code blocks of the pages in docs/papers can run. It has the same layout as
// the folder that 'make papers' uses.
func papersFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"testdata": "testdata", "data": "../shared/data"} {
		if err := os.Symlink(filepath.Join(root, target), filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"img", "bin"} {
		if err := os.Mkdir(filepath.Join(folder, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program := fmt.Sprintf("#!/bin/sh\nexec %q \"$@\"\n", os.Args[0])
	if err := os.WriteFile(filepath.Join(folder, "bin/rscert"), []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// present reports whether the files are in the folder.
func present(folder string, files []string) bool {
	return !slices.ContainsFunc(files, func(file string) bool {
		_, err := os.Stat(filepath.Join(folder, file))
		return err != nil
	})
}
