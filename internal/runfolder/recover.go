package runfolder

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/scorefile"
)

// The keys that every line must have.
var (
	votesKeys       = []string{"index", "label", "n", "counts"}
	certificateKeys = []string{"index", "label", "prediction", "correct", "radius", "margin", "method", "alpha", "sigma", "n", "sound"}
)

// readOwnVotes reads the run's votes, up to the first damaged line.
func (r Run) readOwnVotes(path string) (content[votesLine], error) {
	c, err := readLines(path, fileFormat[votesLine]{
		keys: votesKeys, sealed: r.sealed(), own: true,
		valid: func(v votesLine) error { return v.Validate() },
	})
	if missing(err) {
		return c, nil
	}
	if err != nil {
		return c, err
	}
	positions := r.Parameters.Positions(r.Data.Examples)
	for turn, v := range c.values {
		if err := r.checkVotes(v.Votes, turn, positions); err != nil {
			return c, fmt.Errorf("%s:%d: %w", path, c.lines[turn], err)
		}
	}
	return c, nil
}

// checkVotes checks that votes are those of the run's next example. Runs of the first
// format may lack what it did not record.
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
			if r.sealed() && c.Sigma != r.Parameters.Sigma {
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

// recover finds the examples of which every file has all, and cuts the files back to
// them: the rest was being written when the run was interrupted, or had not reached the
// disk when the power went. Damage of another kind is an error.
func (f *Folder) recover() error {
	votes, err := f.run.readOwnVotes(f.path(VotesFile))
	if err == nil {
		err = votes.repairable(f.path(VotesFile))
	}
	if err != nil {
		return err
	}
	certs, err := f.run.readOwnCertificates(f.path(CertificatesFile))
	if err == nil {
		err = certs.repairable(f.path(CertificatesFile))
	}
	if err != nil {
		return err
	}
	n := min(len(votes.values), len(certs.values))
	for i := range n {
		if v, c := votes.values[i], certs.values[i]; v.Index != c.Index || v.Label != c.Label || v.N != c.N {
			return fmt.Errorf("%s:%d: is of example %d with label %d and n = %d, and %s has example %d with label %d and n = %d there",
				f.path(CertificatesFile), certs.lines[i], c.Index, c.Label, c.N, VotesFile, v.Index, v.Label, v.N)
		}
	}
	var bounds content[boundRow]
	if len(f.run.Parameters.ConfidenceRadii) > 0 {
		bounds, err = readBounds(f.path(BoundsFile))
		if err == nil {
			err = bounds.repairable(f.path(BoundsFile))
		}
		if err != nil && !missing(err) {
			return err
		}
		n, _ = f.run.Parameters.boundsOf(certs.values[:n], bounds)
	}
	if f.run.Parameters.SaveScores {
		if n, err = f.recoverScores(votes.values[:n]); err != nil {
			return err
		}
	}
	f.dropped = max(len(votes.values), len(certs.values)) - n
	for i := range n {
		f.done = append(f.done, Record{Votes: votes.values[i].Votes, Certificate: certs.values[i], Scores: votes.values[i].Scores})
	}
	var s sizes
	if n > 0 {
		_, end := f.run.Parameters.boundsOf(certs.values[:n], bounds)
		s = sizes{votes: votes.ends[n-1], certs: certs.ends[n-1], bounds: end}
	}
	return f.open(s)
}

// recoverScores returns how many of the examples have their scores as they were
// written, and opens the scores for writing unless there is nothing left to write.
func (f *Folder) recoverScores(votes []votesLine) (int, error) {
	path := f.path(ScoresFile)
	open := scorefile.Create
	if _, err := os.Stat(path); err == nil {
		if len(votes) == f.run.Data.Selected && checkScores(path, votes) == nil {
			return len(votes), nil
		}
		open = scorefile.Reopen
	}
	w, err := open(path, f.run.scoreShape())
	if err != nil {
		return 0, err
	}
	f.scores = w
	for n, v := range votes {
		if sum, err := w.Digest(n); err != nil || sum != v.Scores {
			return n, err
		}
	}
	return len(votes), nil
}

// checkScores reads a finished file of scores and compares it with the votes' checksums.
func checkScores(path string, votes []votesLine) error {
	r, err := scorefile.Open(path)
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
