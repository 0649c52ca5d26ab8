package run

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/rscert/rscert/internal/attack"
	"github.com/rscert/rscert/internal/builtin"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

// AuditPlan says how a run is audited.
type AuditPlan struct {
	// The field Again says how to open the run's model and data again. If a path in Again is empty, the run's path is
	// used. Again.Examples is the number of examples to audit.
	Again
	Run    string // path of the run
	Out    string // the audit's folder; empty: AuditFolder in the run's folder
	Resume bool
	Budget AuditBudget
	Gamma  float64 // allowed probability that at least one verified statement is wrong

	open  func(*auditor, int) (candidateSearch, error) // in tests: replaces the search
	fresh func(*certify.Certificate)                   // in tests: makes the fresh certificate of an escalation false
}

// AuditBudget says how much work an audit spends on an example.
type AuditBudget struct {
	Rounds   int `json:"rounds"`   // number of searches, each with its own random starts
	Restarts int `json:"restarts"` // number of random starts of a search
	Steps    int `json:"steps"`    // steps of each start
	Samples  int `json:"samples"`  // number of noisy copies for the gradient of the last step
	// maximum number of samples for judging a candidate before verification, for a slack test, or for a test of a
	// confidence
	Screen int64 `json:"screen"`
	// maximum number of samples for verifying a candidate, or for testing the answer at the example itself
	Verify int64 `json:"verify_samples"`
}

// DefaultAuditBudget is the default budget. With this budget, the search finds changes of the answer at about twice the
// certified radius.
var DefaultAuditBudget = AuditBudget{Rounds: 1, Restarts: 4, Steps: 150, Samples: 256, Screen: 50_000, Verify: 250_000}

// These are the names of an audit's folder in a run's folder, and of the files in the audit's folder.
const (
	AuditFolder    = "audit"
	AuditFile      = "audit.json"
	AuditLinesFile = "audit.jsonl"
)

// candidateSearch searches for inputs at which the smoothed classifier may answer another class than the example's
// Label.
type candidateSearch interface {
	Candidates(ctx context.Context, x attack.Example) ([]attack.Candidate, error)
}

// AuditHeader is the content of audit.json: the audited run and examples, and the settings of the audit.
type AuditHeader struct {
	Format  int    `json:"format"`
	Version string `json:"rscert"`
	// Run is the digest of the run (runfolder.Run.Digest).
	Run      string  `json:"run"`
	Alpha    float64 `json:"alpha"`
	Gamma    float64 `json:"gamma"`
	Examples []int   `json:"examples"` // indices of the examples, in the order of the audit
	AuditBudget
	Seed   uint64 `json:"seed"` // seed of the searches; the seeds of verification are drawn later
	Device string `json:"device"`
}

// auditFormat is the version number of the format of an audit's folder.
const auditFormat = 1

// exampleLevel returns the error probability that the audit allows for one example. It bounds the probability that one
// or more verified statements about the example are wrong.
func (h AuditHeader) exampleLevel() float64 {
	return h.Gamma / float64(len(h.Examples)) * (1 - 0x1p-50)
}

// auditor is an audit in progress.
type auditor struct {
	plan     AuditPlan
	header   AuditHeader
	evidence *runfolder.Evidence
	run      runfolder.Run
	runPlan  Plan
	*experiment.Experiment
	console  experiment.Console
	closers  []func() error
	records  map[int]runfolder.Record // records of the examples to audit, by index
	claims   map[int][]claim
	journal  *runfolder.Journal[AuditLine]
	lines    []AuditLine
	searches map[int]candidateSearch // by round
}

// Audit audits a run, or resumes its audit. It returns all results that the audit's folder then holds.
func Audit(ctx context.Context, p AuditPlan, console experiment.Console) (result *Audited, err error) {
	a := &auditor{plan: p, console: console, searches: map[int]candidateSearch{}}
	if err := a.readRun(); err != nil {
		return nil, err
	}
	if err := a.openExperiment(ctx); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := a.openJournal(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.journal.Close()) }()
	if err := a.examples(ctx); err != nil {
		return nil, hint.Add(err, "what is done is in %s; go on with %s", a.plan.Out, param.Resume)
	}
	return a.result()
}

// close closes the searches and the experiment.
func (a *auditor) close() error {
	var failed []error
	for _, closer := range a.closers {
		failed = append(failed, closer())
	}
	return errors.Join(append(failed, a.Experiment.Close())...)
}

// check validates the numbers in the plan.
func (p AuditPlan) check() error {
	b := p.Budget
	for name, n := range map[param.Name]int64{
		param.Examples: int64(p.Examples), param.Rounds: int64(b.Rounds), param.Restarts: int64(b.Restarts), param.Steps: int64(b.Steps),
		param.Samples: int64(b.Samples), param.Screen: b.Screen, param.VerifySamples: b.Verify,
	} {
		if n < 1 || n >= smoothing.MaxSamples {
			return spec.BadInputf("%s %d: want at least 1, and less than %d", name, n, smoothing.MaxSamples)
		}
	}
	if !(p.Gamma >= 1e-12 && p.Gamma < .5) {
		return spec.BadInputf("%s %v: want a probability from 1e-12 to 0.5", param.Gamma, p.Gamma)
	}
	return nil
}

// readRun reads the run and its results.
func (a *auditor) readRun() error {
	if err := a.plan.check(); err != nil {
		return err
	}
	h, err := runfolder.Audit(a.plan.Run)
	if err != nil {
		return spec.BadInput(err)
	}
	if faults := slices.Concat(h.Changed, h.Record); h.Evidence == nil || len(faults) > 0 {
		return hint.Add(spec.BadInputf("%s: %s", a.plan.Run, faults[0]), "see 'rscert verify'")
	}
	a.evidence, a.run = h.Evidence, *h.Evidence.Run
	if err := a.run.Parameters.Law.NeedRandom(); err != nil {
		return spec.BadInput(err)
	}
	if a.run.Parameters.Noise != spec.Lattice {
		return hint.Add(spec.BadInputf("%s: its noise is in floats, and an audit needs noise on a lattice", a.plan.Run), "audit a run with %s lattice", param.Noise)
	}
	if a.run.Parameters.Law.Law().Norm() != law.L2 {
		return spec.BadInputf("%s: %s %s certifies in %s, and an audit searches in %s", a.plan.Run, param.Law, a.run.Parameters.Law,
			a.run.Parameters.Law.Law().Norm().Title(), law.L2.Title())
	}
	if err := needAnswers(a.plan.Run, a.run); err != nil {
		return err
	}
	if err := refuseScaled(a.run, a.plan.Run, "audits"); err != nil {
		return err
	}
	if len(h.Records) == 0 {
		return spec.BadInputf("%s: the run has no example", a.plan.Run)
	}
	if n := a.run.Data.Selected - len(h.Records); n > 0 {
		a.console.Warnf(warning.RunUnfinished, "%s: the run is not finished; %d of its examples are not audited", a.plan.Run, n)
	}
	chosen := a.chooseByHash(h.Records)
	a.records = map[int]runfolder.Record{}
	for _, rec := range chosen {
		a.records[rec.Votes.Index] = rec
		a.header.Examples = append(a.header.Examples, rec.Votes.Index)
	}
	if a.claims, err = readClaims(a.evidence); err != nil {
		return spec.BadInput(err)
	}
	dir, err := runfolder.FolderOf(a.plan.Run)
	a.plan.Out = cmp.Or(a.plan.Out, filepath.Join(dir, AuditFolder))
	return err
}

// chooseByHash returns the records of the examples with the smallest hashes, in ascending order of the hash. The plan
// sets their number (Again.Examples). The hash depends only on the data and the example, so no result affects the
// choice.
func (a *auditor) chooseByHash(records []runfolder.Record) []runfolder.Record {
	hashed := func(r runfolder.Record) []byte {
		sum := sha256.Sum256(fmt.Appendf(nil, "rscert audit\n%s\n%d", a.run.Data.SHA256, r.Votes.Index))
		return sum[:]
	}
	all := slices.Clone(records)
	slices.SortFunc(all, func(r, s runfolder.Record) int { return bytes.Compare(hashed(r), hashed(s)) })
	return all[:min(a.plan.Examples, len(all))]
}

// openExperiment opens the run's model and data. It returns an error if the model or the data differ from the record of
// the run.
func (a *auditor) openExperiment(ctx context.Context) error {
	q := a.plan.Again
	q.Data = cmp.Or(q.Data, a.run.Data.File)
	if q.Model == "" {
		q.Model, q.Further = a.run.Model.Paths()
	}
	for name, paths := range map[param.Name][]string{param.Model: append([]string{q.Model}, q.Further...), param.Data: {q.Data}} {
		for _, path := range paths {
			if _, ok := builtin.Name(path); ok {
				continue
			}
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				return hint.Add(spec.BadInput(err), "the run names this path; say by %s where the file is now", name)
			}
		}
	}
	plan, err := q.plan(a.run, a.plan.Out)
	if err != nil {
		return err
	}
	plan.Settle()
	plan.KeepOutputs, plan.KeepSource = true, true
	a.runPlan = plan
	if a.Experiment, err = experiment.Open(ctx, plan.Spec, a.console); err != nil {
		return err
	}
	now := a.Record()
	now.Version, now.Parameters.Certification, now.TangentSamples = a.plan.Version, plan.Certification, plan.TangentSamples()
	now.Data.Selected = a.run.Data.Selected
	conditions, err := sameClassifier(a.run, now)
	if err == nil && a.run.Data.SHA256 != now.Data.SHA256 {
		err = spec.BadInputf("%s: is not the data set of the run: SHA-256 %.12s… there, %.12s… here", a.runPlan.Data, a.run.Data.SHA256, now.Data.SHA256)
	}
	if err != nil {
		return errors.Join(err, a.Close())
	}
	for _, c := range conditions {
		a.console.Warnf(warning.OtherConditions, "not as in the run: %s", c)
	}
	return nil
}

// auditForm describes the files of an audit's folder: AuditFile, and AuditLinesFile with lines of the type AuditLine.
var auditForm = runfolder.JournalForm[AuditLine]{
	Document: AuditFile, Lines: AuditLinesFile, Keys: []string{"index", "step", "round"}, Valid: AuditLine.valid,
}

// openJournal creates the audit's folder or opens it again.
func (a *auditor) openJournal() (err error) {
	a.header = AuditHeader{
		Format: auditFormat, Version: a.plan.Version, Run: a.run.Digest(), Alpha: a.run.Parameters.Alpha, Gamma: a.plan.Gamma,
		Examples: a.header.Examples, AuditBudget: a.plan.Budget, Device: a.Device().String(),
	}
	if a.plan.Resume {
		var then AuditHeader
		a.journal, a.lines, err = auditForm.Resume(a.plan.Out, &then)
		if !errors.Is(err, fs.ErrNotExist) {
			if err == nil {
				err = a.resumed(then)
			}
			return err
		}
	}
	if a.header.Seed, err = experiment.DrawSeed(); err != nil {
		return err
	}
	a.journal, err = auditForm.Create(a.plan.Out, a.header)
	if errors.Is(err, runfolder.ErrExists) {
		return hint.Add(spec.BadInputf("%s: an audit is there already", a.plan.Out), "go on with it by %s, or name another folder by %s", param.Resume, param.Out)
	}
	return err
}

// resumed returns an error if the header of a resumed audit differs from this plan. It copies the seed from the header.
func (a *auditor) resumed(then AuditHeader) error {
	now := a.header
	now.Seed, now.Version, now.Device = then.Seed, then.Version, then.Device
	what := ""
	switch {
	case then.Format != now.Format:
		what = fmt.Sprintf("its format is %d, of rscert %s", then.Format, then.Version)
	case then.Run != now.Run:
		what = "it is an audit of another run"
	case !slices.Equal(then.Examples, now.Examples):
		what = "it has other examples"
	case then.AuditBudget != now.AuditBudget || then.Gamma != now.Gamma:
		what = fmt.Sprintf("its budget is %+v at level %v", then.AuditBudget, then.Gamma)
	case then.Device != a.header.Device:
		a.console.Warnf(warning.OtherConditions, "the audit was on %s and goes on on %s", then.Device, a.header.Device)
	}
	if what != "" {
		return errors.Join(hint.Add(spec.BadInputf("cannot resume %s: %s", a.plan.Out, what), "resume with the settings of the folder, or name another by %s", param.Out), a.journal.Close())
	}
	a.header = now
	return nil
}

// target returns the class that the audit tries to change. This class is the certified class or, without a certificate,
// the label. target returns −1 if the example has neither.
func target(c certify.Certificate) int {
	if c.Prediction != certify.Abstained {
		return c.Prediction
	}
	return c.Label
}
