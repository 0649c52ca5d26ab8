package runfolder

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/confined"
	"github.com/rscert/rscert/internal/scorefile"
)

// Every line of votes must have the keys in votesKeys. Every line of certificates must have the keys in
// certificateKeys.
var (
	votesKeys       = []string{"index", "label", "n", "counts"}
	certificateKeys = []string{"index", "label", "prediction", "correct", "radius", "margin", "method", "alpha", "sigma", "n", "sound"}
)

// openVotes opens the run's votes. A missing file counts as empty.
func (r Run) openVotes(path string) (*valueReader[votesLine], error) {
	votes, err := fileFormat[votesLine]{
		keys: votesKeys, sealed: r.sealed(), seed: r.Seed(), own: true, size: votesLine.size,
		valid: func(v votesLine) error { return v.Validate() },
	}.open(path)
	if missing(err) {
		return noValues[votesLine](path), nil
	}
	if err != nil {
		return nil, err
	}
	positions := r.positions()
	votes.check = func(turn int, v votesLine) error { return r.checkVotes(v.Votes, turn, positions) }
	return votes, nil
}

// checkVotes checks that votes belong to the run's next example. Votes of format 1 may lack fields, so for them
// checkVotes compares only the fields Scaled and Stop with the run.
func (r Run) checkVotes(v certify.Votes, turn int, positions []int) error {
	p := r.Parameters
	if v.Scaled != p.Scaled() {
		return fmt.Errorf("scaled is %v, the run's %v", v.Scaled, p.Scaled())
	}
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

// openCertificates opens the run's certificates. A missing file counts as empty.
func (r Run) openCertificates(path string) (*valueReader[certify.Certificate], error) {
	certs, err := fileFormat[certify.Certificate]{
		keys: certificateKeys, sealed: r.sealed(), seed: r.Seed(), own: true,
		valid: func(c certify.Certificate) error {
			noise := r.Parameters.Law
			switch {
			case c.Law != noise || c.Norm != noise.Law().Norm():
				return fmt.Errorf("it is of %s noise in the %s norm, the run of %s noise in the %s norm", c.Law, c.Norm, noise, noise.Law().Norm())
			case c.Scaled != r.Parameters.Scaled():
				return fmt.Errorf("scaled is %v, the run's %v", c.Scaled, r.Parameters.Scaled())
			case r.sealed() && c.Sigma != r.Parameters.Sigma:
				return fmt.Errorf("sigma is %v, the run's %v", c.Sigma, r.Parameters.Sigma)
			case c.Claim != r.Parameters.Claim():
				return fmt.Errorf("it claims that %s; the run claims that %s", c.Claim.Says(), r.Parameters.Claim().Says())
			}
			return nil
		},
	}.open(path)
	if missing(err) {
		return noValues[certify.Certificate](path), nil
	}
	return certs, err
}

// DamageError means that a folder's contents are not as the run wrote them. A failed read gives an error of another
// type.
type DamageError struct{ err error }

func (e *DamageError) Error() string { return e.err.Error() }

func (e *DamageError) Unwrap() error { return e.err }

// damaged returns a DamageError if err describes a fault in the data. It returns the error of a failed system call
// unchanged.
func damaged(err error) error {
	var failed *fs.PathError
	var renaming *os.LinkError
	var number syscall.Errno
	if err == nil || errors.As(err, &failed) || errors.As(err, &renaming) || errors.As(err, &number) {
		return err
	}
	return &DamageError{err}
}

// recover finds the examples that are complete in every file, and cuts everything else off the files. After an
// interruption, the last examples may be incomplete, because not all of their lines have reached the disk.
func (f *Folder) recover() error {
	found, err := f.run.readExamples(f.dir, math.MaxInt, nil)
	if err != nil {
		return damaged(err)
	}
	if found.padded != nil {
		return damaged(found.padded)
	}
	// a file with certifiedHeader comes from an earlier version; the current version writes other columns, so the run
	// samples all examples again
	if found.header == certifiedHeader {
		found.whole, found.ends = 0, sizes{}
	}
	if f.run.Parameters.SaveScores {
		n, err := f.recoverScores(found.whole)
		if err != nil {
			return err
		}
		if n < found.whole {
			if found, err = f.run.readExamples(f.dir, n, nil); err != nil {
				return damaged(err)
			}
		}
	}
	f.done, f.dropped = found.whole, max(found.votes, found.certs)-found.whole
	return damaged(f.open(found.ends))
}

// recoverScores compares the scores of the first n examples with their checksums, in order. It returns the number of
// examples before the first example with changed scores. It opens the file of scores for writing, unless the file is
// finished and intact.
func (f *Folder) recoverScores(n int) (int, error) {
	path := f.path(ScoresFile)
	open := scorefile.Create
	if info, err := os.Lstat(path); err == nil {
		// the size is checked here because the reader of the file accepts extra bytes at the end
		asWritten := info.Size() == f.run.scoreShape().FileSize()
		if asWritten && n == f.run.Data.Selected && f.checkScores(path) == nil {
			return n, nil
		}
		open = scorefile.Reopen
	}
	w, err := open(path, f.run.scoreShape())
	if err != nil {
		return 0, damaged(err)
	}
	f.scores = w
	votes, err := f.run.openVotes(f.path(VotesFile))
	if err != nil {
		return 0, err
	}
	defer votes.close()
	for turn := range n {
		v, _, err := votes.next()
		if err != nil {
			return turn, err
		}
		if sum, err := w.Digest(turn); err != nil || sum != v.Scores {
			return turn, err
		}
	}
	return n, nil
}

// openScoreFile opens a file of scores. In a run folder it refuses links.
func openScoreFile(path string) (*scorefile.Reader, error) {
	if !Owns(path) {
		return scorefile.Open(path)
	}
	file, err := confined.Open(path)
	if err != nil {
		return nil, err
	}
	return scorefile.NewReader(path, file)
}

// checkScores compares a finished file of scores with the checksums in the votes.
func (f *Folder) checkScores(path string) error {
	votes, err := f.run.openVotes(f.path(VotesFile))
	if err != nil {
		return err
	}
	s, err := openScores(path, votes)
	if err != nil {
		votes.close()
		return err
	}
	for err == nil {
		_, _, err = s.Next()
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, s.Close())
}
