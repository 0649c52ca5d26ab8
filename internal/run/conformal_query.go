package run

import (
	"math"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/conformal"
	"github.com/rscert/rscert/internal/conformalfile"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/smoothing"
)

// tally counts, for each class, the scores of one query that reach the threshold.
type tally struct {
	scorer     scorer
	predictor  *conformal.Predictor
	thresholds []float64
	counts     []int64 // number of scores that reach the threshold, by class
	drawn      int64
	decided    bool
	verdicts   []conformal.Verdict
	scores     []float64

	certify   bool // the tally also counts the scores from which the certified size of the set is computed
	certified []int64
	seen      int64 // number of samples so far, including those that observe ignores
}

// newTally returns an empty tally for a query. The scorer s says whether the outputs are logits or probabilities, and
// holds the random number that the scores of the query use.
func newTally(p *conformal.Predictor, s scorer, group string, certify bool) *tally {
	s.Scorer, s.classes = p.Scorer, p.Labels
	t := &tally{scorer: s, predictor: p, thresholds: p.Thresholds(group), counts: make([]int64, p.Labels), certify: certify}
	if certify {
		t.certified = make([]int64, p.Labels)
	}
	return t
}

// observe counts the scores of k samples. The slice 'outputs' holds m outputs for each sample. observe ignores samples
// beyond the number that the sets need.
func (t *tally) observe(outputs []float32) {
	t.scorer.eachRow(outputs, func(probabilities []float64) {
		counts := t.seen < t.predictor.QueryM && !t.decided
		certifies := t.certify && t.seen < t.predictor.M
		t.seen++
		if !counts && !certifies {
			return
		}
		t.scores = t.scorer.Scores(t.scores, probabilities, t.scorer.u)
		if certifies {
			conformal.CountDraw(t.certified, t.scores, t.thresholds)
		}
		if counts {
			conformal.CountDraw(t.counts, t.scores, t.thresholds)
			t.drawn++
			t.verdicts, t.decided = t.predictor.Decide(t.verdicts, t.counts, t.drawn)
		}
	})
}

// goal returns the number of samples to reach next, or n if n samples suffice.
func (t *tally) goal(n int64) int64 {
	next := n
	if !t.decided {
		next = max(next, t.drawn+t.missing())
	}
	if t.certify {
		next = max(next, t.predictor.M)
	}
	return next
}

// missing returns a number of further draws that will probably decide every class. Before the first draw, the result is
// the smallest number of draws that decides a class in both extreme cases: all its scores reach the threshold, or none
// does. Later, the method computes two numbers for each undecided class. The first number is the smallest number of
// further draws after which the set includes the class if all these draws' scores reach the threshold. The second
// number is the smallest number of further draws after which the set excludes the class if none of these scores reaches
// the threshold. The method takes the smaller number for each class, and returns the largest of these.
func (t *tally) missing() int64 {
	p := t.predictor
	most := max(p.QueryT, p.QueryM-p.QueryT+1)
	if t.drawn > 0 {
		most = 1
		for y, count := range t.counts {
			if t.verdicts[y] == conformal.Undecided {
				most = max(most, min(p.QueryT-count, p.QueryM-p.QueryT+1-(t.drawn-count)))
			}
		}
	}
	return min(most, p.QueryM-t.drawn)
}

// set returns the prediction set. The draws must already decide for every class whether the set contains it.
func (t *tally) set() (s conformalfile.Set, err error) {
	if s.Set, err = t.predictor.Set(t.counts, t.drawn); err != nil {
		return s, err
	}
	if s.Set == nil {
		s.Set = []int{}
	}
	s.Size, s.Counts, s.Draws, s.CertifiedCounts = len(s.Set), t.counts, t.drawn, t.certified
	return s, nil
}

// query is an input whose prediction set is not known yet. It implements smoothing.Observer.
type query struct {
	*applying
	example experiment.Example
	group   string
	tally   *tally
	set     conformalfile.Set
}

// start returns the example as a query, that is, as an input whose prediction set is not known yet.
func (a *applying) start(example experiment.Example) (*query, error) {
	group, err := groupOf(a.plan.Groups, example.Index)
	return &query{applying: a, example: example, group: group, tally: a.tally(a.experiment.Spec.Seed, example.Index, group)}, err
}

// tally returns an empty tally for an example. The argument 'seed' is the seed of the example's noise.
func (a *applying) tally(seed uint64, index int, group string) *tally {
	s := scorer{outputs: a.experiment.Model().Outputs(), temperature: a.file.Temperature, u: uniform(seed, index)}
	return newTally(&a.file.Predictor, s, group, a.plan.CertifiedSize)
}

// Input returns the example's index and input.
func (q *query) Input() (int, smoothing.Input) {
	if q.file.Classifier.Noiseless() {
		return q.example.Index, noiseless{q.example.Input}
	}
	return q.example.Index, q.example.Input
}

// Restart begins the query again.
func (q *query) Restart() (smoothing.Experiment, error) { return q.applying.start(q.example) }

// Goal asks for draws until every class is decided. If the certified size is requested, Goal also asks for at least as
// many draws as each calibration example had.
func (q *query) Goal(v smoothing.Votes) (int64, error) { return q.tally.goal(v.N), nil }

// Observe counts scores.
func (q *query) Observe(_ smoothing.Phase, outputs []float32) error {
	q.tally.observe(outputs)
	return nil
}

// Finish computes the prediction set.
func (q *query) Finish(smoothing.Votes) (err error) {
	q.set, err = q.finish(q.tally, q.example, q.group)
	return err
}

// finish returns the prediction set of an example, with the set's conditions.
func (a *applying) finish(t *tally, example experiment.Example, group string) (s conformalfile.Set, err error) {
	if s, err = t.set(); err != nil {
		return s, err
	}
	s.Index, s.Group = example.Index, group
	if example.Label != certify.UnknownLabel {
		s.Label = &example.Label
	}
	s.Conditions = a.conditionsOf(s.Label, group)
	// If the noise is quantised, the radius already allows for the rounding.
	if a.plan.Round && !a.file.Classifier.Noise.Quantised {
		s.Moved = example.Quantisation
		shortenBy(&s.Conditions, s.Moved)
	}
	return s, nil
}

// Emit passes the prediction set to the function 'take'.
func (q *query) Emit() error {
	q.take(q.set)
	return nil
}

// shortenBy lowers the radius of a guarantee by a distance. If the radius becomes negative, no guarantee remains.
func shortenBy(c *conformalfile.Conditions, distance float64) {
	if distance == 0 {
		return
	}
	if c.Radius = math.Nextafter(c.Radius-distance, -1); !(c.Radius >= 0) {
		c.Radius, c.Sound = 0, false
	}
}
