package cluster

import (
	"testing"

	"github.com/rscert/rscert/internal/spec"
)

func TestTaskShard(t *testing.T) {
	array := func(id, first, last, count, step string) map[string]string {
		return map[string]string{"SLURM_ARRAY_TASK_ID": id, "SLURM_ARRAY_TASK_MIN": first, "SLURM_ARRAY_TASK_MAX": last,
			"SLURM_ARRAY_TASK_COUNT": count, "SLURM_ARRAY_TASK_STEP": step}
	}
	with := func(m map[string]string, name, value string) map[string]string {
		m[name] = value
		return m
	}
	bad := spec.Shard{}
	for name, test := range map[string]struct {
		env  map[string]string
		want spec.Shard // the value 'bad' stands for an error
	}{
		"from 0":                      {array("3", "0", "7", "8", "1"), spec.Shard{I: 3, K: 8}},
		"from 1":                      {array("8", "1", "8", "8", "1"), spec.Shard{I: 7, K: 8}},
		"steps of 4":                  {array("10", "2", "14", "4", "4"), spec.Shard{I: 2, K: 4}},
		"one task":                    {array("5", "5", "5", "1", "1"), spec.Shard{I: 0, K: 1}},
		"uneven":                      {array("5", "1", "7", "3", "1"), bad},
		"between steps":               {array("3", "2", "14", "4", "4"), bad},
		"no step":                     {array("3", "0", "7", "8", "0"), bad},
		"no number":                   {array("x", "0", "7", "8", "1"), bad},
		"outside":                     {array("9", "0", "7", "8", "1"), bad},
		"some of the shards":          {with(array("5", "3", "5", "2", "2"), "RSCERT_SHARDS", "8"), spec.Shard{I: 5, K: 8}},
		"more than shards":            {with(array("8", "3", "8", "2", "5"), "RSCERT_SHARDS", "8"), bad},
		"Kubernetes":                  {map[string]string{"JOB_COMPLETION_INDEX": "2", "RSCERT_SHARDS": "3"}, spec.Shard{I: 2, K: 3}},
		"Kubernetes, count unknown":   {map[string]string{"JOB_COMPLETION_INDEX": "2"}, bad},
		"Kubernetes, beyond":          {map[string]string{"JOB_COMPLETION_INDEX": "3", "RSCERT_SHARDS": "3"}, bad},
		"a shard of a point":          {map[string]string{"JOB_COMPLETION_INDEX": "7", "RSCERT_SHARDS": "3", "RSCERT_POINTS": "4"}, spec.Shard{I: 1, K: 3}},
		"a point without shards":      {map[string]string{"SLURM_ARRAY_TASK_ID": "3", "RSCERT_POINTS": "4"}, spec.Shard{I: 0, K: 1}},
		"beyond the points":           {map[string]string{"JOB_COMPLETION_INDEX": "12", "RSCERT_SHARDS": "3", "RSCERT_POINTS": "4"}, bad},
		"both":                        {with(array("0", "0", "7", "8", "1"), "JOB_COMPLETION_INDEX", "0"), bad},
		"neither, a number of shards": {map[string]string{"RSCERT_SHARDS": "3"}, bad},
	} {
		got, err := TaskShard(func(name string) (string, bool) { v, ok := test.env[name]; return v, ok })
		if (err != nil) != (test.want == bad) || err == nil && got != test.want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, test.want)
		}
	}
}

func TestTaskPoint(t *testing.T) {
	const bad = -1
	array := map[string]string{"SLURM_ARRAY_TASK_ID": "5", "SLURM_ARRAY_TASK_MIN": "3", "SLURM_ARRAY_TASK_MAX": "6", "SLURM_ARRAY_TASK_COUNT": "4"}
	for name, test := range map[string]struct {
		env    map[string]string
		points int
		shard  spec.Shard
		want   int // the value 'bad' stands for an error
	}{
		"one task for each point":   {array, 4, spec.Whole, 2},
		"another number of tasks":   {array, 3, spec.Whole, bad},
		"unknown shards":            {array, 4, spec.Shard{I: 1, K: 2}, bad},
		"shards of points":          {map[string]string{"SLURM_ARRAY_TASK_ID": "7", "RSCERT_SHARDS": "3", "RSCERT_POINTS": "4"}, 4, spec.Shard{I: 1, K: 3}, 2},
		"the last task":             {map[string]string{"JOB_COMPLETION_INDEX": "11", "RSCERT_SHARDS": "3", "RSCERT_POINTS": "4"}, 4, spec.Whole, 3},
		"beyond the last task":      {map[string]string{"JOB_COMPLETION_INDEX": "12", "RSCERT_SHARDS": "3", "RSCERT_POINTS": "4"}, 4, spec.Whole, bad},
		"another number of points":  {map[string]string{"JOB_COMPLETION_INDEX": "1", "RSCERT_POINTS": "5"}, 4, spec.Whole, bad},
		"Kubernetes, a point a pod": {map[string]string{"JOB_COMPLETION_INDEX": "3"}, 4, spec.Whole, 3},
		"Kubernetes, beyond":        {map[string]string{"JOB_COMPLETION_INDEX": "4"}, 4, spec.Whole, bad},
		"no array":                  {nil, 4, spec.Whole, bad},
		"no array, points":          {map[string]string{"RSCERT_POINTS": "4"}, 4, spec.Whole, bad},
		"no number":                 {map[string]string{"JOB_COMPLETION_INDEX": "1", "RSCERT_POINTS": "x"}, 4, spec.Whole, bad},
		"no shards":                 {map[string]string{"JOB_COMPLETION_INDEX": "1", "RSCERT_POINTS": "4", "RSCERT_SHARDS": "0"}, 4, spec.Whole, bad},
	} {
		got, err := TaskPoint(func(name string) (string, bool) { v, ok := test.env[name]; return v, ok }, test.points, test.shard)
		if (err != nil) != (test.want == bad) || err == nil && got != test.want {
			t.Errorf("%s: %v, %v; want %v", name, got, err, test.want)
		}
	}
}
