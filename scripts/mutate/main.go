// Command mutate changes one operator or number of a package at a time, and runs the short tests that reach the changed
// code. See CONTRIBUTING.md.
//
// The library ooze makes the changes. The source tree stays unchanged, because the compiler reads a mutant in place of
// the file (go build -overlay). At first each test runs once by itself. This measures the time of the test and finds
// the lines that it reaches. The quick tests then run first against each mutant.
package main

import (
	"flag"
	"fmt"
	"go/format"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	log.SetFlags(0)
	root := flag.String("root", "../..", "the module's `folder`")
	skip := flag.String("skip", "", "leave out the tests that match this `regexp`")
	sample := flag.Int("sample", 0, "try so many mutants, chosen at random; 0: all")
	seed := flag.Uint64("seed", 1, "`seed` of the choice")
	after := flag.Int("after", 0, "go on behind the first `k` of the sample")
	flag.Parse()
	if flag.NArg() != 1 {
		log.Fatal("usage: mutate [flags] PACKAGE-FOLDER-OR-FILE")
	}
	if err := mutate(*root, filepath.Clean(flag.Arg(0)), *skip, choice{*sample, *after, *seed}); err != nil {
		log.Fatal(err)
	}
}

// A choice selects the mutants to try.
type choice struct {
	sample int // size of the sample; 0 means all mutants
	after  int // number of mutants to skip at the start of the list
	seed   uint64
}

// choose returns the mutants to try: all mutants in the order of the files, or a sample in random order.
func (c choice) choose(all []mutant) []mutant {
	if c.sample > 0 {
		r := rand.New(rand.NewPCG(c.seed, 0))
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:min(c.sample, len(all))]
	}
	return all[min(c.after, len(all)):]
}

// mutate tries the mutants of a package, or of one of its files.
func mutate(root, target, skip string, c choice) error {
	root, err := filepath.Abs(root)
	if err != nil {
		return err
	}
	folder, only := target, ""
	if strings.HasSuffix(target, ".go") {
		folder, only = filepath.Split(target)
	}
	scratch, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	p := pkg{root: root, folder: filepath.Clean(folder), scratch: scratch, skip: skip}
	mutants, err := p.mutants(only)
	if err != nil {
		return err
	}
	all := len(mutants)
	mutants = c.choose(mutants)
	fmt.Printf("%s: %d of %d mutants\n", target, len(mutants), all)
	if err := p.measure(); err != nil {
		return err
	}
	count := map[verdict]int{}
	for i, m := range mutants {
		v, err := p.try(m)
		if err != nil {
			return err
		}
		count[v]++
		if v == survived || v == unreached {
			fmt.Printf("%d %s: %s\n%s", c.after+i+1, v, m.name, m.diff())
		}
	}
	fmt.Printf("%s: %d tried, %d do not compile, %d killed, %d survived, %d reached by no test\n",
		target, len(mutants), count[invalid], count[killed], count[survived], count[unreached])
	return nil
}

// diff shows the lines of the file that the mutant changes, before and after the change.
func (m mutant) diff() string {
	original, err := format.Source(m.original)
	if err != nil {
		return err.Error() + "\n"
	}
	var b strings.Builder
	before, after := strings.Split(string(original), "\n"), strings.Split(string(m.source), "\n")
	for n := range before {
		if n < len(after) && before[n] == after[n] {
			continue
		}
		fmt.Fprintf(&b, "%s:%d\n", m.at.Filename, n+1)
		fmt.Fprintf(&b, "-%s\n", before[n])
		if n < len(after) {
			fmt.Fprintf(&b, "+%s\n", after[n])
		}
		if len(before) != len(after) {
			break
		}
	}
	return b.String()
}

// A verdict is the result of testing a mutant.
type verdict int

const (
	killed verdict = iota
	survived
	unreached
	invalid
)

func (v verdict) String() string {
	return [...]string{"killed", "survived", "reached by no test", "does not compile"}[v]
}
