package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"github.com/rscert/rscert/internal/hint"
)

// Slurm talks to the Slurm cluster of this machine by its own programs.
type Slurm struct{}

// Submit queues tasks of the array: all, or some shards.
func (Slurm) Submit(ctx context.Context, a *Array, shards []int) (Job, error) {
	out, err := output(ctx, "sbatch", "--parsable", "--array="+a.tasks(shards), a.Script())
	if err != nil {
		return Job{}, err
	}
	job, err := parseJob(out)
	job.Shards = shards
	return job, err
}

// Tasks asks for the tasks of a job that has not ended long ago; of one that has, sacct, where the cluster keeps accounts.
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
		return tasks, nil // no accounts are kept here: the folders say what is done
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

// output runs a program of Slurm. Its error ends with what the program said.
func output(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return "", hint.Add(fmt.Errorf("%s is not on the PATH", program), "run rscert slurm where jobs are submitted; docs/clusters.md says how to do without Slurm")
	case err != nil:
		return "", fmt.Errorf("%s: %s (%w)", program, strings.Join(strings.Fields(stderr.String()), " "), err)
	}
	return stdout.String(), nil
}
