package predictions

import (
	"reflect"
	"testing"

	"github.com/rscert/rscert/internal/calib"
)

// TestScoresOnly reads scores from files with different columns. It checks the scores, and which columns they come
// from.
func TestScoresOnly(t *testing.T) {
	one, top := calib.ClassOneQuantity, calib.TopLabelQuantity
	for text, c := range map[string]struct {
		want     Scored
		quantity calib.Quantity
	}{
		"score\n0.25\n":                           {Scored{Score: []float64{.25}, Columns: []string{"score"}}, one},
		"confidence,label\n0.25,3\n":              {Scored{Score: []float64{.25}, Columns: []string{"confidence"}}, top},
		"score,confidence\n0.25,0.75\n":           {Scored{Score: []float64{.25}, Columns: []string{"score"}}, one},
		"score,labels\n0.25,1\n":                  {Scored{Score: []float64{.25}, Label: []float64{1}, Columns: []string{"score", "labels"}}, one},
		"score,class7\n0.25,1\n":                  {Scored{Score: []float64{.25}, Columns: []string{"score"}}, one},
		"p0,p1\n0.75,0.25\n":                      {Scored{Score: []float64{.25}, Columns: []string{"p0", "p1"}}, one},
		"p1,label,p0\n0.25,1,0.75\n":              {Scored{Score: []float64{.25}, Label: []float64{1}, Columns: []string{"p1", "p0", "label"}}, one},
		"p0,p1,p2\n0.125,0.625,0.25\n":            {Scored{Score: []float64{.625}, Columns: []string{"p0", "p1", "p2"}}, top},
		"p0,p1,p2,labels\n0.125,0.625,0.25,1\n":   {Scored{Score: []float64{.625}, Label: []float64{1}, Columns: []string{"p0", "p1", "p2", "labels"}}, top},
		"p0,p1,p2,label\n0.125,0.625,0.25,2\n":    {Scored{Score: []float64{.625}, Label: []float64{0}, Columns: []string{"p0", "p1", "p2", "label"}}, top},
		"confidence,correct\n0.5,0\n":             {Scored{Score: []float64{.5}, Label: []float64{0}, Columns: []string{"confidence", "correct"}}, top},
		"confidence,correct,p0\n0.5,0,1\n":        {Scored{Score: []float64{.5}, Label: []float64{0}, Columns: []string{"confidence", "correct"}}, top},
		"score,label,p0,p1\n0.25,1,0.75,0.25\n":   {Scored{Score: []float64{.25}, Label: []float64{1}, Columns: []string{"score", "label"}, Unused: []string{"p0", "p1"}}, one},
		"confidence,correct,score,label\n1,0,0,1": {Scored{Score: []float64{0}, Label: []float64{1}, Columns: []string{"score", "label"}, Unused: []string{"confidence", "correct"}}, one},
	} {
		got, err := ScoresOnly(readText(t, text, BinaryColumns()))
		if err != nil || got.Quantity() != c.quantity {
			t.Errorf("%q: %v, error %v, want %v", text, got.Quantity(), err, c.quantity)
		}
		c.want.Names = scorePairs[map[calib.Quantity]int{one: 0, top: 1}[c.quantity]]
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: got %+v, want %+v", text, got, c.want)
		}
	}
	for text, want := range map[string]string{
		"label\n1\n":                   "stdin: want a column score or confidence, or p0, p1, …; found only label",
		"p0,p2\n0.5,0.5\n":             "stdin: 2 probability columns, but none for class 1",
		"p0,p1\n0.5,0.25\n":            "stdin:2: probabilities sum to 0.75, not 1",
		"index,score\n7,0.5\n7,0.25\n": "stdin:3: index 7 appears twice: each example counts once",
	} {
		if _, err := ScoresOnly(readText(t, text, BinaryColumns())); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestIsOutput(t *testing.T) {
	for name, want := range map[string]bool{"score": true, "Logit": true, "p10": true, "prob_3": true, "va_p0": true, "va_p1_12": true,
		"sech_row": true, "upper": true, "adversarial_correct": true, "probs": true,
		"index": false, "label": false, "weight": false, "radius": false, "pressure": false, "va_p2": false, "x_va_p0": false, "n": false} {
		if got := isOutput(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
