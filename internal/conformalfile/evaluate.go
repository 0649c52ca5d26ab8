package conformalfile

import (
	"fmt"

	"github.com/rscert/rscert/internal/conformal"
)

// Evaluated holds figures of the sets in a sets.jsonl file.
type Evaluated struct {
	File     string `json:"file"`
	Sets     int    `json:"sets"`     // number of sets
	Labelled int    `json:"labelled"` // number of sets whose input has a label
	Classes  int64  `json:"classes"`  // number of classes in all sets together
	// Conditions are the conditions of the promises: the least radius of all sets, and sound only if all are.
	Conditions
	Evaluation *conformal.Evaluation `json:"evaluation,omitempty"` // of the sets with a label; absent if none has one
}

// Evaluate reads a sets.jsonl file and computes figures of its sets. Each confidence interval fails with probability at
// most alpha.
func Evaluate(path string, alpha float64) (*Evaluated, error) {
	sets, err := ReadSets(path)
	if err != nil {
		return nil, err
	}
	e := &Evaluated{File: path, Sets: len(sets), Conditions: sets[0].Conditions}
	evaluator := predictorOf(sets).Evaluator(alpha)
	for _, s := range sets {
		e.Classes += int64(s.Size)
		e.Radius, e.Sound = min(e.Radius, s.Radius), e.Sound && s.Sound
		if s.CertifiedCounts != nil {
			if err := evaluator.AddCounts(s.CertifiedCounts); err != nil {
				return nil, fmt.Errorf("%s: input %d: %w", path, s.Index, err)
			}
		}
		if s.Label == nil {
			continue
		}
		e.Labelled++
		if err := evaluator.Add(conformal.Outcome{Index: s.Index, Label: *s.Label, Group: s.Group, Set: s.Set, Draws: s.Draws}); err != nil {
			return nil, fmt.Errorf("%s: input %d: %w", path, s.Index, err)
		}
	}
	if e.Labelled == 0 {
		return e, nil
	}
	if e.Evaluation, err = evaluator.Evaluation(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return e, nil
}

// predictorOf returns the predictor of sets, without its thresholds and weights.
func predictorOf(sets []Set) *conformal.Predictor {
	c := sets[0].Conditions
	p := &conformal.Predictor{Labels: len(sets[0].Counts), N: c.N}
	p.Design = conformal.Design{
		Rule: c.Rule, Shift: c.Shift, Miss: c.Miss, Guarantee: c.Guarantee, Delta: c.Delta, Poisoned: c.Poisoned,
		M: c.M, T: c.T, QueryM: c.QueryM, QueryT: c.QueryT,
		Attack: conformal.Attack{Law: c.Law, Norm: c.Norm, Scale: c.Scale, Radius: c.Radius, PoisonRadius: c.Poison, Queries: c.Queries},
	}
	type cell struct {
		label int
		group string
	}
	seen := map[cell]bool{}
	for _, s := range sets {
		at := cell{label: -1}
		made := conformal.Cell{N: s.N, K: s.K}
		switch {
		case c.Guarantee == conformal.Label && s.Label == nil:
			continue
		case c.Guarantee == conformal.Label:
			at.label, made.Label = *s.Label, s.Label
		case c.Guarantee == conformal.Group:
			at.group, made.Group = s.Group, s.Group
		}
		if !seen[at] {
			seen[at] = true
			p.Cells = append(p.Cells, made)
		}
	}
	return p
}
