package gate

import (
	"errors"
	"fmt"

	"github.com/rscert/rscert/internal/report/summary"
)

// Choice describes the choice of the best of several runs, and the failure probability that each run may use.
type Choice struct {
	Runs int `json:"runs"` // number of runs from which the best one is chosen
	// Delta is the allowed failure probability of the statement about a single run: the δ of the command, divided by
	// Runs.
	Delta float64 `json:"delta"`
}

// IncomparableRunsError means that no best run exists, because the values of the runs differ in their meaning.
type IncomparableRunsError struct{ Requirement, Why string }

func (e *IncomparableRunsError) Error() string {
	return fmt.Sprintf("%s: there is no best run: %s", e.Requirement, e.Why)
}

// Hint returns advice for the user.
func (*IncomparableRunsError) Hint() string {
	return "a requirement without best: tests each run by itself"
}

// CheckBest checks requirements on the best of several runs. The argument 'runs' must hold all runs from which the best
// one is chosen. Each summary must be made with summary.Options.Choices = len(runs), so that it uses δ/len(runs).
//
// Let there be k runs, and let run j have N_j certificates. Let F_j be a number with this property: with probability at
// least 1 − δ/k, run j has at most F_j wrong certificates. By the union bound over the k runs, this holds for all runs
// at once, with probability at least 1 − δ. Whether a certificate is wrong does not depend on the radius of the
// requirement. So at each radius r, for each run j,
//
//	(true certified accuracy of run j at r) ≥ (certified accuracy of run j at r) − F_j/N_j,
//
// and δ need not be divided among the radii. The bound holds for the chosen run under every rule of choice, even if the
// choice depends on the results and on the radius. The runs need not be independent.
func CheckBest(requirements []Requirement, runs ...summary.Summary) ([]Outcome, error) {
	for _, s := range runs {
		switch {
		case s.Choices != len(runs):
			return nil, fmt.Errorf("%s: the summary pays for a choice from %d runs, not from %d", s.Path, s.Choices, len(runs))
		case s.Selected > s.Examples:
			return nil, &UnfinishedError{s.Path, s.Examples, s.Selected}
		}
	}
	var outcomes []Outcome
	for _, r := range requirements {
		o, err := r.checkBest(runs)
		if err != nil {
			return nil, err
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}

// checkBest returns the outcome for the best of the runs.
func (r Requirement) checkBest(runs []summary.Summary) (Outcome, error) {
	if len(runs) < 2 {
		return Outcome{}, &NotKnownError{r.text, runs[0].Path, errOneRun, false}
	}
	if err := r.rankable(runs); err != nil {
		return Outcome{}, err
	}
	var best *found
	var missing error
	for _, s := range runs {
		f, err := r.find(s)
		switch {
		case errors.Is(err, errNoneCertified), errors.Is(err, errNoAnswers): // another run may still have a value
			missing = &NotKnownError{r.text, s.Path, err, false}
		case err != nil:
			return Outcome{}, &NotKnownError{r.text, s.Path, err, false}
		case best == nil || r.better(f, *best):
			best = &f
		}
	}
	if best == nil {
		return Outcome{}, missing
	}
	o := r.judge(*best)
	o.Choice = &Choice{len(runs), runs[0].Delta()}
	o.Says += fmt.Sprintf("; the best of %d runs, each at delta/%d", len(runs), len(runs))
	return o, nil
}

// rankable returns an error if the values of the runs are not comparable.
func (r Requirement) rankable(runs []summary.Summary) error {
	_, given := r.Norm()
	switch {
	case !summary.SameExamples(runs):
		return &IncomparableRunsError{r.text, "the runs certify different examples"}
	case !given && !summary.OneNorm(runs):
		return &IncomparableRunsError{r.text, "the radii of the runs are in different norms or scales"}
	}
	return nil
}

// better reports whether value a is better than value b. A run that certifies nothing is the worst.
func (r Requirement) better(a, b found) bool {
	switch {
	case a.nothing != "":
		return false
	case b.nothing != "":
		return true
	case r.metric.upper:
		return a.Cmp(b.Rat) < 0
	}
	return a.Cmp(b.Rat) > 0
}
