package experiment

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/spec"
)

// A reading is another interpretation of the data: another layout, order or scale of the values.
type reading struct {
	what param.Text
	feed normalisation
}

// readingLevel is the significance level of the test in the function 'better'. The p-value of each reading is first
// multiplied by the number of readings (Bonferroni's correction).
const readingLevel = 0.001

// judgeReadings runs the model on the examples in the other layout, if the layout matters. If the layout is CHW, the
// other layout is HWC, and vice versa. If the model may have been fitted to bytes, judgeReadings compares how many
// answers are right with values in [0,1] and with whole numbers from 0 to 255 (judgeBytes). If more than a twentieth of
// the answers are wrong, it also tries other scales and orders of the values. The set-up is suspect if clearly more
// answers are right under one of these readings (see the function 'better').
func (e *Experiment) judgeReadings(ctx context.Context, x looked) (layout, scale Finding, err error) {
	text, matters := e.layoutText()
	layout, scale = Finding{AspectLayout, Fine, text}, e.judgeRange(x)
	deadline := time.Now().Add(lookTime)
	if matters {
		other := reading{param.Textf("%s %s", param.Layout, otherLayout(e.Spec.Layout)), e.rearranged(*e.other)}
		answers, err := e.answers(ctx, x, other, deadline)
		if err != nil {
			return layout, scale, err
		}
		right, now := compared(x, answers)
		layout.Text = param.Textf("%s; %s if %s", text, percent(now, len(answers)), otherLayout(e.Spec.Layout))
		if better(x, answers, 1) {
			layout.Outcome = Suspect
			layout.Text = param.Textf("%s: the model is right on %s, and on %s if %s (%s %s)", text,
				percent(right, len(answers)), percent(now, len(answers)), otherLayout(e.Spec.Layout), param.Layout, otherLayout(e.Spec.Layout))
		}
	}
	if e.maybeFittedToBytes() {
		if scale, err = e.judgeBytes(ctx, x, deadline); err != nil {
			return layout, scale, err
		}
	}
	if right, _ := agreement(x.predicted, x.labels, nil); 20*right >= 19*len(x.labels) {
		return layout, scale, nil
	}
	found, err := e.bestReading(ctx, x, deadline)
	if err == nil && found != nil {
		if scale.Outcome == Suspect {
			found.Text = param.Textf("%s; %s", scale.Text, found.Text)
		}
		scale = *found
	}
	return layout, scale, err
}

// judgeBytes runs the model on values in [0,1] and on whole numbers from 0 to 255, and compares how many answers are
// right. The set-up is suspect if clearly more answers are right with the whole numbers than with the values in [0,1].
// It is also suspect if neither kind of values is clearly better and most answers to values in [0,1] are wrong.
func (e *Experiment) judgeBytes(ctx context.Context, x looked, deadline time.Time) (Finding, error) {
	asBytes := reading{feed: e.normalised(e.noise.Arrangement, e.noise.mean, []float64{1 / 255.})}
	answers, err := e.answers(ctx, x, asBytes, deadline)
	if err != nil {
		return Finding{}, err
	}
	n := len(answers)
	right, now := compared(x, answers)
	said := param.Textf("the model is right on %s with values in [0,1], and on %s with whole numbers from 0 to 255", percent(right, n), percent(now, n))
	swapped := x
	swapped.predicted = answers
	switch {
	case better(x, answers, 1):
		return Finding{AspectScale, Suspect, param.Textf("%s; %s", said, fittedToBytes())}, nil
	case better(swapped, x.predicted[:n], 1):
		return Finding{AspectScale, Fine, said}, nil
	case 2*right < n:
		return Finding{AspectScale, Suspect, fittedToBytes()}, nil
	}
	return Finding{AspectScale, Unsure, param.Textf("%s; %s", said, fittedToBytes())}, nil
}

// bestReading runs the model on the data in each interpretation (reading) that e.readings lists. It considers the
// readings under which clearly more answers are right than for the data as given. Among them, it chooses the reading
// with the most right answers, and returns a finding about it. If there is no such reading, bestReading returns nil.
func (e *Experiment) bestReading(ctx context.Context, x looked, deadline time.Time) (*Finding, error) {
	var found *Finding
	best := 0
	all := e.readings(x)
	for _, r := range all {
		answers, err := e.answers(ctx, x, r, deadline)
		if err != nil {
			return nil, err
		}
		if right, now := compared(x, answers); now > best && better(x, answers, len(all)) {
			best = now
			found = &Finding{AspectScale, Suspect, param.Textf("the model is right on %s, and on %s if %s",
				percent(right, len(answers)), percent(now, len(answers)), r.what)}
		}
	}
	return found, nil
}

// The function 'compared' counts right answers. The result 'right' counts the right answers for the data as given. The
// result 'now' counts the right answers under a reading, which is another interpretation of the data (see the type
// 'reading').
func compared(x looked, answers []int) (right, now int) {
	n := len(answers)
	right, _ = agreement(x.predicted[:n], x.labels[:n], nil)
	now, _ = agreement(answers, x.labels[:n], nil)
	return right, now
}

// The function 'better' compares the answers under a reading (another interpretation of the data) with the answers for
// the data as given. It reports whether clearly more answers are right under the reading. It uses McNemar's exact test.
// The argument 'readings' is the number of readings that are tested.
func better(x looked, answers []int, readings int) bool {
	var lost, gained int64
	for i, k := range answers {
		switch was, is := x.predicted[i] == x.labels[i], k == x.labels[i]; {
		case was && !is:
			lost++
		case is && !was:
			gained++
		}
	}
	return gained > lost && float64(readings)*binomial.McNemar(lost, gained) < readingLevel
}

// The method 'answers' returns the model's answers if the data are interpreted as the reading r says. At the deadline,
// it stops and returns the answers that it has so far.
func (e *Experiment) answers(ctx context.Context, x looked, r reading, deadline time.Time) ([]int, error) {
	var failed error
	fill := func(i int, to []float32) {
		example, err := e.data.Example(x.positions[i])
		if err != nil {
			failed = err
			return
		}
		r.feed.feed(to, example.Values)
	}
	votes, err := classify(ctx, e.model, len(x.positions), e.model.InputLen(), time.Until(deadline), fill)
	if failed != nil {
		return nil, spec.BadInput(failed)
	}
	return votes, err
}

// The method 'rearranged' returns the experiment's normalisation for another arrangement of the values.
func (e *Experiment) rearranged(a graph.Arrangement) normalisation {
	return e.normalised(a, e.noise.mean, e.noise.std)
}

// The method 'normalised' returns a normalisation with the given mean and std. Each of them holds one value, or one
// value per channel.
func (e *Experiment) normalised(a graph.Arrangement, mean, std []float64) normalisation {
	n := normalisation{Arrangement: a}
	for j := range e.model.InputLen() {
		c := a.Channel(j)
		n.mean = append(n.mean, float32(channelValue(mean, c, 0)))
		n.std = append(n.std, float32(channelValue(std, c, 1)))
	}
	return n
}

// channelValue returns the value of a channel, or the argument 'absent' if there are no values.
func channelValue(values []float64, channel int, absent float64) float64 {
	switch len(values) {
	case 0:
		return absent
	case 1:
		return values[0]
	}
	return values[channel]
}

// usualScales lists common normalisations of values in [0,1]. The field 'channels' is the number of channels that the
// input must have; 0 means any number.
var usualScales = []struct {
	what      string
	mean, std []float64
	channels  int
}{
	{"the model takes values in [−1,1]", []float64{.5}, []float64{.5}, 0},
	{"the model takes ImageNet's normalisation", []float64{.485, .456, .406}, []float64{.229, .224, .225}, 3},
	{"the model takes CIFAR-10's normalisation", []float64{.4914, .4822, .4465}, []float64{.2023, .1994, .2010}, 3},
	{"the model takes CIFAR-10's mean and std", []float64{.4914, .4822, .4465}, []float64{.2471, .2435, .2616}, 3},
	{"the model takes MNIST's normalisation", []float64{.1307}, []float64{.3081}, 1},
}

// The method 'readings' lists other scales of the data, and other orders of an image's channels, rows and columns.
func (e *Experiment) readings(x looked) []reading {
	if e.noise.bytes || e.denoiser != nil || e.Spec.Scaled() {
		return nil // nothing to try: the model takes bytes or has a denoiser, or each column has its own σ
	}
	a, mean, std := e.noise.Arrangement, e.noise.mean, e.noise.std
	var all []reading
	add := func(what param.Text, mean, std []float64) {
		all = append(all, reading{what, e.normalised(a, mean, std)})
	}
	if len(mean)+len(std) > 0 {
		add(param.Textf("%s and %s are left out", param.Mean, param.Std), nil, nil)
	}
	if high := float64(x.high); high > 1.5 {
		add(param.Textf("the values are divided by %v, so that they are in [0,1]", high), nil, []float64{high})
	} else {
		add(param.Textf("the model takes values from 0 to 255 (%s %v)", param.Std, 1/255.), nil, []float64{1 / 255.})
		for _, s := range usualScales {
			if s.channels == 0 || s.channels == a.Channels {
				add(param.Textf("%s (%s %s %s %s)", s.what, param.Mean, commas(s.mean), param.Std, commas(s.std)), s.mean, s.std)
			}
		}
		add(param.Textf("the values are 1 − x (black and white exchanged)"), []float64{1}, []float64{-1})
	}
	return append(all, e.imageReadings()...)
}

// The function 'commas' writes numbers in the form of a parameter's value, for example 0.5,0.25.
func commas(numbers []float64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(numbers), " ", ","), "[]")
}

// imageReadings lists other orders of an image's channels, rows and columns.
func (e *Experiment) imageReadings() (all []reading) {
	shape, ok := e.imageShape()
	if !ok {
		return nil
	}
	a := e.noise.Arrangement
	add := func(what string, from func(c, row, column int) (int, int, int)) {
		all = append(all, reading{param.Textf("%s", what), e.rearranged(a.Reindexed(shape, from))})
	}
	if shape[0] == 3 {
		add("the channels are in the order blue, green, red (BGR)", func(c, i, j int) (int, int, int) { return 2 - c, i, j })
	}
	if shape[1] == shape[2] {
		add("rows and columns are exchanged (transposed images)", func(c, i, j int) (int, int, int) { return c, j, i })
	}
	return all
}

// imageShape returns the shape [C,H,W] of the examples, if they are images with channels first.
func (e *Experiment) imageShape() (shape []int, ok bool) {
	shape = e.data.Shape()
	return shape, len(shape) == 3 && (shape[0] == 1 || shape[0] == 3)
}
