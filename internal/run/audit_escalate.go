package run

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/scratch"
)

// An escalation certifies a contradicted example again at the level escalationAlpha (α′), and tests it again at the
// level escalationGamma (γ′). A right certificate is contradicted again with probability at most α′ + γ′.
const (
	escalationAlpha = 1e-6
	escalationGamma = 1e-6
)

// contradictions returns the tests that reject and thereby contradict the example's certificate or its bounds on the
// confidence.
func (r *rounds) contradictions(c certify.Certificate) (all []AuditTest) {
	for _, round := range slices.Sorted(maps.Keys(r.results)) {
		for i, t := range r.tests[round] {
			if r.results[round][i].Rejected && t.contradicts(c) {
				all = append(all, t)
			}
		}
	}
	return all
}

// contradicts reports whether a rejection by the test contradicts the certificate c or a bound on the confidence.
func (t AuditTest) contradicts(c certify.Certificate) bool {
	certified := c.Prediction != certify.Abstained
	switch t.Kind {
	case TestConfidence:
		return t.Distance <= t.Radius
	case TestWrong: // the class is the label; a rejection says that the rival is more probable than the label
		return certified && t.Class == c.Prediction
	case TestRight: // if the test rejects its hypothesis, the label is more probable than the rival
		return certified && t.Rival == c.Prediction
	case TestSlack:
		return certified
	default:
		return certified && t.Class == c.Prediction && t.Distance <= c.Radius
	}
}

// escalate certifies a contradicted example again with fresh noise at the level escalationAlpha. It then repeats the
// contradicting tests against the fresh certificate at the level escalationGamma.
func (a *auditor) escalate(ctx context.Context, rec runfolder.Record, r *rounds) error {
	if r.escalated != nil {
		return nil
	}
	seed, err := experiment.DrawSeed()
	if err != nil {
		return err
	}
	plan := a.runPlan
	plan.FixedSeed, plan.Alpha = &seed, escalationAlpha
	fresh, err := a.certifyAgain(ctx, plan, rec)
	if err != nil {
		return fmt.Errorf("example %d: certifying it again: %w", rec.Votes.Index, err)
	}
	if a.plan.fresh != nil {
		a.plan.fresh(&fresh.Certificate)
	}
	verifySeed, err := experiment.DrawSeed()
	if err != nil {
		return err
	}
	e := &Escalation{
		Seed: seed, Alpha: plan.Alpha, Prediction: fresh.Certificate.Prediction, Radius: fresh.Certificate.Radius,
		VerifySeed: verifySeed, Gamma: escalationGamma,
	}
	found := r.contradictions(rec.Certificate)
	for i, c := range found {
		t, ok := c.against(fresh)
		t.Level = escalationGamma / float64(len(found))
		if !ok || !t.contradicts(fresh.Certificate) {
			continue
		}
		result, err := a.testAgain(ctx, rec.Votes.Index, verifySeed, i, t)
		if err != nil {
			return err
		}
		e.Contradicted = e.Contradicted || result.Rejected
	}
	r.escalated = e
	return a.journal.Append(AuditLine{Index: rec.Votes.Index, Step: Escalated, Escalation: e})
}

// testAgain repeats a test whose rejection contradicts the certificate of an example or a bound on its confidence. The
// repetition is part of the example's escalation.
func (a *auditor) testAgain(ctx context.Context, index int, seed uint64, turn int, t AuditTest) (TestResult, error) {
	if t.Kind != TestFlip || a.byScores() {
		return a.test(ctx, index, seed, turn, t)
	}
	input, err := a.place(index, t)
	if err != nil {
		return TestResult{}, err
	}
	return a.flipAgain(ctx, seed, index*testsPerExample+turn, t, input)
}

// The method 'against' returns a copy of the test t, changed so that it tests a fresh certificate. A slack test gets
// the fresh radius, and a test of a confidence gets the fresh bounds. The second result is false in two cases. In the
// first case, t is a slack test, and the fresh certificate has another class than t. In the second case, t is a test of
// a confidence, and there are no fresh bounds for its class and radius.
func (t AuditTest) against(fresh runfolder.Record) (AuditTest, bool) {
	switch t.Kind {
	case TestSlack:
		t.Radius = fresh.Certificate.Radius
		return t, t.Class == fresh.Certificate.Prediction
	case TestConfidence:
		for _, b := range fresh.Bounds {
			class := b.Label
			if b.Certified {
				class = b.Prediction
			}
			if b.Radius == t.Radius && class == t.Class {
				t.Lower, t.Upper = b.Lower, b.Upper
				return t, true
			}
		}
		return t, false
	}
	return t, true
}

// certifyAgain certifies the example of a record again, by the plan p. It uses the model and the data that are already
// open.
func (a *auditor) certifyAgain(ctx context.Context, p Plan, rec runfolder.Record) (fresh runfolder.Record, err error) {
	folder, err := scratch.Make("", "rscert-audit-")
	if err != nil {
		return fresh, err
	}
	defer func() { err = errors.Join(err, folder.Remove()) }()
	p.Out, p.Resume = filepath.Join(folder.Path(), "run"), false
	experiment := *a.Experiment // a copy, which gets another seed but has the same model and data
	experiment.Spec.Seed = *p.FixedSeed
	p.Spec.Seed = *p.FixedSeed
	r := &running{plan: p, console: a.console, experiment: &experiment, positions: []int{rec.Votes.Index}}
	r.console.Progress.Quiet = true
	found, err := r.drawAgain(ctx, r.describe(), []runfolder.Record{rec})
	if err != nil {
		return fresh, err
	}
	return found[0], nil
}
