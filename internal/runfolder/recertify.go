package runfolder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/memory"
	"github.com/rscert/rscert/internal/param"
)

// Certifiers holds the certification methods of a run.
type Certifiers struct {
	Votes    *certify.VoteCertifier  // nil: scores certify the classes
	Scores   *certify.ScoreCertifier // nil: the run certifies nothing from scores
	Stopping *certify.Stopping       // nil: every example gets all n samples
}

// Certifiers prepares the certification methods that the parameters name. The methods certify for the given target.
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

// Certifiers prepares the certification methods of a recorded run.
func (r Run) Certifiers() (Certifiers, error) {
	return r.Parameters.Certifiers(r.Target(r.Parameters.Alpha))
}

// Recertify certifies votes. It returns an error if the share of alpha recorded in the votes does not match the
// stopping rule.
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

// Check returns an error if a certificate claims more than its votes prove, or if its conditions differ from the run's
// conditions. If the certificate comes from scores, Check checks only the conditions.
func (c Certifiers) Check(v certify.Votes, claimed certify.Certificate) error {
	if c.Votes == nil {
		return c.Scores.AgreesWith(v, claimed)
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

// EqualCertificates reports whether two certificates have the same JSON.
func EqualCertificates(a, b certify.Certificate) bool {
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(x) == string(y)
}

// Contradicts returns an error if a certificate claims more than the certificate computed from its evidence. It also
// returns an error if the two certificates differ otherwise, for example in the class. If the certificate claims less,
// the result 'lower' is true. An earlier version of rscert with a looser bound may have written such a certificate.
func Contradicts(claimed, computed certify.Certificate) (lower bool, err error) {
	computed = computed.AsStated(claimed)
	if EqualCertificates(claimed, computed) {
		return false, nil
	}
	weaker := computed
	weaker.Radius, weaker.Margin = claimed.Radius, claimed.Margin
	weaker.Bounds, weaker.Unbounded, weaker.Steps = claimed.Bounds, claimed.Unbounded, claimed.Steps
	if claimed.Prediction == certify.Abstained {
		weaker.Prediction, weaker.Correct = claimed.Prediction, false
	}
	switch {
	case claimed.Radius > computed.Radius || claimed.Margin > computed.Margin || claimed.Unbounded && !computed.Unbounded,
		claimed.Steps != nil && (computed.Steps == nil || *claimed.Steps > *computed.Steps):
		return false, fmt.Errorf("radius %v and margin %v are claimed, the evidence gives %v and %v",
			claimed.Radius, claimed.Margin, computed.Radius, computed.Margin)
	case !EqualCertificates(claimed, weaker):
		return false, fmt.Errorf("class %d by %s at alpha %v is claimed (correct: %v), "+
			"the evidence gives class %d by %s at alpha %v (correct: %v), or another condition differs",
			claimed.Prediction, claimed.Method, claimed.Alpha, claimed.Correct,
			computed.Prediction, computed.Method, computed.Alpha, computed.Correct)
	case claimed.Radius == computed.Radius && claimed.Margin == computed.Margin:
		return false, errors.New("its bounds differ from the bounds that the evidence gives")
	}
	return true, nil
}

// Records collects the records from EachRecord. It returns an error if the records need more memory than one input file
// may take (memory.Limit).
func (e *Evidence) Records(ctx context.Context) (records []Record, err error) {
	left := memory.Limit()
	err = e.EachRecord(ctx, func(r Record) error {
		if left -= r.size(); left < 0 {
			return fmt.Errorf("%s: %w", e.Path, memory.Check(-1))
		}
		records = append(records, r)
		return nil
	})
	return records, err
}

// size approximates the memory of a record in bytes.
func (r Record) size() int64 {
	const bound = 64 // size of an entry of the map of bounds, including its key
	return int64(unsafe.Sizeof(r)) + int64(votesLine{Votes: r.Votes}.size()) + int64(bound*len(r.Certificate.Bounds))
}

// EachRecord calls the function 'visit', in order, for each example of the run that has both votes and a certificate. A
// running process writes an example's votes before its certificate. So the last votes may lack their certificate, but
// every certificate must have its votes. The votes must prove the certificates. EachRecord cannot check this for runs
// in format 1, which do not record the conditions of a certificate. If the votes of an example do not prove its
// certificate, the error names the example.
func (e *Evidence) EachRecord(ctx context.Context, visit func(Record) error) error {
	check := func(Record) error { return nil }
	if e.Run.sealed() {
		c, err := e.Run.Certifiers()
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(e.dir, RunFile), err)
		}
		check = func(r Record) error { return c.Check(r.Votes, r.Certificate) }
	}
	p := pairs{path: filepath.Join(e.dir, VotesFile)}
	var err error
	if p.votes, err = e.Run.openVotes(p.path); err != nil {
		return err
	}
	defer p.votes.close()
	if p.certs, err = e.Run.openCertificates(filepath.Join(e.dir, CertificatesFile)); err != nil {
		return err
	}
	defer p.certs.close()
	for {
		records, err := p.next()
		if err == nil {
			err = e.checkRecords(ctx, records, check)
		}
		if err != nil || len(records) == 0 {
			return err
		}
		for _, r := range records {
			if err := visit(r); err != nil {
				return err
			}
		}
	}
}

// checkRecords checks the certificates of records, on all cores.
func (e *Evidence) checkRecords(ctx context.Context, records []Record, check func(Record) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for part := range slices.Chunk(records, 64) {
		g.Go(func() error {
			for _, r := range part {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := check(r); err != nil {
					return fmt.Errorf("%s: example %d: %w", e.Path, r.Votes.Index, err)
				}
			}
			return nil
		})
	}
	return g.Wait()
}

// pairs reads votes and certificates side by side.
type pairs struct {
	path  string // path of the votes
	votes *valueReader[votesLine]
	certs *valueReader[certify.Certificate]
}

// next returns the records of the next few thousand examples. After the last example it returns no records.
func (p pairs) next() (records []Record, err error) {
	for len(records) < 1<<12 {
		// The certificate is read first. Its votes were written earlier, so they are in the file even if the run is
		// still writing.
		c, certified, err := p.certs.next()
		if err == nil && !certified {
			err = p.certs.damage.intact(p.certs.path)
		}
		if err != nil || !certified {
			return records, err
		}
		v, voted, err := p.votes.next()
		if err == nil && !voted {
			err = p.missingVotes()
		}
		if err != nil {
			return nil, err
		}
		if err := checkPair(v.Votes, c); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", p.certs.path, p.certs.number, err)
		}
		records = append(records, Record{Votes: v.Votes, Certificate: c, Scores: v.Scores, Compared: v.Compared})
	}
	return records, nil
}

// missingVotes returns the error for a certificate whose votes are missing.
func (p pairs) missingVotes() error {
	if err := p.votes.damage.intact(p.path); err != nil {
		return err
	}
	if err := p.certs.drain(); err != nil {
		return err
	}
	return hint.Add(fmt.Errorf("%s: has votes of %d examples, and %s certificates of %d: without its votes no certificate can be checked",
		p.path, p.votes.turn, CertificatesFile, p.certs.turn), "'rscert certify … %s' samples the missing examples again", param.Resume)
}
