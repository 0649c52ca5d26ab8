package diffusion

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSchedules compares Linear with NumPy's cumprod(1 − linspace(1e-4, 0.02, 1000)), and Cosine with
// betas_for_alpha_bar of guided-diffusion.
func TestSchedules(t *testing.T) {
	for name, c := range map[string]struct {
		alpha map[int]float64
		steps map[float64]int // the nearest timestep for each standard deviation of the noise
	}{
		"linear": {
			map[int]float64{0: 0.9999, 1: 0.9997800920720721, 100: 0.8951415908975365, 500: 0.07779665836502389, 999: 4.035829765375676e-05},
			map[float64]int{0.5: 144, 1: 258, 2: 396},
		},
		"cosine": {
			map[int]float64{0: 0.999958715775178, 1: 0.9999125759273678, 100: 0.9715756818078386, 500: 0.49228517244880304, 999: 2.4287669070348567e-09},
			map[float64]int{0.5: 289, 1: 495, 2: 701},
		},
	} {
		s, err := Open(name)
		if err != nil || len(s) != 1000 {
			t.Fatal(err, len(s))
		}
		for i, want := range c.alpha {
			if math.Abs(s[i]/want-1) > 1e-12 {
				t.Errorf("%s: ᾱ of %d is %v, want %v", name, i, s[i], want)
			}
		}
		for noise, want := range c.steps {
			if got, err := s.Timestep(noise); got != want || err != nil {
				t.Errorf("%s: noise %v is of timestep %d, want %d (%v)", name, noise, got, want, err)
			}
		}
		for _, noise := range []float64{s.Noise(0) * 0.999, s.Noise(999) * 1.001, math.NaN()} {
			if _, err := s.Timestep(noise); !errors.Is(err, ErrBeyond) {
				t.Errorf("%s: noise %v: %v", name, noise, err)
			}
		}
		for _, i := range []int{0, 1, 500, 999} {
			if got, err := s.Timestep(s.Noise(i)); got != i || err != nil {
				t.Errorf("%s: the noise of timestep %d is of %d (%v)", name, i, got, err)
			}
		}
	}
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "abar.txt")
	open := func(text string) (Schedule, error) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Open(path)
	}
	s, err := open("# of numpy.savetxt\n9.0e-01\n\n 0.5\r\n2.000000000000000111e-01\n")
	if err != nil || len(s) != 3 || s[0] != 0.9 || s[1] != 0.5 || s[2] != 0.2 {
		t.Fatal(s, err)
	}
	if got := s.Noise(2); got != 2 {
		t.Errorf("noise %v, want 2", got)
	}
	// Timestep 1 has the noise 1 and timestep 2 has the noise 2, so the noise 1.5 is equally near to both.
	for noise, want := range map[float64]int{1.4: 1, 1.5: 1, 1.6: 2} {
		if got, err := s.Timestep(noise); got != want || err != nil {
			t.Errorf("noise %v is of timestep %d, want %d (%v)", noise, got, want, err)
		}
	}
	for text, want := range map[string]string{
		"":                         "no timesteps",
		"0.9\n0.9\n":               "line 2: 0.9 is not less than 0.9",
		"0.5\n0.9\n":               "line 2: 0.9 is not less than 0.5",
		"1\n":                      `line 1: "1" is not a number between 0 and 1`,
		"0\n":                      "not a number between 0 and 1",
		"NaN\n":                    "not a number",
		"0.9 0.8\n":                "not a number",
		strings.Repeat("9", 1<<17): "token too long",
	} {
		if _, err := open(text); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := Open(t.TempDir()); err == nil {
		t.Error("a folder is no schedule")
	}
	if _, err := Open(filepath.Join(t.TempDir(), "missing")); err == nil {
		t.Error("no error of a missing file")
	}
}
