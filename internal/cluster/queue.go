package cluster

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Task is Slurm's state of one task of an array.
type Task struct {
	State  string // PENDING, RUNNING, FAILED…
	Reason string // reason of the state
	Exit   int    // exit code, if the task ended by itself
	Signal int    // signal that ended the task; 0 means none
}

// The list 'ended' holds the final states of a task. In any other state the task may still write to its folder.
var ended = []string{"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE",
	"PREEMPTED", "REVOKED"}

// Ended reports whether the task is over. A task that Slurm no longer knows is over.
func (t Task) Ended() bool { return t.State == "" || slices.Contains(ended, t.State) }

func (t Task) String() string {
	s := strings.ToLower(strings.ReplaceAll(t.State, "_", " "))
	switch {
	case t.State == "":
		s = "no longer known to Slurm"
	case t.Signal != 0:
		s += fmt.Sprintf(", signal %d", t.Signal)
	case t.Exit != 0:
		s += fmt.Sprintf(", exit code %d", t.Exit)
	}
	return s
}

// queueFormat is the argument of squeue --Format. It gives one line per task, with fields of any length.
const queueFormat = "ArrayTaskID:|,State:|,Reason:|,exit_code:"

// parseQueue parses the output of squeue --Format queueFormat --array. It returns the tasks of one job. The keys
// of the map are the numbers of the tasks. Exit codes in this output have the form of wait(2).
func parseQueue(text string) (map[int]Task, error) {
	tasks := map[int]Task{}
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 4 {
			return nil, fmt.Errorf("squeue: %.80q: want 4 fields", line)
		}
		id, err1 := strconv.Atoi(fields[0])
		status, err2 := strconv.Atoi(fields[3])
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("squeue: %.80q: want a task's number and exit code", line)
		}
		tasks[id] = Task{State: fields[1], Reason: fields[2], Exit: status >> 8 & 0xff, Signal: status & 0x7f}
	}
	return tasks, nil
}

// parseAccounting parses the output of sacct --format=JobID,State,ExitCode --parsable2. It returns the tasks of one
// job. It skips lines about steps of a task, and lines about tasks that have not begun ("12_[3-5]").
func parseAccounting(text string) (map[int]Task, error) {
	tasks := map[int]Task{}
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), "|")
		if len(fields) != 3 {
			return nil, fmt.Errorf("sacct: %.80q: want 3 fields", line)
		}
		_, number, _ := strings.Cut(fields[0], "_")
		id, err := strconv.Atoi(number)
		if err != nil {
			continue
		}
		exit, signal, _ := strings.Cut(fields[2], ":")
		e, err1 := strconv.Atoi(exit)
		s, err2 := strconv.Atoi(signal)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("sacct: %.80q: want an exit code as 0:0", line)
		}
		state, _, _ := strings.Cut(fields[1], " ") // such as "CANCELLED by 1000"
		tasks[id] = Task{State: state, Exit: e, Signal: s}
	}
	return tasks, nil
}

// parseJob parses the output of sbatch --parsable. The output is the job's number and, in a federation, the job's
// cluster.
func parseJob(text string) (Job, error) {
	id, cluster, _ := strings.Cut(strings.TrimSpace(text), ";")
	if _, err := strconv.ParseUint(id, 10, 64); err != nil {
		return Job{}, fmt.Errorf("sbatch: %.80q: want a job's number", text)
	}
	return Job{ID: id, Cluster: cluster}, nil
}
