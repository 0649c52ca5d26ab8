package cluster

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/hint"
)

// standIn replaces the PATH by a folder of shell scripts. The scripts have the names of Slurm's programs.
func standIn(t *testing.T, scripts map[string]string) {
	dir := t.TempDir()
	for name, text := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
}

func TestSlurmMissing(t *testing.T) {
	standIn(t, nil)
	_, err := Slurm{}.Submit(t.Context(), &Array{Shards: 2}, nil)
	if advice, ok := hint.Of(err); !ok || err.Error() != "sbatch is not on the PATH" || !strings.Contains(advice, "docs/clusters.md") {
		t.Errorf("%v, hint %q", err, advice)
	}
}

func TestSlurmRefuses(t *testing.T) {
	standIn(t, map[string]string{"sbatch": "echo 'sbatch: error: invalid partition' >&2; echo more >&2; exit 1"})
	_, err := Slurm{}.Submit(t.Context(), &Array{Shards: 2}, nil)
	if err == nil || !strings.Contains(err.Error(), "sbatch: error: invalid partition more (exit status 1)") {
		t.Errorf("%v", err)
	}
}

// Slurm forgets a job some minutes after the end of the job. The method Tasks must then ask sacct, if there is such a
// program.
func TestSlurmForgets(t *testing.T) {
	unknown := "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1"
	job := Job{ID: "12", Cluster: "east", Shards: []int{0, 1}}
	for name, test := range map[string]struct {
		scripts map[string]string
		want    map[int]Task
		fails   bool
	}{
		"no accounts": {map[string]string{"squeue": unknown, "sacct": "exit 1"}, map[int]Task{}, false},
		"accounts":    {map[string]string{"squeue": unknown, "sacct": `echo "12_1|FAILED|2:0"`}, map[int]Task{1: {State: "FAILED", Exit: 2}}, false},
		"some in the queue": {map[string]string{"squeue": `echo "1|RUNNING|None|0"`, "sacct": `echo "12_0|COMPLETED|0:0"; echo "12_1|PENDING|0:0"`},
			map[int]Task{0: complete, 1: {State: "RUNNING", Reason: "None"}}, false},
		"all in the queue": {map[string]string{"squeue": `echo "0|RUNNING|None|0"; echo "1|RUNNING|None|0"`, "sacct": "echo nonsense"},
			map[int]Task{0: {State: "RUNNING", Reason: "None"}, 1: {State: "RUNNING", Reason: "None"}}, false},
		"another cluster": {map[string]string{"squeue": `case "$*" in *--clusters=east*--jobs=12*|*--jobs=12*--clusters=east*) echo "0|RUNNING|None|0";; esac`, "sacct": "exit 1"},
			map[int]Task{0: {State: "RUNNING", Reason: "None"}}, false},
		"no controller": {map[string]string{"squeue": "echo 'Unable to contact slurm controller' >&2; exit 1"}, nil, true},
	} {
		standIn(t, test.scripts)
		got, err := Slurm{}.Tasks(t.Context(), job)
		if (err != nil) != test.fails || !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, test.want)
		}
	}
}
