package acce

import (
	"context"
	"io"
	"time"

	"github.com/rscert/rscert/internal/admm"
	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/table"
)

// MaxBins is the largest number of bins.
const MaxBins = calib.MaxBins

// Options configure a Study.
type Options struct {
	Bins     int // number of bins of equal width
	Solvers  []Solver
	Radii    []float64 // if empty, all radii of the table
	Adaptive bool      // also bound the calibration error over bins of equal count
	Attack   bool      // keep the confidences of the attack with the largest calibration error
	Quantity string    // names the quantity that the confidences estimate; empty if unknown
	Norm     *law.Norm // norm of the radii; nil if unknown
	Dataset  *Dataset  // if nil, the study makes no statement about the dataset as a whole
	// Thresholds holds values τ in [0, 1]. For each τ, the study bounds the errors of a classifier that answers only if
	// its confidence is at least τ.
	Thresholds []float64
	// SameExamples keeps only examples that have a row at every radius (calib.BoundRows.SameExamples).
	SameExamples bool
	// Groups holds groups of rows of the table. For each group, the study computes the results of the solver "exact".
	Groups []predictions.RowGroup
	// EveryGroup says that Groups holds every group of the sampled examples, including the groups that have no row in
	// the table.
	EveryGroup bool

	ADMM       admm.ParamGrid  // the runs of the solver admm
	DECE       admm.DECEParams // settings of the solver dece
	TraceEvery int             // keep the residuals of every TraceEvery-th step for WriteTrace; 0: keep none

	// Progress, if not nil, is called at the start of each long search. Its arguments are the radius (nil if the table
	// has none), the solver and the number of steps. Progress returns two functions. The search calls the first
	// function, 'step', while it works. It calls the second function, 'done', when it ends.
	Progress func(radius *float64, solver string, steps int) (step Progress, done func())
}

// Study holds a table of bounds that has been parsed and checked.
type Study struct {
	options Options
	table   *table.Table
	bins    calib.Bins
	groups  []group
	sampled calib.Sampled // the zero value if the number of sampled examples is unknown
	// failure probability of each bound in the table; 0 if the study makes no statement about the dataset
	alpha   float64
	results []Result
	traces  []trace
	weight  []float64 // weights of the rows of the table; nil: equal weights
	parts   []part
}

// NewStudy checks the options and the table, which must have been parsed with Columns.
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
		return nil, param.Errorf("%s is about all examples: it cannot be combined with %s", param.Tau, param.SameExamples)
	}
	for _, tau := range o.Thresholds {
		if !(tau >= 0 && tau <= 1) {
			return nil, param.Errorf("%s %v: want numbers from 0 to 1", param.Tau, tau)
		}
	}
	if err := s.readWeights(); err != nil {
		return nil, err
	}
	if err := s.settleDataset(rows); err != nil {
		return nil, err
	}
	return s, s.divide(rows)
}

// Radii returns the number of radii to study. It is 1 for a table without radii.
func (s *Study) Radii() int { return len(s.groups) }

// Solve returns the result at each radius, in ascending order. If ctx ends, Solve returns the results so far. The last
// result then holds the best values found by that time.
func (s *Study) Solve(ctx context.Context) ([]Result, error) {
	for _, g := range s.groups {
		r, err := s.solve(ctx, g)
		if err == nil {
			r.ByGroup, err = s.solveParts(ctx, g)
		}
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

// Result holds the findings at one radius.
type Result struct {
	Radius *float64  `json:"radius,omitempty"` // nil if the table has no radii
	Norm   *law.Norm `json:"norm,omitempty"`   // norm of the radius, if known
	N      int       `json:"n"`
	Bins   int       `json:"bins"`
	// Edge says which edge a bin includes, the lower or the upper. It is always LowerClosed, because the certified
	// calibration error is defined for bins that include their lower edge.
	Edge calib.Edge `json:"edge"`
	// SameExamples says that N counts only examples with a row at every radius of the study.
	SameExamples bool `json:"same_examples,omitempty"`
	// EffectiveSize is the effective sample size of the weights. It is set only if the rows have different weights. The
	// metrics are then weighted means over the rows (calib.RowWeights).
	EffectiveSize float64           `json:"effective_sample_size,omitempty"`
	ECE           *float64          `json:"ece,omitempty"` // without attack; nil if the table has no confidences
	CBS           float64           `json:"cbs"`
	CCE           *float64          `json:"cce,omitempty"`
	ACCE          Estimates         `json:"acce,omitzero"`
	DECE          *float64          `json:"dece,omitempty"`
	BrierECE      *float64          `json:"brier_ece,omitempty"`
	Adaptive      *AdaptiveInterval `json:"adaptive_ece,omitempty"`
	// Estimates lists the JSON keys of the values that are not upper bounds. Each of these values is the error of some
	// confidences within the bounds of the table. Other confidences may have a larger error.
	Estimates   []string           `json:"estimates,omitempty"`
	Certified   *Certified         `json:"certified,omitempty"`
	Quantity    string             `json:"quantity,omitempty"` // the quantity that the confidences estimate, if known
	Examples    int                `json:"examples,omitempty"` // number of sampled examples, if known
	LeftOut     *int               `json:"left_out,omitempty"` // number of sampled examples whose class is not certified
	Clean       *Clean             `json:"clean,omitempty"`    // needs the columns 'certified' and 'confidence'
	Thresholded []ThresholdedError `json:"thresholded,omitempty"`
	ByGroup     *ByGroup           `json:"by_group,omitempty"`
	Interrupted bool               `json:"interrupted,omitempty"`
	Seconds     map[string]float64 `json:"seconds"`

	attack []float64 // the confidences of the attack with the largest calibration error
}

// Estimates holds estimates of the CCE by the method of Emde et al. 2025.
type Estimates struct {
	ADMM *float64 `json:"admm,omitempty"`
}

// AdaptiveInterval encloses the largest value that an attack can give to the calibration error over bins of equal
// count.
type AdaptiveInterval struct {
	Lower float64 `json:"lower"` // an attack attains this value
	Upper float64 `json:"upper"` // an upper bound for every choice of bins
}

// Certified states bounds for the dataset as a whole. They are true with probability 1 − Delta.
type Certified struct {
	Delta    float64 `json:"delta"`
	Alpha    float64 `json:"alpha"`
	Examples int     `json:"examples"` // sampled examples
	// ExamplesAssumed says that the number of sampled examples is unknown. The study then assumes that the table holds
	// all of them.
	ExamplesAssumed bool     `json:"examples_assumed,omitempty"`
	Failures        int64    `json:"failures"` // with probability 1 − Delta, at most this many bounds fail
	CBS             float64  `json:"cbs"`
	CCE             *float64 `json:"cce,omitempty"`
	Adaptive        *float64 `json:"adaptive_ece,omitempty"`
}

// measureTime calls the function 'work' and records its running time under the given name.
func (r *Result) measureTime(name string, work func() error) error {
	start := time.Now()
	err := work()
	r.Seconds[name] = time.Since(start).Seconds()
	return err
}

func (s *Study) solve(ctx context.Context, g group) (Result, error) {
	r := Result{
		Radius: g.radius, N: len(g.Intervals), Bins: s.bins.Len(), Edge: calib.LowerClosed, SameExamples: s.options.SameExamples, Seconds: map[string]float64{},
	}
	err := r.measureTime("cbs", func() (err error) { r.CBS, err = calib.WeightedCBS(g.Intervals, g.units); return err })
	if err != nil {
		return r, err
	}
	if g.weight != nil {
		r.EffectiveSize = calib.EffectiveSize(g.weight)
	}
	if g.Confidence != nil {
		ece := s.bins.WeightedECE(g.Confidence, func(i int) bool { return g.Intervals[i].Correct }, g.units)
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
		if r.Certified, err = s.certify(r, g.units); err != nil {
			return r, err
		}
	}
	s.count(g, &r)
	s.threshold(g, &r)
	return r, nil
}

// search runs the solvers. It keeps the attack of the exact solver if that solver ran, otherwise the attack with the
// largest value.
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
	return &AdaptiveInterval{Lower: min(e.ECE, upper), Upper: upper}, nil // rounded float64 sums can exceed the exact sum
}

// certify returns bounds that hold with probability 1 − δ. The values in r are guaranteed only if the bounds of every
// row hold. With probability at least 1 − δ, the bounds of at most k rows fail, where k is the field Failures of the
// returned Certified. So certify adds the largest effect that k rows with failed bounds can have.
func (s *Study) certify(r Result, w calib.RowWeights) (*Certified, error) {
	d := s.options.Dataset
	bounds := calib.AttackBounds{CBS: r.CBS, CCE: r.CCE}
	if r.Adaptive != nil {
		bounds.LargestGap = &r.Adaptive.Upper
	}
	all, err := calib.StateForAll(bounds, r.N, w, s.sampled, s.alpha, d.Delta)
	if err != nil {
		return nil, err
	}
	return &Certified{
		Delta: d.Delta, Alpha: s.alpha, Examples: s.sampled.Examples, ExamplesAssumed: s.sampled.Assumed,
		Failures: all.Failures, CBS: all.CBS, CCE: all.CCE, Adaptive: all.LargestGap,
	}, nil
}

// WriteAttack writes the rows that Solve used. The column 'confidence' holds the confidence under attack instead of the
// clean confidence. The column 'bin' holds the bin of this confidence. The output can serve as a table of bounds, or as
// predictions at each radius. WriteAttack needs Options.Attack. Call it after Solve has returned all results.
func (s *Study) WriteAttack(out io.Writer) error {
	var names []string
	var kept [][]float64
	for _, name := range []string{"index", "radius"} {
		if column, ok := s.table.Column(name); ok {
			names, kept = append(names, name), append(kept, column)
		}
	}
	if s.weight != nil {
		names, kept = append(names, "weight"), append(kept, s.weight)
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

// Bins sorts the examples of the k-th result into bins twice: by their confidences without attack, and by their
// confidences under the attack that Solve found. The result 'clean' is nil if the confidences without attack are
// unknown. Bins needs Options.Attack.
func (s *Study) Bins(k int) (clean, attacked []calib.Bin, err error) {
	g := s.groups[k]
	correct := make([]bool, len(g.Intervals))
	for i, v := range g.Intervals {
		correct[i] = v.Correct
	}
	if g.Confidence != nil {
		p := &calib.Predictions{Confidence: g.Confidence, Correct: correct, Weight: g.weight}
		if clean, err = calib.EqualWidth(p, s.bins.Len(), calib.LowerClosed); err != nil {
			return nil, nil, err
		}
	}
	p := &calib.Predictions{Confidence: s.results[k].attack, Correct: correct, Weight: g.weight}
	attacked, err = calib.EqualWidth(p, s.bins.Len(), calib.LowerClosed)
	return clean, attacked, err
}
