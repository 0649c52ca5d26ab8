package runfolder

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/rscert/rscert/internal/certify"
)

// holding records how many examples are complete in all files of a run, and what the files hold after these examples.
type holding struct {
	votes, certs int // number of intact lines
	// number of consecutive examples, counted from the first one, that have votes, a certificate and all rows of bounds
	// in the files
	whole      int
	ends       sizes // lengths of the files up to the end of the last whole example
	header     string
	moreBounds bool  // bounds.csv has further intact rows after the rows of the whole examples
	padded     error // error if the lines hold bytes that rscert does not write

	votesDamage, certsDamage, boundsDamage *damage
}

// exampleReader reads the files of a run side by side, one example at a time.
type exampleReader struct {
	run    Run
	dir    string
	votes  *valueReader[votesLine]
	certs  *valueReader[certify.Certificate]
	bounds *boundsReader // nil if the confidence is not bounded
	rows   []byte        // rows of bounds.csv for the example that was read last
	found  holding
	apart  error // error for the first certificate that does not belong to the votes on the same line
}

// readExamples reads the files of the run in dir. A kill or a power cut may have damaged the end of a file;
// readExamples then reads the file up to the damage. Any other damage is an error. readExamples counts at most 'limit'
// whole examples. If the function 'visit' is not nil, readExamples calls it with each of them.
func (r Run) readExamples(dir string, limit int, visit func(Done) error) (holding, error) {
	x := exampleReader{run: r, dir: dir}
	defer x.close()
	if err := x.open(); err != nil {
		return x.found, err
	}
	if err := x.read(limit, visit); err != nil {
		return x.found, err
	}
	return x.found, x.finish()
}

func (x *exampleReader) path(name string) string { return filepath.Join(x.dir, name) }

func (x *exampleReader) open() (err error) {
	if x.votes, err = x.run.openVotes(x.path(VotesFile)); err != nil {
		return err
	}
	if x.certs, err = x.run.openCertificates(x.path(CertificatesFile)); err != nil {
		return err
	}
	x.found.header = boundsHeader
	if len(x.run.Parameters.ConfidenceRadii) == 0 {
		return nil
	}
	x.bounds, err = x.run.openBounds(x.path(BoundsFile))
	if missing(err) {
		x.bounds, err = &boundsReader{valueReader: noValues[ownRow](x.path(BoundsFile)), header: boundsHeader}, nil
	}
	if err == nil {
		x.found.header = x.bounds.header
	}
	return err
}

func (x *exampleReader) close() {
	x.votes.close()
	x.certs.close()
	if x.bounds != nil {
		x.bounds.close()
	}
}

// read reads votes and certificates to the ends of their files. After 'limit' whole examples, or after the first
// incomplete example, it only counts lines.
func (x *exampleReader) read(limit int, visit func(Done) error) error {
	for going := true; ; {
		r, paired, err := x.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if going = going && paired && x.found.whole < limit; !going {
			continue
		}
		if going, err = x.readBounds(r.Certificate); err != nil {
			return err
		}
		if !going {
			continue
		}
		x.found.whole++
		x.found.ends.votes, x.found.ends.certs = x.votes.end, x.certs.end
		if visit != nil {
			if err := visit(Done{Record: r, Rows: x.rows}); err != nil {
				return err
			}
		}
	}
	x.found.votes, x.found.certs = x.votes.turn, x.certs.turn
	return nil
}

// next returns the next votes and the next certificate. It reports whether both exist and belong to the same example.
// It returns io.EOF after the last line of both files.
func (x *exampleReader) next() (r Record, paired bool, err error) {
	v, voted, err := x.votes.next()
	if err != nil {
		return r, false, err
	}
	c, certified, err := x.certs.next()
	if err == nil && !voted && !certified {
		err = io.EOF
	}
	if err != nil {
		return r, false, err
	}
	r = Record{Votes: v.Votes, Certificate: c, Scores: v.Scores, Compared: v.Compared}
	return r, voted && certified && x.pair(v.Votes, c), nil
}

// pair reports whether votes and a certificate belong to the same example. If not, it stores an error in x.apart,
// unless x.apart already holds an earlier error.
func (x *exampleReader) pair(v certify.Votes, c certify.Certificate) bool {
	err := checkPair(v, c)
	if err != nil && x.apart == nil {
		x.apart = fmt.Errorf("%s:%d: %w", x.certs.path, x.certs.number, err)
	}
	return err == nil
}

// checkPair returns an error unless the votes and the certificate on the same line of their files belong to the same
// example.
func checkPair(v certify.Votes, c certify.Certificate) error {
	if v.Index == c.Index && v.Label == c.Label && v.N == c.N {
		return nil
	}
	return fmt.Errorf("is of example %d with label %d and n = %d, and %s has example %d with label %d and n = %d there",
		c.Index, c.Label, c.N, VotesFile, v.Index, v.Label, v.N)
}

// readBounds reads the rows that belong to a certificate's example, and reports whether all rows are present.
func (x *exampleReader) readBounds(c certify.Certificate) (whole bool, err error) {
	if x.bounds == nil {
		return true, nil
	}
	x.rows = x.rows[:0]
	for _, want := range x.run.Parameters.boundRows(c, x.bounds.header) {
		row, ok, err := x.bounds.next()
		if err != nil || !ok || row.boundRow != want || !row.agrees(c, x.run.Parameters) {
			x.found.moreBounds = x.found.moreBounds || ok
			return false, err
		}
		x.rows = append(append(x.rows, x.bounds.text...), '\n')
	}
	x.found.ends.bounds = x.bounds.end
	return true, nil
}

// finish reads the remaining bounds. It returns an error for damage that neither a kill nor a power cut can cause, and
// it returns x.apart if votes and certificates do not match.
func (x *exampleReader) finish() error {
	x.found.votesDamage, x.found.certsDamage = x.votes.damage, x.certs.damage
	x.found.padded = cmp.Or(x.votes.asWritten(), x.certs.asWritten())
	if err := x.votes.damage.repairable(x.votes.path); err != nil {
		return err
	}
	if err := x.certs.damage.repairable(x.certs.path); err != nil {
		return err
	}
	if x.bounds != nil {
		before := x.bounds.turn
		if err := x.bounds.drain(); err != nil {
			return err
		}
		x.found.moreBounds = x.found.moreBounds || x.bounds.turn > before
		x.found.boundsDamage = x.bounds.damage
		x.found.padded = cmp.Or(x.found.padded, x.bounds.asWritten())
		if err := x.bounds.damage.repairable(x.bounds.path); err != nil {
			return err
		}
	}
	return x.apart
}
