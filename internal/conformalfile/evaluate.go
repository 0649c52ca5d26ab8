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
	Unsound  int    `json:"unsound"`  // number of sets that promise nothing
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
		if !s.Sound {
			e.Unsound++
		}
		if s.Seed != nil {
			e.Seed = s.Seed
		}
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

// WhyUnsound says why sets promise nothing, and is "" if all sets are sound.
func (e *Evaluated) WhyUnsound() string {
	switch {
	case e.Sound:
		return ""
	case e.Seed != nil:
		return fmt.Sprintf("they repeat the noise of seed %d", *e.Seed)
	case e.Rule == conformal.Clean && e.Shift > 0:
		return "the rule clean ignores attacks"
	}
	return "the lines say that they are not sound"
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
	seen := map[cell]bool{}
	for _, s := range sets {
		at, known := s.cell()
		if !known || seen[at] {
			continue
		}
		seen[at] = true
		made := conformal.Cell{N: s.N, K: s.K, Group: at.group}
		if c.Guarantee == conformal.Label {
			made.Label = s.Label
		}
		p.Cells = append(p.Cells, made)
	}
	return p
}

// cell names one of the thresholds of a predictor: that of a label (guarantee label) or of a group (guarantee group).
type cell struct {
	label int
	group string
}

// cell returns the threshold that a line's N and K belong to, and false if the line does not tell.
func (s Set) cell() (at cell, known bool) {
	switch {
	case s.Guarantee == conformal.Label && s.Label == nil:
		return at, false
	case s.Guarantee == conformal.Label:
		at.label = *s.Label
	case s.Guarantee == conformal.Group:
		at.group = s.Group
	}
	return at, true
}
