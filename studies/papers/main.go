// Papers runs the commands of a page of docs/papers and prints their results for studies/page:
//
//	go run ./studies/papers docs/papers/cohen2019.md | go run ./studies/page docs/papers/cohen2019.md
//
// In the page, the mark "run by: make papers" stands before each block that the program must run. The program runs
// these blocks with bash, one after the other. If the marks "made" and "end" follow a block, the program prints the
// output of the block between the same marks:
//
//	<!-- needs: FILE -->
//	<!-- run by: make papers -->
//
//	    rscert report …
//
//	<!-- made: NAME -->
//	<!-- end: NAME -->
//
// The mark "needs" is optional and may be repeated. If FILE is missing, the program skips the block and says so; the
// page then keeps the result of an earlier run. The blocks run in the folder out/papers/PAGE. This folder holds three
// links: 'testdata' leads to testdata in the checkout, 'img' leads to docs/img/papers, and 'data' leads to the folder
// that the flag -data names.
//
// The program computes nothing itself: every number in its output is a number that a command prints.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("papers: ")
	data := flag.String("data", "../shared/data", "folder with the research data")
	only := flag.String("only", "", "run only the blocks below headings that match this regular expression")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: papers [-data FOLDER] [-only HEADING] PAGE")
	}
	page := flag.Arg(0)
	text, err := os.ReadFile(page)
	if err != nil {
		log.Fatal(err)
	}
	wanted, err := regexp.Compile(*only)
	if err != nil {
		log.Fatal(err)
	}
	folder := filepath.Join("out", "papers", strings.TrimSuffix(filepath.Base(page), ".md"))
	links := map[string]string{"testdata": "testdata", "img": "docs/img/papers", "data": *data}
	if err := prepare(folder, links); err != nil {
		log.Fatal(err)
	}
	for _, s := range steps(string(text)) {
		if !wanted.MatchString(s.heading) {
			continue
		}
		if err := s.run(folder, os.Stdout); err != nil {
			log.Fatal(err)
		}
	}
}

// step is one block of commands in a page. This program runs the block.
type step struct {
	heading string   // heading above the block
	needs   []string // paths relative to out/papers/PAGE; if one of these files is missing, the block is skipped
	script  string   // the block's commands, without their indent
	part    string   // NAME in the mark <!-- made: NAME --> after the block; empty if the page does not show the output
}

const runMark = "<!-- run by: make papers -->"

var (
	needsMark = regexp.MustCompile(`^<!-- needs: (\S+) -->$`)
	madeMark  = regexp.MustCompile(`^<!-- made: (\S+) -->$`)
)

// steps returns the blocks that this program must run, in the order of the page.
func steps(page string) (all []step) {
	var heading string
	var needs []string
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch m := needsMark.FindStringSubmatch(line); {
		case m != nil:
			needs = append(needs, m[1])
		case strings.HasPrefix(line, "#"):
			heading = strings.TrimLeft(line, "# ")
		case line == runMark:
			s := step{heading: heading, needs: needs}
			s.script, i = block(lines, i+1)
			if m := madeMark.FindStringSubmatch(strings.Join(lines[i:min(i+1, len(lines))], "")); m != nil {
				s.part = m[1]
			}
			all = append(all, s)
			needs = nil
			i--
		}
	}
	return all
}

// block returns the indented block that begins at line i or at a later line. It also returns the number of the first
// line that follows the block and is not empty.
func block(lines []string, i int) (script string, next int) {
	for ; i < len(lines); i++ {
		text, indented := strings.CutPrefix(lines[i], "    ")
		if !indented && lines[i] != "" {
			break
		}
		script += text + "\n"
	}
	return strings.Trim(script, "\n") + "\n", i
}

// prepare makes the folder and its links. A link whose target is missing is left out.
func prepare(folder string, links map[string]string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, target := range links {
		link := filepath.Join(folder, name)
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		target, err := filepath.Abs(target)
		if err != nil {
			return err
		}
		if _, err := os.Stat(target); err != nil || links[name] == "" {
			continue
		}
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	return nil
}

// run runs the block. If the page shows the block's output, run writes this output to w, between two marks (see
// marked).
func (s step) run(folder string, w io.Writer) error {
	for _, file := range s.needs {
		if _, err := os.Stat(filepath.Join(folder, file)); err != nil {
			log.Printf("%s: skipped, because %s is missing", s.heading, file)
			return nil
		}
	}
	bin, err := filepath.Abs("bin")
	if err != nil {
		return err
	}
	var out bytes.Buffer
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", s.script)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, &out, os.Stderr
	cmd.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s%s", s.heading, err, s.script, &out)
	}
	if s.part == "" {
		return nil
	}
	_, err = io.WriteString(w, marked(s.part, out.String()))
	return err
}

// marked returns the output of a block between marks that studies/page reads. Tables in Markdown stay as they are;
// other output becomes a block of code.
func marked(part, output string) string {
	output = strings.Trim(output, "\n")
	if !strings.HasPrefix(output, "|") {
		output = "```\n" + output + "\n```"
	}
	return fmt.Sprintf("<!-- made: %s -->\n\n%s\n\n<!-- end: %[1]s -->\n", part, output)
}
