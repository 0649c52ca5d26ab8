package tables

import (
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/report/selection"
	"github.com/rscert/rscert/internal/report/summary"
)

// comparison returns a report on two models at the radius 0.25, with a different number in each column. In this report,
// the rule of Emde et al. 2025 chose the first model by its CBS.
func comparison() Report {
	sigma, within, rho := 0.5, 0.03, -0.98765
	certified := 0.861
	row := selection.Row{Model: "one", Family: "AT", Run: "r1", Path: "run/1", Sigma: &sigma,
		Accuracy: summary.CurvePoint{Radius: 0.25, Accuracy: summary.Share{Count: 87, Of: 100, Value: 0.87}, Certified: &certified},
		Average:  summary.Average{Value: 0.40259},
		Calibration: &selection.Calibration{N: 91, CBS: 0.10001, CCE: 0.20001,
			Certified: &summary.CertifiedCalibration{CBS: 0.30001, CCE: 0.40001}},
		Front: true, Within: true, ChosenBy: []selection.Measure{selection.CBS}}
	other := selection.Row{Model: "two", Family: "ACT", Run: "r2", Path: "run/2",
		Accuracy: summary.CurvePoint{Radius: 0.25, Accuracy: summary.Share{Count: 88, Of: 100, Value: 0.88}}, Average: summary.Average{Value: 0.5}, Within: true}
	return Report{
		Runs: []summary.Summary{{Name: "r1", Path: "run/1", Examples: 100}, {Name: "r2", Path: "run/2", Examples: 100}},
		Models: &selection.Comparison{
			Selection: selection.Selection{Runs: 2, Delta: 0.05, DeltaEach: 0.025, Within: &within},
			Radii: []selection.AtRadius{{Radius: 0.25, Rows: []selection.Row{row, other},
				Choices: []selection.Choice{{Family: "AT", By: selection.CBS, Candidates: 1, Model: "one", Sigma: &sigma, Accuracy: 0.87,
					Value: 0.10001, Certified: &row.Calibration.Certified.CBS}},
				Correlations: []selection.Correlation{{Of: [2]selection.Measure{selection.Accuracy, selection.CCE}, Models: 5, Spearman: &rho}}}},
		},
	}
}

// Each number must be in its own column. Accuracies and radii must be rounded down, CBS and CCE up. The notes must say
// that a choice among runs needs a smaller delta, and that the runs certify different examples.
func TestModels(t *testing.T) {
	r := comparison()
	text := write(t, r, Text)
	for _, want := range []string{
		"models at the L2 radius 0.25 (100 examples)",
		"  model  family    σ  certified accuracy %  with probability 0.95  average radius   n     CBS  CBS, all     CCE  CCE, all  front  choice",
		"  one    AT      0.5                  87.0                   86.1          0.4025  91  0.1001    0.3001  0.2001    0.4001  front  smallest CBS",
		"  two    ACT       –                  88.0                      –          0.5000   –       –         –       –         –  –      candidate",
		"the best calibrated of the models within 3 points of the largest certified accuracy",
		"  L2 radius  family  smallest  candidates  model    σ  certified accuracy %   value  with probability 0.95",
		"       0.25  AT      CBS                1  one    0.5                  87.0  0.1001                 0.3001",
		"       0.25  certified accuracy  CCE       5        -0.988              –",
		"use delta = 0.05/2 for each run",
		"wrong with probability at most 2·alpha",
		"The runs certify different examples",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no line %q in\n%s", want, text)
		}
	}
	if csv := write(t, r, CSV); !strings.Contains(csv,
		"\n0.25,one,AT,run/1,0.5,0.87,87,100,0.861,0.40259,,91,0.10001,0.30001,0.20001,0.40001,true,true,cbs,,,l2\n") {
		t.Error(csv)
	}
}

// If no model has a family, the table must have no column "family". If two runs have the same model and σ, the table
// must show their paths. For a single run, there must be no note about a selection.
func TestModelsWithoutFamilies(t *testing.T) {
	r := comparison()
	c := r.Models
	c.SameExamples, c.Selection.Runs = true, 1
	for k := range c.Radii[0].Rows {
		c.Radii[0].Rows[k].Family, c.Radii[0].Rows[k].Model, c.Radii[0].Rows[k].Sigma = "", "one", nil
	}
	c.Radii[0].Choices[0].Family = ""
	text := write(t, r, Text)
	if strings.Contains(text, "family") || strings.Contains(text, "selection") || strings.Contains(text, "different examples, so differences") ||
		!strings.Contains(text, "  one    run/2") || !strings.Contains(text, "  0.25  CBS                1  one    0.5") {
		t.Error(text)
	}
}
