package experiment

import (
	"context"
	"fmt"
	"slices"

	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/warning"
)

// Finding is what Look found about one aspect of the set-up.
type Finding struct {
	Aspect  Aspect
	Outcome Outcome
	Text    param.Text
}

// Aspect is an aspect of the set-up that Look judges.
type Aspect string

// Aspects of the set-up, in the order in which Look reports them.
const (
	AspectLayout   Aspect = "layout"   // order of the values of an image
	AspectScale    Aspect = "scale"    // units of the values
	AspectClasses  Aspect = "classes"  // labels of the data, compared with the classes of the model
	AspectOrder    Aspect = "labels"   // order of the labels, compared with the order of the classes
	AspectAccuracy Aspect = "accuracy" // accuracy without noise, compared with chance
)

// The method 'code' returns the warning code for problems of this aspect.
func (a Aspect) code() warning.Code {
	switch a {
	case AspectLayout:
		return warning.SuspectLayout
	case AspectScale:
		return warning.SuspectScale
	case AspectClasses, AspectOrder:
		return warning.SuspectLabels
	default:
		return warning.NearChance
	}
}

// Outcome is the outcome of a test of the set-up.
type Outcome string

// Outcomes of a test.
const (
	Fine    Outcome = "ok"      // the test found no problem
	Unsure  Outcome = "unsure"  // there are too few examples, or the user must decide
	Suspect Outcome = "suspect" // the set-up is probably wrong
)

// Worst returns the worst of the given outcomes, or Fine if there are none.
func Worst(outcomes ...Outcome) Outcome {
	for _, o := range []Outcome{Suspect, Unsure} {
		if slices.Contains(outcomes, o) {
			return o
		}
	}
	return Fine
}

// Sentence says what o means for the set-up if o is the worst outcome of all tests.
func (o Outcome) Sentence() string {
	switch o {
	case Fine:
		return "model and data fit each other"
	case Unsure:
		return "no mistake found; some tests could not decide"
	default:
		return "something is probably wrong with the set-up"
	}
}

// judge returns the findings about the set-up. It derives them from the model's answers without noise.
func (e *Experiment) judge(ctx context.Context, x looked) ([]Finding, error) {
	n := len(x.predicted)
	x.labels, x.positions = x.labels[:n], x.positions[:n]
	m := e.model.Classes()
	layout, scale, err := e.judgeReadings(ctx, x)
	if err != nil {
		return nil, err
	}
	order := judgeOrder(x.predicted, x.labels)
	level := judgeAccuracy(x.predicted, x.labels, m)
	if level.Outcome == Unsure {
		level.Text = param.Textf("%s%s", level.Text, e.loneHint())
	}
	if level.Outcome == Suspect {
		level.Text = param.Textf("%s: do %s and %s, %s, the labels and their order fit the model?%s", level.Text, param.Mean, param.Std, param.Layout, e.loneHint())
	}
	return []Finding{layout, scale, judgeClasses(x.predicted, x.labels, m), order, level}, nil
}

// judgeUnlabelled judges the set-up if the examples have no labels.
func (e *Experiment) judgeUnlabelled(x looked) []Finding {
	layout, _ := e.layoutText()
	return []Finding{
		{AspectLayout, Unsure, param.Textf("%s; without labels, nothing tells whether this is right", layout)},
		e.judgeRange(x),
		{AspectAccuracy, Unsure, param.Textf("the data have no labels")},
	}
}

// loneHint returns a hint for a model that returns one number per sample.
func (e *Experiment) loneHint() string {
	if !e.model.Lone() {
		return ""
	}
	return " (its one number per sample counts as a score of class 1: is the model a regressor?)"
}

// nearChance reports whether the findings say that the accuracy is near chance.
func nearChance(findings []Finding) bool {
	return slices.ContainsFunc(findings, func(f Finding) bool { return f.Aspect == AspectAccuracy && f.Outcome == Suspect })
}

// percent formats a share of n examples. It rounds down, like the tables of results.
func percent(right, n int) string {
	thousandths := 1000 * right / max(1, n)
	return fmt.Sprintf("%d.%d %%", thousandths/10, thousandths%10)
}
