package main

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rscert/rscert/internal/runfolder"
)

// program returns a command that runs rscert itself, in a separate process.
func program(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	return cmd
}

func certifyArgs(out string, more ...string) []string {
	return append([]string{"certify", "--model", "../../testdata/mnist-cnn.onnx", "--data", "../../testdata/mnist",
		"--sigma", "0.5", "--seed", "1", "--n", "1000", "--max", "60", "--quiet", "--out", out}, more...)
}

// The flags in the list 'everything' make a run write every kind of file that a run folder can hold.
var everything = []string{"--confidence-radii", "0.25,0.5", "--save-scores"}

func results(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, name := range []string{runfolder.VotesFile, runfolder.CertificatesFile, runfolder.BoundsFile, runfolder.ScoresFile} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		files[name] = data
	}
	return files
}

// TestKilled kills a run repeatedly, at moments spread over its length. No certificate may be lost, and no line may be
// incomplete. After the last resume, the finished run must have the bytes of an undisturbed run. The noise is made on
// the host or on the device. Votes do not depend on this place, so a run without scores changes the place at each
// resume. The last bits of scores may depend on the place, so a run with scores keeps it.
func TestKilled(t *testing.T) {
	t.Run("votes", func(t *testing.T) { testKilled(t, 2, nil, "host", "device") })
	t.Run("scores", func(t *testing.T) { testKilled(t, 4, everything, "host") })
}

// testKilled kills and resumes a run repeatedly. The run has the additional flags in the argument 'more'. The argument
// 'files' is the number of result files that an undisturbed run leaves. A result file holds votes, certificates, bounds
// or scores. Each entry of the argument 'places' is "host" or "device", the place where the noise is made. Each resume
// takes the next entry.
func testKilled(t *testing.T, files int, more []string, places ...string) {
	whole := filepath.Join(t.TempDir(), "whole")
	began := time.Now()
	args := append([]string{"--noise-on", places[0]}, more...)
	if out, err := program(t, certifyArgs(whole, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	length := time.Since(began)
	want := results(t, whole)
	if len(want) != files {
		t.Fatalf("the undisturbed run has %d files, want %d", len(want), files)
	}

	dir := filepath.Join(t.TempDir(), "killed")
	rng := rand.New(rand.NewPCG(1, 2))
	var before map[string][]byte
	kills := 0
	for {
		cmd := program(t, append(certifyArgs(dir, "--resume", "--noise-on", places[kills%len(places)]), more...)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// The test kills the run at random times. Some of these times come before the run makes progress. The limit on
		// kills ends the test even on slow machines.
		var timer *time.Timer
		if kills < 20 {
			timer = time.AfterFunc(time.Duration(rng.Float64()*float64(length)/2), func() { _ = cmd.Process.Kill() })
		}
		err := cmd.Wait()
		if timer != nil {
			timer.Stop()
		}
		if err == nil {
			break
		}
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != -1 {
			t.Fatalf("%v\n%s", err, stderr.Bytes())
		}
		kills++
		if _, err := os.Stat(filepath.Join(dir, runfolder.CertificatesFile)); err != nil {
			continue // killed before the folder existed
		}
		after := results(t, dir)
		for name, data := range after {
			if !bytes.HasPrefix(want[name], data) {
				t.Fatalf("after kill %d %s is not the beginning of the undisturbed run's file", kills, name)
			}
			if name != runfolder.ScoresFile && len(data) > 0 && data[len(data)-1] != '\n' {
				t.Fatalf("after kill %d the last line of %s is torn", kills, name)
			}
		}
		if c := runfolder.CertificatesFile; len(after[c]) < len(before[c]) {
			t.Fatalf("kill %d lost certificates", kills)
		}
		before = after
	}
	if kills == 0 {
		t.Error("the run was never killed")
	}
	for name, data := range want {
		if got := results(t, dir)[name]; !bytes.Equal(got, data) {
			t.Errorf("%s differs after %d kills", name, kills)
		}
	}
	t.Logf("killed %d times", kills)
}

// TestInterrupted checks that an interrupted run ends with exit code 130 and can resume.
func TestInterrupted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	args := certifyArgs(dir, "--n", "100000", "--resume")
	cmd := program(t, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for { // until the run has started
		if _, err := os.Stat(filepath.Join(dir, runfolder.VotesFile)); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Errorf("ended with %v, want exit code %d", err, exitInterrupted)
	}
	if !strings.Contains(stderr.String(), "--resume") || !strings.Contains(stderr.String(), "rscert: interrupted") {
		t.Errorf("said %q", stderr.String())
	}
}
