// Package predictions makes a classifier's predictions from tables with confidences, probabilities or scores, and from
// the votes of a run. An error about a row of a table names the file and the line. For a binary file, which has no
// lines, it names the row.
package predictions

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/table"
)

// These columns hold the answers under attack. The confidence-thresholded robust test error uses them.
const (
	adversarialConfidence = "adversarial_confidence"
	adversarialCorrect    = "adversarial_correct"
)

// probabilityColumn matches the columns of a probability vector, such as p0, prob_3, score12 or class7.
var probabilityColumn = regexp.MustCompile(`^(?:p|prob|probability|score|class)_?(\d+)$`)

// probabilityArrays lists the arrays of an npz archive that hold the probabilities of all classes.
var probabilityArrays = []string{"probabilities", "probs", "scores"}

// Columns returns the columns that FromTable, Attacked, ReadWeights, SelectRadius, SelectCertified and SelectUnfitted
// use.
func Columns() table.Options {
	return table.Options{
		Optional: []string{"index", "confidence", "correct", "score", "label", "labels", "weight", "weight_bound",
			"weight_estimated", "radius", "certified", "fitted",
			adversarialConfidence, adversarialCorrect},
		Match:    probabilityColumn.MatchString,
		Matrices: probabilityArrays,
	}
}

// ScoreColumns returns the columns of scores and labels. It does not return the columns with the probabilities of all
// classes.
func ScoreColumns() table.Options {
	return table.Options{Optional: []string{"index", "score", "label", "confidence", "correct", "fitted"}}
}

// BinaryColumns returns the columns that Scores uses.
func BinaryColumns() table.Options {
	o, all := ScoreColumns(), Columns()
	o.Optional, o.Match, o.Matrices = append(o.Optional, "labels"), all.Match, all.Matrices
	return o
}

// LogitColumns returns the columns that Logits uses.
func LogitColumns() table.Options {
	return table.Options{Optional: []string{"index", "logits", "logit", "labels", "label", "fitted"}, Matrices: []string{"logits"},
		AllowNonFinite: true}
}

// FromTable makes predictions from the columns 'confidence' and 'correct', or from probabilities and 'label', or from
// 'score' and 'label'. It also takes the column 'weight' if the table has one, and it checks the predictions. The
// argument 'want' selects the quantity of the predictions, class-1 or top-label. Some tables have all four columns
// 'score', 'label', 'confidence' and 'correct', but no column with the probabilities of a single class, such as p0.
// From such a table FromTable takes 'score' and 'label', as the function Scores does. If 'want' is top-label, FromTable
// takes 'confidence' and 'correct' instead. If 'want' is nil, the quantity is class-1 for 'score' and 'label', and
// top-label otherwise. An index that occurs twice is an error.
func FromTable(t *table.Table, want *calib.Quantity) (*calib.Predictions, error) {
	if err := checkIndex(t); err != nil {
		return nil, err
	}
	p, err := fromColumns(t, want)
	if err != nil {
		return nil, LocateRow(t, err)
	}
	p.Weight, _ = t.Column("weight")
	p.Index, _ = t.Column("index")
	if err := p.Check(); err != nil {
		return nil, LocateRow(t, err)
	}
	return p, nil
}

// checkIndex returns an error if two rows have the same index, because intervals and tests need independent examples.
func checkIndex(t *table.Table) error {
	index, _ := t.Column("index")
	seen := make(map[float64]bool, len(index))
	for i, x := range index {
		if seen[x] {
			return t.Errorf(i, "index %v appears twice: each example counts once", x)
		}
		seen[x] = true
	}
	return nil
}

func fromColumns(t *table.Table, want *calib.Quantity) (*calib.Predictions, error) {
	classOne := want != nil && *want == calib.ClassOneQuantity
	confidence, ok1 := t.Column("confidence")
	correct, ok2 := t.Column("correct")
	score, scored := t.Column("score")
	_, labelled := t.Column("label")
	columns, err := classColumns(t)
	if err != nil {
		return nil, err
	}
	scored = scored && len(columns) == 0 && (want == nil || classOne)
	if ok1 && ok2 && !(scored && labelled) {
		if classOne {
			return nil, errors.New("confidence and correct say nothing about class 1: want score and label, or p0, p1 and label")
		}
		right, err := booleans("correct", correct)
		return &calib.Predictions{Confidence: confidence, Correct: right}, err
	}
	label, err := labels(t)
	if err != nil {
		return nil, err
	}
	if scored {
		return calib.ClassOne(score, label)
	}
	probability, classes, err := probabilities(t)
	if err != nil {
		return nil, err
	}
	if classes == 0 {
		return nil, missingColumns(t)
	}
	p, err := calib.TopLabel(probability, classes, label)
	if err == nil && classOne {
		return SelectClassOne(p)
	}
	return p, err
}

// The function 'labels' returns the labels in the column 'label' or 'labels'.
func labels(t *table.Table) ([]int, error) {
	label, ok := t.Column(labelName(t))
	if !ok {
		return nil, missingColumns(t)
	}
	return classNumbers("label", label)
}

// SelectClassOne turns predictions of two classes into class-1 predictions.
func SelectClassOne(p *calib.Predictions) (*calib.Predictions, error) {
	switch {
	case p.Probability == nil:
		return nil, errors.New("no probabilities: class-1 calibration needs the probability of class 1")
	case p.Classes != 2:
		return nil, fmt.Errorf("%d classes: class-1 calibration is for two", p.Classes)
	}
	score := make([]float64, p.N())
	for i := range score {
		score[i] = p.Probability[2*i+1]
	}
	one, err := calib.ClassOne(score, p.Label)
	if err != nil {
		return nil, err
	}
	one.Index = p.Index
	return one, nil
}

func missingColumns(t *table.Table) error {
	return fmt.Errorf("want columns confidence and correct, or p0, p1, … and label, or score and label; found %s",
		listColumns(t))
}

// The function 'probabilities' returns the probability vectors [N×classes]. If the table has only a column 'score', the
// probabilities of two classes are 1−score and score. The result 'classes' is 0 if the table has no probabilities and
// no column 'score'.
func probabilities(t *table.Table) (probability []float64, classes int, err error) {
	for _, name := range probabilityArrays {
		if m, ok := t.Matrix(name); ok {
			return m.Data, m.Cols, nil
		}
	}
	columns, err := classColumns(t)
	if err != nil {
		return nil, 0, err
	}
	if score, ok := t.Column("score"); ok && len(columns) == 0 {
		probability = make([]float64, 0, 2*t.N)
		for _, x := range score {
			probability = append(probability, 1-x, x)
		}
		return probability, 2, nil
	}
	classes = len(columns)
	probability = make([]float64, t.N*classes)
	for k := range classes {
		c, ok := columns[k]
		if !ok {
			return nil, 0, fmt.Errorf("%d probability columns, but none for class %d", classes, k)
		}
		for i, x := range c {
			probability[i*classes+k] = x
		}
	}
	return probability, classes, nil
}

// classColumns returns, for each class, the column with the probabilities of this class.
func classColumns(t *table.Table) (map[int][]float64, error) {
	columns := map[int][]float64{}
	for _, name := range t.Names() {
		m := probabilityColumn.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		k, err := strconv.Atoi(m[1])
		if err != nil || columns[k] != nil {
			return nil, fmt.Errorf("column %s: class %s appears twice or is too large", name, m[1])
		}
		columns[k], _ = t.Column(name)
	}
	return columns, nil
}

// Scored holds a score for each row of a table, and what is known about the scores.
type Scored struct {
	Score []float64
	// If the score is the probability of class 1, Label is 1 in the rows of class 1 and 0 in all other rows. If the
	// score is the confidence in the answer, Label is 1 for right answers and 0 for wrong answers. Label is nil if the
	// labels are unknown.
	Label []float64
	// Names says what Score and Label mean. Names holds 'score' and 'label' if the score is the probability of class 1,
	// and otherwise 'confidence' and 'correct'.
	Names [2]string
	// Columns lists the columns of the file that hold the scores and the labels.
	Columns []string
	// Unused lists further columns of the file that hold scores and labels, but are not in Columns.
	Unused []string
}

// Quantity returns the quantity of the scores: class-1 if the score is the probability of class 1, and top-label
// otherwise.
func (s Scored) Quantity() calib.Quantity {
	if s.Names == scorePairs[0] {
		return calib.ClassOneQuantity
	}
	return calib.TopLabelQuantity
}

// scorePairs lists the pairs of columns that hold scores and labels.
var scorePairs = [2][2]string{{"score", "label"}, {"confidence", "correct"}}

// Scores returns the columns 'score' and 'label', or the columns 'confidence' and 'correct'. If the table has neither
// pair, Scores uses the probabilities of all classes and 'label'. With two classes, the score is then the probability
// of class 1, and Label says whether class 1 is right. With more classes, the score is the confidence in the most
// probable class, and Label says whether this class is right. An index that occurs twice is an error.
func Scores(t *table.Table) (Scored, error) {
	if err := checkIndex(t); err != nil {
		return Scored{}, err
	}
	if s := pairedScores(t); s.Score != nil {
		return s, nil
	}
	_, classes, err := probabilities(t)
	name := labelName(t)
	if err == nil && (classes == 0 || name == "") {
		err = fmt.Errorf("want columns score and label, or confidence and correct, or p0, p1, … and label; found %s", listColumns(t))
	}
	var label []int
	if err == nil {
		label, err = labels(t)
	}
	if err != nil {
		return Scored{}, LocateRow(t, err)
	}
	s, err := classedScores(t, label)
	s.Columns = append(s.Columns, name)
	return s, err
}

// ScoresOnly does the same as Scores, but the table may lack labels. Without labels, ScoresOnly takes the column
// 'score' or 'confidence', or the probabilities of all classes.
func ScoresOnly(t *table.Table) (Scored, error) {
	if err := checkIndex(t); err != nil {
		return Scored{}, err
	}
	if s := pairedScores(t); s.Score != nil {
		return s, nil
	}
	_, classes, err := probabilities(t)
	if err == nil && classes > 0 && labelName(t) != "" {
		return Scores(t)
	}
	for _, names := range scorePairs {
		if score, ok := t.Column(names[0]); ok {
			return Scored{Score: score, Names: names, Columns: names[:1]}, nil
		}
	}
	if err != nil {
		return Scored{}, LocateRow(t, err)
	}
	if classes == 0 {
		return Scored{}, fmt.Errorf("%s: want a column score or confidence, or p0, p1, …; found %s", t.Path, listColumns(t))
	}
	s, err := classedScores(t, make([]int, t.N)) // the labels are not used
	s.Label = nil
	return s, err
}

// pairedScores returns the scores of the first complete pair of columns, if the table has one.
func pairedScores(t *table.Table) (s Scored) {
	for _, names := range scorePairs {
		score, ok1 := t.Column(names[0])
		label, ok2 := t.Column(names[1])
		switch {
		case !ok1 || !ok2:
		case s.Score == nil:
			s = Scored{Score: score, Label: label, Names: names, Columns: slices.Clone(names[:])}
		default:
			s.Unused = append(s.Unused, names[:]...)
		}
	}
	if s.Score != nil && labelName(t) != "" {
		s.Unused = append(s.Unused, probabilityNames(t)...)
	}
	return s
}

// classedScores makes scores from the probabilities of all classes.
func classedScores(t *table.Table, label []int) (Scored, error) {
	probability, classes, err := probabilities(t)
	var p *calib.Predictions
	if err == nil {
		p, err = calib.TopLabel(probability, classes, label)
	}
	s := Scored{Names: scorePairs[1], Columns: probabilityNames(t)}
	if err == nil && classes == 2 {
		s.Names = scorePairs[0]
		p, err = SelectClassOne(p)
	}
	if err != nil {
		return s, LocateRow(t, err)
	}
	if len(s.Columns) == 0 { // the probabilities are from a column 'score'
		s.Columns = []string{scorePairs[0][0]}
	}
	s.Score, s.Label = p.Confidence, make([]float64, p.N())
	for i, right := range p.Correct {
		if right {
			s.Label[i] = 1
		}
	}
	return s, nil
}

// labelName returns the name of the column of labels, or "" if the table has none.
func labelName(t *table.Table) string {
	for _, name := range []string{"label", "labels"} {
		if _, ok := t.Column(name); ok {
			return name
		}
	}
	return ""
}

// probabilityNames returns the names of the columns, or of the array, that hold the probabilities of all classes.
func probabilityNames(t *table.Table) (names []string) {
	for _, name := range probabilityArrays {
		if _, ok := t.Matrix(name); ok {
			return []string{name}
		}
	}
	for _, name := range t.Names() {
		if probabilityColumn.MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

// ClassScores returns the probabilities of all classes [N×classes], row-major, and the labels.
func ClassScores(t *table.Table) (probability []float64, classes int, label []int, err error) {
	columns, err := classColumns(t)
	_, matrix, _ := probabilities(t)
	if err == nil && len(columns) == 0 {
		if _, scored := t.Column("score"); scored || matrix == 0 {
			err = fmt.Errorf("want the probabilities of all classes in columns p0, p1, …, and label; found %s", listColumns(t))
		}
	}
	if err == nil {
		label, err = labels(t)
	}
	if err == nil {
		probability, classes, err = probabilities(t)
	}
	if err == nil {
		_, err = calib.TopLabel(probability, classes, label)
	}
	if err != nil {
		return nil, 0, nil, LocateRow(t, err)
	}
	return probability, classes, label, nil
}

// Logits returns the array 'logits' [N×classes], row-major, and the labels, which are class numbers. A single column,
// [N] or [N, 1], is the log-odds of class 1 in a problem of two classes. Class 0 then gets the logit 0. A class with
// the logit −∞ has probability 0. The logit of a row's label must be finite. An index that occurs twice is an error.
func Logits(t *table.Table) (logits []float64, classes int, label []int, err error) {
	if err := checkIndex(t); err != nil {
		return nil, 0, nil, err
	}
	logits, classes, ok := logitArray(t)
	if !ok {
		return nil, 0, nil, fmt.Errorf("%s: logits: want an array [N, m] of m ≥ 2 classes, or [N] for two; found %s",
			t.Path, listColumns(t))
	}
	column, ok := t.Column("labels")
	if !ok {
		if column, ok = t.Column("label"); !ok {
			return nil, 0, nil, fmt.Errorf("%s: no array \"labels\"; found %s", t.Path, listColumns(t))
		}
	}
	if label, err = classNumbers("label", column); err != nil {
		return nil, 0, nil, LocateRow(t, err)
	}
	for i, y := range label {
		if y < 0 || y >= classes {
			return nil, 0, nil, t.Errorf(i, "label %d is outside 0 to %d", y, classes-1)
		}
		for k, z := range logits[i*classes : (i+1)*classes] {
			switch {
			case math.IsNaN(z) || math.IsInf(z, 1):
				return nil, 0, nil, t.Errorf(i, "logit %v is not a number below infinity", z)
			case math.IsInf(z, -1) && k == y:
				return nil, 0, nil, t.Errorf(i, "the logit of the label %d is -Inf: no map gives it a likelihood", y)
			}
		}
	}
	return logits, classes, label, nil
}

func logitArray(t *table.Table) (logits []float64, classes int, ok bool) {
	m, ok := t.Matrix("logits")
	if ok && m.Cols >= 2 {
		return m.Data, m.Cols, true
	}
	if !ok {
		for _, name := range []string{"logits", "logit"} {
			if column, there := t.Column(name); there {
				m, ok = table.Matrix{Rows: len(column), Cols: 1, Data: column}, true
			}
		}
	}
	for _, z := range m.Data {
		logits = append(logits, 0, z)
	}
	return logits, 2, ok
}

// HasAttacked reports whether the table has at least one of the two columns that Attacked reads.
func HasAttacked(t *table.Table) bool {
	_, ok1 := t.Column(adversarialConfidence)
	_, ok2 := t.Column(adversarialCorrect)
	return ok1 || ok2
}

// Attacked returns the answers under attack that a table holds in the columns adversarial_confidence and
// adversarial_correct.
func Attacked(t *table.Table) (calib.Answers, error) {
	confidence, ok1 := t.Column(adversarialConfidence)
	correct, ok2 := t.Column(adversarialCorrect)
	if !ok1 || !ok2 {
		return calib.Answers{}, fmt.Errorf("the input needs columns %s and %s", adversarialConfidence, adversarialCorrect)
	}
	right, err := booleans(adversarialCorrect, correct)
	if err != nil {
		return calib.Answers{}, LocateRow(t, err)
	}
	for i, c := range confidence {
		if !(c >= 0 && c <= 1) {
			return calib.Answers{}, LocateRow(t, calib.OutsideUnit(i, adversarialConfidence, c))
		}
	}
	return calib.Answers{Confidence: confidence, Right: right}, nil
}

// AttackedBy returns the answers of the predictions 'attack', which were made under an attack. It returns an error if
// the examples of 'attack' differ from the examples of the predictions 'clean'.
func AttackedBy(clean, attack *calib.Predictions) (calib.Answers, error) {
	if clean.N() != attack.N() {
		return calib.Answers{}, fmt.Errorf("%d rows, the clean predictions have %d", attack.N(), clean.N())
	}
	for i, y := range clean.Label {
		if attack.Label != nil && attack.Label[i] != y {
			return calib.Answers{}, fmt.Errorf("example %d has label %d, in the clean predictions %d: want the same examples in the same order",
				i, attack.Label[i], y)
		}
	}
	if clean.Index != nil && attack.Index != nil && !slices.Equal(clean.Index, attack.Index) {
		return calib.Answers{}, errors.New("the column index differs from the column index of the clean predictions: want the same examples in the same order")
	}
	return calib.AnswersOf(attack), nil
}

// FromVotes makes predictions whose probabilities are the shares of the votes. If votes for no class make the sum of
// the shares less than 1, the predictions have no probabilities. The confidence of each example is then the largest
// share of its votes. Error texts begin with the argument 'path'.
func FromVotes(path string, votes []certify.Votes, rule certify.VoteRule) (*calib.Predictions, error) {
	if len(votes) == 0 {
		return nil, fmt.Errorf("%s: no votes", path)
	}
	classes := len(votes[0].Counts)
	if slices.ContainsFunc(votes, func(v certify.Votes) bool { return len(v.Counts) != classes }) {
		return nil, fmt.Errorf("%s: the number of classes changes", path)
	}
	var probability []float64
	var label []int
	short := false
	for _, v := range votes {
		if !rule.Decides(v) {
			return nil, fmt.Errorf("%s: the run stopped early (%s): its evaluations are not a random sample, so they do not describe the classifier; run it without stop", path, v.Stop)
		}
		for _, c := range v.Counts {
			probability = append(probability, float64(c)/float64(v.N))
		}
		label = append(label, v.Label)
		short = short || !calib.SumToOne(1-float64(v.None)/float64(v.N), classes)
	}
	var p *calib.Predictions
	var err error
	if short {
		p, err = mostVoted(votes, rule)
	} else {
		p, err = calib.TopLabel(probability, classes, label)
	}
	var row *calib.RowError
	if errors.As(err, &row) {
		return nil, fmt.Errorf("%s: example %d: %s", path, votes[row.Row].Index, row.Reason)
	}
	if err != nil {
		return nil, err
	}
	for _, v := range votes {
		p.Index = append(p.Index, float64(v.Index))
	}
	return p, nil
}

// mostVoted makes predictions whose confidence is the largest share of the votes. An answer counts as wrong if "no
// class" wins by the rule.
func mostVoted(votes []certify.Votes, rule certify.VoteRule) (*calib.Predictions, error) {
	p := &calib.Predictions{}
	for i, v := range votes {
		if v.Label == certify.UnknownLabel {
			return nil, &calib.RowError{Row: i, Reason: "has no label"}
		}
		p.Confidence = append(p.Confidence, float64(slices.Max(v.Counts))/float64(v.N))
		p.Correct = append(p.Correct, rule.Right(v))
	}
	return p, p.Check()
}

// The function 'booleans' converts a column of 0 and 1.
func booleans(name string, column []float64) ([]bool, error) {
	out := make([]bool, len(column))
	for i, y := range column {
		if y != 0 && y != 1 {
			return nil, &calib.RowError{Row: i, Reason: fmt.Sprintf("%s %v is not 0 or 1", name, y)}
		}
		out[i] = y == 1
	}
	return out, nil
}

// classNumbers converts a column of whole numbers to class numbers of type int.
func classNumbers(name string, column []float64) ([]int, error) {
	out := make([]int, len(column))
	for i, y := range column {
		if y != math.Trunc(y) || math.Abs(y) > math.MaxInt32 {
			return nil, &calib.RowError{Row: i, Reason: fmt.Sprintf("%s %v is not a class number", name, y)}
		}
		out[i] = int(y)
	}
	return out, nil
}

// LocateRow adds the file and line to a *calib.RowError, and only the file to any other error. The new error has the
// hint of err.
func LocateRow(t *table.Table, err error) error {
	var row *calib.RowError
	if errors.As(err, &row) {
		located := t.Errorf(row.Row, "%s", row.Reason)
		if text, hinted := hint.Of(err); hinted {
			return hint.Add(located, "%s", text)
		}
		return located
	}
	return fmt.Errorf("%s: %w", t.Path, err)
}

// listColumns lists the columns of the file. The known columns come first.
func listColumns(t *table.Table) string {
	known := "none of them"
	if names := t.Names(); len(names) > 0 {
		known = "only " + strings.Join(names, ", ")
	}
	if header := t.Header(); len(header) > len(t.Names()) {
		known += fmt.Sprintf(" (the file has %s)", quote.Name(strings.Join(header, ", ")))
	}
	return known
}
