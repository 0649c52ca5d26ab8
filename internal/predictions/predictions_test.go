package predictions

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sbinet/npyio/npz"
	"gonum.org/v1/gonum/mat"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/calibrator"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/table"
)

// readText parses a table from text, as if it were the file stdin.
func readText(t *testing.T, text string, opt table.Options) *table.Table {
	t.Helper()
	opt.Input = strings.NewReader(text)
	table, err := table.Read(t.Context(), table.Stdin, opt)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func checkPredictions(t *testing.T, p *calib.Predictions, confidence []float64, correct []bool, classes int) {
	t.Helper()
	if !slices.Equal(p.Confidence, confidence) || !slices.Equal(p.Correct, correct) || p.Classes != classes {
		t.Errorf("confidence %v, correct %v, %d classes; want %v, %v, %d", p.Confidence, p.Correct, p.Classes, confidence, correct, classes)
	}
}

func TestFromTable(t *testing.T) {
	for _, test := range []struct {
		name, text string
		confidence []float64
		correct    []bool
		classes    int
		weight     []float64
	}{
		{"top label", "correct,confidence\n1,0.75\n0,0.5\n", []float64{0.75, 0.5}, []bool{true, false}, 0, nil},
		{"weights", "correct,weight,confidence\n1,2,0.75\n", []float64{0.75}, []bool{true}, 0, []float64{2}},
		{"vectors in any order", "class_2,label,p0,prob1\n0.25,0,0.625,0.125\n0.75,1,0.125,0.125\n",
			[]float64{0.625, 0.75}, []bool{true, false}, 3, nil},
		{"scores of class 1", "score,label\n0.75,1\n0.25,0\n0.25,1\n", []float64{0.75, 0.25, 0.25}, []bool{true, false, true}, 0, nil},
		{"semicolons, upper case", "Score;LABEL\n0.75;1\n", []float64{0.75}, []bool{true}, 0, nil},
		{"top label before vectors", "confidence,correct,p0,p1,label\n0.5,1,0.25,0.75,0\n", []float64{0.5}, []bool{true}, 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			p, err := FromTable(readText(t, test.text, Columns()), nil)
			if err != nil {
				t.Fatal(err)
			}
			checkPredictions(t, p, test.confidence, test.correct, test.classes)
			if !slices.Equal(p.Weight, test.weight) {
				t.Errorf("weights %v, want %v", p.Weight, test.weight)
			}
		})
	}
}

func TestFromTableErrors(t *testing.T) {
	const wanted = "stdin: want columns confidence and correct, or p0, p1, … and label, or score and label; found "
	for text, want := range map[string]string{
		"confidence,correct\n0.5,1\n0.5,2\n":      "stdin:3: correct 2 is not 0 or 1",
		"confidence,correct\n1.5,1\n":             "stdin:2: confidence 1.5 is outside [0, 1]",
		"confidence,correct,weight\n0.5,1,0\n":    "stdin:2: weight 0 is not positive",
		"p0,p1,label\n0.5,0.5,0.5\n":              "stdin:2: label 0.5 is not a class number",
		"p0,p1,label\n0.5,0.5,2\n":                "stdin:2: label 2 is outside 0 to 1",
		"p0,p1,label\n0.5,0.25,0\n":               "stdin:2: probabilities sum to 0.75, not 1",
		"p0,p2,label\n0.5,0.5,0\n":                "stdin: 2 probability columns, but none for class 1",
		"p0,p1,p_1,label\n0.5,0.5,0.5,0\n":        "stdin: column p_1: class 1 appears twice or is too large",
		"p0,p99999999999999999999,label\n0,0,0\n": "stdin: column p99999999999999999999: class 99999999999999999999 appears twice or is too large",
		"p0,p1\n0.5,0.5\n":                        wanted + "only p0, p1",
		"label\n0\n":                              wanted + "only label",
		"x\n0\n":                                  wanted + "none of them (the file has x)",
	} {
		if _, err := FromTable(readText(t, text, Columns()), nil); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

func TestFromVotes(t *testing.T) {
	votes := []certify.Votes{
		{Index: 3, Label: 1, N: 4, Counts: []int64{1, 3, 0}},
		{Index: 5, Label: 0, N: 8, Counts: []int64{2, 1, 5}},
	}
	p, err := FromVotes("votes.jsonl", votes, certify.VoteRule{})
	if err != nil {
		t.Fatal(err)
	}
	checkPredictions(t, p, []float64{0.75, 0.625}, []bool{true, false}, 3)
	if want := []float64{0.25, 0.75, 0, 0.25, 0.125, 0.625}; !slices.Equal(p.Probability, want) {
		t.Errorf("probabilities %v, want %v", p.Probability, want)
	}
	votes[1].Label = 3
	for _, test := range []struct {
		votes []certify.Votes
		want  string
	}{
		{nil, "votes.jsonl: no votes"},
		{votes, "votes.jsonl: example 5: label 3 is outside 0 to 2"},
		{[]certify.Votes{votes[0], {N: 1, Counts: []int64{1}}}, "votes.jsonl: the number of classes changes"},
	} {
		if _, err := FromVotes("votes.jsonl", test.votes, certify.VoteRule{}); err == nil || err.Error() != test.want {
			t.Errorf("error %v, want %s", err, test.want)
		}
	}
}

// If some votes are for no class, the shares sum to less than 1. The predictions then have only confidences.
func TestVotesForNone(t *testing.T) {
	votes := []certify.Votes{
		{Index: 0, Label: 1, N: 8, Counts: []int64{1, 4, 0}, None: 3},
		{Index: 1, Label: 1, N: 8, Counts: []int64{1, 3, 0}, None: 4}, // "no class" has the most votes
		{Index: 2, Label: 1, N: 8, Counts: []int64{0, 4, 0}, None: 4}, // in a tie "no class" wins
		{Index: 3, Label: 0, N: 8, Counts: []int64{2, 6, 0}},
		{Index: 4, Label: 0, N: 8, Counts: []int64{0, 0, 0}, None: 8},
	}
	p, err := FromVotes("votes.jsonl", votes, certify.VoteRule{})
	if err != nil {
		t.Fatal(err)
	}
	checkPredictions(t, p, []float64{0.5, 0.375, 0.5, 0.75, 0}, []bool{true, false, false, false, false}, 0)
	if p.Probability != nil || p.Label != nil {
		t.Errorf("probabilities %v with labels %v, want none", p.Probability, p.Label)
	}
	if _, err := SelectClassOne(p); err == nil || !strings.HasPrefix(err.Error(), "no probabilities") {
		t.Errorf("class 1: %v", err)
	}
	votes[3].Label = certify.UnknownLabel
	if _, err := FromVotes("votes.jsonl", votes, certify.VoteRule{}); err == nil || err.Error() != "votes.jsonl: example 3: has no label" {
		t.Errorf("error %v", err)
	}
	// If very few votes are for no class, the shares still sum to 1 within the tolerance. Then the predictions keep
	// their probability vectors.
	few := []certify.Votes{{Label: 1, N: 1000, Counts: []int64{0, 999}, None: 1}}
	p, err = FromVotes("votes.jsonl", few, certify.VoteRule{})
	if err != nil {
		t.Fatal(err)
	}
	checkPredictions(t, p, []float64{0.999}, []bool{true}, 2)
	few[0].Counts[1], few[0].None = 998, 2
	p, err = FromVotes("votes.jsonl", few, certify.VoteRule{})
	if err != nil {
		t.Fatal(err)
	}
	checkPredictions(t, p, []float64{0.998}, []bool{true}, 0)
}

// An example may occur once, or once at each radius.
func TestIndexTwice(t *testing.T) {
	const text = "index,confidence,correct,radius\n0,0.5,1,0.25\n0,0.5,1,0.5\n1,0.5,0,0.25\n"
	radius := 0.25
	for _, test := range []struct{ text, want string }{
		{text, ""},
		{text + "1,0.5,0,0.5\n", ""},
		{text + "1,0.5,0,0.25\n", "stdin:5: index 1 appears twice: each example counts once"},
	} {
		table, err := SelectRadius(readText(t, test.text, Columns()), &radius)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = FromTable(table, nil); test.want == "" && err != nil || test.want != "" && (err == nil || err.Error() != test.want) {
			t.Errorf("%q: error %v, want %q", test.text, err, test.want)
		}
	}
}

func TestScores(t *testing.T) {
	for text, want := range map[string][2]float64{
		"label,score\n1,0.25\n":                          {0.25, 1},
		"confidence,correct\n0.5,0\n":                    {0.5, 0},
		"confidence,correct,score,label\n0.5,0,0.75,1\n": {0.75, 1},
		"confidence,correct,score\n0.5,0,0.75\n":         {0.5, 0},
	} {
		s, err := Scores(readText(t, text, ScoreColumns()))
		if err != nil || s.Score[0] != want[0] || s.Label[0] != want[1] {
			t.Errorf("%q: score %v, label %v, error %v; want %v", text, s.Score, s.Label, err, want)
		}
	}
	const want = "stdin: want columns score and label, or confidence and correct, or p0, p1, … and label; found only score"
	if _, err := Scores(readText(t, "score\n1\n", ScoreColumns())); err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestAttacked(t *testing.T) {
	const header = "confidence,correct,adversarial_confidence,adversarial_correct\n"
	read := func(text string) (calib.Answers, error) { return Attacked(readText(t, text, Columns())) }
	got, err := read(header + "0.75,1,0.5,0\n0.25,0,1,1\n")
	want := calib.Answers{Confidence: []float64{0.5, 1}, Right: []bool{false, true}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, error %v, want %v", got, err, want)
	}
	for text, want := range map[string]string{
		header + "0.75,1,2,0\n":        "stdin:2: adversarial_confidence 2 is outside [0, 1]",
		header + "0.75,1,1,2\n":        "stdin:2: adversarial_correct 2 is not 0 or 1",
		"confidence,correct\n0.75,1\n": "the input needs columns adversarial_confidence and adversarial_correct",
	} {
		if _, err := read(text); err == nil || err.Error() != want {
			t.Errorf("%q: error %v, want %s", text, err, want)
		}
	}
}

// writeArchive makes an npz file of float64 arrays. Each array is a vector, or a matrix with the given number of
// columns.
func writeArchive(t *testing.T, logits []float64, columns int, label []float64, labels string) *table.Table {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.npz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := npz.NewWriter(f)
	if err := errors.Join(z.Write("logits.npy", mat.NewDense(len(logits)/columns, columns, logits)), z.Write(labels+".npy", label), z.Close()); err != nil {
		t.Fatal(err)
	}
	table, err := table.Read(t.Context(), path, LogitColumns())
	if err != nil {
		t.Fatal(err)
	}
	table.Path = "a.npz"
	return table
}

func TestLogits(t *testing.T) {
	logits := []float64{1, 2, 3, 4, 5, 6}
	for _, name := range []string{"label", "labels"} {
		got, classes, label, err := Logits(writeArchive(t, logits, 3, []float64{2, 0}, name))
		if err != nil || classes != 3 || !slices.Equal(got, logits) || !slices.Equal(label, []int{2, 0}) {
			t.Errorf("logits %v of %d classes, labels %v, error %v", got, classes, label, err)
		}
	}
	// A single column of logits stands for the log-odds of class 1.
	got, classes, label, err := Logits(writeArchive(t, []float64{-2, 3}, 1, []float64{0, 1}, "label"))
	if err != nil || classes != 2 || !slices.Equal(got, []float64{0, -2, 0, 3}) || !slices.Equal(label, []int{0, 1}) {
		t.Errorf("logits %v of %d classes, labels %v, error %v", got, classes, label, err)
	}
	// A logit of −∞ gives its class the probability 0. The class of the label must not have probability 0.
	inf := math.Inf(1)
	got, _, _, err = Logits(writeArchive(t, []float64{1, -inf, 2, 3}, 2, []float64{0, 1}, "label"))
	if err != nil || !slices.Equal(got, []float64{1, -inf, 2, 3}) {
		t.Errorf("logits %v, error %v", got, err)
	}
	for _, test := range []struct {
		logits []float64
		want   string
	}{
		{[]float64{1, inf}, "a.npz: row 0: logit +Inf is not a number below infinity"},
		{[]float64{math.NaN(), 1}, "a.npz: row 0: logit NaN is not a number below infinity"},
		{[]float64{-inf, 1}, "a.npz: row 0: the logit of the label 0 is -Inf: no map gives it a likelihood"},
	} {
		if _, _, _, err := Logits(writeArchive(t, test.logits, 2, []float64{0}, "label")); err == nil || err.Error() != test.want {
			t.Errorf("error %v, want %s", err, test.want)
		}
	}
	for _, test := range []struct {
		columns int
		label   []float64
		name    string
		want    string
	}{
		{3, []float64{0, 3}, "labels", "a.npz: row 1: label 3 is outside 0 to 2"},
		{3, []float64{-1, 0}, "labels", "a.npz: row 0: label -1 is outside 0 to 2"},
		{3, []float64{0, 0.5}, "labels", "a.npz: row 1: label 0.5 is not a class number"},
		{3, []float64{0, 0}, "y", "a.npz: no array \"labels\"; found only logits (the file has logits, y)"},
		{1, []float64{0, 2, 0, 0, 0, 0}, "labels", "a.npz: row 1: label 2 is outside 0 to 1"},
	} {
		if _, _, _, err := Logits(writeArchive(t, logits, test.columns, test.label, test.name)); err == nil || err.Error() != test.want {
			t.Errorf("error %v, want %s", err, test.want)
		}
	}
}

func TestRadii(t *testing.T) {
	const text = "radius,confidence,correct\n0.5,0.5,1\n0.25,0.25,1\n0.5,0.75,0\n"
	half, none, between := 0.5, 0.75, 0.375
	chosen, err := SelectRadius(readText(t, text, Columns()), &half)
	if err != nil {
		t.Fatal(err)
	}
	if c, _ := chosen.Column("confidence"); !slices.Equal(c, []float64{0.5, 0.75}) {
		t.Errorf("confidences %v", c)
	}
	for _, test := range []struct {
		text       string
		wanted     *float64
		want, hint string // no error if both are empty
	}{
		{text, nil, "stdin: has rows of 2 radii: 0.25, 0.5", "each example has a row for each radius; choose one with radius"},
		{text, &none, "stdin: no rows with radius 0.75", "the radii are [0.25 0.5]"},
		{text, &between, "stdin: no rows with radius 0.375", "the radii are [0.25 0.5]"},
		{"confidence\n1\n", &half, "stdin: radius is given, but there is no column radius", ""},
		{"confidence\n1\n", nil, "", ""},
		{"radius\n0.5\n0.5\n", nil, "", ""},
		{"radius\n0\n-0\n", nil, "", ""},
		{"radius\n0\n-1\n", nil, "stdin:3: radius -1 is below 0", ""},
		{"radius\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n", nil, "stdin: has rows of 11 radii: 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …",
			"each example has a row for each radius; choose one with radius"},
	} {
		_, err := SelectRadius(readText(t, test.text, Columns()), test.wanted)
		if err == nil || test.want == "" {
			if err != nil || test.want != "" {
				t.Errorf("%q: error %v, want %q", test.text, err, test.want)
			}
			continue
		}
		advice, _ := hint.Of(err)
		if err.Error() != test.want || advice != test.hint {
			t.Errorf("%q: error %v, hint %q, want %s, %q", test.text, err, advice, test.want, test.hint)
		}
	}
}

// The test makes class-1 and top-label predictions from the same two-class outputs.
func TestQuantities(t *testing.T) {
	classOne, topLabel := calib.ClassOneQuantity, calib.TopLabelQuantity
	for _, test := range []struct {
		text       string
		want       *calib.Quantity
		confidence []float64
		correct    []bool
	}{
		{"score,label\n0.75,0\n0.25,0\n", nil, []float64{0.75, 0.25}, []bool{false, false}},
		{"score,label\n0.75,0\n0.25,0\n", &topLabel, []float64{0.75, 0.75}, []bool{false, true}},
		{"p0,p1,label\n0.25,0.75,0\n0.75,0.25,0\n", nil, []float64{0.75, 0.75}, []bool{false, true}},
		{"p0,p1,label\n0.25,0.75,0\n0.75,0.25,0\n", &classOne, []float64{0.75, 0.25}, []bool{false, false}},
	} {
		p, err := FromTable(readText(t, test.text, Columns()), test.want)
		if err != nil || !slices.Equal(p.Confidence, test.confidence) || !slices.Equal(p.Correct, test.correct) {
			t.Errorf("%q: %+v, %v", test.text, p, err)
			continue
		}
		// The answers must be the same for class-1 and for top-label predictions.
		if c, right := p.Answers(); !slices.Equal(c, []float64{0.75, 0.75}) || !slices.Equal(right, []bool{false, true}) || p.Accuracy() != 0.5 {
			t.Errorf("%q: answers %v %v, accuracy %v", test.text, c, right, p.Accuracy())
		}
	}
	for text, want := range map[string]string{
		"p0,p1,p2,label\n0,0,1,0\n":    "stdin: 3 classes: class-1 calibration is for two",
		"confidence,correct\n0.75,1\n": "stdin: confidence and correct say nothing about class 1: want score and label, or p0, p1 and label",
	} {
		if _, err := FromTable(readText(t, text, Columns()), &classOne); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestAttackedBy(t *testing.T) {
	clean := &calib.Predictions{Confidence: []float64{0.9, 0.8}, Correct: []bool{true, true}, Label: []int{1, 0}}
	attack := &calib.Predictions{Confidence: []float64{0.7, 0.6}, Correct: []bool{false, true}, Label: []int{1, 0}}
	got, err := AttackedBy(clean, attack)
	want := calib.Answers{Confidence: []float64{0.7, 0.6}, Right: []bool{false, true}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	clean.Index, attack.Index = []float64{4, 5}, []float64{5, 4}
	if _, err := AttackedBy(clean, attack); err == nil {
		t.Error("other examples")
	}
	attack.Index = []float64{4, 5}
	attack.Label = []int{0, 0}
	if _, err := AttackedBy(clean, attack); err == nil {
		t.Error("other labels")
	}
	attack.Confidence = attack.Confidence[:1]
	if _, err := AttackedBy(clean, attack); err == nil {
		t.Error("other rows")
	}
}

func TestOutputs(t *testing.T) {
	for text, want := range map[string]calibrator.Data{
		"score,label\n0.25,1\n":        {Input: calibrator.Probabilities, Columns: 1, Classes: 2, Values: []float64{0.25}, Label: []int{1}},
		"Logit;Label\n-Inf;0\n":        {Input: calibrator.Logits, Columns: 1, Classes: 2, Values: []float64{math.Inf(-1)}, Label: []int{0}},
		"p1,p0,p2\n0.25,0.5,0.25\n":    {Input: calibrator.Probabilities, Columns: 3, Classes: 3, Values: []float64{0.5, 0.25, 0.25}},
		"logit,score,label\n2,0.5,1\n": {Input: calibrator.Logits, Columns: 1, Classes: 2, Values: []float64{2}, Label: []int{1}},
	} {
		got, err := Outputs(readText(t, text, OutputColumns()))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"score,label\n0.25,2\n":  "stdin:2: label 2 is outside 0 to 1",
		"score,label\n1.25,1\n":  "stdin:2: score 1.25 is outside [0, 1]",
		"p0,p1\n40,60\n":         "stdin:2: probability 40 is outside [0, 1]",
		"p0,p1\n0.4,0.5\n":       "stdin:2: probabilities sum to 0.9, not 1",
		"logit,label\n+Inf,1\n":  "stdin:2: logit +Inf is not a number below infinity",
		"x,label\n1,1\n":         "stdin: want logits, or p0, p1, …, or score; found only label (the file has x, label)",
		"score,label\nNaN,0.5\n": "stdin:2: label 0.5 is not a class number",
	} {
		_, err := Outputs(readText(t, text, OutputColumns()))
		if err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if says, _ := hint.Of(err); strings.Contains(says, "percentages") != strings.Contains(want, "outside [0, 1]") {
			t.Errorf("%q: hint %q", text, says)
		}
	}
}

// With NoneIgnore, abstaining samples do not count against the answer. FromVotes must refuse votes of a deterministic
// run that stopped early.
func TestFromVotesByRule(t *testing.T) {
	votes := []certify.Votes{{Label: 1, N: 8, Counts: []int64{0, 3}, None: 5}, {Label: 1, N: 8, Counts: []int64{0, 4}, None: 4}}
	for rule, want := range map[certify.VoteRule][]bool{
		{}: {false, false}, {None: certify.NoneIgnore}: {true, true}, {Deterministic: true}: {false, true},
	} {
		if p, err := FromVotes("votes.jsonl", votes, rule); err != nil || !slices.Equal(p.Correct, want) {
			t.Errorf("%+v: %+v, %v; want %v", rule, p, err, want)
		}
	}
	votes[0].Stop, _ = certify.ParseStop("radius>=0.1")
	if _, err := FromVotes("votes.jsonl", votes, certify.VoteRule{Deterministic: true}); err == nil || !strings.Contains(err.Error(), "stopped early") {
		t.Errorf("votes before a stop: %v", err)
	}
}
