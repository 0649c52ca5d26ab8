package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// pkg describes the package under test.
type pkg struct {
	root, folder string // folder of the module, and folder of the package within it
	scratch      string
	skip         string // regexp of the tests that are skipped
	tests        []test // from the quickest to the slowest
}

// A test holds the time and the coverage of one test on the unchanged package.
type test struct {
	name    string
	seconds float64 // of processor time
	reached map[string]map[span]bool
}

// The quickest tests that reach a mutant run first. The constant 'quick' limits their total time, in seconds.
const quick = 2

// compile builds the test binary.
func (p *pkg) compile(binary string, flags ...string) error {
	args := append([]string{"test", "-c", "-o", binary, "-vet=off", "-trimpath", "-ldflags=-s -w"}, flags...)
	c := exec.Command("go", append(args, "./"+filepath.ToSlash(p.folder))...)
	c.Dir = p.root
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

// run runs a test binary and returns the processor time that it used. The argument 'limit' limits this time, in
// seconds. The limit does not apply to wall time, because on a busy machine any test may take minutes of wall time.
func (p *pkg) run(binary string, limit int, args ...string) (seconds float64, err error) {
	args = append([]string{fmt.Sprintf("--cpu=%d", limit), binary, "-test.short", "-test.failfast", "-test.timeout=15m"}, args...)
	c := exec.Command("prlimit", args...)
	c.Dir = filepath.Join(p.root, p.folder)
	err = c.Run()
	if c.ProcessState != nil {
		seconds = (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
	}
	return seconds, err
}

// measure runs every test by itself, and records its time and the code that it reaches.
func (p *pkg) measure() error {
	binary := filepath.Join(p.scratch, "cover.test")
	if err := p.compile(binary, "-cover", "-covermode=set"); err != nil {
		return err
	}
	c := exec.Command(binary, "-test.list", ".")
	c.Dir = filepath.Join(p.root, p.folder)
	list, err := c.Output()
	if err != nil {
		return err
	}
	skipped, err := regexp.Compile(p.skip)
	if err != nil {
		return err
	}
	started := time.Now()
	for name := range strings.Lines(string(list)) {
		name = strings.TrimSpace(name)
		if strings.HasPrefix(name, "Benchmark") || p.skip != "" && skipped.MatchString(name) {
			continue
		}
		profile := filepath.Join(p.scratch, "profile")
		seconds, err := p.run(binary, 600, "-test.run=^"+name+"$", "-test.coverprofile="+profile)
		if err != nil {
			return fmt.Errorf("%s fails without a mutant: %w", name, err)
		}
		t := test{name: name, seconds: seconds}
		if t.reached, err = readProfile(profile); err != nil {
			return err
		}
		p.tests = append(p.tests, t)
	}
	slices.SortFunc(p.tests, func(a, b test) int { return cmp.Compare(a.seconds, b.seconds) })
	fmt.Printf("%d tests, measured in %.0f s\n", len(p.tests), time.Since(started).Seconds())
	return nil
}

// readProfile parses a coverage profile. For each file it returns the blocks, and whether the test reached them.
func readProfile(path string) (map[string]map[span]bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	blocks := map[string]map[span]bool{}
	s := bufio.NewScanner(f)
	for s.Scan() {
		name, rest, ok := strings.Cut(s.Text(), ".go:")
		if !ok {
			continue // the line of the profile that states its mode ('mode: …'); it names no block
		}
		var b span
		var statements, count int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d",
			&b.from.line, &b.from.column, &b.to.line, &b.to.column, &statements, &count); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, s.Text(), err)
		}
		name = filepath.Base(name) + ".go"
		if blocks[name] == nil {
			blocks[name] = map[span]bool{}
		}
		blocks[name][b] = blocks[name][b] || count > 0
	}
	return blocks, s.Err()
}

// reaches reports whether the test runs the changed code. A change in a function can be outside of the blocks of the
// coverage profile, for example in a case of a switch. It then counts as reached if the test reaches the function. A
// change outside of functions counts as reached by every test.
func (t test) reaches(m mutant) bool {
	if m.function == (span{}) {
		return true
	}
	at, inBlock, function := position{m.at.Line, m.at.Column}, false, false
	for b, reached := range t.reached[filepath.Base(m.at.Filename)] {
		if b.holds(at) {
			if reached {
				return true
			}
			inBlock = true
		}
		function = function || reached && m.function.holds(b.from)
	}
	return !inBlock && function
}

// try runs the tests that reach a mutant until one test fails.
func (p *pkg) try(m mutant) (verdict, error) {
	var first, then []string
	limits := [2]float64{}
	total := 0.0
	for _, t := range p.tests {
		if !t.reaches(m) {
			continue
		}
		if total += t.seconds; total < quick {
			first, limits[0] = append(first, t.name), limits[0]+t.seconds
		} else {
			then, limits[1] = append(then, t.name), limits[1]+t.seconds
		}
	}
	if first == nil && then == nil {
		return unreached, nil
	}
	mutated, overlay := filepath.Join(p.scratch, "mutant.go"), filepath.Join(p.scratch, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {m.at.Filename: mutated}})
	if err != nil {
		return 0, err
	}
	if err := errors.Join(os.WriteFile(mutated, m.source, 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return 0, err
	}
	binary := filepath.Join(p.scratch, "mutant.test")
	if err := p.compile(binary, "-overlay="+overlay); err != nil {
		return invalid, nil
	}
	for k, names := range [][]string{first, then} {
		if names == nil {
			continue
		}
		if _, err := p.run(binary, 20+int(4*limits[k]), "-test.run=^("+strings.Join(names, "|")+")$"); err != nil {
			return killed, nil
		}
	}
	return survived, nil
}
