package runfolder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/confined"
	"github.com/rscert/rscert/internal/scorefile"
)

// Keys required in every line.
var (
	votesKeys       = []string{"index", "label", "n", "counts"}
	certificateKeys = []string{"index", "label", "prediction", "correct", "radius", "margin", "method", "alpha", "sigma", "n", "sound"}
)

// readOwnVotes reads the run's votes, up to the first damaged line.
func (r Run) readOwnVotes(path string) (content[votesLine], error) {
	c, err := readLines(path, fileFormat[votesLine]{
		keys: votesKeys, sealed: r.sealed(), own: true, size: votesLine.size,
		valid: func(v votesLine) error { return v.Validate() },
	})
	if missing(err) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	positions := r.positions()
	for turn, v := range c.values {
		if err := r.checkVotes(v.Votes, turn, positions); err != nil {
			return c, fmt.Errorf("%s:%d: %w", path, c.lines[turn], err)
		}
	}
	return c, nil
}

// checkVotes checks that votes belong to the run's next example. Runs of the first format may lack fields that it did
// not record.
func (r Run) checkVotes(v certify.Votes, turn int, positions []int) error {
	p := r.Parameters
	if v.Stop != p.Stop {
		return fmt.Errorf("stop is %q, the run's %q", v.Stop, p.Stop)
	}
	if !r.sealed() {
		return nil
	}
	switch {
	case turn >= len(positions):
		return fmt.Errorf("the run has %d examples, and this is one more", len(positions))
	case v.Index != positions[turn]:
		return fmt.Errorf("index is %d, and this line of the run is of example %d", v.Index, positions[turn])
	case len(v.Counts) != r.Model.Classes:
		return fmt.Errorf("counts has %d classes, the run's model %d", len(v.Counts), r.Model.Classes)
	case v.N0 != p.N0:
		return fmt.Errorf("n0 is %d, the run's %d", v.N0, p.N0)
	case v.N > p.N || (v.N != p.N && v.Stop == (certify.StopRule{})):
		return fmt.Errorf("n is %d, the run's %d", v.N, p.N)
	}
	return nil
}

// readOwnCertificates reads the run's certificates, up to the first damaged line.
func (r Run) readOwnCertificates(path string) (content[certify.Certificate], error) {
	c, err := readLines(path, fileFormat[certify.Certificate]{
		keys: certificateKeys, sealed: r.sealed(), own: true,
		valid: func(c certify.Certificate) error {
			noise := r.Parameters.Law
			switch {
			case c.Law != noise || c.Norm != noise.Law().Norm():
				return fmt.Errorf("it is of %s noise in the %s norm, the run of %s noise in the %s norm", c.Law, c.Norm, noise, noise.Law().Norm())
			case r.sealed() && c.Sigma != r.Parameters.Sigma:
				return fmt.Errorf("sigma is %v, the run's %v", c.Sigma, r.Parameters.Sigma)
			}
			return nil
		},
	})
	if missing(err) {
		return c, nil
	}
	return c, err
}

// DamageError says that a folder's contents are not as its run wrote them. The files could be read: a failing disk
// gives another error.
type DamageError struct{ err error }

func (e *DamageError) Error() string { return e.err.Error() }

func (e *DamageError) Unwrap() error { return e.err }

// damaged wraps a data error as a DamageError.
func damaged(err error) error {
	var failed *fs.PathError
	var renaming *os.LinkError
	var number syscall.Errno
	if err == nil || errors.As(err, &failed) || errors.As(err, &renaming) || errors.As(err, &number) {
		return err
	}
	return &DamageError{err}
}

// left is the contents of an interrupted run's files.
type left struct {
	votes  content[votesLine]
	certs  content[certify.Certificate]
	bounds ownBounds
}

// readLeft reads the files up to the damage from a kill or a power cut. Other damage is an error.
func (f *Folder) readLeft() (l left, err error) {
	path := f.path(VotesFile)
	if l.votes, err = f.run.readOwnVotes(path); err == nil {
		err = l.votes.repairable(path)
	}
	if err != nil {
		return l, err
	}
	path = f.path(CertificatesFile)
	if l.certs, err = f.run.readOwnCertificates(path); err == nil {
		err = l.certs.repairable(path)
	}
	if err != nil || len(f.run.Parameters.ConfidenceRadii) == 0 {
		return l, err
	}
	path = f.path(BoundsFile)
	if l.bounds, err = readBounds(path); err == nil {
		err = l.bounds.repairable(path)
	}
	if missing(err) {
		l.bounds.header = boundsHeader
	}
	if missing(err) {
		err = nil
	}
	return l, err
}

// common returns the number of examples with both votes and a certificate. These must belong to the same examples.
func (l left) common(path string) (int, error) {
	n := min(len(l.votes.values), len(l.certs.values))
	for i := range n {
		if v, c := l.votes.values[i], l.certs.values[i]; v.Index != c.Index || v.Label != c.Label || v.N != c.N {
			return 0, fmt.Errorf("%s:%d: is of example %d with label %d and n = %d, and %s has example %d with label %d and n = %d there",
				path, l.certs.lines[i], c.Index, c.Label, c.N, VotesFile, v.Index, v.Label, v.N)
		}
	}
	return n, nil
}

// recover finds the examples that are complete in every file and cuts the files back to them. The rest was being
// written at the interruption, or had not reached the disk.
func (f *Folder) recover() error {
	l, err := f.readLeft()
	if err != nil {
		return damaged(err)
	}
	for path, file := range map[string]interface{ asWritten(string) error }{
		f.path(VotesFile): l.votes, f.path(CertificatesFile): l.certs, f.path(BoundsFile): l.bounds,
	} {
		if err := file.asWritten(path); err != nil {
			return damaged(err)
		}
	}
	if l.bounds.header == certifiedHeader { // appended rows have other columns: start again
		l.bounds = ownBounds{header: boundsHeader}
	}
	n, err := l.common(f.path(CertificatesFile))
	if err != nil {
		return damaged(err)
	}
	p := f.run.Parameters
	if len(p.ConfidenceRadii) > 0 {
		n, _ = p.boundsOf(l.certs.values[:n], l.bounds)
	}
	if p.SaveScores {
		if n, err = f.recoverScores(l.votes.values[:n]); err != nil {
			return err
		}
	}
	f.dropped = max(len(l.votes.values), len(l.certs.values)) - n
	var s sizes
	for i := range n {
		v := l.votes.values[i]
		f.done = append(f.done, Record{Votes: v.Votes, Certificate: l.certs.values[i], Scores: v.Scores, Compared: v.Compared})
		s.votes, s.certs = l.votes.ends[i], l.certs.ends[i]
	}
	_, s.bounds = p.boundsOf(l.certs.values[:n], l.bounds)
	return damaged(f.open(s))
}

// recoverScores returns the number of examples with unchanged scores. It opens the scores for writing if any are
// missing.
func (f *Folder) recoverScores(votes []votesLine) (int, error) {
	path := f.path(ScoresFile)
	open := scorefile.Create
	if info, err := os.Lstat(path); err == nil {
		asWritten := info.Size() == f.run.scoreShape().FileSize() // archives are read even with more bytes behind them
		if asWritten && len(votes) == f.run.Data.Selected && checkScores(path, votes) == nil {
			return len(votes), nil
		}
		open = scorefile.Reopen
	}
	w, err := open(path, f.run.scoreShape())
	if err != nil {
		return 0, damaged(err)
	}
	f.scores = w
	for n, v := range votes {
		if sum, err := w.Digest(n); err != nil || sum != v.Scores {
			return n, err
		}
	}
	return len(votes), nil
}

// openScores opens a file of scores, in a run's folder only the run's own.
func openScores(path string) (*scorefile.Reader, error) {
	if !Owns(path) {
		return scorefile.Open(path)
	}
	file, err := confined.Open(path)
	if err != nil {
		return nil, err
	}
	return scorefile.NewReader(path, file)
}

// checkScores compares a finished file of scores with the votes' checksums.
func checkScores(path string, votes []votesLine) error {
	r, err := openScores(path)
	if err != nil {
		return err
	}
	s := Scores{Reader: r, path: path, votes: votes}
	for err == nil {
		_, _, err = s.Next()
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, r.Close())
}
