package history

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rscert/rscert/internal/report/gate"
)

func outcome(requirement string, value float64) gate.Outcome {
	return gate.Outcome{Requirement: requirement, Run: "run", Value: &value, Met: value >= 0.5}
}

func entry(commit string, outcomes ...gate.Outcome) Entry {
	return NewEntry(commit, "v1", time.Date(2026, 11, 27, 18, 0, 0, 5, time.FixedZone("", 3600)), []Run{{"run", "ab"}}, outcomes)
}

func TestRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gate.jsonl")
	first, err := Record(path, entry("c1", outcome("certified-accuracy@0.5>=0.60", 0.75), gate.Outcome{Requirement: "certified:acr>=0.1", Run: "run"}))
	if err != nil || !first.Added || first.Line != 1 || first.Commits != 1 {
		t.Fatalf("%+v, %v", first, err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"format":1,"commit":"c1","date":"2026-11-27T17:00:00Z","rscert":"v1","runs":[{"run":"run","id":"ab"}],"requirements":[` +
		`{"requirement":"certified-accuracy@0.5>=0.60","run":"run","met":true,"value":0.75},{"requirement":"certified:acr>=0.1","run":"run","met":false,"value":null}]}` + "\n"
	if string(text) != want {
		t.Errorf("the line is\n%swant\n%s", text, want)
	}
	if second, err := Record(path, entry("c2", outcome("certified-accuracy@0.5>=0.70", 0.5))); err != nil || !second.Added || second.Line != 2 {
		t.Errorf("%+v, %v", second, err)
	}
	before, _ := os.ReadFile(path)
	again, err := Record(path, entry("c1", outcome("certified-accuracy@0.5>=0.60", 0.1)))
	if err != nil || again.Added || again.Line != 1 || again.Commits != 2 || again.Trends[0].Value != 0.75 {
		t.Errorf("the same commit: %+v, %v", again, err)
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) || !strings.HasPrefix(string(after), want) {
		t.Errorf("the same commit changed the file:\n%s", after)
	}
	read, err := Read(path)
	if err != nil || len(read) != 2 || !reflect.DeepEqual(read[0], first.Entries[0]) {
		t.Errorf("%+v, %v", read, err)
	}
}

func TestDamaged(t *testing.T) {
	const good = `{"format":1,"commit":"a","date":"2026-11-27T17:00:00Z","requirements":[]}`
	for name, test := range map[string]struct {
		text string
		line int
	}{
		"not JSON":             {good + "\nxx\n", 2},
		"blank line":           {good + "\n\n", 2},
		"cut off":              {good[:30], 1},
		"without an end":       {good, 1},
		"twice":                {good + "\n" + good + "\n", 2},
		"no commit":            {`{"format":1,"date":"2026-11-27T17:00:00Z"}` + "\n", 1},
		"no date":              {`{"format":1,"commit":"a"}` + "\n", 1},
		"no format":            {`{"commit":"a","date":"2026-11-27T17:00:00Z"}` + "\n", 1},
		"newer":                {strings.Replace(good, `"format":1`, `"format":2`, 1) + "\n", 1},
		"requirement nameless": {strings.Replace(good, `[]`, `[{"run":"r"}]`, 1) + "\n", 1},
	} {
		path := filepath.Join(t.TempDir(), "h.jsonl")
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Record(path, entry("new"))
		var damaged *DamagedError
		if !errors.As(err, &damaged) || damaged.Line != test.line {
			t.Errorf("%s: %v, want an error about line %d", name, err, test.line)
		}
		if after, _ := os.ReadFile(path); string(after) != test.text {
			t.Errorf("%s: the file was changed", name)
		}
	}
	if all, err := Read(filepath.Join(t.TempDir(), "missing")); err != nil || all != nil {
		t.Errorf("a missing file: %v, %v", all, err)
	}
}

// If several processes append at the same time, no line may be lost. The test uses goroutines in place of processes.
// This suffices, because flock also blocks a second open handle of the file in the same process.
func TestRecordTogether(t *testing.T) {
	const commits = 40
	path := filepath.Join(t.TempDir(), "gate.jsonl")
	var writers sync.WaitGroup
	for k := range commits {
		writers.Go(func() {
			if r, err := Record(path, entry(fmt.Sprintf("c%d", k), outcome("acr>=0.1", 0.5))); err != nil || !r.Added {
				t.Errorf("commit %d: %+v, %v", k, r, err)
			}
		})
	}
	writers.Wait()
	if all, err := Read(path); err != nil || len(all) != commits {
		t.Errorf("%d lines, %v, want %d lines", len(all), err, commits)
	}
}

func TestTrends(t *testing.T) {
	const atLeast, atMost = "certified-accuracy@0.5>=0.6", "cce@0.25<=0.2"
	var all []Entry
	for k, v := range [][2]float64{{0.8, 0.1}, {0.9, 0.2}, {0.85, 0.15}, {0.8, 0.16}, {0.7, 0.3}} {
		bound := atLeast
		if k == 4 {
			bound = "certified-accuracy@0.5>=0.65" // another bound of the same quantity
		}
		all = append(all, entry(strings.Repeat("c", k+1), outcome(bound, v[0]), outcome(atMost, v[1])))
	}
	got := trends(all)
	before := [2]float64{0.8, 0.16}
	want := []Trend{
		{Quantity: "certified-accuracy@0.5", Run: "run", Commits: 5, Value: 0.7, Previous: &before[0], WorseInARow: 3, Worst: true, Warning: "worse in each of the last 3 commits"},
		{Quantity: "cce@0.25", Run: "run", Commits: 5, Value: 0.3, Previous: &before[1], WorseInARow: 2, Worst: true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if s := All(all); s[0].Bound != 0.65 || s[1].Bound != 0.2 || !s[1].AtMost || s[0].AtMost {
		t.Errorf("%+v", s)
	}
	if got := trends(all[:4]); got[0].WorseInARow != 2 || got[0].Worst || got[0].Warning != "" || got[1].WorseInARow != 1 {
		t.Errorf("%+v", got)
	}
	if got := trends(all[:1]); got[0].Previous != nil || got[0].Worst {
		t.Errorf("%+v", got)
	}
}

func TestFindCommit(t *testing.T) {
	for _, name := range commitVariables {
		t.Setenv(name, "")
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	main, inside := filepath.Join(dir, "main"), filepath.Join(dir, "main", "a", "b")
	write(filepath.Join(inside, "x"), "")
	git := filepath.Join(main, ".git")
	expect := func(folder, want string) {
		t.Helper()
		got, err := FindCommit(folder)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v; want %q", folder, got, err, want)
		}
	}
	expect(inside, "")
	write(filepath.Join(git, "HEAD"), "1111\n")
	expect(inside, "1111")
	write(filepath.Join(git, "HEAD"), "ref: refs/heads/x\n")
	expect(main, "")
	write(filepath.Join(git, "packed-refs"), "# pack-refs\n3333 refs/heads/xx\n2222 refs/heads/x\n")
	expect(main, "2222")
	write(filepath.Join(git, "refs", "heads", "x"), "4444\n")
	expect(main, "4444")

	tree := filepath.Join(dir, "tree")
	write(filepath.Join(tree, ".git"), "gitdir: ../main/.git/worktrees/tree\n")
	write(filepath.Join(git, "worktrees", "tree", "commondir"), "../..\n")
	write(filepath.Join(git, "worktrees", "tree", "HEAD"), "ref: refs/heads/x\n")
	expect(tree, "4444")
	write(filepath.Join(git, "worktrees", "tree", "HEAD"), "ref: ../../secret\n")
	expect(tree, "")

	t.Setenv("CI_COMMIT_SHA", "5555")
	expect(tree, "5555")
	t.Setenv("GITHUB_SHA", "66 66")
	if _, err := FindCommit(tree); err == nil {
		t.Error("a commit with a space is accepted")
	}
}
