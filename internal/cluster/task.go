// Package cluster distributes the shards of a run over several machines. An Array is a job array of Slurm. Submit puts
// an Array into a Queue, and Watch follows the Array to its end. An IndexedJob is a Job of Kubernetes. Manifest.YAML
// writes this Job. TaskShard returns the shard of the current task. A shard is finished when its run folder is complete.
// A folder on a network disk may be out of date, so Watch.Run also accepts Slurm's report that a task completed.
package cluster

import (
	"fmt"
	"strconv"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
)

// ShardsVariable is the name of the environment variable that holds the number of shards. Without it, a task may not
// know this number: Kubernetes tells a pod its index, but not the number of pods. A Slurm array that repeats only some
// tasks has fewer tasks than the run has shards.
const ShardsVariable = "RSCERT_SHARDS"

// PointsVariable is the name of the environment variable that holds the number of points of a sweep. If it is set, the
// tasks of a Slurm job array or of a Kubernetes Indexed Job together run all shards of all points. With K shards
// (ShardsVariable; 1 if it is not set), task number t runs shard t mod K of point ⌊t/K⌋.
const PointsVariable = "RSCERT_POINTS"

// Schedulers set these environment variables for their tasks.
const (
	kubernetesIndex = "JOB_COMPLETION_INDEX"
	slurmTask       = "SLURM_ARRAY_TASK_ID"
)

// TaskShard reads the environment of a task and returns the task's shard. If PointsVariable is set, the task runs one
// shard of one point, and TaskShard returns this shard.
func TaskShard(lookup func(string) (string, bool)) (spec.Shard, error) {
	e := environment{lookup: lookup}
	if points, ok := e.optional(PointsVariable); ok {
		s, err := e.pointTask(points)
		return spec.Shard{I: s.I % s.K, K: s.K}, err
	}
	return taskOfArray(lookup)
}

// TaskPoint returns the number of the point that a task runs. The argument 'points' is the number of points in the
// sweep. Without PointsVariable, the array must have one task for each point. In this case each task runs a whole
// point, so the argument 'shard' must be spec.Whole.
func TaskPoint(lookup func(string) (string, bool), points int, shard spec.Shard) (int, error) {
	e := environment{lookup: lookup}
	said, ok := e.optional(PointsVariable)
	switch {
	case ok && said != points:
		return 0, fmt.Errorf("%s is %d, and the sweep has %d points", PointsVariable, said, points)
	case ok:
		s, err := e.pointTask(points)
		return s.I / s.K, err
	case shard != spec.Whole:
		return 0, hint.Add(param.Errorf("%s %s: the task's number does not say which point it runs", param.Shard, shard),
			"set %s to the number of points and %s to the number of shards", PointsVariable, ShardsVariable)
	}
	if _, kubernetes := lookup(kubernetesIndex); kubernetes {
		s := spec.Shard{I: e.number(kubernetesIndex), K: points}
		if e.err == nil && (s.I < 0 || s.I >= s.K) {
			e.err = fmt.Errorf("task %d: the sweep has %d points, from 0", s.I, points)
		}
		return s.I, e.err
	}
	s, err := taskOfArray(lookup)
	if err == nil && s.K != points {
		err = hint.Add(fmt.Errorf("the array has %d tasks, and the sweep has %d points", s.K, points),
			"set %s to the number of points and %s to the number of shards", PointsVariable, ShardsVariable)
	}
	return s.I, err
}

// taskOfArray returns the shard of a task. It is for tasks whose environment does not set the variable PointsVariable.
// The task belongs to a Slurm job array or a Kubernetes Indexed Job. Slurm's option --array=FIRST-LAST[:STEP] numbers
// the tasks of an array. In a Kubernetes job, or if ShardsVariable is set, the task's index is the number of the shard,
// from 0. Otherwise the position of the task in the array is the number of the shard.
func taskOfArray(lookup func(string) (string, bool)) (spec.Shard, error) {
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

// The method 'optional' returns the number in a variable, and whether the variable is set.
func (e *environment) optional(name string) (int, bool) {
	if _, set := e.lookup(name); !set {
		return 0, false
	}
	return e.number(name), true
}

// pointTask returns a Shard with unusual fields: I is the number of the task, and K is the number of shards of each
// point. So the field I may be K or larger. The array has one task for each shard of each point. The argument 'points'
// is the number of points.
func (e *environment) pointTask(points int) (spec.Shard, error) {
	s := spec.Shard{K: 1}
	if shards, ok := e.optional(ShardsVariable); ok {
		s.K = shards
	}
	variable := slurmTask
	if _, kubernetes := e.lookup(kubernetesIndex); kubernetes {
		variable = kubernetesIndex
	}
	s.I = e.number(variable)
	if e.err == nil && (s.K < 1 || s.I < 0 || s.I >= s.K*points) {
		e.err = fmt.Errorf("task %d: want an index from 0 that is below %d points × %d shards", s.I, points, s.K)
	}
	if e.err != nil {
		return spec.Shard{K: 1}, e.err
	}
	return s, nil
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
