package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rscert/rscert/cmd/rscert/internal/powercut"
	"github.com/rscert/rscert/internal/runfolder"
)

// powercutProgram is the flag -powercut.program. If it is set, the test runs the rscert at this path,
// not the test binary.
var powercutProgram = flag.String("powercut.program", "", "`path` of the rscert whose run is cut; default: this one")

// cutRun returns the command line of the interrupted run. This run writes every kind of file that a run folder can
// hold.
func cutRun(out string) []string {
	return append([]string{"certify", "--model", "../../testdata/mnist-cnn.onnx", "--data", "../../testdata/mnist", "--sigma", "0.5", "--seed", "1",
		"--n", "150", "--n0", "20", "--max", "16", "--threads", "1", "--quiet", "--resume", "--out", out}, everything...)
}

// TestPowerCuts cuts the power at some moments of a run.
func TestPowerCuts(t *testing.T) {
	if testing.Short() {
		t.Skip("runs rscert eighty times")
	}
	testPowerCuts(t, 1, 60, 1)
}

// testPowerCuts records the file operations of a real run and simulates power cuts during this run. At each cut,
// several simulated disks choose which operations they have carried out. Eight disks choose the oldest or the newest
// state of the pages, of the file lengths and of the names, in all combinations. The other disks choose the pages and
// the file lengths at random. Half of them also choose the names at random; the other half keep the newest names. Each
// disk leaves a set of files. The argument 'most' is the maximum number of different sets that the test chooses. The
// test resumes the run from each chosen set. Each resumed run must end with the bytes of the undisturbed run. Then
// testPowerCuts cuts the power of resumed runs in the same way.
func testPowerCuts(t *testing.T, random, most, again int) {
	root := t.TempDir()
	recording := recordRun(t, root)
	want := results(t, filepath.Join(root, "run"))
	if len(want) != 4 {
		t.Fatalf("the undisturbed run has %d files, want 4", len(want))
	}
	rng := rand.New(rand.NewPCG(1, 2))
	remnants := cutAll(recording, random, rng)
	t.Logf("%d events, %d different remnants", len(recording.Events), len(remnants))
	tryRemains(t, choose(remnants, most, rng), want)
	for range again {
		var middle []remnant
		for _, r := range remnants {
			if r.phase == "middle" {
				middle = append(middle, r)
			}
		}
		root := t.TempDir()
		first := middle[rng.IntN(len(middle))]
		if err := first.files.WriteTo(root); err != nil {
			t.Fatal(err)
		}
		second := cutAll(recordRun(t, root), random, rng)
		for i := range second {
			second[i].phase = "resumed, " + second[i].phase
			second[i].what = first.what + ", resumed, " + second[i].what
		}
		tryRemains(t, choose(second, most/3, rng), want)
	}
}

// recordRun records a run that syncs its files several times.
func recordRun(t *testing.T, root string) powercut.Recording {
	t.Helper()
	said, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	program, env := os.Args[0], append(os.Environ(), asProgram+"=1")
	if *powercutProgram != "" {
		program = *powercutProgram
	}
	certified := 0
	recording, err := powercut.Record(root, powercut.Program{
		Path: program, Args: cutRun(filepath.Join(root, "run")), Env: env, Output: said,
		Before: func(e powercut.Event) {
			switch filepath.Base(e.Path) {
			case runfolder.CertificatesFile:
				if e.Kind == powercut.Write {
					certified++
				}
			case runfolder.ScoresFile + ".part":
				// Every fifth example takes longer than the interval between syncs.
				if e.Kind == powercut.Write && certified > 0 && certified%5 == 0 {
					certified++
					time.Sleep(1200 * time.Millisecond)
				}
			}
		},
	})
	if errors.Is(err, powercut.ErrNoTrace) {
		t.Skip(err)
	}
	if err != nil {
		text, _ := os.ReadFile(said.Name())
		t.Fatalf("%v\n%s", err, text)
	}
	is, err := powercut.ReadFiles(root)
	if err != nil {
		t.Fatal(err)
	}
	newest := powercut.Disk{Pages: powercut.Newest, Lengths: powercut.Newest, Names: powercut.Newest}
	if !maps.EqualFunc(is, recording.Cut(len(recording.Events), newest), bytes.Equal) {
		t.Fatal("the recording does not end with the files of the run")
	}
	return recording
}

// remnant holds the files that a power cut leaves.
type remnant struct {
	phase, what string
	files       powercut.Files
}

// cutAll cuts the power before the first event and after each event. It returns the different sets of files that
// remain.
func cutAll(recording powercut.Recording, random int, rng *rand.Rand) []remnant {
	first, last := -1, -1
	for i, e := range recording.Events {
		if filepath.Base(e.Path) == runfolder.CertificatesFile && e.Kind == powercut.Write {
			if last = i; first < 0 {
				first = i
			}
		}
	}
	var disks []powercut.Disk
	both := []powercut.Choice{powercut.Oldest, powercut.Newest}
	for _, pages := range both {
		for _, lengths := range both {
			for _, names := range both {
				disks = append(disks, powercut.Disk{Pages: pages, Lengths: lengths, Names: names})
			}
		}
	}
	chance := func(n int) int { return rng.IntN(n) }
	for range random {
		disks = append(disks, powercut.Disk{Pages: chance, Lengths: chance, Names: chance}, powercut.Disk{Pages: chance, Lengths: chance, Names: powercut.Newest})
	}
	seen := map[[32]byte]bool{}
	var remnants []remnant
	for cut := range len(recording.Events) + 1 {
		phase := "middle"
		switch {
		case cut <= first:
			phase = "start"
		case cut > last:
			phase = "finish"
		}
		for k, disk := range disks {
			files := recording.Cut(cut, disk)
			if sum := digest(files); !seen[sum] {
				seen[sum] = true
				remnants = append(remnants, remnant{phase, fmt.Sprintf("cut after event %d, disk %d", cut, k), files})
			}
		}
	}
	return remnants
}

func digest(files powercut.Files) [32]byte {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%q %v %d\n", name, files[name] == nil, len(files[name]))
		h.Write(files[name])
	}
	return [32]byte(h.Sum(nil))
}

// choose picks at most the given number of remnants. As far as possible, it picks equally many from the start, the
// middle and the finish of the run.
func choose(remnants []remnant, most int, rng *rand.Rand) []remnant {
	byPhase := map[string][]remnant{}
	for _, r := range remnants {
		byPhase[r.phase] = append(byPhase[r.phase], r)
	}
	var chosen []remnant
	phases := slices.Sorted(maps.Keys(byPhase))
	slices.SortStableFunc(phases, func(a, b string) int { return len(byPhase[a]) - len(byPhase[b]) })
	for i, phase := range phases {
		all := byPhase[phase]
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		chosen = append(chosen, all[:min(len(all), (most-len(chosen))/(len(phases)-i))]...)
	}
	return chosen
}

// tryRemains resumes the run from each of the remnants.
func tryRemains(t *testing.T, remnants []remnant, want map[string][]byte) {
	t.Helper()
	wrong := make([]string, len(remnants))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, r := range remnants {
		g.Go(func() (err error) {
			wrong[i], err = tryRemain(t, r.files, want)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	tried, failed := map[string]int{}, map[string]int{}
	for i, r := range remnants {
		tried[r.phase]++
		if wrong[i] != "" {
			failed[r.phase]++
			t.Errorf("%s (%s): %s", r.what, r.phase, wrong[i])
		}
	}
	for _, phase := range slices.Sorted(maps.Keys(tried)) {
		t.Logf("%s: %d cuts, %d not repaired", phase, tried[phase], failed[phase])
	}
}

// tryRemain resumes the run from the given files. The string 'wrong' describes the first fault of the resumed run. It
// is empty if there is no fault.
func tryRemain(t *testing.T, files powercut.Files, want map[string][]byte) (wrong string, err error) {
	root, err := os.MkdirTemp(t.TempDir(), "")
	if err == nil {
		err = files.WriteTo(root)
	}
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "run")
	cmd := program(t, cutRun(dir)...)
	if *powercutProgram != "" {
		cmd.Path = *powercutProgram
	}
	if said, err := cmd.CombinedOutput(); err != nil {
		return strings.TrimSpace(fmt.Sprintf("%v: %s", err, said)), nil
	}
	left, err := powercut.ReadFiles(dir)
	if err != nil {
		return "", err
	}
	for name := range left {
		if want[name] == nil && name != runfolder.RunFile && name != ".lock" {
			return "leaves " + name, nil
		}
	}
	for name, data := range want {
		if !bytes.Equal(left[name], data) {
			return name + " differs", nil
		}
	}
	return "", os.RemoveAll(root)
}
