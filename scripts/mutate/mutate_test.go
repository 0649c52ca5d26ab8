//go:build mutation

// Package mutate changes one operator or number of a package at a time and
// runs that package's short tests on each mutant. See CONTRIBUTING.md.
package mutate

import (
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gtramontina/ooze"
	"github.com/gtramontina/ooze/viruses"
)

const root = "../.."

// TestMutants prints the mutants of MUTATE that survive, as diffs, and their
// number. MUTATE is a folder or one Go file of the module, of whose mutants every
// MUTATE_EVERY-th is tried. It never fails: some survivors are equivalent to the
// original.
func TestMutants(t *testing.T) {
	target := filepath.ToSlash(filepath.Clean(os.Getenv("MUTATE")))
	folder := target
	if strings.HasSuffix(target, ".go") {
		folder = filepath.ToSlash(filepath.Dir(target))
	}
	if _, err := os.Stat(filepath.Join(root, target)); err != nil || folder == "." {
		t.Fatalf("MUTATE=%q names no folder or file of the module", target)
	}
	// ooze links every file below its root once a mutant: a copy without .git and
	// out/ is small, and stays as it is while the tree is edited.
	module := t.TempDir()
	for _, part := range []string{"go.mod", "go.sum", "internal", "testdata"} {
		copyTree(t, filepath.Join(module, part), filepath.Join(root, part))
	}
	var others []string
	err := filepath.WalkDir(module, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(module, path)
		if name = filepath.ToSlash(name); strings.HasSuffix(name, ".go") && !within(name, target, folder) {
			others = append(others, regexp.QuoteMeta(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	every, err := strconv.Atoi(os.Getenv("MUTATE_EVERY"))
	if err != nil || every < 1 {
		t.Fatalf("MUTATE_EVERY=%q is not a positive number", os.Getenv("MUTATE_EVERY"))
	}
	// A mutant that does not end is stopped by the time it computes: on a busy machine
	// one that does end may take minutes.
	command := []string{"prlimit", "--cpu=100", "go", "test", "-short", "-failfast", "-trimpath", "-vet=off", "-ldflags=-w", "-timeout=10m"}
	if skip := os.Getenv("MUTATE_SKIP"); skip != "" {
		command = append(command, "-skip="+skip)
	}
	ooze.Release(t,
		ooze.WithRepositoryRoot(module),
		ooze.IgnoreSourceFiles("^(?:"+strings.Join(others, "|")+")$"),
		ooze.WithTestCommand(strings.Join(append(command, "./"+folder), " ")),
		ooze.WithMinimumThreshold(0),
		func(o ooze.Options) ooze.Options { return thinOut(o, every) },
	)
}

// thinOut leaves every k-th mutant of those that o's viruses make.
func thinOut(o ooze.Options, k int) ooze.Options {
	count := 0
	var thinned []viruses.Virus
	for _, v := range o.Viruses {
		thinned = append(thinned, thinnedVirus{v, k, &count})
	}
	o.Viruses = thinned
	return o
}

// thinnedVirus passes on every k-th infection.
type thinnedVirus struct {
	viruses.Virus
	k     int
	count *int
}

func (v thinnedVirus) Incubate(node ast.Node) []*viruses.Infection {
	var kept []*viruses.Infection
	for _, infection := range v.Virus.Incubate(node) {
		if *v.count++; *v.count%v.k == 0 {
			kept = append(kept, bracket(node, infection))
		}
	}
	return kept
}

// bracket puts brackets around a number that becomes negative: of 1-0x1p-50 ooze
// makes 1--1, which is no Go, and stops.
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

// within says whether a file is the target or lies in the target folder itself.
func within(name, target, folder string) bool {
	return name == target || target == folder && filepath.ToSlash(filepath.Dir(name)) == folder
}

func copyTree(t *testing.T, to, from string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		err = os.CopyFS(to, os.DirFS(from))
	} else {
		var data []byte
		if data, err = os.ReadFile(from); err == nil {
			err = os.WriteFile(to, data, 0o600)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
