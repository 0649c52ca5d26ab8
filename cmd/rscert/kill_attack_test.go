package main

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/rscert/rscert/internal/runfolder"
)

// TestKilledAttack kills an attack repeatedly, at moments spread over its length. All finished examples and all their
// perturbed inputs must be kept, and every line must be complete. After the last resume, the folder must have the files
// and bytes of an undisturbed attack.
func TestKilledAttack(t *testing.T) {
	t.Run("pgd", func(t *testing.T) {
		testKilledAttack(t, 3, "--attack", "pgd", "--norm", "linf", "--eps", "0.3", "--max", "96", "--steps", "60")
	})
	t.Run("ace", func(t *testing.T) {
		testKilledAttack(t, 13, "--attack", "ace", "--norm", "linf", "--eps", "0.1", "--max", "80", "--steps", "30",
			"--pictures", "2", "--threads", "1")
	})
	t.Run("smoothed", func(t *testing.T) {
		testKilledAttack(t, 4, "--smoothed", "--sigma", "0.5", "--eps", "2", "--keep", "all", "--max", "40", "--steps", "8",
			"--samples", "32", "--restarts", "1", "--n", "100")
	})
}

// attackFiles reads the files of an attack's folder, except the lock.
func attackFiles(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "[a-z]*"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		if files[filepath.Base(path)], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// testKilledAttack kills and resumes an attack. If the attack is not disturbed, it leaves plan.json and the given
// number of other files.
func testKilledAttack(t *testing.T, files int, more ...string) {
	args := func(out string) []string {
		return append([]string{"attack", "--model", "../../testdata/mnist-cnn.onnx", "--data", "../../testdata/mnist",
			"--seed", "1", "--quiet", "--resume", "--out", out}, more...)
	}
	whole, dir := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "killed")
	began := time.Now()
	if out, err := program(t, args(whole)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	length, want := time.Since(began), attackFiles(t, whole)
	if len(want) != files+1 {
		t.Fatalf("the undisturbed attack has %d files, want %d", len(want), files+1)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	kills, done, later := 0, 0, 0
	for ; ; kills++ {
		moment := time.After(time.Duration((.1 + .4*rng.Float64()) * float64(length)))
		if kills%2 == 1 { // wait for another line, because a busy machine may need longer than a fixed time
			moment = grown(t, filepath.Join(dir, runfolder.AttackedFile), done)
		}
		if kills == 12 { // this round kills nothing, so the attack ends on any machine
			moment = nil
		}
		if killAt(t, moment, args(dir)) {
			break
		}
		got := attackFiles(t, dir)
		lines := got[runfolder.AttackedFile]
		if !bytes.HasPrefix(want[runfolder.AttackedFile], lines) || len(lines) > 0 && lines[len(lines)-1] != '\n' {
			t.Fatalf("after kill %d the lines are not the first lines of the undisturbed attack", kills)
		}
		n := bytes.Count(lines, []byte("\n"))
		if n < done {
			t.Fatalf("kill %d lost examples: %d of %d are left", kills, n, done)
		}
		if n > 0 && n > done {
			later++
		}
		done = n
	}
	if kills == 0 || later == 0 {
		t.Errorf("%d kills, %d of them after progress", kills, later)
	}
	got := attackFiles(t, dir)
	if len(got) != len(want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
	for name, data := range want {
		if !bytes.Equal(got[name], data) {
			t.Errorf("%s differs after %d kills", name, kills)
		}
	}
	t.Logf("killed %d times, %d times after progress", kills, later)
}

// The function 'grown' returns a channel. The channel receives a value when the file has more than the given number of
// lines. If the test ends earlier, the channel receives nothing.
func grown(t *testing.T, path string, lines int) <-chan time.Time {
	tick, longer := time.NewTicker(time.Millisecond), make(chan time.Time, 1)
	go func() {
		defer tick.Stop()
		for {
			select {
			case <-t.Context().Done():
				return
			case now := <-tick.C:
				if data, err := os.ReadFile(path); err == nil && bytes.Count(data, []byte("\n")) > lines {
					longer <- now
					return
				}
			}
		}
	}()
	return longer
}

// killAt runs the program and kills it when a value arrives on the channel. It reports whether the program ended before
// the kill. If the channel is nil, killAt does not kill the program.
func killAt(t *testing.T, moment <-chan time.Time, args []string) (ended bool) {
	t.Helper()
	cmd := program(t, args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		select {
		case <-moment:
			_ = cmd.Process.Kill()
		case <-over:
		}
	}()
	err := cmd.Wait()
	close(over)
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != -1) {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	return err == nil
}
