package main

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/report"
)

// rejection holds the test errors of a classifier that answers only if its confidence reaches a threshold. The first
// value of --tpr determines this threshold.
type rejection struct {
	TPR           float64       `json:"tpr"`
	Threshold     float64       `json:"threshold"`
	CleanError    report.Number `json:"clean_error"`
	CleanAnswered float64       `json:"clean_answered"` // share of clean examples that are answered
	Unrejected    float64       `json:"clean_error_unthresholded"`

	Attacks         int            `json:"attacks"`
	RobustTestError *report.Number `json:"robust_test_error,omitempty"`
	Listed          *report.Number `json:"robust_test_error_listing_2,omitempty"`
	Unthresholded   *report.Number `json:"robust_test_error_unthresholded,omitempty"`
}

// thresholdErrors holds the errors at several thresholds.
type thresholdErrors struct {
	Sound         bool             `json:"sound"` // always false: a stronger attack can cause larger errors
	Attacks       []string         `json:"attacks,omitempty"`
	Split         *thresholdSplit  `json:"split,omitempty"`
	ThresholdRows int              `json:"threshold_rows,omitempty"` // number of rows used to choose the thresholds
	Measured      int              `json:"measured"`                 // number of rows whose errors were computed
	Unthresholded thresholdPoint   `json:"unthresholded"`
	Points        []thresholdPoint `json:"points"`

	curve *calib.RejectionCurve
}

// thresholdSplit says which rows were used to choose the thresholds.
type thresholdSplit struct {
	Share float64 `json:"share"`
	Seed  uint64  `json:"seed"`
}

// thresholdPoint holds the errors at one threshold. For each row, the embedded attackErrors count the worst result over
// all attacks. ByAttack holds the errors under each attack alone.
type thresholdPoint struct {
	TPR           *float64      `json:"tpr,omitempty"` // the value of --tpr that gave this threshold, or nil
	Threshold     float64       `json:"threshold"`
	TruePositives report.Number `json:"true_positive_rate"`
	CleanError    report.Number `json:"clean_error"`
	CleanAnswered float64       `json:"clean_answered"`
	attackErrors
	ByAttack []namedErrors `json:"by_attack,omitempty"`
}

// attackErrors holds the errors under attack. The fields are nil without an attack.
type attackErrors struct {
	Robust         *report.Number `json:"robust_test_error,omitempty"`
	Listed         *report.Number `json:"robust_test_error_listing_2,omitempty"`
	FalsePositives *report.Number `json:"false_positive_rate,omitempty"`
}

// namedErrors holds the errors under one attack.
type namedErrors struct {
	Attack string `json:"attack"`
	attackErrors
}

func newThresholdErrors(plan calib.RejectionPlan, found *calib.Rejection, attacks []string) *thresholdErrors {
	r := &thresholdErrors{Attacks: attacks, ThresholdRows: found.Rows, Measured: found.Measured, curve: found.Curve,
		Unthresholded: newThresholdPoint(found.Unthresholded, attacks), Points: []thresholdPoint{}}
	if plan.HeldOut == nil && plan.Share != 0 {
		r.Split = &thresholdSplit{plan.Share, plan.Seed}
	}
	for _, p := range found.Points {
		r.Points = append(r.Points, newThresholdPoint(p, attacks))
	}
	return r
}

func newThresholdPoint(p calib.RejectionPoint, attacks []string) thresholdPoint {
	e := p.Worst
	out := thresholdPoint{TPR: p.TPR, Threshold: e.Threshold, TruePositives: report.Number(e.TruePositives),
		CleanError: report.Number(e.CleanError), CleanAnswered: e.CleanAnswered}
	if len(attacks) > 0 {
		out.attackErrors = newAttackErrors(e)
	}
	for k, name := range attacks {
		out.ByAttack = append(out.ByAttack, namedErrors{name, newAttackErrors(p.Attacks[k])})
	}
	return out
}

func newAttackErrors(e calib.RejectionErrors) attackErrors {
	robust, listed, passed := report.Number(e.Robust), report.Number(e.Listed), report.Number(e.FalsePositives)
	return attackErrors{&robust, &listed, &passed}
}

// name describes how the threshold was chosen.
func (p thresholdPoint) name() string {
	if p.TPR != nil {
		return fmt.Sprintf("%g %% TPR", 100**p.TPR)
	}
	return fmt.Sprintf("τ = %g", p.Threshold)
}

// The method 'first' returns the errors at the threshold for the first value of --tpr. It returns nil if no value of
// --tpr was used.
func (r *thresholdErrors) first() *rejection {
	if r == nil || len(r.Points) == 0 || r.Points[0].TPR == nil {
		return nil
	}
	p := r.Points[0]
	return &rejection{TPR: *p.TPR, Threshold: p.Threshold, CleanError: p.CleanError, CleanAnswered: p.CleanAnswered,
		Unrejected: float64(r.Unthresholded.CleanError), Attacks: len(r.Attacks),
		RobustTestError: p.Robust, Listed: p.Listed, Unthresholded: r.Unthresholded.Robust}
}

// print prints the errors. If the only threshold comes from --tpr, it prints the errors as text. Otherwise it prints a
// table with a row for each threshold. If there are several attacks, print adds a table of the robust test errors under
// each attack.
func (r *thresholdErrors) print(w io.Writer) error {
	if r == nil {
		return nil
	}
	fmt.Fprintln(w)
	if r.Split != nil {
		fmt.Fprintf(w, "thresholds from %d rows (--holdout %g, --seed %d); errors of the other %d rows\n",
			r.ThresholdRows, r.Split.Share, r.Split.Seed, r.Measured)
	}
	if first := r.first(); first != nil && len(r.Points) == 1 {
		first.print(w)
	} else {
		t := r.byThreshold()
		if err := t.WriteText(w); err != nil {
			return err
		}
	}
	if len(r.Attacks) > 1 {
		fmt.Fprintln(w, "\nrobust test error under each attack:")
		t := attackTable([]modelError{{thresholdErrors: *r}})
		if err := t.WriteText(w); err != nil {
			return err
		}
	}
	if len(r.Attacks) > 0 {
		fmt.Fprintln(w, notCertified)
	}
	return nil
}

// notCertified is printed below robust test errors.
const notCertified = "These errors are about the given attacks. A stronger attack can raise them and, above a threshold, also lower them."

// byThreshold returns a table with a row for each threshold.
func (r *thresholdErrors) byThreshold() report.Table {
	t := report.Table{Columns: []report.Column{report.TextColumn("threshold"), report.RoundedColumn("τ", report.Nearest, 6),
		report.RoundedColumn("TPR", report.Nearest, 4), report.RoundedColumn("clean error", report.Nearest, 4),
		report.RoundedColumn("answered", report.Nearest, 4)}}
	points := slices.Concat([]thresholdPoint{r.Unthresholded}, r.Points)
	attacked := len(r.Attacks) > 0
	listed := attacked && slices.ContainsFunc(points, func(p thresholdPoint) bool { return differ(*p.Robust, *p.Listed) })
	if attacked {
		t.Columns = append(t.Columns, report.RoundedColumn("robust error", report.Nearest, 4), report.RoundedColumn("FPR", report.Nearest, 4))
	}
	if listed {
		t.Columns = append(t.Columns, report.RoundedColumn("by listing 2", report.Nearest, 4))
	}
	for k, p := range points {
		name := p.name()
		switch {
		case k == 0:
			name = "none"
		case p.TPR == nil:
			name = "given"
		}
		row := []report.Cell{report.Text(name), report.Number(p.Threshold), p.TruePositives, p.CleanError, report.Number(p.CleanAnswered)}
		if attacked {
			row = append(row, *p.Robust, *p.FalsePositives)
		}
		if listed {
			row = append(row, *p.Listed)
		}
		t.AddRow(row...)
	}
	return t
}

// differ reports whether two errors differ. Two errors without a value are equal.
func differ(x, y report.Number) bool {
	return x != y && !(math.IsNaN(float64(x)) && math.IsNaN(float64(y)))
}

func (j *rejection) print(w io.Writer) {
	fmt.Fprintf(w, "at %g %% TPR (confidence ≥ %.6g): clean error %.4f of the %.1f %% answered; without a threshold %.4f\n",
		100*j.TPR, j.Threshold, float64(j.CleanError), 100*j.CleanAnswered, j.Unrejected)
	if j.RobustTestError == nil {
		return
	}
	against := "robust test error"
	if j.Attacks > 1 {
		against = fmt.Sprintf("robust test error, the worst of %d attacks,", j.Attacks)
	}
	listed := ""
	if differ(*j.Listed, *j.RobustTestError) {
		listed = fmt.Sprintf(" by equation (2) of Stutz, %.4f by listing 2", float64(*j.Listed))
	}
	fmt.Fprintf(w, "%s %.4f%s; without a threshold %.4f\n", against, float64(*j.RobustTestError), listed, float64(*j.Unthresholded))
}

// modelErrors is what 'rscert metrics --models' prints.
type modelErrors struct {
	Sound  bool         `json:"sound"` // always false: an error under some attacks is not a bound
	Models []modelError `json:"models"`
}

// modelError holds the errors of one model.
type modelError struct {
	Model string `json:"model,omitempty"`
	thresholdErrors
}

// attackTable returns a table of errors with a row for each attack. It has columns for each threshold of each model.
// The first row has the clean errors. If there are several attacks, there is one more row at the end. For each example,
// the errors in this row count the worst of all attacks.
func attackTable(models []modelError) report.Table {
	t := report.Table{Columns: []report.Column{report.TextColumn("attack")}}
	var names []string
	for _, m := range models {
		t.Columns = append(t.Columns, m.columns()...)
		for _, name := range m.Attacks {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	add := func(name string, of func(m modelError, p thresholdPoint) *report.Number) {
		row := []report.Cell{report.Text(name)}
		for _, m := range models {
			for _, p := range m.allPoints() {
				row = append(row, report.OptionalNumber((*float64)(of(m, p))))
			}
		}
		t.AddRow(row...)
	}
	add("none", func(_ modelError, p thresholdPoint) *report.Number { return &p.CleanError })
	for _, name := range names {
		add(name, func(m modelError, p thresholdPoint) *report.Number {
			if at := slices.Index(m.Attacks, name); at >= 0 {
				return p.ByAttack[at].Robust
			}
			return nil
		})
	}
	if len(names) > 1 {
		add("worst of all", func(_ modelError, p thresholdPoint) *report.Number { return p.Robust })
	}
	return t
}

// columns returns a column for each threshold of the model.
func (m modelError) columns() (columns []report.Column) {
	for k, p := range m.allPoints() {
		name := p.name()
		if k == 0 {
			name = "τ = 0"
		}
		if m.Model != "" {
			name = m.Model + ": " + name
		}
		columns = append(columns, report.RoundedColumn(name, report.Nearest, 4))
	}
	return columns
}

// allPoints returns the point without a threshold, and then the other points.
func (r *thresholdErrors) allPoints() []thresholdPoint {
	return slices.Concat([]thresholdPoint{r.Unthresholded}, r.Points)
}

// print prints the table of all models, and the threshold of each model.
func (r *modelErrors) print(w io.Writer) error {
	fmt.Fprint(w, "confidence-thresholded test errors: clean in the row 'none', robust in the other rows\n\n")
	t := attackTable(r.Models)
	if err := t.WriteText(w); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, m := range r.Models {
		fmt.Fprintf(w, "%s: %d rows", m.Model, m.Measured)
		if m.Split != nil {
			fmt.Fprintf(w, "; thresholds from %d others (--holdout %g, --seed %d)", m.ThresholdRows, m.Split.Share, m.Split.Seed)
		}
		for _, p := range m.Points {
			if p.TPR != nil {
				fmt.Fprintf(w, "; τ = %.6g at %s", p.Threshold, p.name())
			}
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, notCertified)
	return nil
}
