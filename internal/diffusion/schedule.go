// Package diffusion finds the timestep at which a diffusion model expects as much noise as an input has.
//
// A diffusion model is trained on x_t = √ᾱ_t·u + √(1−ᾱ_t)·ε with ε ~ N(0, I), where ᾱ_t falls from nearly 1 to nearly
// 0. Let an input be u + s·ε, with noise of scale s. For the timestep t with √((1−ᾱ_t)/ᾱ_t) = s, the product of √ᾱ_t and
// this input has the distribution of x_t (Carlini et al. 2023, "(Certified!!) Adversarial Robustness for Free!", section 3).
package diffusion

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
)

// Schedule holds ᾱ_t for t = 0, 1, …. These numbers are in (0, 1) and decrease.
type Schedule []float64

// The constant 'steps' is the number of timesteps of the named schedules.
const steps = 1000

// Linear returns the schedule of Ho et al. 2020 ("Denoising Diffusion Probabilistic Models", section 4). In this
// schedule, β_t grows from 10⁻⁴ to 0.02 in equal steps, and ᾱ_t = Π_{s≤t} (1−β_s).
func Linear() Schedule {
	return fromBetas(func(t int) float64 { return 1e-4 + (0.02-1e-4)*float64(t)/(steps-1) })
}

// Cosine returns the schedule of Nichol and Dhariwal 2021 ("Improved Denoising Diffusion Probabilistic Models",
// equation 17). In this schedule, β_t = min(1 − f(t+1)/f(t), 0.999) with f(t) = cos²(π/2·(t/T + 0.008)/1.008) and T =
// 1000 timesteps.
func Cosine() Schedule {
	f := func(t int) float64 {
		c := math.Cos(math.Pi / 2 * (float64(t)/steps + 0.008) / 1.008)
		return c * c
	}
	return fromBetas(func(t int) float64 { return min(1-f(t+1)/f(t), 0.999) })
}

func fromBetas(beta func(t int) float64) Schedule {
	s := make(Schedule, steps)
	product := 1.0
	for t := range s {
		product *= 1 - beta(t)
		s[t] = product
	}
	return s
}

// Open returns the named schedule, "linear" or "cosine". Any other name is the path of a file with one line for each
// ᾱ_t.
func Open(name string) (Schedule, error) {
	switch name {
	case "linear":
		return Linear(), nil
	case "cosine":
		return Cosine(), nil
	}
	return read(name)
}

// maxSteps is the largest accepted number of timesteps in a file. Models have far fewer timesteps.
const maxSteps = 1 << 20

func read(path string) (s Schedule, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for line := 1; lines.Scan(); line++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil || !(v > 0 && v < 1):
			return nil, fmt.Errorf("%s: line %d: %.40q is not a number between 0 and 1", path, line, text)
		case len(s) > 0 && v >= s[len(s)-1]:
			return nil, fmt.Errorf("%s: line %d: %v is not less than %v of the timestep before: want ᾱ_t, the product of 1−β up to t",
				path, line, v, s[len(s)-1])
		case len(s) == maxSteps:
			return nil, fmt.Errorf("%s: more than %d timesteps", path, maxSteps)
		}
		s = append(s, v)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: line %d: %w", path, len(s)+1, err)
	}
	if len(s) == 0 {
		return nil, fmt.Errorf("%s: no timesteps", path)
	}
	return s, nil
}

// Noise returns √((1−ᾱ_t)/ᾱ_t), the standard deviation of the noise at timestep t relative to a signal of 1.
func (s Schedule) Noise(t int) float64 { return math.Sqrt((1 - s[t]) / s[t]) }

// ErrBeyond means that the input has more noise than every timestep of the schedule, or less noise than every timestep.
// In this case, Timestep returns an error that wraps ErrBeyond.
var ErrBeyond = errors.New("beyond the schedule")

// Timestep returns the t for which Noise(t) is nearest to the argument 'noise'. This argument is the standard deviation
// of the noise in the scaled input. The input, with its noise, is scaled to the range of the diffusion model's inputs.
// If two timesteps are equally near, Timestep returns the smaller one.
func (s Schedule) Timestep(noise float64) (int, error) {
	low, high := s.Noise(0), s.Noise(len(s)-1)
	if !(noise >= low && noise <= high) {
		return 0, fmt.Errorf("noise of %.4g is %w, which has %.4g to %.4g", noise, ErrBeyond, low, high)
	}
	best := 0
	for t := range s {
		if math.Abs(s.Noise(t)-noise) < math.Abs(s.Noise(best)-noise) {
			best = t
		}
	}
	return best, nil
}
