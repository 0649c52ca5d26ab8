package run

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/rscert/rscert/internal/audit"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

const (
	// accusation is the level of the test for AuditCount.MoreThanChance. If the certificates of a run are right, the
	// audit accuses the run with a probability of at most this level.
	accusation = .001
	// chanceLevel defines AuditCount.Threshold: the smallest count with a p-value of at most chanceLevel.
	chanceLevel = .05
	// curveDelta is the error probability of each statement about the whole population (audit.Levels.Delta).
	curveDelta = .05
)

// Audited is the result of an audit, as audit --json prints it.
type Audited struct {
	Out  string `json:"out"`
	Path string `json:"run_path"`
	AuditHeader
	Sound          bool          `json:"sound"` // all audited certificates come from sound methods
	Done           int           `json:"done"`  // number of audited examples
	Certified      int           `json:"certified"`
	Contradictions AuditCount    `json:"contradictions"`
	Gap            AuditGap      `json:"gap"`
	Curve          []audit.Point `json:"curve,omitempty"` // absent without labels
	// Calibration has an entry for each radius of the run's bounds on the confidence.
	Calibration []AuditedCalibration `json:"calibration,omitempty"`
	// error probability of each statement that the curve makes about the whole population
	Delta   float64          `json:"delta"`
	Results []AuditedExample `json:"results"`

	broken []float64
}

// Broken returns, for each labelled example, the distance of the nearest input whose answer is verified to be wrong.
// The distance is 0 if the answer is wrong without a perturbation, and +∞ if no such input was found. With a
// probability of at least 1 − Gamma, all these answers really are wrong.
func (r *Audited) Broken() []float64 { return r.broken }

// AuditCount compares the number of contradicted certificates with the number that chance explains. A contradicted
// bound on the confidence counts as a contradiction of the example's certificate.
type AuditCount struct {
	Count    int   `json:"count"`
	Examples []int `json:"examples"` // indices of the examples with contradicted certificates
	// Rate bounds the probability that a right certificate is contradicted. PValue is P(Bin(n, Rate) ≥ Count), where n
	// is the number of audited examples. Threshold is the smallest count with a p-value of at most 5 %.
	Rate      float64 `json:"rate"`
	PValue    float64 `json:"p_value"`
	Threshold int64   `json:"threshold"`
	// The audit certifies each contradicted example again, at a far smaller α, and tests this fresh certificate. The
	// field Again is the number of contradicted fresh certificates. AgainPValue is the p-value P(Bin(Count, r) ≥
	// Again), where r bounds the probability that a right certificate is contradicted again.
	Again       int     `json:"again"`
	AgainPValue float64 `json:"again_p_value"`
	// MoreThanChance means that twice the smaller of PValue and AgainPValue is at most 0.001.
	MoreThanChance bool `json:"more_than_chance"`
}

// AuditGap compares certified radii with verified distances. It covers the examples whose certified class was
// attacked.
type AuditGap struct {
	Attacked int `json:"attacked"`
	Verified int `json:"verified"` // number of examples with a verified change of the answer
	// The medians are over all attacked examples, with or without a verified change of the answer. In MedianDistance
	// and MedianRatio, an example without a verified change counts as +∞. An infinite median becomes null.
	MedianRadius   *float64 `json:"median_radius"`
	MedianDistance *float64 `json:"median_distance"`
	MedianRatio    *float64 `json:"median_ratio"` // distance/radius
}

// AuditedExample is the result for one example.
type AuditedExample struct {
	Index      int     `json:"index"`
	Label      int     `json:"label"`
	Prediction int     `json:"prediction"` // the certified class, −1 for none
	Radius     float64 `json:"radius"`     // certified radius
	// Wrong means that the answer at the example itself is verified to be wrong: it is not the label.
	Wrong bool `json:"wrong,omitempty"`
	// Candidates is the number of candidates in the example's frozen lines. A frozen line records the tests of a round
	// before any noise for them is drawn (AuditLine). Distance is the distance of the nearest candidate with a verified
	// change of the answer. For this candidate, the class Rival beats the attacked class. Distance and Rival are absent
	// if no change is verified.
	Candidates int      `json:"candidates"`
	Distance   *float64 `json:"distance,omitempty"`
	Rival      *int     `json:"rival,omitempty"`
	// Contradicted lists the kinds of the tests that contradict the certificate or a bound on the confidence.
	Contradicted []TestKind  `json:"contradicted,omitempty"`
	Escalation   *Escalation `json:"escalation,omitempty"`
}

// result reads the audit's folder.
func (a *auditor) result() (*Audited, error) { return ReadAudit(a.plan.Out, a.evidence) }

// FindAudit returns the folder of the audit in a run's folder, or "" if there is none.
func FindAudit(e *runfolder.Evidence) (string, error) {
	dir, err := runfolder.FolderOf(e.Path)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(dir, AuditFolder)
	var header AuditHeader
	if _, err = auditForm.Read(dir, &header); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return dir, err
}

// AuditedDigest reads the folder of an audit. It returns the digest (runfolder.Run.Digest) of the audited run.
func AuditedDigest(dir string) (string, error) {
	var header AuditHeader
	_, err := auditForm.Read(dir, &header)
	return header.Run, err
}

// ReadAudit reads the folder of an audit of a run.
func ReadAudit(dir string, e *runfolder.Evidence) (*Audited, error) {
	r := &Audited{Out: dir, Path: e.Path, Sound: true, Delta: curveDelta}
	lines, err := auditForm.Read(dir, &r.AuditHeader)
	if err != nil {
		return nil, err
	}
	if r.Run != e.Run.Digest() {
		return nil, spec.BadInputf("%s: is an audit of another run than %s", dir, e.Path)
	}
	of, err := byExample(lines)
	if err != nil {
		return nil, spec.BadInputf("%s: %w", dir, err)
	}
	certs, err := e.Whole().Certificates()
	if err != nil {
		return nil, err
	}
	return r, r.add(certs, of, e.Run)
}

// add appends the results of the finished examples to r.Results, and computes the summaries of r. The results follow
// from the certificates and from the examples' lines in the audit's folder.
func (r *Audited) add(certs []certify.Certificate, of map[int]*rounds, run *runfolder.Run) error {
	byIndex := map[int]certify.Certificate{}
	for _, c := range certs {
		byIndex[c.Index] = c
	}
	var done []*rounds
	confidences := map[float64][]attackedConfidence{}
	for _, index := range r.Examples {
		c, known := byIndex[index]
		lines := of[index]
		switch {
		case !known:
			return spec.BadInputf("%s: example %d is not in the run", r.Out, index)
		case lines == nil || !lines.complete(c, r.Rounds):
			continue
		}
		done = append(done, lines)
		r.Results = append(r.Results, lines.result(c))
		r.Sound = r.Sound && c.Sound
		for radius, x := range lines.confidences(c) {
			confidences[radius] = append(confidences[radius], x)
		}
	}
	r.Done = len(r.Results)
	listed := r.listed(done, run)
	r.countContradictions()
	r.measureGap()
	r.drawCurve(listed)
	return r.compareCalibration(confidences)
}

// complete reports whether the audit of the example is finished. Each round must have a verified line (AuditLine),
// unless the example needs no search in this round. If a test contradicts the certificate or a bound on the confidence,
// the example must also be certified and tested again (Escalation).
func (r *rounds) complete(c certify.Certificate, most int) bool {
	for round := 0; round <= most; round++ {
		if !r.settled(c, round) && !r.done(round) {
			return false
		}
	}
	return r.escalated != nil || len(r.contradictions(c)) == 0
}

// result returns the outcome of the audit for one example. The audit of this example must be complete.
func (r *rounds) result(c certify.Certificate) AuditedExample {
	e := AuditedExample{Index: c.Index, Label: c.Label, Prediction: c.Prediction, Radius: c.Radius, Wrong: r.rejects(TestWrong), Escalation: r.escalated}
	for round, tests := range r.tests {
		for i, t := range tests {
			if t.Kind != TestFlip {
				continue
			}
			e.Candidates++
			if r.results[round][i].Rejected && (e.Distance == nil || t.Distance < *e.Distance) {
				e.Distance, e.Rival = &t.Distance, &t.Rival
			}
		}
	}
	for _, t := range r.contradictions(c) {
		e.Contradicted = append(e.Contradicted, t.Kind)
	}
	slices.Sort(e.Contradicted)
	e.Contradicted = slices.Compact(e.Contradicted)
	return e
}

// listed returns one distance for each example: the distance from the example to the nearest candidate at which a test
// has verified that the answer changes. The distance is +∞ if there is no such candidate. A change can be verified in
// two ways. First, by the example's own tests. Second, by audit.Chains, which tests the first-round candidates of all
// examples together, at one familywise level.
func (r *Audited) listed(done []*rounds, run *runfolder.Run) []float64 {
	// one chain of p-values per example; the chain of an unfinished example stays empty
	chains := make([][]float64, len(r.Examples))
	tests := make([][]AuditTest, len(done))
	kept := smoothing.Deflate(1, run.Noise.Eta, r.Verify*run.Inputs())
	for i, lines := range done {
		for j, t := range lines.tests[1] {
			if t.Kind == TestFlip {
				chains[i] = append(chains[i], math.Min(1, audit.PValue(lines.results[1][j].LogEvidence)/kept*(1+0x1p-50)))
				tests[i] = append(tests[i], t)
			}
		}
	}
	level := r.Gamma * flipShare
	if r.Rounds > 1 {
		level = audit.RoundLevel(level, 1)
	}
	distances := make([]float64, len(done))
	for i, rejected := range audit.Chains(chains, level)[:len(done)] {
		distances[i] = math.Inf(1)
		if d := r.Results[i].Distance; d != nil {
			distances[i] = *d
		}
		if rejected > 0 {
			distances[i] = math.Min(distances[i], tests[i][rejected-1].Distance)
		}
	}
	return distances
}

func (r *Audited) countContradictions() {
	c := &r.Contradictions
	c.Examples = []int{}
	for _, e := range r.Results {
		if len(e.Contradicted) == 0 {
			continue
		}
		c.Examples = append(c.Examples, e.Index)
		if e.Escalation != nil && e.Escalation.Contradicted {
			c.Again++
		}
	}
	c.Count = len(c.Examples)
	c.Rate = audit.Rate(r.Alpha, r.exampleLevel())
	c.PValue = audit.ChancePValue(int64(c.Count), int64(r.Done), c.Rate)
	c.AgainPValue = audit.ChancePValue(int64(c.Again), int64(c.Count), audit.Rate(escalationAlpha, escalationGamma))
	if k, err := audit.Threshold(int64(r.Done), c.Rate, chanceLevel); err == nil {
		c.Threshold = k
	}
	c.MoreThanChance = 2*math.Min(c.PValue, c.AgainPValue) <= accusation
}

func (r *Audited) measureGap() {
	var radii, distances, ratios []float64
	for _, e := range r.Results {
		if e.Prediction == certify.Abstained {
			continue
		}
		r.Certified++
		distance := math.Inf(1)
		if e.Distance != nil {
			distance = *e.Distance
			r.Gap.Verified++
		}
		radii, distances, ratios = append(radii, e.Radius), append(distances, distance), append(ratios, distance/e.Radius)
	}
	r.Gap.Attacked = r.Certified
	r.Gap.MedianRadius, r.Gap.MedianDistance, r.Gap.MedianRatio = median(radii), median(distances), median(ratios)
}

// median returns the lower median, or nil if it is not finite.
func median(values []float64) *float64 {
	if len(values) == 0 {
		return nil
	}
	slices.Sort(values)
	m := values[(len(values)-1)/2]
	if math.IsInf(m, 0) || math.IsNaN(m) {
		return nil
	}
	return &m
}

// drawCurve computes the curves from the examples that have labels.
func (r *Audited) drawCurve(listed []float64) {
	var outcomes []audit.Outcome
	largest := 0.
	for i, e := range r.Results {
		if e.Label < 0 {
			continue
		}
		o := e.outcome(listed[i])
		if !math.IsInf(o.Broken, 1) {
			largest = math.Max(largest, o.Broken)
		}
		if o.Certified < math.MaxFloat64 {
			largest = math.Max(largest, o.Certified)
		}
		outcomes, r.broken = append(outcomes, o), append(r.broken, o.Listed)
	}
	if len(outcomes) > 0 {
		r.Curve = audit.Curve(outcomes, certify.RadiiUpTo(largest), audit.Levels{Alpha: r.Alpha, Gamma: r.exampleLevel(), Delta: r.Delta})
	}
}

// outcome returns what the certificate and the attack have shown about the example's label.
func (e AuditedExample) outcome(listed float64) audit.Outcome {
	o := audit.Outcome{Certified: -1, Broken: math.Inf(1), Listed: listed}
	attacksLabel := e.Prediction == e.Label || e.Prediction == certify.Abstained
	if e.Prediction == e.Label {
		o.Certified = e.Radius
	}
	switch {
	case e.Wrong:
		o.Broken, o.Listed = 0, 0
	case !attacksLabel:
		o.Listed = math.Inf(1)
	case e.Distance != nil:
		o.Broken = *e.Distance
	}
	return o
}
