// Package selection compares models by the summaries of their runs, so that a user can choose a model. It compares the
// certified accuracy, the average certified radius, CBS and CCE at each radius. It marks the Pareto front, computes
// rank correlations, and applies the rule of Emde et al. 2025, section 5.3. It reads and writes no files.
package selection

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/rscert/rscert/internal/decimal"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/report/summary"
)

// Options configure a comparison.
type Options struct {
	// Radii are the radii of the comparison. If Radii is empty, the comparison uses all radii at which a run has CBS
	// and CCE. If no run has them at any radius, it uses the radii of the curves.
	Radii []float64
	// Names holds the name of each run's model. If two runs have the same entry, they have the same model. If Names is
	// nil, the file of the model identifies the model.
	Names []string
	// Families holds the family of each run's model, for example the training method. Nil: one family.
	Families []string
	// Within is the tolerance of the rule (see Choice), as a share of the examples. Nil: make no choice.
	Within *float64
	// BestScale keeps one run for each model and radius: the run with the largest certified accuracy.
	BestScale bool
	// Delta is the allowed failure probability of a statement about the chosen run. The summaries must have been made
	// with summary.Options.Choices = Choices.
	Delta float64
	// Choices is the number of runs from which the user chooses one. It also counts the runs that have not begun. 0
	// means that the compared runs are all the choices.
	Choices int
}

// Comparison compares models at some radii.
type Comparison struct {
	SameExamples bool       `json:"same_examples"` // whether all runs certify the same examples
	Selection    Selection  `json:"selection"`
	Radii        []AtRadius `json:"radii"`
}

// Selection describes the choice among the runs, and the failure probability that each run may use. The field Runs is
// the number of runs. Runs also counts the runs that have not begun. The results of the other runs may be the reason
// why a user did not begin these runs. The bound 'certified' of each run holds with probability 1 − DeltaEach. So the
// bounds of all runs hold at once with probability 1 − Delta.
type Selection struct {
	Runs      int      `json:"runs"`
	Delta     float64  `json:"delta"`
	DeltaEach float64  `json:"delta_each"`
	Within    *float64 `json:"within,omitempty"`
	BestScale bool     `json:"best_sigma,omitempty"`
}

// AtRadius compares the models at one radius.
type AtRadius struct {
	Radius float64 `json:"radius"`
	// Rows holds the runs. Runs of one model are neighbours, in ascending order of σ.
	Rows    []Row    `json:"models"`
	Choices []Choice `json:"choices,omitempty"`
	// Correlations holds the rank correlations between the measures, over the rows.
	Correlations []Correlation `json:"rank_correlations,omitempty"`
}

// Row holds the measures of one run at one radius.
type Row struct {
	Model    string             `json:"model"`
	Family   string             `json:"family,omitempty"`
	Run      string             `json:"run"`  // name of the run
	Path     string             `json:"path"` // path of the run
	Sigma    *float64           `json:"sigma,omitempty"`
	Accuracy summary.CurvePoint `json:"certified_accuracy"`
	Average  summary.Average    `json:"average_certified_radius"`
	// Calibration is nil if the run has no bounds on the confidence at this radius.
	Calibration *Calibration `json:"calibration,omitempty"`
	// Front says that the row has a CCE and that no other row dominates it. A row dominates another row if it is at
	// least as good in both certified accuracy and CCE, and better in one of the two (Emde et al. 2025, appendix I.2).
	Front bool `json:"pareto"`
	// The field Within says that the certified accuracy is at least the best certified accuracy minus the tolerance.
	Within bool `json:"within,omitempty"`
	// ChosenBy lists the measures by which the rule chose this row.
	ChosenBy []Measure `json:"chosen_by,omitempty"`
}

// Calibration is the worst calibration of a run under attacks within a radius.
type Calibration struct {
	N   int     `json:"n"` // number of examples with a certified class
	CBS float64 `json:"cbs"`
	CCE float64 `json:"cce"`
	// Certified holds with probability 1 − Selection.DeltaEach. It is nil if α is unknown.
	Certified *summary.CertifiedCalibration `json:"certified,omitempty"`
}

// Compare compares the models of the runs. It refuses runs whose radii or claims are not comparable.
func Compare(runs []summary.Summary, o Options) (Comparison, error) {
	switch {
	case !summary.OneNorm(runs):
		return Comparison{}, errors.New("the radii of the runs are in different norms or units, so they do not rank the models")
	case !summary.OneClaim(runs):
		return Comparison{}, errors.New("the certificates of the runs make different claims, so they do not rank the models")
	}
	for _, s := range runs {
		if s.Labelled == 0 {
			return Comparison{}, fmt.Errorf("%s: the examples have no labels", s.Path)
		}
	}
	if o.Within != nil && !slices.ContainsFunc(runs, func(s summary.Summary) bool { return len(s.Calibration) > 0 }) {
		return Comparison{}, hint.Add(errors.New("no run has bounds on the confidence under attack, so no model has a CBS or a CCE"),
			"run 'rscert certify' with %s", param.ConfidenceRadii)
	}
	choices := cmp.Or(o.Choices, len(runs))
	c := Comparison{SameExamples: summary.SameExamples(runs), Selection: Selection{
		Runs: choices, Delta: o.Delta, DeltaEach: summary.EachDelta(o.Delta, choices), Within: o.Within, BestScale: o.BestScale}}
	order, names := arrange(runs, o.Names)
	for _, radius := range radiiOf(runs, o.Radii) {
		at := AtRadius{Radius: radius}
		for _, k := range order {
			row := newRow(runs[k], names[k], radius)
			if o.Families != nil {
				row.Family = o.Families[k]
			}
			at.Rows = append(at.Rows, row)
		}
		if o.BestScale {
			at.Rows = keepBestScale(at.Rows)
		}
		markFront(at.Rows)
		if o.Within != nil {
			at.choose(decimal.Of(*o.Within))
		}
		at.Correlations = correlate(at.Rows)
		c.Radii = append(c.Radii, at)
	}
	return c, nil
}

// newRow returns the measures of a run at a radius.
func newRow(s summary.Summary, model string, radius float64) Row {
	row := Row{Model: model, Run: s.Name, Path: s.Path, Sigma: s.Conditions.Sigma, Accuracy: s.At(radius), Average: s.AverageRadius}
	for _, c := range s.Calibration {
		if c.Radius != nil && *c.Radius == radius {
			row.Calibration = &Calibration{N: c.N, CBS: c.CBS, CCE: c.CCE, Certified: c.Certified}
		}
	}
	return row
}

// radiiOf returns the radii of the comparison.
func radiiOf(runs []summary.Summary, wanted []float64) []float64 {
	radii := slices.Clone(wanted)
	if len(radii) == 0 {
		for _, s := range runs {
			for _, c := range s.Calibration {
				if c.Radius != nil {
					radii = append(radii, *c.Radius)
				}
			}
		}
	}
	if len(radii) == 0 {
		for _, s := range runs {
			for _, p := range s.Curve {
				radii = append(radii, p.Radius)
			}
		}
	}
	slices.Sort(radii)
	return slices.Compact(radii)
}

// arrange returns two results. The first holds the indices of the runs, in the order of the rows. The second holds the
// model names. The names have the order of the argument 'runs'. The models keep the order of their first runs. The runs
// of one model are in ascending order of σ; runs without σ are last.
func arrange(runs []summary.Summary, given []string) (order []int, names []string) {
	names = given
	if names == nil {
		names = modelNames(runs)
	}
	first := map[string]int{}
	for k, name := range names {
		order = append(order, k)
		if _, seen := first[name]; !seen {
			first[name] = k
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if d := first[names[a]] - first[names[b]]; d != 0 {
			return d
		}
		return compareScales(runs[a].Conditions.Sigma, runs[b].Conditions.Sigma)
	})
	return order, names
}

func compareScales(a, b *float64) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	case *a < *b:
		return -1
	case *a > *b:
		return 1
	}
	return 0
}

// modelNames returns a name for each run's model: the file name of the model. If two files have the same name but
// different contents, their model names also hold the first digits of the files' SHA-256. If a run states no model,
// modelNames uses the name of the run instead.
func modelNames(runs []summary.Summary) []string {
	names := make([]string, len(runs))
	content := map[string]map[string]bool{} // for each name, the hashes of the files with this name
	hash := func(s summary.Summary) string {
		if s.Conditions.Denoiser != nil {
			return s.Conditions.Model.SHA256 + s.Conditions.Denoiser.SHA256
		}
		return s.Conditions.Model.SHA256
	}
	for k, s := range runs {
		names[k] = s.Name
		if s.Conditions.Model == nil {
			continue
		}
		names[k] = filepath.Base(s.Conditions.Model.File)
		if d := s.Conditions.Denoiser; d != nil {
			names[k] += " behind " + filepath.Base(d.File)
		}
		if content[names[k]] == nil {
			content[names[k]] = map[string]bool{}
		}
		content[names[k]][hash(s)] = true
	}
	const digits = 8
	for k, s := range runs {
		if s.Conditions.Model == nil || len(content[names[k]]) == 1 {
			continue
		}
		names[k] += " " + s.Conditions.Model.SHA256[:min(digits, len(s.Conditions.Model.SHA256))]
		if d := s.Conditions.Denoiser; d != nil {
			names[k] += "+" + d.SHA256[:min(digits, len(d.SHA256))]
		}
	}
	return names
}
