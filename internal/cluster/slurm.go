package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/programs"
)

// Slurm talks to this machine's Slurm cluster through sbatch, squeue and sacct.
type Slurm struct{}

// Submit queues tasks of the array. It queues the given shards, or all shards if the argument is nil.
func (Slurm) Submit(ctx context.Context, a *Array, shards []int) (Job, error) {
	out, err := output(ctx, "sbatch", "--parsable", "--array="+a.tasks(shards), a.Script())
	if err != nil {
		return Job{}, err
	}
	job, err := parseJob(out)
	job.Shards = shards
	return job, err
}

// Tasks returns the tasks of the job j. It asks squeue, but squeue forgets a task some time after the task's end. If
// the cluster records accounting data, Tasks gets the forgotten tasks from sacct.
func (Slurm) Tasks(ctx context.Context, j Job) (map[int]Task, error) {
	out, err := output(ctx, "squeue", j.args("--noheader", "--array", "--states=all", "--Format="+queueFormat, "--jobs="+j.ID)...)
	if err != nil && !strings.Contains(err.Error(), "Invalid job id") {
		return nil, err
	}
	tasks, err := parseQueue(out)
	if err != nil || len(tasks) >= len(j.Shards) {
		return tasks, err
	}
	out, err = output(ctx, "sacct", j.args("--noheader", "--array", "--parsable2", "--allocations", "--format=JobID,State,ExitCode", "--jobs="+j.ID)...)
	if err != nil {
		// without accounting data, only the folders of forgotten tasks say whether these tasks are done
		return tasks, nil
	}
	accounts, err := parseAccounting(out)
	for id, task := range accounts {
		if _, queued := tasks[id]; !queued {
			tasks[id] = task
		}
	}
	return tasks, err
}

func (j Job) args(args ...string) []string {
	if j.Cluster != "" {
		args = append(args, "--clusters="+j.Cluster)
	}
	return args
}

// output runs a program of Slurm. Its error ends with the program's own message.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := programs.Command(ctx, name, args...)
	cmd.Dir = "" // the current folder; a task starts in the folder from which sbatch was called
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return "", hint.Add(fmt.Errorf("%s is not on the PATH", name), "run rscert slurm where jobs are submitted; docs/clusters.md says how to do without Slurm")
	case err != nil:
		return "", fmt.Errorf("%s: %s (%w)", name, strings.Join(strings.Fields(stderr.String()), " "), err)
	}
	return stdout.String(), nil
}
