package selection

import (
	"cmp"
	"math/big"
	"slices"
)

// Measure is the name of a quantity that compares models at a radius.
type Measure string

// These are the measures. Large values of Accuracy and Radius are good, and small values of CBS and CCE are good.
const (
	Accuracy Measure = "certified-accuracy"
	Radius   Measure = "average-radius"
	CBS      Measure = "cbs"
	CCE      Measure = "cce"
)

// Title returns the measure's name in a table.
func (m Measure) Title() string {
	return map[Measure]string{Accuracy: "certified accuracy", Radius: "average radius", CBS: "CBS", CCE: "CCE"}[m]
}

// value returns the measure of a row. It returns false if the row lacks the measure.
func (m Measure) value(r Row) (float64, bool) {
	switch m {
	case Accuracy:
		return r.Accuracy.Accuracy.Value, true
	case Radius:
		return r.Average.Value, true
	}
	if r.Calibration == nil {
		return 0, false
	}
	if m == CBS {
		return r.Calibration.CBS, true
	}
	return r.Calibration.CCE, true
}

// certified returns a row's bound on CBS or CCE. The bound holds with probability 1 − Selection.DeltaEach. The result
// is nil if there is no such bound.
func (m Measure) certified(r Row) *float64 {
	if r.Calibration == nil || r.Calibration.Certified == nil {
		return nil
	}
	if m == CBS {
		return &r.Calibration.Certified.CBS
	}
	return &r.Calibration.Certified.CCE
}

// Choice is a model that the rule chooses from one family. Emde et al. 2025 (section 5.3, Table 2) "compare all models
// that come within 3% of the highest certified accuracy (CA) achieved by any model at a given radius, and evaluate the
// best certified calibration of these models". Let the limit be the best certified accuracy of all families minus the
// tolerance. The candidates of a family are therefore its models whose certified accuracy is at least this limit. The
// choice is the candidate with the smallest value of one measure, which the field By names. Among equal values, the
// rule prefers the larger certified accuracy, then the first row.
//
// Each family has two choices: one minimises CBS, and one minimises CCE. With these two choices, the rule gives the row
// 'AT' of Table 2 from two inputs: the models of Table 4 and the largest certified accuracies in Table 2. In these
// tables, ACCE (the paper's estimate of the CCE) takes the place of CCE.
type Choice struct {
	Family     string   `json:"family,omitempty"`
	By         Measure  `json:"by"`
	Candidates int      `json:"candidates"` // number of the family's candidates that have a value of the measure By
	Row        int      `json:"row"`        // position of the chosen row in Rows
	Model      string   `json:"model"`
	Sigma      *float64 `json:"sigma,omitempty"`
	Accuracy   float64  `json:"certified_accuracy"`
	Value      float64  `json:"value"`
	// Certified is a bound on the chosen model's CBS or CCE, whichever the field By names. The bound holds with
	// probability 1 − Selection.Delta, and allows for the fact that the model was chosen by its results.
	Certified *float64 `json:"certified,omitempty"`
}

// choose applies a rule to the rows. The comment on the type Choice states this rule.
func (at *AtRadius) choose(within *big.Rat) {
	least := new(big.Rat).Sub(bestAccuracy(at.Rows), within)
	var families []string
	for k := range at.Rows {
		row := &at.Rows[k]
		row.Within = row.Accuracy.Accuracy.Rat().Cmp(least) >= 0
		if !slices.Contains(families, row.Family) {
			families = append(families, row.Family)
		}
	}
	for _, family := range families {
		for _, by := range []Measure{CCE, CBS} {
			at.chooseBy(family, by)
		}
	}
}

// chooseBy chooses the candidate of a family by one measure. It chooses nothing if no candidate has the measure.
func (at *AtRadius) chooseBy(family string, by Measure) {
	c := Choice{Family: family, By: by, Row: -1}
	for k, row := range at.Rows {
		value, ok := by.value(row)
		if !ok || !row.Within || row.Family != family {
			continue
		}
		c.Candidates++
		if c.Row < 0 || value < c.Value || value == c.Value && compareAccuracy(row, at.Rows[c.Row]) > 0 {
			c.Row, c.Value = k, value
		}
	}
	if c.Row < 0 {
		return
	}
	row := &at.Rows[c.Row]
	c.Model, c.Sigma, c.Accuracy, c.Certified = row.Model, row.Sigma, row.Accuracy.Accuracy.Value, by.certified(*row)
	row.ChosenBy = append(row.ChosenBy, by)
	at.Choices = append(at.Choices, c)
}

func compareAccuracy(a, b Row) int { return a.Accuracy.Accuracy.Rat().Cmp(b.Accuracy.Accuracy.Rat()) }

func bestAccuracy(rows []Row) *big.Rat {
	return slices.MaxFunc(rows, compareAccuracy).Accuracy.Accuracy.Rat()
}

// markFront marks the rows on the Pareto front of certified accuracy and CCE. A row without a CCE is not on the front.
func markFront(rows []Row) {
	for k := range rows {
		rows[k].Front = rows[k].Calibration != nil &&
			!slices.ContainsFunc(rows, func(other Row) bool { return dominates(other, rows[k]) })
	}
}

// dominates reports whether a is at least as good as b in certified accuracy and in CCE, and better in one of the two.
func dominates(a, b Row) bool {
	if a.Calibration == nil {
		return false
	}
	accuracy := compareAccuracy(a, b)
	cce := cmp.Compare(b.Calibration.CCE, a.Calibration.CCE)
	return accuracy >= 0 && cce >= 0 && (accuracy > 0 || cce > 0)
}

// keepBestScale keeps one row for each model: the row with the largest certified accuracy. Among equal accuracies, it
// prefers the smaller CCE, then the first row.
func keepBestScale(rows []Row) []Row {
	best := map[string]int{}
	var kept []Row
	for _, row := range rows {
		k, seen := best[row.Model]
		if !seen {
			best[row.Model] = len(kept)
			kept = append(kept, row)
			continue
		}
		if d := compareAccuracy(row, kept[k]); d > 0 || d == 0 && smallerCCE(row, kept[k]) {
			kept[k] = row
		}
	}
	return kept
}

func smallerCCE(a, b Row) bool {
	x, ok := CCE.value(a)
	y, other := CCE.value(b)
	return ok && (!other || x < y)
}
