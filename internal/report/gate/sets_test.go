package gate

import (
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/report/summary"
)

// A requirement on the coverage needs a label and a guarantee for every set. A requirement on the size needs neither.
func TestSets(t *testing.T) {
	whole := summary.Sets{Inputs: 10, Size: 10, Labelled: 10, Covered: 9}
	few, unsound := whole, whole
	few.Labelled = 9
	unsound.Unsound, unsound.Why = 1, "because"
	for _, tt := range []struct {
		sets              summary.Sets
		requirement, says string
		met               bool
	}{
		{whole, "conformal-coverage>=0.9", "0.9", true},
		{whole, "conformal-coverage>=0.91", "too little", false},
		{unsound, "conformal-coverage>=0.5", "1 of 10 sets promise nothing: because", false},
		{unsound, "conformal-coverage<=0.95", "1 of 10 sets promise nothing: because", false},
		{unsound, "conformal-size<=1", "10 classes", true},
		{few, "conformal-coverage>=0.5", "only 9 of 10 sets have a label", false},
		{few, "conformal-size<=1", "10 classes", true},
	} {
		r, err := Parse(tt.requirement)
		if err != nil {
			t.Fatal(err)
		}
		outcomes, err := Check([]Requirement{r}, summary.Summary{Sets: &tt.sets})
		says, met := "", false
		if err != nil {
			says = err.Error()
		} else {
			says, met = outcomes[0].Says, outcomes[0].Met
		}
		if met != tt.met || !strings.Contains(says, tt.says) || (err != nil) != strings.HasPrefix(tt.says, "only") {
			t.Errorf("%+v, %s: met %v, %q, %v", tt.sets, tt.requirement, met, says, err)
		}
	}
}

// ce-upper and ce-lower need bounds on the calibration error, and ce-upper needs a sound upper bound.
func TestCalibrationError(t *testing.T) {
	both := &summary.CalibrationError{Lower: 0.01, LowerMethod: "betting", Upper: 0.05, UpperMethod: "binned-tv", Examples: 9}
	lower := &summary.CalibrationError{Lower: 0.01, LowerMethod: "betting", Examples: 9}
	parts := &summary.CalibrationError{
		WorstGroup: &summary.CalibrationError{Lower: 0.02, LowerMethod: "betting", Upper: 0.08, UpperMethod: "binned-tv", Examples: 9},
		WorstClass: &summary.CalibrationError{Lower: 0.2, LowerMethod: "betting", Upper: 0.3, UpperMethod: "binned-tv", Examples: 8},
		Classwise:  &summary.CalibrationError{Lower: 0.12, LowerMethod: "betting", Upper: 0.13, UpperMethod: "binned-tv", Examples: 7},
	}
	for _, tt := range []struct {
		bounds            *summary.CalibrationError
		requirement, says string
		met, known        bool
	}{
		{both, "ce-upper<=0.05", "0.05 (binned-tv, 9 examples)", true, true},
		{both, "ce-upper<=0.04", "0.01 too much", false, true},
		{both, "ce-lower<=0.01", "0.01 (betting, 9 examples)", true, true},
		{both, "ce-lower<=0.005", "0.005 too much", false, true},
		{lower, "ce-lower<=0.01", "betting", true, true},
		{lower, "ce-upper<=1", "no sound upper bound", false, false},
		{parts, "worst-group-ce-upper<=0.08", "0.08 (binned-tv, 9 examples)", true, true},
		{parts, "worst-group-ce-lower<=0.01", "0.01 too much", false, true},
		{parts, "worst-class-ce-upper<=0.3", "0.3 (binned-tv, 8 examples)", true, true},
		{parts, "worst-class-ce-lower<=0.2", "0.2 (betting, 8 examples)", true, true},
		{parts, "classwise-ce-upper<=0.1", "0.03 too much", false, true},
		{parts, "classwise-ce-lower<=0.12", "0.12 (betting, 7 examples)", true, true},
		{both, "worst-group-ce-upper<=1", "no bounds for groups or classes", false, false},
		{both, "classwise-ce-lower<=1", "no bounds for groups or classes", false, false},
		{nil, "worst-group-ce-lower<=1", "'rscert ce' checks this requirement", false, false},
		{nil, "ce-upper<=1", "'rscert ce' checks this requirement", false, false},
		{nil, "ce-lower<=1", "'rscert ce' checks this requirement", false, false},
	} {
		r, err := Parse(tt.requirement)
		if err != nil {
			t.Fatal(err)
		}
		outcomes, err := Check([]Requirement{r}, summary.Summary{CalibrationError: tt.bounds})
		says, met := "", false
		if err != nil {
			says = err.Error()
		} else {
			says, met = outcomes[0].Says, outcomes[0].Met
		}
		if met != tt.met || !strings.Contains(says, tt.says) || (err == nil) != tt.known {
			t.Errorf("%s: %q, met %v", tt.requirement, says, met)
		}
	}
}
