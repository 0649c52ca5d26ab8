package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/template"
	"time"

	"github.com/rscert/rscert/internal/cluster"
	"github.com/rscert/rscert/internal/runfolder"
)

// slurmConfig describes a cluster that consists of this machine, with two processors and without accounts.
var slurmConfig = template.Must(template.New("slurm.conf").Parse(`ClusterName=test
SlurmctldHost={{.Host}}(127.0.0.1)
SlurmctldPort={{.ControllerPort}}
SlurmdPort={{.NodePort}}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={{.Dir}}/munge
StateSaveLocation={{.Dir}}/state
SlurmdSpoolDir={{.Dir}}/spool
SlurmctldPidFile={{.Dir}}/slurmctld.pid
SlurmdPidFile={{.Dir}}/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=batch_sched_delay=0,sched_interval=1
ReturnToService=2
MpiDefault=none
NodeName={{.Host}} NodeAddr=127.0.0.1 CPUs=2
PartitionName=all Nodes={{.Host}} Default=YES State=UP
`))

// startSlurm starts munge and Slurm on the loopback interface; they stop when the test ends.
func startSlurm(t *testing.T) {
	t.Helper()
	for _, name := range []string{"munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel"} {
		if _, err := exec.LookPath(name); err != nil {
			skipSlurm(t, name+" is not installed; 'make slurm' installs Slurm on Debian")
		}
	}
	if os.Getuid() != 0 {
		skipSlurm(t, "slurmd can start tasks only as root")
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	dir := t.TempDir()
	settings := struct {
		Host, Dir                string
		ControllerPort, NodePort int
	}{host, dir, freePort(t), freePort(t)}
	var config bytes.Buffer
	if err := slurmConfig.Execute(&config, settings); err != nil {
		t.Fatal(err)
	}
	key := make([]byte, 1024)
	if _, err := rand.Read(key); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"slurm.conf": config.Bytes(), "key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"state", "spool"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SLURM_CONF", filepath.Join(dir, "slurm.conf"))
	daemon(t, "munged", "--foreground", "--force", "--key-file="+dir+"/key", "--socket="+dir+"/munge", "--pid-file="+dir+"/munge.pid",
		"--log-file="+dir+"/munge.log", "--seed-file="+dir+"/munge.seed")
	await(t, "munge", func() bool { _, err := os.Stat(dir + "/munge"); return err == nil })
	daemon(t, "slurmctld", "-D")
	daemon(t, "slurmd", "-D")
	await(t, "a node that is idle", func() bool {
		out, err := exec.CommandContext(t.Context(), "sinfo", "--noheader", "--format=%t").Output()
		return err == nil && strings.TrimSpace(string(out)) == "idle"
	})
}

// skipSlurm skips the test unless 'make slurm' runs it.
func skipSlurm(t *testing.T, reason string) {
	t.Helper()
	if os.Getenv("RSCERT_TEST_SLURM") != "" {
		t.Fatal(reason)
	}
	t.Skip(reason)
}

func freePort(t *testing.T) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// daemon runs a program until the test ends, and shows its output if the test fails.
func daemon(t *testing.T, name string, args ...string) {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		kill.Stop()
		if t.Failed() {
			t.Logf("%s:\n%s", name, said.Bytes())
		}
	})
}

// await waits until a condition holds.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for !is() {
		if err := cluster.Pause(ctx, 20*time.Millisecond); err != nil {
			t.Fatalf("no %s: %v", what, err)
		}
	}
}

// TestSlurm runs a job array on a real Slurm. It cancels one task with scancel, kills another task, and interrupts the
// program that waits for the tasks. The merged run must have the bytes of an unsplit run.
func TestSlurm(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 20 seconds")
	}
	startSlurm(t)
	dir := t.TempDir()
	whole, out := filepath.Join(dir, "whole"), filepath.Join(dir, "run")
	scores := []string{"--n", "4000", "--save-scores", "--confidence-radii", "0.25,0.5"}
	if text, err := program(t, append(certifyArgs(whole), scores...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	slurm := func(flags []string, more ...string) *exec.Cmd {
		words := append([]string{"slurm", "--shards", "3", "--every", "200ms", "--time", "10"}, flags...)
		return program(t, slices.Concat(words, []string{"--"}, certifyArgs(out), scores, more)...)
	}
	submitted, err := slurm([]string{"--json"}).Output()
	if err != nil {
		t.Fatal(err)
	}
	var array struct {
		Jobs []cluster.Job `json:"jobs"`
	}
	if err := json.Unmarshal(submitted, &array); err != nil || len(array.Jobs) != 1 {
		t.Fatalf("%v: want one job in %s", err, submitted)
	}
	a := cluster.Array{Shards: 3, Out: out}
	begun := func(shard int) func() bool {
		return func() bool { x, err := runfolder.ReadExtent(a.Part(shard)); return err == nil && x.Done > 0 }
	}

	waiting := slurm([]string{"--wait"}, "--resume")
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, "result of shard 1", begun(1))
	if err := waiting.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := waiting.Wait(); waiting.ProcessState.ExitCode() != exitInterrupted {
		t.Errorf("interrupted: %v", err)
	}

	var said bytes.Buffer
	waiting = slurm([]string{"--wait"}, "--resume")
	waiting.Stdout, waiting.Stderr = &said, &said
	asked := filepath.Join(t.TempDir(), "asked")
	waiting.Env = append(waiting.Env, "PATH="+markedSqueue(t, asked)+":"+os.Getenv("PATH"))
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	// The test ends shard 1 with scancel only after the program has asked squeue about the tasks.
	await(t, "question about the tasks", func() bool { _, err := os.Stat(asked); return err == nil })
	if text, err := exec.CommandContext(t.Context(), "scancel", array.Jobs[0].ID+"_1").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	await(t, "result of shard 2", begun(2))
	if err := syscall.Kill(certifying(t, a.Part(2)), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := waiting.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said.Bytes())
	}
	for _, want := range []string{"shard 1: cancelled", "shard 2: failed", "60 examples from 3 shards are in "} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in\n%s", want, said.Bytes())
		}
	}
	got := results(t, out)
	if len(got) != 4 {
		t.Errorf("%d files, want 4", len(got))
	}
	for name, data := range results(t, whole) {
		if !bytes.Equal(got[name], data) {
			t.Errorf("%s differs from the file of the run that was never split", name)
		}
	}
	t.Logf("%s", said.Bytes())
}

// TestSlurmSweep runs a sweep on a real Slurm, with every shard of every point in one job array. It kills one task. The
// merged points must have the bytes of an unsplit sweep.
func TestSlurmSweep(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 20 seconds")
	}
	startSlurm(t)
	dir := t.TempDir()
	whole, out := filepath.Join(dir, "whole"), filepath.Join(dir, "sweep")
	more := []string{"--n", "4000", "--sigma", "0.5,1"} // the last --sigma applies
	if text, err := program(t, append(certifyArgs(whole), more...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	words := slices.Concat([]string{"slurm", "--shards", "2", "--every", "200ms", "--time", "10", "--wait", "--"}, certifyArgs(out), more)
	var said bytes.Buffer
	waiting := program(t, words...)
	waiting.Stdout, waiting.Stderr = &said, &said
	if err := waiting.Start(); err != nil {
		t.Fatal(err)
	}
	a := cluster.Array{Shards: 2, Points: []string{"sigma-0.5", "sigma-1"}, Out: out}
	last := filepath.Join(a.Part(3), "sigma-1")
	await(t, "result of the last task", func() bool { x, err := runfolder.ReadExtent(last); return err == nil && x.Done > 0 })
	if err := syscall.Kill(certifying(t, a.Part(3)), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := waiting.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said.Bytes())
	}
	for _, want := range []string{"4 tasks", "task 3 (sigma-1, shard 1): failed", "60 examples from 2 shards are in " + filepath.Join(out, "sigma-1")} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in\n%s", want, said.Bytes())
		}
	}
	for _, point := range a.Points {
		got := results(t, filepath.Join(out, point))
		for name, data := range results(t, filepath.Join(whole, point)) {
			if !bytes.Equal(got[name], data) {
				t.Errorf("%s of %s differs from the file of the sweep that was never split", name, point)
			}
		}
	}
	t.Logf("%s", said.Bytes())
}

// markedSqueue returns a folder with a program squeue. This squeue runs the real squeue and then creates a file.
func markedSqueue(t *testing.T, file string) string {
	t.Helper()
	real, err := exec.LookPath("squeue")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\n'%s' \"$@\"\ncode=$?\n: > '%s'\nexit $code\n", real, file)
	if err := os.WriteFile(filepath.Join(dir, "squeue"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// certifying returns the ID of the process that writes to a run folder.
func certifying(t *testing.T, part string) int {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range processes {
		line, err := os.ReadFile(path)
		words := strings.Split(string(line), "\x00")
		if err != nil || len(words) < 2 || words[1] != "certify" || !slices.Contains(words, part) {
			continue
		}
		id, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	t.Fatalf("no process writes to %s", part)
	return 0
}
