package conformalfile

import (
	"fmt"
	"slices"

	"github.com/rscert/rscert/internal/conformal"
)

// Evaluated holds statistics of the sets in a sets.jsonl file.
type Evaluated struct {
	File     string `json:"file"`
	Sets     int    `json:"sets"`     // number of sets
	Labelled int    `json:"labelled"` // number of sets whose input has a label
	Unsound  int    `json:"unsound"`  // number of sets without a guarantee
	Classes  int64  `json:"classes"`  // number of classes in all sets together
	// Conditions holds the conditions of the first set, with three changes. Radius is the least radius of all sets.
	// Sound is true only if all sets are sound. Seed is the seed of a set that repeats noise, if there is one.
	Conditions
	Evaluation *conformal.Evaluation `json:"evaluation,omitempty"` // of the labelled sets, if there are any
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

// WhyUnsound returns the reason why sets have no guarantee, or "" if all sets are sound.
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

// Statement says in words what the sets guarantee. For idealised noise, it also says that the noise is idealised.
func (e *Evaluated) Statement() string {
	if !e.Sound {
		return "nothing is promised under attack: " + e.WhyUnsound()
	}
	d := e.design()
	return d.Claim() + proviso(e.Arithmetic, false)
}

// design returns a Design with the parameters that c holds. The weights are missing.
func (c Conditions) design() conformal.Design {
	return conformal.Design{
		Rule: c.Rule, Shift: c.Shift, Miss: c.Miss, Guarantee: c.Guarantee, Delta: c.Delta, Poisoned: c.Poisoned,
		M: c.M, T: c.T, QueryM: c.QueryM, QueryT: c.QueryT, OwnRange: c.OwnRange, Sound: c.Sound,
		Attack: conformal.Attack{Law: c.Law, Norm: c.Norm, Scale: c.Scale, Radius: c.Radius, PoisonRadius: c.Poison, Queries: c.Queries},
	}
}

// predictorOf returns the Predictor that made the sets, but its thresholds and weights are missing. If rounding moved
// an input to the lattice of the calibration examples, no threshold gets a rank: predictorOf sets the rank of each
// threshold to 0, which means "no rank". The calibration examples determine this lattice, so only a query can lie off
// it. So even if the queries and the examples are exchangeable before the rounding, the sets may miss the class more
// often than the ranks say.
func predictorOf(sets []Set) *conformal.Predictor {
	c := sets[0].Conditions
	p := &conformal.Predictor{Labels: len(sets[0].Counts), N: c.N, Design: c.design()}
	moved := slices.ContainsFunc(sets, func(s Set) bool { return s.Moved > 0 })
	seen := map[cell]bool{}
	for _, s := range sets {
		at, known := s.cell()
		if !known || seen[at] {
			continue
		}
		seen[at] = true
		made := conformal.Cell{N: s.N, K: s.K, Group: at.group}
		if moved {
			made.K = 0
		}
		if c.Guarantee == conformal.Label {
			made.Label = s.Label
		}
		p.Cells = append(p.Cells, made)
	}
	return p
}

// A cell identifies a threshold of a predictor: by the class for the guarantee 'label', or by the group for the
// guarantee 'group'. The other guarantees have only one threshold, whose cell is the zero value.
type cell struct {
	label int
	group string
}

// The numbers N and K of a line describe one threshold. cell returns the cell of this threshold. The result 'known' is
// false if the line does not identify the threshold.
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
