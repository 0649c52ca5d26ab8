package admm

import (
	"cmp"

	"github.com/rscert/rscert/internal/choice"
)

// Start says from which confidences a search begins.
type Start int

// These are the confidences from which a search can begin.
const (
	FromClean Start = iota // the observed confidences, without an adversary
	FromBrier              // the confidences with the largest Brier score
)

// Starts lists every Start.
var Starts = choice.Of("start", FromClean, FromBrier).Describe(func(s Start) string {
	return [...]string{FromClean: "the confidences without attack", FromBrier: "the confidences with the largest Brier score"}[s]
})

func (s Start) String() string { return [...]string{FromClean: "clean", FromBrier: "brier"}[s] }

// MarshalText returns the name.
func (s Start) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses a name.
func (s *Start) UnmarshalText(text []byte) error { return Starts.Unmarshal(text, s) }

// Steps is the default number of steps of a run of ADMM. Emde et al. report that their runs always converged in fewer
// steps.
const Steps = 3000

// Params are the settings of a run of ADMM.
type Params struct {
	Start  Start
	RateZ  float64 // learning rate of the confidences, α_z
	RateA  float64 // learning rate of the assignment, α_a
	Growth float64 // every ρ is multiplied by this factor after each step; at least 1
	Steps  int
	Rho    float64 // initial value of every ρ; 0 means 0.01 (appendix G.2)
	MaxRho float64 // largest ρ; 0 means 10 ("we stop increasing ρ at 10")
}

func (p Params) complete() Params {
	p.Rho, p.MaxRho = cmp.Or(p.Rho, 0.01), cmp.Or(p.MaxRho, 10)
	return p
}

// ParamGrid is a set of runs of ADMM: every combination of the values in its lists. Empty lists and zeros stand for the
// paper's values.
type ParamGrid struct {
	Starts      []Start
	RatesZ      []float64
	RatesA      []float64
	Growths     []float64
	Steps       int
	Rho, MaxRho float64
}

// PaperGrid returns the 16 runs of Emde et al., appendix I.1. The paper reports the best of them.
func PaperGrid() ParamGrid {
	return ParamGrid{
		Starts: []Start{FromClean, FromBrier},
		RatesZ: []float64{0.001, 0.01}, RatesA: []float64{0.01, 0.1}, Growths: []float64{1.004, 1.01},
		Steps: Steps,
	}
}

// Runs returns one run for every combination of the grid's values. If haveClean is false, it omits the runs that start
// from clean confidences.
func (g ParamGrid) Runs(haveClean bool) []Params {
	paper := PaperGrid()
	var runs []Params
	for _, start := range knownStarts(orElse(g.Starts, paper.Starts), haveClean) {
		for _, rateZ := range orElse(g.RatesZ, paper.RatesZ) {
			for _, rateA := range orElse(g.RatesA, paper.RatesA) {
				for _, growth := range orElse(g.Growths, paper.Growths) {
					runs = append(runs, Params{start, rateZ, rateA, growth, cmp.Or(g.Steps, paper.Steps), g.Rho, g.MaxRho}.complete())
				}
			}
		}
	}
	return runs
}

// DECEParams holds the settings of DECE. Empty lists and zeros stand for the defaults.
type DECEParams struct {
	Starts []Start // default: FromBrier and, if the clean confidences are known, FromClean
	// Random is the number of additional starts with confidences drawn uniformly from the intervals. Each start gets a
	// number, counted from 0. Seed and the start's number determine its confidences.
	Random int
	// Gaussian is the number of starts with normally distributed confidences. They come after the uniform starts. Their
	// numbering continues that of the uniform starts. Each confidence is clamped to its interval. The mean of the
	// normal distribution is the middle of the interval, and its standard deviation is half of the interval's width.
	Gaussian int
	Seed     uint64
	Rate     float64 // learning rate at the start; default 0.01
	Schedule Schedule
	Momentum float64 // in [0, 1): a step is the rate times v; v is the gradient plus Momentum times the previous v
	Steps    int     // steps from each start; default DECESteps
}

// Schedule says how the learning rate of DECE changes.
type Schedule int

// These are the schedules that appendix M.2 names. The paper gives no parameters for them.
const (
	Cosine   Schedule = iota // falls to 0 along a half cosine
	Constant                 // does not change
	// the rate falls to a tenth after 11 steps without a larger calibration error, as in PyTorch
	Plateau
)

// Schedules lists all schedules.
var Schedules = choice.Of("schedule", Cosine, Constant, Plateau).Describe(func(s Schedule) string {
	return [...]string{"falls to 0 along a half cosine", "stays the same", "falls to a tenth after eleven steps in a row without progress"}[s]
})

// String returns the schedule's name.
func (s Schedule) String() string { return [...]string{"cosine", "constant", "plateau"}[s] }

// Complete replaces zeros by the defaults.
func (p DECEParams) Complete() DECEParams {
	p.Rate, p.Steps = cmp.Or(p.Rate, ascentRate), cmp.Or(p.Steps, DECESteps)
	return p
}

// Drawn returns the number of all random starts, both uniform and Gaussian.
func (p DECEParams) Drawn() int { return p.Random + p.Gaussian }

// StartsFrom returns the starts that are not random. If haveClean is false, it omits FromClean. DECE runs these starts
// first, and the random starts after them.
func (p DECEParams) StartsFrom(haveClean bool) []Start {
	return knownStarts(orElse(p.Starts, []Start{FromBrier, FromClean}), haveClean)
}

// NoStartError means that a search has no start: it would start only from the clean confidences, and these are unknown.
type NoStartError struct{}

func (NoStartError) Error() string {
	return "the clean confidences are not known, and there is no other start"
}

// knownStarts removes FromClean if haveClean is false.
func knownStarts(starts []Start, haveClean bool) []Start {
	var out []Start
	for _, s := range starts {
		if s != FromClean || haveClean {
			out = append(out, s)
		}
	}
	return out
}

func orElse[T any](values, otherwise []T) []T {
	if len(values) == 0 {
		return otherwise
	}
	return values
}
