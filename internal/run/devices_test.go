package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// unsteady is a slow model on a device that may fail. The field 'from' is the number of the first call that fails. All
// later calls fail, too. If the field is 0, the device never fails.
type unsteady struct {
	smoothing.NoiseMaker
	from  int64
	calls *atomic.Int64
	slow  time.Duration
}

var errDevice = errors.New("the device fell off the bus")

func (u unsteady) Run(ctx context.Context, in, out []float32) error {
	if err := u.call(); err != nil {
		return err
	}
	return u.NoiseMaker.Run(ctx, in, out)
}

func (u unsteady) RunNoisy(ctx context.Context, rows *smoothing.Rows, votes []int32, outputs []float32) error {
	if err := u.call(); err != nil {
		return err
	}
	return u.NoiseMaker.RunNoisy(ctx, rows, votes, outputs)
}

func (u unsteady) call() error {
	if n := u.calls.Add(1); u.from > 0 && n >= u.from {
		return errDevice
	}
	time.Sleep(u.slow)
	return nil
}

// certifyOn runs Certify on several simulated devices, which share the CPU. For each number k in failFrom, it adds a
// device whose k-th call and all later calls fail. If k is 0, the device never fails (see unsteady).
func certifyOn(ctx context.Context, p Plan, console experiment.Console, slow time.Duration, failFrom ...int64) (err error) {
	r, err := prepare(ctx, p, console)
	if err != nil {
		return err
	}
	defer r.close()
	if err := r.begin(r.describe()); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.folder.Close()) }()
	if err := r.takeDone(ctx); err != nil {
		return err
	}
	s := r.sampler()
	for i, from := range failFrom {
		device := unsteady{r.experiment.Model(), from, new(atomic.Int64), slow}
		if i == 0 {
			s.Classifier = device
		} else {
			s.Replicas = append(s.Replicas, device)
		}
	}
	if err := r.draw(ctx, s); err != nil {
		return err
	}
	return r.folder.Finish()
}

// devicePlans returns three functions that change a plan which certifies from votes. The function "votes" changes
// nothing, "stop" makes the plan stop examples early, and "scores" makes it save scores.
func devicePlans(data string) map[string]func(*Plan) {
	return map[string]func(*Plan){
		"votes": func(p *Plan) {},
		"stop": func(p *Plan) {
			p.N = 400
			p.Stop = certify.StopRule{}
			_ = p.Stop.UnmarshalText([]byte("radius>=0.02"))
		},
		"scores": func(p *Plan) {
			p.SaveScores, p.ConfidenceRadii, p.Outputs = true, []float64{0.05}, 0
			_ = p.Outputs.UnmarshalText([]byte("logits"))
		},
	}
}

// sameFiles compares the results in two folders byte by byte.
func sameFiles(t *testing.T, what, got, want string) {
	t.Helper()
	for _, name := range []string{runfolder.VotesFile, runfolder.CertificatesFile, runfolder.BoundsFile, runfolder.ScoresFile} {
		a, errA := os.ReadFile(filepath.Join(got, name))
		b, errB := os.ReadFile(filepath.Join(want, name))
		if errors.Is(errA, os.ErrNotExist) && errors.Is(errB, os.ErrNotExist) {
			continue
		}
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: %s differs: %d and %d bytes, %v, %v", what, name, len(a), len(b), errA, errB)
		}
	}
}

// manyImages writes a data set of 12 images.
func manyImages(t *testing.T) string {
	var images [][]float64
	for k := range 12 {
		images = append(images, byteImage(k))
	}
	return writeImages(t, images...)
}

// TestDevices carries out runs on several devices. Some or all of the devices may fail. It resumes a run that fails.
// The files must match the files of a run on one device.
func TestDevices(t *testing.T) {
	data := manyImages(t)
	for name, change := range devicePlans(data) {
		t.Run(name, func(t *testing.T) {
			alone := quick(t, data, change)
			mustCertify(t, alone)
			for _, failFrom := range [][]int64{{0}, {0, 0}, {0, 0, 0, 0}, {1, 0}, {0, 5}, {3, 0, 9}, {4, 4}, {3, 2, 4}} {
				for _, on := range []spec.NoiseOn{spec.NoiseOnHost, spec.NoiseOnDevice} {
					p := quick(t, data, change)
					p.Batch, p.NoiseOn = 16, on
					checkDevices(t, p, alone, failFrom)
				}
			}
		})
	}
}

// checkDevices carries out a plan on devices that fail as the argument 'failFrom' says (see certifyOn), and compares
// the results with a run on one device. If the run is interrupted, checkDevices resumes it. If the run saves no scores,
// the resumed run makes the noise on the other side: on the device if the host made it before, and vice versa.
func checkDevices(t *testing.T, p, alone Plan, failFrom []int64) {
	t.Helper()
	what := fmt.Sprintf("noise on the %s, failing from calls %v", p.NoiseOn, failFrom)
	var s said
	err := certifyOn(t.Context(), p, s.console(), 0, failFrom...)
	failing := len(slices.DeleteFunc(slices.Clone(failFrom), func(from int64) bool { return from == 0 }))
	if err == nil && failing == len(failFrom) || err != nil && (failing < 2 || !errors.Is(err, errDevice)) {
		t.Errorf("%s: %v", what, err) // if the same example fails on two devices, the run may fail
	}
	for _, warning := range s.warnings {
		if strings.Contains(warning, "on the host") ||
			strings.Contains(warning, "failed and is left out: ") && !strings.Contains(warning, errDevice.Error()) {
			t.Errorf("%s: warning %q", what, warning)
		}
	}
	if run, err := runfolder.Read(p.Out); err != nil || run.Runtime.NoiseOn != string(p.NoiseOn) {
		t.Errorf("%s: the noise is on %q, %v", what, run.Runtime.NoiseOn, err)
	}
	if err != nil {
		p.Resume = true
		if p.SaveScores {
			// the resumed run makes the noise where the interrupted run made it: on the host or on the device
			p.NoiseOn = spec.NoiseOnAuto
		} else {
			p.NoiseOn = map[spec.NoiseOn]spec.NoiseOn{spec.NoiseOnHost: spec.NoiseOnDevice, spec.NoiseOnDevice: spec.NoiseOnHost}[p.NoiseOn]
		}
		if err := certifyOn(t.Context(), p, s.console(), 0, 0, 7); err != nil {
			t.Errorf("%s, resumed: %v", what, err)
		}
	}
	sameFiles(t, what, p.Out, alone.Out)
}

// A warning must name the device that fails, and must tell what happens to the examples of this device.
func TestLostDeviceIsSaid(t *testing.T) {
	data := manyImages(t)
	var s said
	p := quick(t, data)
	p.Batch = 16
	// Both devices have work, and the second device fails at once.
	if err := certifyOn(t.Context(), p, s.console(), 2*time.Millisecond, 0, 1); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(s.warnings, "\n")
	if !strings.Contains(text, "a device failed and is left out: the device fell off the bus; its 1 unfinished examples are begun again on the others") {
		t.Errorf("warnings %q", text)
	}
}

// killedVariable is the environment variable that passes the folder and the data to the child process that
// TestKilledOnDevices kills.
const killedVariable = "RSCERT_TEST_KILLED_RUN"

// TestKilledOnDevices starts a process with a run on three devices, and kills the process with a signal that no process
// can catch. It does so twice. It resumes the first run on two devices, and the second run on one. The devices make the
// noise. They also do so after the kill, because a run with scores keeps this setting (keepResumed).
func TestKilledOnDevices(t *testing.T) {
	change := devicePlans("")["scores"]
	if paths := filepath.SplitList(os.Getenv(killedVariable)); len(paths) == 2 {
		p := quick(t, paths[1], change)
		p.Out, p.Batch, p.NoiseOn = paths[0], 16, spec.NoiseOnDevice
		t.Fatal(certifyOn(t.Context(), p, new(said).console(), 20*time.Millisecond, 0, 0, 0))
	}
	data := manyImages(t)
	alone := quick(t, data, change)
	mustCertify(t, alone)
	for _, resumeOn := range [][]int64{{0, 0}, {0}} {
		p := quick(t, data, change)
		p.Batch = 16
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKilledOnDevices$")
		child.Env = append(os.Environ(), killedVariable+"="+p.Out+string(filepath.ListSeparator)+data)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := 0
		for range 30_000 { // wait for some examples
			votes, _ := os.ReadFile(filepath.Join(p.Out, runfolder.VotesFile))
			if lines = bytes.Count(votes, []byte("\n")); lines >= 2 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		_ = child.Process.Kill()
		if err := child.Wait(); err == nil || lines < 2 {
			t.Fatalf("the child ended with %v after %d examples", err, lines)
		}
		p.Resume = true
		if err := certifyOn(t.Context(), p, new(said).console(), 0, resumeOn...); err != nil {
			t.Fatal(err)
		}
		sameFiles(t, fmt.Sprintf("resumed on %d devices", len(resumeOn)), p.Out, alone.Out)
	}
}
