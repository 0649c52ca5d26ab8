// Package cluster distributes the shards of a run over several machines. An Array is a job array of Slurm. Submit puts
// an Array into a Queue, and Watch follows the Array to its end. An IndexedJob is a Job of Kubernetes, which
// Manifest.YAML writes. TaskShard returns the shard of the current task. A shard is finished when its run folder is
// complete. The package asks the scheduler only which tasks still run.
package cluster

import (
	"fmt"
	"strconv"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
)

// ShardsVariable names the environment variable with the number of shards. Kubernetes tells a pod the pod's index, but
// not the number of completions. A Slurm array that repeats only some tasks has fewer tasks than the run has shards.
const ShardsVariable = "RSCERT_SHARDS"

// Schedulers set these environment variables for their tasks.
const (
	kubernetesIndex = "JOB_COMPLETION_INDEX"
	slurmTask       = "SLURM_ARRAY_TASK_ID"
)

// TaskShard returns the shard of a task from the task's environment. The task belongs to a Slurm job array or a
// Kubernetes Indexed Job. Slurm's option --array=FIRST-LAST[:STEP] numbers the tasks of an array. In a Kubernetes job,
// or if ShardsVariable is set, the task's index is the number of the shard, from 0. Otherwise the position of the task
// in the array is the number of the shard.
func TaskShard(lookup func(string) (string, bool)) (spec.Shard, error) {
	_, slurm := lookup(slurmTask)
	_, kubernetes := lookup(kubernetesIndex)
	switch {
	case slurm && kubernetes:
		return spec.Shard{}, hint.Add(fmt.Errorf("both %s and %s are set", slurmTask, kubernetesIndex), "name the shard: %s i/k", param.Shard)
	case !slurm && !kubernetes:
		return spec.Shard{}, hint.Add(fmt.Errorf("neither %s nor %s is set: this is not a task of a job array", slurmTask, kubernetesIndex),
			"name the shard: %s i/k", param.Shard)
	}
	e := environment{lookup: lookup}
	var s spec.Shard
	_, total := lookup(ShardsVariable)
	switch {
	case kubernetes:
		s = spec.Shard{I: e.number(kubernetesIndex), K: e.number(ShardsVariable)}
	case total:
		s = spec.Shard{I: e.number(slurmTask), K: e.number(ShardsVariable)}
	default:
		s = e.arrayTask()
	}
	if e.err == nil && (s.I < 0 || s.I >= s.K) {
		e.err = fmt.Errorf("task %d of %d: want an index from 0 that is below the number of shards", s.I, s.K)
	}
	return s, e.err
}

// environment parses numbers from variables. Its field err holds the first error.
type environment struct {
	lookup func(string) (string, bool)
	err    error
}

func (e *environment) number(name string) int {
	text, set := e.lookup(name)
	n, err := strconv.Atoi(text)
	switch {
	case e.err != nil:
	case !set:
		e.err = fmt.Errorf("%s is not set", name)
	case err != nil:
		e.err = fmt.Errorf("%s=%q: want an integer", name, text)
	}
	return n
}

// arrayTask returns the position of a task in its array. Task numbers must be evenly spaced. For --array=1,5,7 the
// environment does not reveal the position.
func (e *environment) arrayTask() spec.Shard {
	id, first, last := e.number(slurmTask), e.number("SLURM_ARRAY_TASK_MIN"), e.number("SLURM_ARRAY_TASK_MAX")
	count, step := e.number("SLURM_ARRAY_TASK_COUNT"), 1
	if _, set := e.lookup("SLURM_ARRAY_TASK_STEP"); set {
		step = e.number("SLURM_ARRAY_TASK_STEP")
	}
	if e.err == nil && (step < 1 || last-first != (count-1)*step || (id-first)%step != 0) {
		e.err = hint.New(fmt.Sprintf("the array has %d tasks from %d to %d, not evenly spaced", count, first, last),
			fmt.Sprintf("set %s to the number of shards, and number the tasks from 0", ShardsVariable))
	}
	if e.err != nil {
		return spec.Shard{}
	}
	return spec.Shard{I: (id - first) / step, K: count}
}
