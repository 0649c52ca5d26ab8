package acce

import (
	"context"
	"io"
	"time"

	"github.com/rscert/rscert/internal/admm"
	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/table"
)

// MaxBins is the largest number of bins.
const MaxBins = calib.MaxBins

// Options say what to study.
type Options struct {
	Bins     int // of equal width
	Solvers  []Solver
	Radii    []float64 // empty: all there are
	Adaptive bool      // bound the calibration error with bins of equal count, too
	Attack   bool      // keep the confidences that attain the result
	Quantity string    // what the confidences are; empty: not known
	Norm     *law.Norm // of the radii; nil: not known
	Dataset  *Dataset  // nil: no statement about the dataset as a whole
	// Thresholds τ, in [0, 1]: bound the errors of a classifier that answers only where its confidence is at least τ.
	Thresholds []float64
	// SameExamples: at every radius only the examples that are at all of them (calib.BoundRows.SameExamples).
	SameExamples bool

	ADMM       admm.ParamGrid  // the runs of the solver admm
	DECE       admm.DECEParams // those of dece
	TraceEvery int             // keep the residuals of every so many-th step of both, for WriteTrace; 0: of none

	// Progress, when not nil, is told of each search that takes long: the radius, nil where the table has none, the
	// solver and its steps. done is called at the search's end.
	Progress func(radius *float64, solver string, steps int) (step Progress, done func())
}

// Study is a table of bounds, read and checked.
type Study struct {
	options Options
	table   *table.Table
	bins    calib.Bins
	groups  []group
	sampled calib.Sampled // none where the number of examples is not known
	alpha   float64       // of each bound; 0: no statement about the dataset
	results []Result
	traces  []trace
}

// NewStudy checks the options and the table, which has Columns.
func NewStudy(t *table.Table, o Options) (*Study, error) {
	s := &Study{options: o, table: t}
	var err error
	if s.bins, err = calib.NewBins(o.Bins); err != nil {
		return nil, err
	}
	rows := readRows(t)
	if s.groups, err = splitByRadius(t, rows, o.Radii, o.SameExamples); err != nil {
		return nil, err
	}
	if err := o.checkStarts(t, rows.Confidence != nil); err != nil {
		return nil, err
	}
	if o.SameExamples && len(o.Thresholds) > 0 {
		return nil, param.Errorf("%s is about all examples: it cannot be with %s", param.Tau, param.SameExamples)
	}
	for _, tau := range o.Thresholds {
		if !(tau >= 0 && tau <= 1) {
			return nil, param.Errorf("%s %v: want numbers from 0 to 1", param.Tau, tau)
		}
	}
	if err := s.settleDataset(rows); err != nil {
		return nil, err
	}
	return s, nil
}

// Radii is the number of radii to study; 1 for a table without them.
func (s *Study) Radii() int { return len(s.groups) }

// Solve finds the result at each radius, in ascending order. If ctx ends, the results until then are returned, the last
// one the best found.
func (s *Study) Solve(ctx context.Context) ([]Result, error) {
	for _, g := range s.groups {
		r, err := s.solve(ctx, g)
		if err != nil {
			return nil, err
		}
		s.results = append(s.results, r)
		if ctx.Err() != nil {
			break
		}
	}
	return s.results, nil
}

// Result is what is found at one radius.
type Result struct {
	Radius *float64  `json:"radius,omitempty"` // if the table has radii
	Norm   *law.Norm `json:"norm,omitempty"`   // of the radius, if that is known
	N      int       `json:"n"`
	Bins   int       `json:"bins"`
	// SameExamples: the n are those that are at every radius of the study.
	SameExamples bool              `json:"same_examples,omitempty"`
	ECE          *float64          `json:"ece,omitempty"` // without attack, if the table has confidences
	CBS          float64           `json:"cbs"`
	CCE          *float64          `json:"cce,omitempty"`
	ACCE         Estimates         `json:"acce,omitzero"`
	DECE         *float64          `json:"dece,omitempty"`
	BrierECE     *float64          `json:"brier_ece,omitempty"`
	Adaptive     *AdaptiveInterval `json:"adaptive_ece,omitempty"`
	// Estimates are the values above that certify nothing: they are attained by some confidences within the bounds, and
	// others may do worse.
	Estimates   []string           `json:"estimates,omitempty"`
	Certified   *Certified         `json:"certified,omitempty"`
	Quantity    string             `json:"quantity,omitempty"` // what the confidences are, if that is known
	Examples    int                `json:"examples,omitempty"` // that were sampled, if that is known
	LeftOut     *int               `json:"left_out,omitempty"` // of them, as their class is not certified
	Clean       *Clean             `json:"clean,omitempty"`    // if the table has the examples left out
	Thresholded []ThresholdedError `json:"thresholded,omitempty"`
	Interrupted bool               `json:"interrupted,omitempty"`
	Seconds     map[string]float64 `json:"seconds"`

	attack []float64 // confidences that attain the largest value
}

// Estimates are the paper's own estimates of the CCE.
type Estimates struct {
	ADMM *float64 `json:"admm,omitempty"`
}

// AdaptiveInterval encloses the largest calibration error with equal-count bins.
type AdaptiveInterval struct {
	Lower float64 `json:"lower"` // attained by an attack
	Upper float64 `json:"upper"` // for every way to bin
}

// Certified holds with probability 1 − Delta for the dataset as a whole.
type Certified struct {
	Delta    float64 `json:"delta"`
	Alpha    float64 `json:"alpha"`
	Examples int     `json:"examples"` // that were sampled
	// ExamplesAssumed: nobody said how many, the table's own are taken as all.
	ExamplesAssumed bool     `json:"examples_assumed,omitempty"`
	Failures        int64    `json:"failures"` // bounds that may not hold, at most
	CBS             float64  `json:"cbs"`
	CCE             *float64 `json:"cce,omitempty"`
	Adaptive        *float64 `json:"adaptive_ece,omitempty"`
}

// measureTime notes how long work takes.
func (r *Result) measureTime(name string, work func() error) error {
	start := time.Now()
	err := work()
	r.Seconds[name] = time.Since(start).Seconds()
	return err
}

func (s *Study) solve(ctx context.Context, g group) (Result, error) {
	r := Result{
		Radius: g.radius, N: len(g.Intervals), Bins: s.bins.Len(), SameExamples: s.options.SameExamples, Seconds: map[string]float64{},
	}
	err := r.measureTime("cbs", func() (err error) { r.CBS, err = calib.CBS(g.Intervals); return err })
	if err != nil {
		return r, err
	}
	if g.Confidence != nil {
		ece := s.bins.ECE(g.Confidence, func(i int) bool { return g.Intervals[i].Correct })
		r.ECE = &ece
	}
	if err := s.search(ctx, g, &r); err != nil {
		return r, err
	}
	if s.options.Adaptive {
		err := r.measureTime("adaptive", func() (err error) { r.Adaptive, err = s.encloseAdaptive(g); return err })
		if err != nil {
			return r, err
		}
	}
	if s.alpha != 0 {
		if r.Certified, err = s.certify(r); err != nil {
			return r, err
		}
	}
	s.count(g, &r)
	s.threshold(g, &r)
	return r, nil
}

// search runs the solvers. The attack is that of the largest value: the exact one, where it is known.
func (s *Study) search(ctx context.Context, g group, r *Result) error {
	p := problem{group: g, options: &s.options, bins: s.bins, watch: s.watch, trace: s.trace}
	best := -1.0
	exact := false
	for _, solver := range s.options.Solvers {
		var f finding
		err := r.measureTime(solver.Name, func() (err error) { f, err = solver.search(ctx, p); return err })
		if err != nil {
			return err
		}
		*solver.value(r) = &f.value
		r.Interrupted = r.Interrupted || f.interrupted
		if !solver.Exact {
			r.Estimates = append(r.Estimates, solver.Key)
		}
		if solver.Exact || !exact && f.value > best {
			best, exact, r.attack = f.value, solver.Exact, f.confidences
		}
	}
	return nil
}

func (s *Study) watch(g group, name string, steps int) (Progress, func()) {
	if s.options.Progress == nil {
		return func(int, float64) {}, func() {}
	}
	return s.options.Progress(g.radius, name, steps)
}

func (s *Study) encloseAdaptive(g group) (*AdaptiveInterval, error) {
	upper, err := calib.LargestGap(g.Intervals)
	if err != nil {
		return nil, err
	}
	problem, err := admm.NewProblem(g.Intervals, g.Confidence, s.bins)
	if err != nil {
		return nil, err
	}
	e, err := problem.Adaptive()
	if err != nil {
		return nil, err
	}
	return &AdaptiveInterval{Lower: min(e.ECE, upper), Upper: upper}, nil // float64 sums against an exact one
}

// certify turns a result that holds if every bound does into one that holds with probability 1 − δ.
func (s *Study) certify(r Result) (*Certified, error) {
	d := s.options.Dataset
	bounds := calib.AttackBounds{CBS: r.CBS, CCE: r.CCE}
	if r.Adaptive != nil {
		bounds.LargestGap = &r.Adaptive.Upper
	}
	all, err := calib.StateForAll(bounds, r.N, s.sampled, s.alpha, d.Delta)
	if err != nil {
		return nil, err
	}
	return &Certified{
		Delta: d.Delta, Alpha: s.alpha, Examples: s.sampled.Examples, ExamplesAssumed: s.sampled.Assumed,
		Failures: all.Failures, CBS: all.CBS, CCE: all.CCE, Adaptive: all.LargestGap,
	}, nil
}

// WriteAttack writes the rows that Solve used, with the confidence under attack, and its bin, in the place of the clean
// one: a table of bounds, and one of predictions at each radius. It needs Options.Attack and all results.
func (s *Study) WriteAttack(out io.Writer) error {
	var names []string
	var kept [][]float64
	for _, name := range []string{"index", "radius"} {
		if column, ok := s.table.Column(name); ok {
			names, kept = append(names, name), append(kept, column)
		}
	}
	w := table.NewWriter(out)
	w.Header(append(names, "lower", "upper", "correct", "confidence", "bin")...)
	for j, g := range s.groups {
		for n, i := range g.Rows {
			for _, column := range kept {
				w.Float(column[i])
			}
			v, z := g.Intervals[n], s.results[j].attack[n]
			w.Float(v.Lower)
			w.Float(v.Upper)
			w.Bool(v.Correct)
			w.Float(z)
			w.Int(s.bins.Index(z))
			w.EndRow()
		}
	}
	return w.Flush()
}

// Bins sorts the examples of the k-th result into bins, by their confidences without attack, nil if they are not known,
// and under the attack that Solve found. It needs Options.Attack.
func (s *Study) Bins(k int) (clean, attacked []calib.Bin, err error) {
	g := s.groups[k]
	correct := make([]bool, len(g.Intervals))
	for i, v := range g.Intervals {
		correct[i] = v.Correct
	}
	if g.Confidence != nil {
		p := &calib.Predictions{Confidence: g.Confidence, Correct: correct}
		if clean, err = calib.EqualWidth(p, s.bins.Len(), calib.LowerClosed); err != nil {
			return nil, nil, err
		}
	}
	p := &calib.Predictions{Confidence: s.results[k].attack, Correct: correct}
	attacked, err = calib.EqualWidth(p, s.bins.Len(), calib.LowerClosed)
	return clean, attacked, err
}
