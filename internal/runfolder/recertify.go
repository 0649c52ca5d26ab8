package runfolder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
)

// Certifiers are the methods of a run.
type Certifiers struct {
	Votes    *certify.VoteCertifier  // nil: scores certify the classes
	Scores   *certify.ScoreCertifier // of a run with scores, else nil
	Stopping *certify.Stopping       // nil: every example gets all n samples
}

// Certifiers prepares the methods of a run with these parameters, for its target and alpha.
func (p Parameters) Certifiers(target certify.Target) (c Certifiers, err error) {
	method, byVotes := p.Method.Votes()
	scores := p.ScoreParams(target)
	if !byVotes || len(p.ConfidenceRadii) > 0 {
		if c.Scores, err = certify.NewScoreCertifier(scores); err != nil || !byVotes {
			return c, err
		}
	}
	params := certify.VoteParams{Target: scores.ClassTarget(), Method: method}
	if c.Votes, err = certify.NewVoteCertifier(params); err == nil && p.Stop.Given() {
		c.Stopping, err = certify.NewStopping(params, p.Stop, p.N)
	}
	return c, err
}

// ScoreParams returns the parameters of certification from scores.
func (p Parameters) ScoreParams(target certify.Target) certify.ScoreParams {
	_, byVotes := p.Method.Votes()
	bound, _ := p.Method.Scores()
	return certify.ScoreParams{
		Target: target, Bound: bound, Combine: p.Combine, ClassByVotes: byVotes,
		Confidence: certify.ConfidenceParams{Radii: p.ConfidenceRadii, Method: p.Confidence, Bound: p.ConfidenceBound, Band: p.Band},
	}
}

// Certifiers prepares the methods of a recorded run.
func (r Run) Certifiers() (Certifiers, error) {
	return r.Parameters.Certifiers(r.Target(r.Parameters.Alpha))
}

// Recertify certifies votes. Their share of alpha must match the stopping rule.
func (c Certifiers) Recertify(v certify.Votes) (certify.Certificate, error) {
	if err := c.checkShare(v); err != nil {
		return certify.Certificate{}, err
	}
	return c.Votes.Certify(v)
}

func (c Certifiers) checkShare(v certify.Votes) error {
	if c.Stopping == nil {
		return nil
	}
	marked := v
	if err := c.Stopping.Mark(&marked); err != nil {
		return err
	}
	if marked.AlphaShare != v.AlphaShare {
		return fmt.Errorf("alpha_share is %v, the rule's %v", v.AlphaShare, marked.AlphaShare)
	}
	return nil
}

// Check returns an error if a certificate claims more than its votes prove, or under other conditions than the run's. Of
// a certificate by scores it checks the conditions alone.
func (c Certifiers) Check(v certify.Votes, claimed certify.Certificate) error {
	if c.Votes == nil {
		return c.Scores.Agrees(claimed)
	}
	if err := c.checkShare(v); err != nil {
		return err
	}
	computed, err := c.Votes.CertifyAtLeast(v, claimed.Margin)
	if err == nil && reflect.DeepEqual(claimed.Bounds, computed.Bounds) {
		if _, err = Contradicts(claimed, computed); err == nil {
			return nil
		}
	}
	if computed, err = c.Votes.Certify(v); err == nil {
		_, err = Contradicts(claimed, computed)
	}
	if err != nil {
		return fmt.Errorf("its certificate is not what its votes certify: %w", err)
	}
	return nil
}

// EqualCertificates reports whether two certificates are written alike.
func EqualCertificates(a, b certify.Certificate) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}

// Contradicts returns an error if a certificate claims more than its evidence supports. If it claims less, lower is
// true: an earlier rscert may have had a looser bound.
func Contradicts(claimed, computed certify.Certificate) (lower bool, err error) {
	if EqualCertificates(claimed, computed) {
		return false, nil
	}
	weaker := computed
	weaker.Radius, weaker.Margin, weaker.Bounds, weaker.Unbounded = claimed.Radius, claimed.Margin, claimed.Bounds, claimed.Unbounded
	if claimed.Prediction == certify.Abstained {
		weaker.Prediction, weaker.Correct = claimed.Prediction, false
	}
	switch {
	case claimed.Radius > computed.Radius || claimed.Margin > computed.Margin || claimed.Unbounded && !computed.Unbounded:
		return false, fmt.Errorf("radius %v and margin %v are claimed, the evidence gives %v and %v",
			claimed.Radius, claimed.Margin, computed.Radius, computed.Margin)
	case !EqualCertificates(claimed, weaker):
		return false, fmt.Errorf("class %d by %s at alpha %v is claimed (correct: %v), the evidence gives class %d by %s at alpha %v (correct: %v), or another condition differs",
			claimed.Prediction, claimed.Method, claimed.Alpha, claimed.Correct, computed.Prediction, computed.Method, computed.Alpha, computed.Correct)
	case claimed.Radius == computed.Radius && claimed.Margin == computed.Margin:
		return false, errors.New("the bounds that its margin was computed from are not those of the evidence")
	}
	return true, nil
}

// Records returns the votes and the certificate of each example of the run that has both. A running process writes an
// example's votes before its certificate, so votes may be ahead, but not behind. The votes must prove the certificates;
// those of format 1 did not record their conditions, and are not recomputed. An error names the example.
func (e *Evidence) Records(ctx context.Context) ([]Record, error) {
	path := filepath.Join(e.dir, CertificatesFile)
	certs, err := e.Run.readOwnCertificates(path)
	if err == nil {
		err = certs.intact(path)
	}
	if err != nil {
		return nil, err
	}
	votes, err := e.ownVotes() // after the certificates, as a process may be appending to both
	if err != nil {
		return nil, err
	}
	l := left{certs: certs}
	l.votes.values = votes
	n, err := l.common(path)
	if err != nil {
		return nil, err
	}
	if c := len(certs.values); n < c {
		return nil, hint.Add(fmt.Errorf("%s: has votes of %d examples, and %s certificates of %d: without its votes no certificate can be checked",
			filepath.Join(e.dir, VotesFile), n, CertificatesFile, c), "'rscert certify … %s' samples the missing examples again", param.Resume)
	}
	records := make([]Record, n)
	for i, v := range votes[:n] {
		records[i] = Record{Votes: v.Votes, Certificate: certs.values[i], Scores: v.Scores, Compared: v.Compared}
	}
	return records, e.check(ctx, records)
}

// check checks the certificates of records, on all cores.
func (e *Evidence) check(ctx context.Context, records []Record) error {
	if !e.Run.sealed() {
		return nil
	}
	c, err := e.Run.Certifiers()
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(e.dir, RunFile), err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, r := range records {
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := c.Check(r.Votes, r.Certificate); err != nil {
				return fmt.Errorf("%s: example %d: %w", e.Path, r.Votes.Index, err)
			}
			return nil
		})
	}
	return g.Wait()
}
