package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/spec"
)

// Array is a run of 'certify' as a job array of Slurm, with one task per shard. Its folder, RUN.shards, is beside the
// run folder RUN. The folder holds the Array as array.json, the script array.sh, the shards' run folders part0, part1…
// and the logs. A sweep is a set of runs, which are called its points (see the package sweep). In the array of a sweep,
// each task runs one shard of one point. The folder of each task (part0, part1…) is then the folder of a sweep with one
// point.
type Array struct {
	Shards  int      `json:"shards"`           // number of shards of the run or, in a sweep, of each point
	Points  []string `json:"points,omitempty"` // names of the points of a sweep; empty for a single run
	Seed    uint64   `json:"seed"`
	Out     string   `json:"out"`     // absolute path of the merged run folder
	Dir     string   `json:"dir"`     // absolute path of the tasks' working directory
	Program string   `json:"program"` // absolute path of rscert
	Options []string `json:"options"` // options for sbatch
	Certify []string `json:"certify"` // flags for 'certify', without the flags that the script adds
	AtOnce  int      `json:"at_once"` // number of tasks that run simultaneously; 0 means as many as Slurm allows
	Jobs    []Job    `json:"jobs,omitempty"`

	OwnThreads bool `json:"own_threads"` // the flags in Certify set the number of threads
}

// Job is one submission of all tasks of the array or of some of them. Its field Shards holds the numbers of these
// tasks. If the array is for a single run and not for a sweep, each task has the number of its shard.
type Job struct {
	ID      string `json:"id"`
	Cluster string `json:"cluster,omitempty"` // name of the cluster in a federation
	Shards  []int  `json:"shards"`
}

// ShardsFolder returns the folder that holds the shards of a run. The argument 'out' is the merged run folder of this
// run.
func ShardsFolder(out string) string { return filepath.Clean(out) + ".shards" }

// Folder returns the array's own folder.
func (a *Array) Folder() string { return ShardsFolder(a.Out) }

// Tasks returns the number of tasks. In a sweep, task number t runs shard t mod Shards of point ⌊t/Shards⌋.
func (a *Array) Tasks() int { return a.Shards * max(1, len(a.Points)) }

// Part returns the folder that a task writes: a run folder or, in a sweep, the folder of a sweep with one point.
func (a *Array) Part(task int) string {
	return filepath.Join(a.Folder(), fmt.Sprintf("part%d", task))
}

// Parts returns the folders of all tasks.
func (a *Array) Parts() []string {
	parts := make([]string, a.Tasks())
	for i := range parts {
		parts[i] = a.Part(i)
	}
	return parts
}

// run returns the run folder of a task.
func (a *Array) run(task int) string {
	if len(a.Points) == 0 {
		return a.Part(task)
	}
	return filepath.Join(a.Part(task), a.Points[task/a.Shards])
}

// describe returns the name of a task's shard, for messages.
func (a *Array) describe(task int) string {
	if len(a.Points) == 0 {
		return fmt.Sprintf("shard %d", task)
	}
	return fmt.Sprintf("task %d (%s, shard %d)", task, a.Points[task/a.Shards], task%a.Shards)
}

// Noun returns a word for messages: "shards" in the array of a single run, and "tasks" in the array of a sweep.
func (a *Array) Noun() string {
	if len(a.Points) == 0 {
		return "shards"
	}
	return "tasks"
}

// Script returns the path of the script for sbatch.
func (a *Array) Script() string { return filepath.Join(a.Folder(), "array.sh") }

// log returns the path of a task's log.
func (a *Array) log(job, task string) string {
	return filepath.Join(a.Folder(), "log", job+"_"+task+".txt")
}

func (a *Array) recordPath() string { return filepath.Join(a.Folder(), "array.json") }

// Check returns an error if a word of the script has a control character, such as a line break. sbatch reads the script
// line by line, so a line break ends the line even inside quotes. The text after the line break could be an option or a
// command.
func (a *Array) Check() error {
	for _, w := range []struct {
		what  any
		words []string
	}{
		{param.Out, []string{a.Out}},
		{"the working directory", []string{a.Dir}},
		{"the program's path", []string{a.Program}},
		{"sbatch's", a.Options},
		{"the certify flags", a.Certify},
	} {
		for _, word := range w.words {
			if strings.ContainsFunc(word, unicode.IsControl) {
				return param.Errorf("%s %s: has a line break or another control character, which a script cannot hold", w.what, quote.Field(word))
			}
		}
	}
	return nil
}

// Create makes the array's folder with the script. It fails if the folder exists.
func (a *Array) Create() error {
	if err := os.MkdirAll(filepath.Dir(a.Folder()), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(a.Folder(), 0o755); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return hint.Add(fmt.Errorf("%s: exists already", a.Folder()), "go on with it by %s, or choose another %s", param.Resume, param.Out)
		}
		return err
	}
	if err := os.Mkdir(filepath.Join(a.Folder(), "log"), 0o755); err != nil {
		return err
	}
	if err := durable.WriteFile(a.Script(), []byte(a.Text())); err != nil {
		return err
	}
	return a.Save()
}

// Save writes array.json.
func (a *Array) Save() error {
	text, err := json.MarshalIndent(a, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(a.recordPath(), append(text, '\n'))
}

// Load reads the array whose merged run folder is 'out'.
func Load(out string) (*Array, error) {
	a := &Array{Out: out}
	text, err := os.ReadFile(a.recordPath())
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(text, a); err != nil {
		return nil, fmt.Errorf("%s: %w", a.recordPath(), err)
	}
	if a.Shards < 1 || a.Out != out {
		return nil, fmt.Errorf("%s: is not the array of %s", a.recordPath(), out)
	}
	return a, nil
}

// Same returns an error if the shards of the array 'other' cannot be shards of this array. The error names the setting
// that differs.
func (a *Array) Same(other *Array) error {
	for _, c := range []struct {
		what        any
		then, today string
	}{
		{param.Shards, fmt.Sprint(a.Shards), fmt.Sprint(other.Shards)},
		{param.Seed, fmt.Sprint(a.Seed), fmt.Sprint(other.Seed)},
		{"the points", strings.Join(a.Points, " "), strings.Join(other.Points, " ")},
		{"the certify flags", strings.Join(a.Certify, " "), strings.Join(other.Certify, " ")},
	} {
		if c.then != c.today {
			return hint.Add(param.Errorf("cannot resume %s: %s: was %s, now %s", a.Folder(), c.what, c.then, c.today),
				"resume with what the array was begun with, or choose another %s", param.Out)
		}
	}
	return nil
}

// Resume copies some settings from the array 'other': those that may change between submissions. It then writes the
// script again.
func (a *Array) Resume(other *Array) error {
	a.Dir, a.Program, a.Options, a.AtOnce = other.Dir, other.Program, other.Options, other.AtOnce
	if err := durable.WriteFile(a.Script(), []byte(a.Text())); err != nil {
		return err
	}
	return a.Save()
}

// Text returns the script that sbatch runs for every task. The script computes the shard of a task from the number of
// the task. So the script is also right for a submission of only some tasks.
func (a *Array) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("#!/bin/sh")
	line("# %s", a.headline())
	line("#SBATCH --job-name=rscert")
	line("#SBATCH --array=%s", a.tasks(nil))
	escaped := Array{Out: strings.ReplaceAll(a.Out, "%", "%%")}
	line("#SBATCH --output=%s", quote.Shell(escaped.log("%A", "%a")))
	line("#SBATCH --open-mode=append")
	for _, option := range a.Options {
		line("#SBATCH %s", quote.Shell(option))
	}
	line("set -eu")
	line("cd %s", quote.Shell(a.Dir))
	words := []string{"exec", quote.Shell(a.Program), "certify"}
	for _, flag := range a.Certify {
		words = append(words, quote.Shell(flag))
	}
	words = append(words, "--quiet", "--resume", fmt.Sprintf("--seed %d", a.Seed))
	words = append(words, a.choice()...)
	words = append(words, "--out "+quote.Shell(filepath.Join(a.Folder(), "part"))+`"$SLURM_ARRAY_TASK_ID"`)
	if !a.OwnThreads { // on some clusters, a task sees more processors than it may use
		words = append(words, `--threads "${SLURM_CPUS_ON_NODE:-0}"`)
	}
	line("%s", strings.Join(words, " "))
	return b.String()
}

// headline returns the text of the comment in the second line of the script.
func (a *Array) headline() string {
	if len(a.Points) == 0 {
		return fmt.Sprintf("Shard SLURM_ARRAY_TASK_ID of %d; written by 'rscert slurm'.", a.Shards)
	}
	return fmt.Sprintf("Task SLURM_ARRAY_TASK_ID of %d: %d points, each in %d shards; written by 'rscert slurm'.", a.Tasks(), len(a.Points), a.Shards)
}

// choice returns the flags of 'certify' that choose the point and the shard of a task.
func (a *Array) choice() []string {
	if len(a.Points) == 0 {
		return []string{fmt.Sprintf(`--shard "$SLURM_ARRAY_TASK_ID/%d"`, a.Shards)}
	}
	return []string{
		fmt.Sprintf(`--point "$((SLURM_ARRAY_TASK_ID / %d))"`, a.Shards),
		fmt.Sprintf(`--shard "$((SLURM_ARRAY_TASK_ID %% %d))/%d"`, a.Shards, a.Shards),
	}
}

// The method 'tasks' returns the value of sbatch's --array for the given shards, or for all shards if the argument is
// nil.
func (a *Array) tasks(shards []int) string {
	list := fmt.Sprintf("0-%d", a.Tasks()-1)
	if len(shards) > 0 {
		list = ranges(shards)
	}
	if a.AtOnce > 0 {
		list += fmt.Sprintf("%%%d", a.AtOnce)
	}
	return list
}

// The function 'ranges' formats numbers as a list of ranges, such as 0-3,5.
func ranges(numbers []int) string {
	sorted := slices.Clone(numbers)
	slices.Sort(sorted)
	return spec.Indices(sorted).String()
}
