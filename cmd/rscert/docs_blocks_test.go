package main

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// docBlock is a block of code in a page. A mark before the block says how it is tested:
//
//	<!-- not run: REASON -->       not tested; REASON is in the list 'reasons'
//	<!-- run by: make TARGET -->   a target of the Makefile runs it
//	<!-- snippet: NAME DATA -->    make models runs it
//
// If a block has no such mark, TestDocsBlocks runs the block as a bash script. The method 'fate' makes exceptions for
// some pages, languages and texts of blocks.
type docBlock struct {
	page     string
	line     int
	language string // language that the fence names, such as sh
	mark     string
	text     string
}

// reasons holds the accepted reasons not to run a block.
var reasons = []string{
	"output", "a list", "a formula", "a picture", "long", "a cluster", "a container", "a network", "a key is pressed",
	"data of the reader", "other shells", "jq", "JSON",
}

// runElsewhere lists the pages whose blocks do not run here. The value names the program that runs them, or says what
// the blocks need.
var runElsewhere = map[string]string{
	"docs/first-model.md": "make newcomers", // scripts/newcomers/run_page.py runs every block in order
	// 'make newcomers' tests the three ways to install. Python blocks have marks that name their tests.
	"docs/install.md": "make newcomers",
	"docs/gpu.md":     "a GPU",
}

var (
	blockMark    = regexp.MustCompile(`^<!-- (not run|run by|snippet): (.+?) -->$`)
	madeMark     = regexp.MustCompile(`^<!-- (?:made|test): (.+?) -->$`)
	modelCommand = regexp.MustCompile(`^(?:rscert certify MODEL --data .*\n)+$`)
)

// docBlocks returns a page's blocks of code, except blocks in generated parts of the page.
func docBlocks(page, text string) (all []docBlock) {
	lines := strings.Split(text, "\n")
	mark := ""
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		if m := madeMark.FindStringSubmatch(line); m != nil {
			for !strings.HasPrefix(lines[i], "<!-- end: ") {
				i++
			}
			continue
		}
		if m := blockMark.FindStringSubmatch(line); m != nil {
			mark = m[1] + ": " + m[2]
			continue
		}
		b := docBlock{page: page, line: i + 1, mark: mark}
		switch {
		case strings.HasPrefix(line, "```"):
			b.language = strings.TrimPrefix(line, "```")
			for i++; !strings.HasPrefix(lines[i], "```"); i++ {
				b.text += lines[i] + "\n"
			}
		case strings.HasPrefix(line, "    ") && (i == 0 || lines[i-1] == ""):
			for ; i < len(lines) && (lines[i] == "" || strings.HasPrefix(lines[i], "    ")); i++ {
				b.text += strings.TrimPrefix(lines[i], "    ") + "\n"
			}
			i--
			b.text = strings.TrimRight(b.text, "\n") + "\n"
		default:
			if line != "" {
				mark = ""
			}
			continue
		}
		mark = ""
		all = append(all, b)
	}
	return all
}

// fate returns how a block is tested: "run", "console" (commands after $ and their output), the reason not to run it,
// or the program that runs it.
func (b docBlock) fate(targets string) (string, error) {
	kind, what, marked := strings.Cut(b.mark, ": ")
	switch {
	case marked && kind == "not run":
		if !slices.Contains(reasons, what) {
			return "", fmt.Errorf("%q is not one of the reasons %q", what, reasons)
		}
		return what, nil
	case marked && kind == "run by":
		target, isTarget := strings.CutPrefix(what, "make ")
		if !isTarget || !strings.Contains(targets, "\n"+target+":") {
			return "", fmt.Errorf("the Makefile has no target for %q", what)
		}
		return what, nil
	case marked:
		return "make models", nil
	case runElsewhere[b.page] != "":
		return runElsewhere[b.page], nil
	case b.page == "docs/gate.md" && (b.language == "sh" || b.language == "yaml"), modelCommand.MatchString(b.text):
		return "a testscript", nil // gate_docs.txtar or data.txtar
	case b.language == "json":
		return "JSON", nil
	case b.language != "" && b.language != "sh":
		return "", fmt.Errorf("a block of %s needs a mark", b.language)
	case strings.HasPrefix(b.text, "$ "):
		return "console", nil
	}
	return "run", nil
}

// Each block of the pages must run in this test or in another program, unless its mark, its language or its page says
// why it does not run.
func TestDocsBlocks(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip(err)
	}
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	folder := readersFolder(t)
	fates := map[string]int{}
	var names []string
	all := pages(t)
	for page := range all {
		if page == "README.md" || page == "python/README.md" || strings.HasPrefix(page, "docs/") {
			names = append(names, page)
		}
	}
	slices.Sort(names)
	for _, page := range names {
		var runnable []docBlock
		for _, b := range docBlocks(page, all[page]) {
			fate, err := b.fate(string(makefile))
			if err != nil {
				t.Errorf("%s:%d: %v", b.page, b.line, err)
			}
			fates[fate]++
			if fate == "run" || fate == "console" {
				runnable = append(runnable, b)
			}
		}
		if len(runnable) > 0 {
			t.Run(strings.TrimSuffix(filepath.Base(page), ".md"), func(t *testing.T) { runBlocks(t, folder, runnable) })
		}
	}
	t.Logf("blocks: %v", fates)
	if fates["run"]+fates["console"] < 20 {
		t.Errorf("only %d blocks are run", fates["run"]+fates["console"])
	}
}

// The test checks blocks with valid marks, with invalid marks, and without a mark.
func TestDocsBlocksNeedMarks(t *testing.T) {
	const targets = "\nwheel-test: tools\n"
	for text, want := range map[string]string{
		"    rscert doctor":                                          "run",
		"    $ rscert doctor\n    rscert":                            "console",
		"<!-- not run: output -->\n\n    x":                          "output",
		"<!-- not run: because -->\n\n    x":                         "",
		"<!-- run by: make wheel-test -->\n```python\nx\n```":        "make wheel-test",
		"<!-- run by: make nothing -->\n```python\nx\n```":           "",
		"```python\nx\n```":                                          "",
		"```\nx\n```":                                                "run",
		"<!-- not run: output -->\nThe mark is of the next\n\n    x": "run",
		"    rscert certify MODEL --data x.csv":                      "a testscript",
	} {
		blocks := docBlocks("docs/x.md", text)
		if len(blocks) != 1 {
			t.Fatalf("%q: %v", text, blocks)
		}
		if got, err := blocks[0].fate(targets); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, error %v", text, got, err)
		}
	}
	if blocks := docBlocks("x", "<!-- made: y -->\n\n    z\n\n<!-- end: y -->\n"); blocks != nil {
		t.Error(blocks)
	}
}

// runBlocks runs the blocks of a page one after the other, as a reader of the page would.
func runBlocks(t *testing.T, folder string, blocks []docBlock) {
	t.Parallel()
	here := t.TempDir()
	if err := os.CopyFS(here, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "testdata"), filepath.Join(here, "testdata")); err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		if !strings.HasPrefix(b.text, "$ ") {
			if said, err := bash(here, b.text); err != nil {
				t.Errorf("%s:%d: %v\n%s\n%s", b.page, b.line, err, b.text, said)
			}
			continue
		}
		for part := range strings.SplitSeq("\n"+strings.TrimSuffix(b.text, "\n"), "\n$ ") {
			command, want, _ := strings.Cut(part, "\n")
			if command == "" {
				continue
			}
			said, _ := bash(here, command)
			// '…' stands for lines that the page omits.
			pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), "…", `(?s:.*?)`)
			if !regexp.MustCompile("^" + pattern + "$").MatchString(strings.TrimSpace(said)) {
				t.Errorf("%s:%d: %s: it says\n%s\nand not\n%s", b.page, b.line, command, said, want)
			}
		}
	}
}

// bash runs a script and returns its output.
func bash(folder, script string) (string, error) {
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(folder, "bin")+":"+os.Getenv("PATH"),
		asProgram+"=1", "RSCERT_PROGRAM="+os.Args[0])
	said, err := cmd.CombinedOutput()
	return string(said), err
}

// shortened is a script that takes the place of rscert on the reader's PATH. It makes certify use few samples, even if
// the page asks for more. It replaces '…' by the flags that all runs share. Before certify and merge, the script
// deletes the folder of --out, because an earlier block may have made it. If certify has --resume, --check, --plan or
// --help, the script keeps this folder.
const shortened = `#!/bin/bash
args=() out= resume= look=
for a in "$@"; do
	[ "$a" = … ] && args+=(--model cnn.onnx --data mnist --sigma 0.5) || args+=("$a")
	[ "$last" = --out ] && out=$a
	case $a in --resume) resume=1 ;; --check | --plan | --help) look=1 ;; esac
	last=$a
done
[ "$1" = merge ] && [ -n "$out" ] && rm -rf "$out"
if [ "$1" = certify ] && [ -z "$look" ]; then
	args+=(--n 200 --n0 20 --max 12)
	[ -n "$out" ] || args+=(--out "$(mktemp -d -p .)/run")
	[ -n "$out" ] && [ -z "$resume" ] && rm -rf "$out"
fi
exec "$RSCERT_PROGRAM" "${args[@]}"
`

// readersFolder makes a folder with the models, data, runs and tables that the pages use, under the names in the pages.
func readersFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	put := func(name string, data []byte) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	get := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join("../../testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	put("bin/rscert", []byte(shortened))
	for _, name := range []string{"cnn.onnx", "my.onnx", "my.onnx.data"} {
		put(name, get("mnist-cnn.onnx"))
	}
	for _, name := range []string{"mnist", "my-data"} {
		for _, file := range []string{"t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz"} {
			put(filepath.Join(name, file), get(filepath.Join("mnist", file)))
		}
	}
	put("names.txt", []byte(strings.Join(digitNames, "\n")+"\n"))
	for _, name := range []string{"logits.npz", "validation.npz", "new.npz"} {
		put(name, get("calibration/logits.npz"))
	}
	put("scores.csv", head(t, get("calibration/scores.csv.gz"), 2000))
	for k, name := range []string{"test.csv", "clean.csv", "pgd.csv", "square.csv"} {
		table := "confidence,correct\n"
		for i := range 60 {
			table += fmt.Sprintf("%.3f,%d\n", float64(60-i)/61, min(1, (i+k)%7))
		}
		put(name, []byte(table))
	}
	visits := "score,label,patient\n" // 80 patients, each with three visits
	for i := range 240 {
		patient, label := i%80, 0
		if 37*patient%80 < patient {
			label = 1
		}
		visits += fmt.Sprintf("%.3f,%d,p%d\n", float64(patient)/80+0.001*float64(i/80), label, patient)
	}
	put("visits.csv", []byte(visits))
	put("counts.txt", []byte("90 5 5 0 0 0 0 0 0 0 0\n2 0 0 97 1 0 0 0 0 0 3\n"))
	runs := `for s in 0.25 0.5 1; do
		rscert certify … --sigma $s --seed 1 --save-scores --confidence-radii 0.25,0.5 --quiet --out run-$s >/dev/null
	done
	cp -r run-0.5 run
	cp run/bounds.csv run/votes.jsonl .`
	if said, err := bash(folder, runs); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	put("scores.npz", withoutMember(t, filepath.Join(folder, "run/scores.npz"), "scores0.npy"))
	return folder
}

// head returns the first lines of a compressed text.
func head(t *testing.T, compressed []byte, lines int) []byte {
	t.Helper()
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Join(bytes.SplitAfterN(text, []byte("\n"), lines+1)[:lines], nil)
}

// withoutMember returns a copy of a zip file. The copy lacks the member with this name.
func withoutMember(t *testing.T, path, name string) []byte {
	t.Helper()
	r, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range r.File {
		if f.Name == name {
			continue
		}
		if err := w.Copy(f); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
