// Package history keeps the values of requirements by commit, in a file of JSON lines. Record appends the line of a
// commit, and says how the values of the commit differ from earlier ones.
package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report/gate"
)

// format is the version of the format of a line. A change that only adds members keeps the version, and any other
// change raises it.
const format = 1

// Entry is a line of a history: the requirements of one commit and their values.
type Entry struct {
	Format int       `json:"format"`
	Commit string    `json:"commit"`
	Date   time.Time `json:"date"`   // time at which the line was written, in UTC
	RScert string    `json:"rscert"` // version of rscert
	// The field Runs lists the runs on which the requirements were checked.
	Runs         []Run         `json:"runs"`
	Requirements []Requirement `json:"requirements"`
}

// Run identifies a run.
type Run struct {
	Name string `json:"run"`
	ID   string `json:"id,omitempty"` // digest of run.json; "" for a file that belongs to no run
}

// Requirement holds a requirement and its outcome for one run.
type Requirement struct {
	Requirement string   `json:"requirement"`
	Run         string   `json:"run"`
	Met         bool     `json:"met"`
	Value       *float64 `json:"value"` // nil if nothing is certified
}

// NewEntry returns the entry of a commit.
func NewEntry(commit, version string, now time.Time, runs []Run, outcomes []gate.Outcome) Entry {
	e := Entry{Format: format, Commit: commit, Date: now.UTC().Truncate(time.Second), RScert: version, Runs: runs}
	for _, o := range outcomes {
		e.Requirements = append(e.Requirements, Requirement{o.Requirement, o.Run, o.Met, o.Value})
	}
	return e
}

// commitNames matches the commit names that a history accepts.
var commitNames = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._/+-]{0,199}$`)

// CheckCommit returns an error if a history does not accept the text as the name of a commit.
func CheckCommit(commit string) error {
	if !commitNames.MatchString(commit) {
		return fmt.Errorf("%s: want the name of a commit: letters, digits and ._/+-", quote.Field(commit))
	}
	return nil
}

// DamagedError means that a line of a history is cut off, is not a valid entry, or repeats the commit of an earlier
// line.
type DamagedError struct {
	Path string
	Line int
	err  error
}

func (e *DamagedError) Error() string { return fmt.Sprintf("%s: line %d: %v", e.Path, e.Line, e.err) }

func (e *DamagedError) Unwrap() error { return e.err }

// Hint returns advice for the user.
func (*DamagedError) Hint() string {
	return "restore the file from version control, or remove the line; rscert changes no line of a history"
}

// Read reads a history. A missing file is an empty history.
func Read(path string) ([]Entry, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parse(path, text)
}

func parse(path string, text []byte) (entries []Entry, err error) {
	at := map[string]int{}
	for len(text) > 0 {
		line, rest, ended := bytes.Cut(text, []byte("\n"))
		number := len(entries) + 1
		e, err := parseLine(line)
		switch {
		case err == nil && !ended:
			err = errors.New("is cut off")
		case err == nil && at[e.Commit] > 0:
			err = fmt.Errorf("commit %s is also in line %d", e.Commit, at[e.Commit])
		}
		if err != nil {
			return nil, &DamagedError{path, number, err}
		}
		at[e.Commit] = number
		entries, text = append(entries, e), rest
	}
	return entries, nil
}

func parseLine(line []byte) (e Entry, err error) {
	if err := json.Unmarshal(line, &e); err != nil {
		return e, errors.New("is no JSON object of a commit")
	}
	switch {
	case e.Format > format:
		return e, fmt.Errorf("has format %d: a newer version of rscert wrote it", e.Format)
	case e.Format < 1:
		return e, errors.New("has no format")
	case e.Date.IsZero():
		return e, errors.New("has no date")
	}
	for _, r := range e.Requirements {
		if r.Requirement == "" {
			return e, errors.New("has a requirement without a text")
		}
	}
	return e, CheckCommit(e.Commit)
}

// Result says what Record did, and how the values of the commit differ from earlier ones.
type Result struct {
	File    string `json:"file"`
	Commit  string `json:"commit"`
	Commits int    `json:"commits"` // number of commits in the file
	// Added is false if the file already had a line of this commit. Line is the number of the commit's line.
	Added  bool    `json:"added"`
	Line   int     `json:"line"`
	Trends []Trend `json:"trends"` // computed from the lines up to the commit's line

	Entries []Entry `json:"-"`
}

// Record appends the entry to the history at path, unless the history already has a line of the same commit.
func Record(path string, e Entry) (*Result, error) {
	lock, err := lockFile(path)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	defer func() { _ = lock.Unlock() }()
	all, earlier, err := add(path, e)
	if err != nil {
		return nil, err
	}
	r := &Result{File: path, Commit: e.Commit, Commits: len(all), Added: earlier == 0, Line: earlier, Entries: all}
	if r.Added {
		r.Line = len(all)
	}
	r.Trends = trends(all[:r.Line])
	return r, nil
}

// lockFile waits until no other process appends to the history at path, and locks it. If the history does not exist,
// lockFile creates an empty file. To append, a process writes a new file in place of the locked one
// (durable.WriteFile). So after the wait, lockFile checks that the path still leads to the locked file. If it does not,
// lockFile tries again with the new file.
func lockFile(path string) (*flock.Flock, error) {
	for {
		lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDONLY), flock.SetPermissions(0o666))
		if err := lock.Lock(); err != nil {
			return nil, err
		}
		locked, err := lock.Stat()
		named, err2 := os.Stat(path)
		if err == nil && err2 == nil && os.SameFile(locked, named) {
			return lock, nil
		}
		if err := errors.Join(err, lock.Unlock()); err != nil {
			return nil, err
		}
	}
}

// add appends the entry to the history at path, and returns all entries. It replaces the file in one step, so a crash
// leaves either the earlier lines or all lines. If the history already has a line of the same commit, add changes
// nothing and returns the number of this line.
func add(path string, e Entry) (all []Entry, earlier int, err error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	if all, err = parse(path, text); err != nil {
		return nil, 0, err
	}
	for k, was := range all {
		if was.Commit == e.Commit {
			return all, k + 1, nil
		}
	}
	after := bytes.NewBuffer(text)
	encoder := json.NewEncoder(after)
	encoder.SetEscapeHTML(false) // write radius>=0.5, not radius\u003e=0.5
	if err := encoder.Encode(e); err != nil {
		return nil, 0, err
	}
	return append(all, e), 0, durable.WriteFile(path, after.Bytes())
}

// Series holds the values of one quantity, such as certified-accuracy@0.5, for one run.
type Series struct {
	Quantity string
	Run      string
	Commits  []string
	At       []int // position of each commit in the history
	Values   []float64
	AtMost   bool    // the requirement is an upper bound, so a larger value is worse
	Bound    float64 // bound of the last requirement
}

// All returns the series of a history, in the order in which they first appear. A change of the bound does not begin a
// new series. Values that are not known are left out.
func All(entries []Entry) []Series {
	var all []Series
	position := map[string]int{}
	for k, e := range entries {
		for _, r := range e.Requirements {
			quantity, bound, atMost := split(r.Requirement)
			key := r.Run + "\x00" + quantity
			if _, ok := position[key]; !ok {
				position[key] = len(all)
				all = append(all, Series{Quantity: quantity, Run: r.Run})
			}
			s := &all[position[key]]
			s.AtMost, s.Bound = atMost, bound
			if r.Value != nil {
				s.Commits, s.At, s.Values = append(s.Commits, e.Commit), append(s.At, k), append(s.Values, *r.Value)
			}
		}
	}
	return all
}

// split divides a requirement into its quantity and its bound.
func split(requirement string) (quantity string, bound float64, atMost bool) {
	what, number, ok := strings.Cut(requirement, ">=")
	if !ok {
		what, number, atMost = strings.Cut(requirement, "<=")
	}
	_, _ = fmt.Sscan(number, &bound) // a text without a number has the bound 0
	return what, bound, atMost
}

// worseInARow is the smallest value of Trend.WorseInARow that gives a warning.
const worseInARow = 3

// Trend compares the last value of a series with the values before it.
type Trend struct {
	Quantity string  `json:"quantity"`
	Run      string  `json:"run"`
	Commits  int     `json:"commits"` // number of commits with a value
	Value    float64 `json:"value"`
	// Previous is the value before the last value of the series. It is nil if the series has only one value.
	Previous *float64 `json:"previous,omitempty"`
	// WorseInARow is the number of values at the end of the series that are each worse than the value before.
	WorseInARow int `json:"worse_in_a_row"`
	// Worst means that the last value is worse than all earlier values.
	Worst bool `json:"worst"`
	// Warning says in how many commits in a row the value became worse. It is "" if this number is too small for a
	// warning.
	Warning string `json:"warning,omitempty"`
}

// trends returns the trend of each series that has a value in the last entry.
func trends(entries []Entry) []Trend {
	all := []Trend{}
	for _, s := range All(entries) {
		if n := len(s.At); n > 0 && s.At[n-1] == len(entries)-1 {
			all = append(all, s.trend())
		}
	}
	return all
}

func (s Series) trend() Trend {
	last := len(s.Values) - 1
	t := Trend{Quantity: s.Quantity, Run: s.Run, Commits: len(s.Values), Value: s.Values[last]}
	if last == 0 {
		return t
	}
	t.Previous = &s.Values[last-1]
	for k := last; k > 0 && s.worse(s.Values[k], s.Values[k-1]); k-- {
		t.WorseInARow++
	}
	t.Worst = true
	for _, was := range s.Values[:last] {
		t.Worst = t.Worst && s.worse(s.Values[last], was)
	}
	if t.WorseInARow >= worseInARow {
		t.Warning = fmt.Sprintf("worse in each of the last %d commits", t.WorseInARow)
	}
	return t
}

// worse reports whether value a is worse than value b.
func (s Series) worse(a, b float64) bool {
	if s.AtMost {
		a, b = b, a
	}
	return cmp.Less(a, b)
}
