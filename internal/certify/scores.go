package certify

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
)

// A ScoreCertifier turns scores sampled under noise into certificates. Several goroutines may use it at once. It caches
// results that several examples need.
type ScoreCertifier struct {
	params ScoreParams
	method method

	mu     sync.Mutex
	levels map[levelKey]func() lowerMean
}

// levelKey identifies a prepared bound on a mean. Several examples can share a prepared bound.
type levelKey struct {
	bound MeanBound
	n     int64
	alpha float64
}

// NewScoreCertifier returns a certifier for p.
func NewScoreCertifier(p ScoreParams) (*ScoreCertifier, error) {
	if err := p.complete(); err != nil {
		return nil, err
	}
	return &ScoreCertifier{params: p, method: p.method(), levels: make(map[levelKey]func() lowerMean)}, nil
}

func (c *ScoreCertifier) start(bound MeanBound, n int64, alpha float64) lowerMean {
	key := levelKey{bound, n, alpha}
	c.mu.Lock()
	defer c.mu.Unlock()
	start := c.levels[key]
	if start == nil {
		start = meanBounds.do(bound)(n, alpha)
		c.levels[key] = start
	}
	return start()
}

// Agrees returns an error if c could not have made cert, for example because cert has another α or another method. The
// error names what differs.
func (c *ScoreCertifier) Agrees(cert Certificate) error {
	t, m := c.params.ClassTarget(), c.params.method()
	switch {
	case cert.Method != m.name || cert.Sound != m.sound:
		return fmt.Errorf("its method is %s (sound: %v), the run's %s (sound: %v)", cert.Method, cert.Sound, m.name, m.sound)
	case cert.Alpha != t.Alpha:
		return fmt.Errorf("its alpha is %v, the run's %v", cert.Alpha, t.Alpha)
	case cert.MarginKind != t.Margin || cert.Lipschitz != t.Lipschitz:
		return fmt.Errorf("its margin is the %s (lipschitz %v), the run's the %s (lipschitz %v)", cert.MarginKind, cert.Lipschitz, t.Margin, t.Lipschitz)
	case cert.Law != t.Law || cert.Norm != t.Law.Law().Norm():
		return fmt.Errorf("it is of %s noise in the %s norm, the run of %s noise", cert.Law, cert.Norm, t.Law)
	case cert.Scaled != t.Scaled:
		return errScaled(cert.Scaled)
	case cert.Precision != t.Precision:
		return fmt.Errorf("its precision is %q, the run's %q", cert.Precision, t.Precision)
	case cert.Arithmetic != t.Arithmetic:
		return fmt.Errorf("its arithmetic is %s, the run's %s", cert.Arithmetic, t.Arithmetic)
	case cert.Radius > lessQuantisation(t.Radius(cert.Margin), cert.Quantisation)*(1+2.1e-8):
		// The factor 1 + 2.1e-8 is needed because the radius, the margin and the quantisation are rounded to nine
		// digits each.
		return fmt.Errorf("its radius %v does not follow from its margin %v", cert.Radius, cert.Margin)
	case cert.N < 1 || !(cert.Quantisation >= 0) || !(cert.Radius >= 0) || !(cert.Margin >= 0):
		return fmt.Errorf("its n is %d, its quantisation %v, its radius %v and its margin %v", cert.N, cert.Quantisation, cert.Radius, cert.Margin)
	}
	want := t.certificate(m, cert.Index, cert.Label, Abstained, cert.N, cert.Quantisation, marginBound{bounds: cert.Bounds})
	if cert.Prediction != Abstained {
		want.Prediction, want.Correct, want.Radius, want.Margin = cert.Prediction, cert.Prediction == cert.Label, cert.Radius, cert.Margin
		want.Steps = t.steps(want)
		want = want.AsStated(cert)
	}
	if keys := differentKeys(cert, want); len(keys) > 0 {
		return fmt.Errorf("the run has no certificate with its %s", strings.Join(keys, ", "))
	}
	return nil
}

// AgreesWith does the same as Agrees. It also compares the certificate with the votes of its example. If the votes hold
// counts, the predicted class must be one of the counted classes.
func (c *ScoreCertifier) AgreesWith(v Votes, cert Certificate) error {
	switch {
	case cert.Index != v.Index || cert.Label != v.Label:
		return fmt.Errorf("it is of example %d with label %d, the votes of example %d with label %d", cert.Index, cert.Label, v.Index, v.Label)
	case cert.N != v.N:
		return fmt.Errorf("its n is %d, that of its votes %d", cert.N, v.N)
	case cert.Quantisation != v.Quantisation:
		return fmt.Errorf("its quantisation is %v, that of its votes %v", cert.Quantisation, v.Quantisation)
	case cert.Prediction < Abstained || len(v.Counts) > 0 && cert.Prediction >= len(v.Counts):
		return fmt.Errorf("its prediction %d is not one of the %d classes", cert.Prediction, len(v.Counts))
	}
	return c.Agrees(cert)
}

// differentKeys returns, in alphabetical order, the JSON keys whose values differ between two certificates.
func differentKeys(a, b Certificate) []string {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	if err := errors.Join(err1, err2); err != nil {
		return []string{err.Error()}
	}
	if string(x) == string(y) {
		return nil
	}
	var one, other map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(x, &one), json.Unmarshal(y, &other)); err != nil {
		return []string{err.Error()}
	}
	differ := map[string]bool{}
	for _, of := range []map[string]json.RawMessage{one, other} {
		for key := range of {
			if string(one[key]) != string(other[key]) {
				differ[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(differ))
}

// ScoreExample is an example to be sampled.
type ScoreExample struct {
	Index   int
	Label   int // true class, or UnknownLabel
	Classes int // number of classes m
	// N0 and N are the numbers of selection and of estimation samples, fixed before sampling.
	N0, N int64
	// Quantisation is the loss of radius from rounding the input to a lattice.
	Quantisation float64
}

// ScoreAccumulator takes the scores of one example, one sample at a time. Its memory does not grow with N. Only one
// goroutine may use it at a time.
type ScoreAccumulator struct {
	example   ScoreExample
	certifier *ScoreCertifier

	seen0, seen int64
	first       []float32 // scores of the first selection samples, m for each sample
	sums        []float64 // sums of the selection samples' scores [m]

	class  int // the chosen class, called A; −1 until the selection is over
	rivals []rival
	lower  lowerMean // bounds the mean of X^A; nil unless Combine.separate is true
	// intervals bound the mean score of A and, if the label is another class, the mean score of the label.
	intervals []classInterval
}

// rival is a class or a set of classes compared with A.
type rival struct {
	class  int // −1 stands for all classes that are neither A nor the class of another rival
	weight float64
	stream lowerMean
	taylor lowerMean
}

// maxFirst is the largest number of selection samples whose scores an accumulator keeps. chooseWeight chooses the
// weights from these scores.
const maxFirst = 1024

// Start returns an accumulator for the example e. If the target's Class is Predicted, the example needs selection
// samples.
func (c *ScoreCertifier) Start(e ScoreExample) (*ScoreAccumulator, error) {
	switch {
	case e.Classes < 2:
		return nil, fmt.Errorf("scores have %d classes, want at least 2", e.Classes)
	case e.N < 1:
		return nil, fmt.Errorf("n is %d, want at least 1", e.N)
	case e.N > MaxVotes:
		return nil, fmt.Errorf("n is %d, above %d", e.N, int64(MaxVotes))
	case e.N0 < 0:
		return nil, fmt.Errorf("n0 is %d, want at least 0", e.N0)
	case e.Label < UnknownLabel || e.Label >= e.Classes:
		return nil, fmt.Errorf("label %d is not one of the %d classes", e.Label, e.Classes)
	case !(e.Quantisation >= 0) || math.IsInf(e.Quantisation, 1):
		return nil, fmt.Errorf("quantisation %v is not a number from 0", e.Quantisation)
	case c.params.Class == Predicted && e.N0 == 0:
		return nil, ErrNoSelection
	case c.params.Class == Label && e.Label == UnknownLabel:
		return nil, ErrNoLabel
	}
	return &ScoreAccumulator{example: e, certifier: c, sums: make([]float64, e.Classes), class: -1}, nil
}

// ScoreError reports a row of scores that are not probabilities.
type ScoreError struct {
	Phase  string // "selection" or "estimation"
	Sample int64
	Reason string
}

func (e *ScoreError) Error() string {
	return fmt.Sprintf("%s sample %d: %s", e.Phase, e.Sample, e.Reason)
}

// sumTolerance is the largest accepted deviation of a row's sum from 1. If a model computes in float16, its sums differ
// from 1 by about 10⁻³.
const sumTolerance = 1e-2

// rowScale checks a row of probabilities and returns the factor that normalises it: 1, or 1/sum if the sum is above 1.
// Directed and Projected require X^A + X^B ≤ 1 for the scores of two classes. After normalisation this holds, up to
// rounding. A row of zeros is a sample without an answer (ClearNone), so mean scores may sum to any number below 1. All
// methods here need only that this sum is ≤ 1.
func rowScale(row []float32) (float64, string) {
	var sum float64
	for class, p := range row {
		if !(p >= 0 && p <= 1+sumTolerance) { // the mean over a forest's trees may exceed 1 by a rounding error
			return 0, fmt.Sprintf("score %v of class %d is not a probability", p, class)
		}
		sum += float64(p)
	}
	if sum == 0 {
		return 1, ""
	}
	if !(math.Abs(sum-1) <= sumTolerance) {
		return 0, fmt.Sprintf("the scores sum to %v, not 1", sum)
	}
	if sum > 1 {
		return 1 / sum, ""
	}
	return 1, ""
}

// Selection takes the probabilities [k·m] of the m classes in the next k selection samples.
func (a *ScoreAccumulator) Selection(probs []float32) error {
	m := a.example.Classes
	for ; len(probs) >= m; probs = probs[m:] {
		if a.seen0 == a.example.N0 {
			return fmt.Errorf("more than n0 = %d selection samples", a.example.N0)
		}
		row := probs[:m]
		scale, reason := rowScale(row)
		if reason != "" {
			return &ScoreError{"selection", a.seen0, reason}
		}
		for class, p := range row {
			a.sums[class] += float64(float64(p) * scale)
		}
		if a.seen0 < maxFirst {
			a.first = append(a.first, row...)
		}
		a.seen0++
	}
	return nil
}

// Estimation takes the probabilities [k·m] of the next k estimation samples. Call it after all selection samples were
// taken. The order of the estimation samples must be fixed beforehand. The samples may be split over several calls in
// any way.
func (a *ScoreAccumulator) Estimation(probs []float32) error {
	if a.class < 0 {
		if err := a.chooseByScores(); err != nil {
			return err
		}
	}
	m := a.example.Classes
	for ; len(probs) >= m; probs = probs[m:] {
		if a.seen == a.example.N {
			return fmt.Errorf("more than n = %d estimation samples", a.example.N)
		}
		row := probs[:m]
		scale, reason := rowScale(row)
		if reason != "" {
			return &ScoreError{"estimation", a.seen, reason}
		}
		a.estimate(row, scale)
		a.seen++
	}
	return nil
}

// Choose ends the selection and fixes the class. It returns an error unless ClassByVotes is set. The argument 'class'
// is the class with the most votes of the selection samples, or the label.
func (a *ScoreAccumulator) Choose(class int) error {
	switch {
	case !a.certifier.params.ClassByVotes:
		return errors.New("the scores choose the class, not the votes")
	case class < 0 || class >= a.example.Classes:
		return fmt.Errorf("class %d is not one of the %d classes", class, a.example.Classes)
	}
	return a.settle(class)
}

// chooseByScores ends the selection. If the target's Class is Predicted, it chooses the class with the largest sum of
// scores. Otherwise it chooses the label.
func (a *ScoreAccumulator) chooseByScores() error {
	class := a.example.Label
	switch {
	case a.certifier.params.ClassByVotes:
		return errors.New("the class that the votes elect is not known yet")
	case a.certifier.params.Class == Predicted:
		class = argMaxScore(a.sums, -1)
	}
	return a.settle(class)
}

// settle ends the selection: it fixes the class and its rivals.
func (a *ScoreAccumulator) settle(class int) error {
	if a.seen0 != a.example.N0 {
		return fmt.Errorf("%d of n0 = %d selection samples", a.seen0, a.example.N0)
	}
	a.class = class
	if !a.certifier.params.ClassByVotes {
		a.chooseRivals()
	}
	a.startIntervals()
	a.first = nil
	return nil
}

// chooseRivals fixes the class's rivals and their weights.
func (a *ScoreAccumulator) chooseRivals() {
	others := rival{class: -1, weight: 1}
	p := a.certifier.params
	switch {
	case p.Combine == BonferroniClassScores:
		for class := range a.example.Classes {
			if class != a.class {
				a.rivals = append(a.rivals, rival{class: class, weight: 1})
			}
		}
	case a.example.Classes == 2:
		a.rivals = []rival{{class: 1 - a.class, weight: 1}}
	case a.example.N0 == 0:
		a.rivals = []rival{others}
	default:
		a.rivals = []rival{{class: argMaxScore(a.sums, a.class), weight: 1}, others}
	}
	alpha := p.ClassTarget().level()
	if p.Combine == Directed && p.Margin == SecondMargin {
		for i := range a.rivals {
			a.rivals[i].weight = a.chooseWeight(i, alpha)
		}
	}
	if p.Combine.separate() {
		a.lower = a.certifier.start(p.Bound, a.example.N, a.bonferroniAlpha())
	}
	for i := range a.rivals {
		rivalAlpha := alpha
		if a.lower != nil {
			rivalAlpha = a.bonferroniAlpha()
		}
		a.rivals[i].stream = a.certifier.start(p.Bound, a.example.N, rivalAlpha)
		if p.Combine == Taylor {
			a.rivals[i].taylor = a.certifier.start(p.Bound, a.example.N, alpha/2)
		}
	}
}

// bonferroniAlpha is the failure probability of each separate bound: α/2 for BonferroniScores, and α/m for
// BonferroniClassScores. With Taylor it is α/4, because the bound on the mean of the Taylor samples uses the other half
// of α.
func (a *ScoreAccumulator) bonferroniAlpha() float64 {
	alpha := a.certifier.params.ClassTarget().level()
	switch a.certifier.params.Combine {
	case BonferroniClassScores:
		return alpha / float64(a.example.Classes)
	case Taylor:
		return alpha / 4
	}
	return alpha / 2
}

// argMaxScore returns the class with the largest sum, or the lowest such class in a tie. It ignores the class 'except'.
func argMaxScore(sums []float64, except int) int {
	best := -1
	for class, s := range sums {
		if class != except && (best < 0 || s > sums[best]) {
			best = class
		}
	}
	return best
}

// chooseWeight chooses the weight of rival i from the kept selection samples.
func (a *ScoreAccumulator) chooseWeight(i int, alpha float64) float64 {
	if len(a.first) == 0 {
		return 1
	}
	var xa, xb []float64
	for rows := a.first; len(rows) > 0; rows = rows[a.example.Classes:] {
		row := rows[:a.example.Classes]
		scale, _ := rowScale(row)
		xa = append(xa, float64(row[a.class])*scale)
		xb = append(xb, float64(a.rivalScore(i, row))*scale)
	}
	return weight(a.certifier.params.additive(), xa, xb, a.example.N, alpha)
}

// rivalScore returns the score of rival i. The argument 'row' holds the scores of all classes for one sample. If the
// rival is a set of classes, its score is the largest score of these classes.
func (a *ScoreAccumulator) rivalScore(i int, row []float32) float32 {
	if class := a.rivals[i].class; class >= 0 {
		return row[class]
	}
	single := -1
	if len(a.rivals) > 1 {
		single = a.rivals[0].class
	}
	var most float32
	for class, p := range row {
		if p > most && class != a.class && class != single {
			most = p
		}
	}
	return most
}

func (a *ScoreAccumulator) estimate(row []float32, scale float64) {
	p := &a.certifier.params
	for i := range a.intervals {
		a.intervals[i].add(float64(float64(row[a.intervals[i].class]) * scale))
	}
	xa := float64(float64(row[a.class]) * scale)
	if a.lower != nil {
		a.lower.add(xa)
	}
	for i := range a.rivals {
		r := &a.rivals[i]
		xb := float64(float64(a.rivalScore(i, row)) * scale)
		switch p.Combine {
		case Directed, Projected:
			// The sample is in [0,1] because both scores are in [0,1]. Rounding does not move it above 1.
			r.stream.add((xa - float64(r.weight*xb) + r.weight) / (1 + r.weight))
		case Taylor:
			r.taylor.add(taylorSample(xa, xb))
			fallthrough
		case BonferroniScores, BonferroniClassScores:
			r.stream.add(1 - xb)
		}
	}
}

// Certificate returns the certificate from the N samples.
func (a *ScoreAccumulator) Certificate() (Certificate, error) {
	if a.seen != a.example.N {
		return Certificate{}, fmt.Errorf("%d of n = %d estimation samples", a.seen, a.example.N)
	}
	p := a.certifier.params
	if p.ClassByVotes {
		return Certificate{}, errors.New("the class is certified by its votes")
	}
	e := a.example
	return p.ClassTarget().certificate(a.certifier.method, e.Index, e.Label, a.class, e.N, e.Quantisation, a.bound()), nil
}

// The method 'bound' bounds the margin against each rival and returns the least of these bounds.
func (a *ScoreAccumulator) bound() marginBound {
	best := marginBound{margin: math.Inf(1)}
	for _, r := range a.rivals {
		if b := a.boundRival(r); b.margin < best.margin {
			best = b
		}
	}
	return best
}

// sampleSlack covers two errors of a weighted sample (X^A − rX^B + r)/(1 + r). First, the computation has four
// roundings, each with a relative error of at most 'unit'. Second, X^A + X^B can be up to 1 + 2·unit instead of 1.
const sampleSlack = 16 * unit

// boundRival bounds the margin against one rival.
func (a *ScoreAccumulator) boundRival(r rival) marginBound {
	p := a.certifier.params
	switch p.Combine {
	case Directed, Projected:
		y := inUnit(r.stream.lower(), sampleSlack)
		b := marginBound{bounds: map[string]float64{"weight": r.weight, "weighted_mean": RoundDown(y)}}
		if p.Margin == FirstMargin {
			b.margin = (y - 0.5) + (y - 0.5)
		} else {
			b.margin = directedMargin(p.additive(), y, r.weight)
		}
		return b
	case Taylor:
		if a.lower.lower() > 0.5 {
			y := r.taylor.lower()
			return marginBound{margin: taylorMargin(y), bounds: map[string]float64{"taylor_mean": RoundDown(y)}}
		}
	}
	low, high := inUnit(a.lower.lower(), sampleSlack), inUnit(r.stream.lower(), sampleSlack)
	return marginBound{
		margin: p.scale().margin(low, high),
		bounds: map[string]float64{"p_a": RoundDown(low), "p_b": RoundUp(1 - high)},
	}
}
