package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestRanges(t *testing.T) {
	for want, numbers := range map[string][]int{"0": {0}, "0-3,5": {5, 0, 1, 2, 3}, "1,3,7-8": {8, 7, 3, 1}, "4-5": {4, 5}} {
		if got := ranges(numbers); got != want {
			t.Errorf("%v: %s, want %s", numbers, got, want)
		}
	}
}

func TestTasks(t *testing.T) {
	a := Array{Shards: 8}
	if got := a.tasks(nil); got != "0-7" {
		t.Error(got)
	}
	a.AtOnce = 3
	if got := a.tasks([]int{2, 5}); got != "2,5%3" {
		t.Error(got)
	}
}

// TestSweepScript checks that the tasks of a sweep run every shard of every point once. Each task must write to a
// folder of its own.
func TestSweepScript(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "print")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nprintf '%s ' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	a := &Array{Shards: 2, Points: []string{"sigma-1", "sigma-2", "sigma-4"}, Seed: 18, Out: filepath.Join(dir, "runs"), Dir: dir, Program: program,
		Certify: []string{"--sigma=1,2,4"}, OwnThreads: true}
	if err := a.Create(); err != nil {
		t.Fatal(err)
	}
	if got := a.tasks(nil); got != "0-5" || a.Tasks() != 6 || len(a.Parts()) != 6 {
		t.Errorf("tasks %s, %d, %d", got, a.Tasks(), len(a.Parts()))
	}
	for task, want := range []string{"0 0/2", "0 1/2", "1 0/2", "1 1/2", "2 0/2", "2 1/2"} {
		cmd := exec.Command("/bin/sh", a.Script())
		cmd.Env = []string{fmt.Sprintf("SLURM_ARRAY_TASK_ID=%d", task)}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		point, shard, _ := strings.Cut(want, " ")
		line := strings.Join([]string{"certify", "--sigma=1,2,4", "--quiet", "--resume", "--seed", "18", "--point", point, "--shard", shard, "--out", a.Part(task), ""}, " ")
		if string(out) != line {
			t.Errorf("task %d: %s\nwant %s", task, out, line)
		}
	}
	if got, want := a.run(3), filepath.Join(a.Folder(), "part3", "sigma-2"); got != want {
		t.Errorf("task 3 writes %s, want %s", got, want)
	}
	if got, want := a.describe(3), "task 3 (sigma-2, shard 1)"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	other := *a
	other.Points = []string{"sigma-1", "sigma-2", "sigma-3"}
	if err := a.Same(&other); err == nil || !strings.Contains(err.Error(), "the points: was sigma-1 sigma-2 sigma-4") {
		t.Errorf("error %v", err)
	}
}

// TestScript runs the script with a shell. A program that prints its arguments takes the place of rscert. Words with
// spaces, quotes or characters such as $, % and > must arrive intact.
func TestScript(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "print args")
	if err := os.WriteFile(program, []byte("#!/bin/sh\npwd\nprintf '%s\\n' \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	a := &Array{Shards: 4, Seed: 18, Out: filepath.Join(dir, "it's 100% run"), Dir: dir, Program: program,
		Options: []string{"--time=2:00", "--comment=a b"}, Certify: []string{"--model=my $model.onnx", "--stop=radius>=0.5"}}
	if err := a.Create(); err != nil {
		t.Fatal(err)
	}
	run := func(env ...string) string {
		cmd := exec.Command("/bin/sh", a.Script())
		cmd.Env = append([]string{"SLURM_ARRAY_TASK_ID=3"}, env...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	want := strings.Join([]string{dir, "certify", "--model=my $model.onnx", "--stop=radius>=0.5", "--quiet", "--resume", "--seed", "18",
		"--shard", "3/4", "--out", a.Part(3), "--threads", "6", ""}, "\n")
	if got := run("SLURM_CPUS_ON_NODE=6"); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := run(); !strings.HasSuffix(got, "--threads\n0\n") {
		t.Errorf("without Slurm's number of processors: %s", got)
	}
	a.OwnThreads = true
	if err := a.Resume(a); err != nil {
		t.Fatal(err)
	}
	if got := run("SLURM_CPUS_ON_NODE=6"); strings.Contains(got, "--threads") {
		t.Errorf("with threads of the user's: %s", got)
	}
	text, err := os.ReadFile(a.Script())
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"#SBATCH --array=0-3\n", "#SBATCH --time=2:00\n#SBATCH '--comment=a b'\n", "100%% run.shards/log/%A_%a.txt'\n"} {
		if !strings.Contains(string(text), line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
}

func TestRecord(t *testing.T) {
	a := &Array{Shards: 4, Seed: 1 << 52, Out: filepath.Join(t.TempDir(), "new", "run"), Certify: []string{"--n=7"}, Jobs: []Job{{ID: "5", Shards: []int{0, 1}}}}
	if _, err := Load(a.Out); !os.IsNotExist(err) {
		t.Errorf("%v, want that there is none", err)
	}
	if err := a.Create(); err != nil {
		t.Fatal(err)
	}
	if err := a.Create(); err == nil {
		t.Error("created twice")
	}
	got, err := Load(a.Out)
	if err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("%+v, %v; want %+v", got, err, a)
	}
	if err := a.Same(got); err != nil {
		t.Error(err)
	}
	for what, change := range map[string]func(*Array){
		"shards: was": func(b *Array) { b.Shards = 5 }, "seed: was": func(b *Array) { b.Seed++ }, "certify flags": func(b *Array) { b.Certify = []string{"--n=8"} },
	} {
		b := *a
		change(&b)
		if err := a.Same(&b); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want that %s differs", err, what)
		}
	}
}
