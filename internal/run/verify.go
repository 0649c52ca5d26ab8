package run

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/signature"
	"github.com/rscert/rscert/internal/smoothing"
)

// Verdict is the result of Verify, as verify --json prints it.
type Verdict struct {
	Run   string `json:"run"`
	Valid bool   `json:"valid"` // true if no check failed
	// These values describe the run. They come from run.json, except that Method and Sound come from the certificates,
	// and Examples is counted in the run's files. They are empty if run.json has changed since rscert wrote it.
	Version string `json:"rscert,omitempty"`
	Format  int    `json:"format,omitempty"`
	// the checksum of every line in the run's files depends on the run (from run format 3 on)
	Bound      bool               `json:"bound"`
	Method     string             `json:"method,omitempty"`
	Sound      bool               `json:"sound"`
	Arithmetic certify.Arithmetic `json:"arithmetic,omitempty"`
	Precision  string             `json:"precision,omitempty"`
	Alpha      float64            `json:"alpha,omitempty"`
	Law        law.Name           `json:"law,omitempty"` // law of the noise
	Sigma      float64            `json:"sigma,omitempty"`
	Scaled     bool               `json:"scaled,omitempty"` // radii are in units of the scales of the columns
	Examples   int                `json:"examples"`         // examples with votes and a certificate
	Selected   int                `json:"selected"`         // examples of the complete run
	// The field Compared counts the samples that the run repeated in other batches to compare the outputs.
	Compared int64        `json:"compared"`
	Checks   []Finding    `json:"checks"`
	Again    *SampleAgain `json:"sampled_again,omitempty"`
	// Signature describes the folder's signature. It is nil if no signature can be read.
	Signature *Signature `json:"signature,omitempty"`
}

// FindingState is the outcome of a check.
type FindingState string

// These are the outcomes of a check.
const (
	Passed  FindingState = "passed"
	Failed  FindingState = "failed"
	NotDone FindingState = "not done"
)

// Finding is the result of one check.
type Finding struct {
	Name  string       `json:"name"`
	State FindingState `json:"state"`
	Says  string       `json:"says"`
	// Reasons lists the first reasons of a failure, at most five (mostReasons).
	Reasons []string `json:"reasons,omitempty"`
}

// These are the names of the checks, in their order.
const (
	checkLines        = "lines"
	checkExamples     = "examples"
	checkParameters   = "parameters"
	checkCertificates = "certificates"
	checkBounds       = "bounds"
	checkBatches      = "batches"
	checkSignature    = "signature"
	checkAgain        = "sampled again"
)

// VerifyChecks returns the names of the checks. If the argument 'model' is false, it leaves out the check that needs
// the model.
func VerifyChecks(model bool) []string {
	all := []string{checkLines, checkExamples, checkParameters, checkCertificates, checkBounds, checkBatches, checkSignature}
	if model {
		all = append(all, checkAgain)
	}
	return all
}

// mostReasons is the maximum number of reasons that a Finding lists.
const mostReasons = 5

// verifier is a verification in progress.
type verifier struct {
	*runfolder.Holdings
	Verdict
	show  progress.Options
	spell param.Spelling
}

// judge adds the finding of a check. If the list 'reasons' is not empty, the check has failed.
func (v *verifier) judge(name string, reasons []string, says string) {
	c := Finding{Name: name, State: Passed, Says: says}
	if n := len(reasons); n > 0 {
		c.State, c.Reasons = Failed, reasons[:min(n, mostReasons)]
		c.Says = fmt.Sprintf("%d contradictions", n)
		if n == 1 {
			c.Says = "1 contradiction"
		}
	}
	v.Checks = append(v.Checks, c)
}

// skip adds a skipped check. The argument 'why' is a format string for args. The values in args may be names of
// parameters.
func (v *verifier) skip(name, why string, args ...any) {
	v.Checks = append(v.Checks, Finding{Name: name, State: NotDone, Says: param.Textf(why, args...).Spell(v.spell)})
}

// Verify checks the run in a folder as a third party would. It trusts none of the results and recomputes everything
// that can be recomputed from the folder. If the argument 'again' is not nil, Verify also resamples examples with the
// model. If the argument 'key' is not nil, the run must have a signature by this key. The function 'spell' formats the
// names of parameters in the verdict. Verify returns an error if there is no run to verify.
func Verify(ctx context.Context, path string, again *Again, key *signature.PublicKey, spell param.Spelling, console experiment.Console) (Verdict, error) {
	h, err := runfolder.Audit(path)
	if err != nil {
		return judgeUnreadable(ctx, path, key, spell, err)
	}
	v := &verifier{Holdings: h, Verdict: Verdict{Run: path, Examples: len(h.Records)}, show: console.Progress, spell: spell}
	dir, err := runfolder.FolderOf(path)
	if err == nil {
		err = v.judgeSignature(ctx, dir, key)
	}
	if err != nil {
		return Verdict{}, err
	}
	if h.Evidence == nil {
		v.judge(checkLines, h.Changed, "")
		return v.decide(), nil
	}
	v.describe()
	v.judgeLines()
	v.judge(checkExamples, h.Extent, fmt.Sprintf("all %d are there, no others", len(h.Records)))
	v.judgeParameters()
	if err := v.judgeCertificates(ctx); err != nil {
		return Verdict{}, err
	}
	v.judgeBatches()
	if again != nil {
		if err := v.sampleAgain(ctx, *again, console); err != nil {
			return Verdict{}, err
		}
	}
	return v.decide(), nil
}

// decide returns the verdict. The run is valid if no check failed.
func (v *verifier) decide() Verdict {
	order := VerifyChecks(true)
	slices.SortStableFunc(v.Checks, func(a, b Finding) int { return slices.Index(order, a.Name) - slices.Index(order, b.Name) })
	v.Valid = true
	for _, c := range v.Checks {
		v.Valid = v.Valid && c.State != Failed
	}
	return v.Verdict
}

// describe copies the description of the run from run.json.
func (v *verifier) describe() {
	run := v.Evidence.Run
	p := run.Parameters
	target := run.Target(p.Alpha)
	v.Version, v.Selected, v.Alpha, v.Law, v.Sigma = run.Version, run.Data.Selected, p.Alpha, p.Law, p.Sigma
	v.Scaled = p.Scaled()
	v.Format, _ = run.Format()
	v.Bound = run.Bound()
	v.Arithmetic, v.Precision = target.Arithmetic, target.Precision
	v.Sound = len(v.Records) > 0
	for _, r := range v.Records {
		v.Method = r.Certificate.Method
		v.Sound = v.Sound && r.Certificate.Sound
		v.Compared += r.Compared
	}
}

func (v *verifier) judgeLines() {
	if _, checksums := v.Evidence.Run.Format(); !checksums && len(v.Changed) == 0 {
		v.skip(checkLines, "the lines of format 1 have no checksums")
		return
	}
	says := "the checksum of every line is right, and of this run"
	if !v.Bound {
		says = fmt.Sprintf("the checksum of every line is right; lines of format %d name no run, so lines of another run may pass", v.Format)
	}
	v.judge(checkLines, v.Changed, says)
}

// judgeParameters checks that the parameters, the examples and the noise table in run.json agree with each other.
func (v *verifier) judgeParameters() {
	run := v.Evidence.Run
	if _, err := run.Certifiers(); err != nil {
		v.Record = append(v.Record, err.Error())
	}
	if run.Noise.Distribution != "" {
		if err := checkNoiseTable(*run); err != nil {
			v.Record = append(v.Record, param.Spell(err, v.spell))
		}
	}
	v.judge(checkParameters, v.Record, "run.json agrees with itself, the table of the noise included")
}

// checkNoiseTable recomputes the noise table and compares it with run.json. Certificates are exact only if the noise of
// the run has the recomputed table.
func checkNoiseTable(run runfolder.Run) error {
	if run.Parameters.Scaled() {
		return checkColumnTables(run)
	}
	step, ok := new(big.Rat).SetString(run.Noise.Step)
	if !ok || step.Sign() <= 0 {
		return fmt.Errorf("the step of the noise is %q", run.Noise.Step)
	}
	additive, err := run.Parameters.Law.Additive()
	if err != nil {
		return checkSplits(run, step)
	}
	table, err := smoothing.NewLawTable(additive, run.Parameters.Sigma, step)
	if err != nil {
		return param.Errorf("the noise of %s %v: %w", param.Sigma, run.Parameters.Sigma, err)
	}
	if n := run.Noise; n.Distribution != table.Name() || n.Table != table.Digest() || n.Entries != table.Entries() || n.Eta != table.Eta {
		return param.Errorf("the table of the noise is %s with %d entries, SHA-256 %.12s… and eta %v; %s %v gives %s with %d entries, %.12s… and %v",
			n.Distribution, n.Entries, n.Table, n.Eta, param.Sigma, run.Parameters.Sigma, table.Name(), table.Entries(), table.Digest(), table.Eta)
	}
	return nil
}

// checkSplits recomputes the offsets of a run with the law Splitting.
func checkSplits(run runfolder.Run, step *big.Rat) error {
	width, err := law.Width(run.Parameters.Sigma, step)
	if err != nil {
		return param.Errorf("%s %v: %w", param.Sigma, run.Parameters.Sigma, err)
	}
	splits, n := smoothing.NewSplits(run.Parameters.Seed, width, int(run.Inputs())), run.Noise
	switch {
	case n.Distribution != splits.Name() || n.Entries != width || n.Eta != 0 || n.Quantised:
		return param.Errorf("the noise is %s with %d entries and eta %v; %s %v gives %s with %d entries and eta 0",
			n.Distribution, n.Entries, n.Eta, param.Sigma, run.Parameters.Sigma, splits.Name(), width)
	case n.Table != splits.Digest():
		return param.Errorf("the offsets have SHA-256 %.12s…, and %s %d gives %.12s…", n.Table, param.Seed, run.Parameters.Seed, splits.Digest())
	case run.Parameters.N != int64(width) || run.Parameters.N0 != 0:
		return param.Errorf("%s is %d and %s is %d; %s has %d evaluations and no selection samples", param.N, run.Parameters.N, param.N0, run.Parameters.N0, splits.Name(), width)
	}
	return nil
}

// judgeCertificates recomputes every certificate and the bounds on the confidence.
func (v *verifier) judgeCertificates(ctx context.Context) error {
	run := v.Evidence.Run
	certifiers, err := run.Certifiers()
	if err != nil {
		v.skip(checkCertificates, "the parameters are not those of a run")
		v.skip(checkBounds, "the parameters are not those of a run")
		return nil
	}
	whole := len(v.Changed)+len(v.Extent) == 0
	if !run.Parameters.SaveScores || !whole {
		v.skipBounds(whole)
	}
	if certifiers.Votes != nil {
		err = v.judgeByVotes(ctx, certifiers)
	} else if !run.Parameters.SaveScores || !whole {
		v.judgeConditions(certifiers, whole)
	}
	if err == nil && run.Parameters.SaveScores && whole {
		err = v.judgeByScores(ctx, certifiers.Votes == nil)
	}
	return err
}

// skipBounds records the reason why the bounds are not recomputed.
func (v *verifier) skipBounds(whole bool) {
	switch {
	case len(v.Evidence.Run.Parameters.ConfidenceRadii) == 0:
		v.skip(checkBounds, "the run bounds no confidence")
	case !whole:
		v.skip(checkBounds, "lines or examples are not whole")
	default:
		v.skip(checkBounds, "the scores were not kept (%s)", param.SaveScores)
	}
}

// judgeByVotes recertifies the votes of every example, on all cores.
func (v *verifier) judgeByVotes(ctx context.Context, c runfolder.Certifiers) error {
	found := make([]string, len(v.Records))
	lower := make([]bool, len(v.Records))
	bar := progress.Start(v.show, "certificates", int64(len(v.Records)), 0)
	defer bar.Finish()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, r := range v.Records {
		g.Go(func() error {
			cert, err := c.Recertify(r.Votes)
			if err == nil {
				lower[i], err = runfolder.Contradicts(r.Certificate, cert)
			}
			if err != nil {
				found[i] = fmt.Sprintf("example %d: %v", r.Votes.Index, err)
			}
			bar.Add(1, "")
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	v.judgeAgreement("votes", found, lower)
	return nil
}

// judgeAgreement adds the finding of a check. The check compares the run's certificates with the certificates that were
// recomputed from the evidence.
func (v *verifier) judgeAgreement(evidence string, found []string, lower []bool) {
	var reasons []string
	below := 0
	for i, why := range found {
		if why != "" {
			reasons = append(reasons, why)
		}
		if lower[i] {
			below++
		}
	}
	says := fmt.Sprintf("all %d computed again from their %s", len(found), evidence)
	if below > 0 {
		says += fmt.Sprintf("; %d of them claim less than is certified now", below)
	}
	v.judge(checkCertificates, reasons, says)
}

// judgeConditions checks certificates that were computed from scores. It is for two cases: the run did not save these
// scores, or the folder is damaged or incomplete. Verify cannot recompute such certificates, so judgeConditions checks
// only their conditions.
func (v *verifier) judgeConditions(c runfolder.Certifiers, whole bool) {
	var reasons []string
	for _, r := range v.Records {
		if err := c.Scores.AgreesWith(r.Votes, r.Certificate); err != nil {
			reasons = append(reasons, fmt.Sprintf("example %d: %v", r.Votes.Index, err))
		}
	}
	switch {
	case len(reasons) > 0:
		v.judge(checkCertificates, reasons, "")
	case whole:
		v.skip(checkCertificates, "they are of scores, which were not kept (%s); their conditions are the run's", param.SaveScores)
	default:
		v.skip(checkCertificates, "they are of scores, and lines or examples are not whole")
	}
}

// judgeByScores recertifies the saved scores. It recomputes the bounds on the confidence, and the certificates if
// scores certify the classes. Reading the scores also verifies the checksums of the file.
func (v *verifier) judgeByScores(ctx context.Context, certificates bool) error {
	run := v.Evidence.Run
	q := SavedScores{Evidence: v.Evidence, Params: run.Parameters.ScoreParams(run.Target(run.Parameters.Alpha)), Temperature: 1, Votes: v.Evidence.ClassMethod()}
	found, lower := make([]string, len(v.Records)), make([]bool, len(v.Records))
	var rows []certify.ConfidenceBound
	turn := 0
	err := CertifyScores(ctx, q, v.show, func(cert certify.Certificate, bounds []certify.ConfidenceBound) {
		rows = append(rows, bounds...)
		if turn < len(found) {
			var err error
			if lower[turn], err = runfolder.Contradicts(v.Records[turn].Certificate, cert); err != nil {
				found[turn] = fmt.Sprintf("example %d: %v", cert.Index, err)
			}
		}
		turn++
	})
	if errors.Is(err, context.Canceled) {
		return err
	}
	if err == nil && turn != len(v.Records) {
		err = fmt.Errorf("%s has %d examples, %s %d", runfolder.ScoresFile, turn, runfolder.VotesFile, len(v.Records))
	}
	if err != nil {
		v.judge(checkBounds, []string{err.Error()}, "")
		if certificates {
			v.skip(checkCertificates, "the scores from which they were computed are damaged")
		}
		return nil
	}
	if certificates {
		v.judgeAgreement("scores", found, lower)
	}
	return v.judgeBounds(rows)
}

// judgeBounds compares bounds.csv with bounds from the saved scores.
func (v *verifier) judgeBounds(rows []certify.ConfidenceBound) error {
	run := v.Evidence.Run
	if len(run.Parameters.ConfidenceRadii) == 0 {
		v.skip(checkBounds, "the run bounds no confidence; the checksums of its scores are right")
		return nil
	}
	if !v.OwnBounds {
		v.skip(checkBounds, "bounds.csv has the columns of an earlier rscert")
		return nil
	}
	var want bytes.Buffer
	if err := run.WriteBounds(&want, rows); err != nil {
		return err
	}
	path, err := v.Evidence.Bounds()
	var got []byte
	if err == nil {
		got, err = os.ReadFile(path.File)
	}
	if err != nil {
		v.judge(checkBounds, []string{err.Error()}, "")
		return nil
	}
	v.judge(checkBounds, differentLines(filepath.Base(path.File), got, want.Bytes()), "computed again from the saved scores")
	return nil
}

// differentLines lists the lines of a file that differ from the expected lines.
func differentLines(name string, got, want []byte) (reasons []string) {
	a, b := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	if len(a) != len(b) {
		return []string{fmt.Sprintf("%s has %d lines, the scores give %d", name, len(a)-1, len(b)-1)}
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			reasons = append(reasons, fmt.Sprintf("%s:%d: is not what the scores give", name, i+1))
		}
	}
	return reasons
}

// judgeBatches reports whether the run computed some samples again, in other batches, and compared the outputs.
func (v *verifier) judgeBatches() {
	switch {
	case v.Compared == 1:
		v.judge(checkBatches, nil, "1 sample was run again, alone and among other inputs, with the same outputs")
	case v.Compared > 0:
		v.judge(checkBatches, nil, fmt.Sprintf("%d samples were run again, alone and among other inputs, with the same outputs", v.Compared))
	case v.chosen():
		v.skip(checkBatches, "the run is older than this check; 'rscert verify %s' samples examples of it again", param.Model)
	default:
		v.skip(checkBatches, "none of its samples was among those that the seed chooses")
	}
}

// chosen reports whether this version of rscert would run at least one sample of the run again, in other batches, to
// compare the outputs.
func (v *verifier) chosen() bool {
	run := v.Evidence.Run
	p := run.Parameters
	s := smoothing.Sampler{Seed: p.Seed, N0: p.N0, Compare: experiment.ComparesFirst(p.Conditions, run.Data.Examples)}
	for _, r := range v.Records {
		if s.Compared(r.Votes.Index, r.Votes.N) > 0 {
			return true
		}
	}
	return false
}
