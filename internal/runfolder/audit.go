package runfolder

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/memory"
)

// Holdings are the contents of a run folder, together with the result of an audit. The audit compares each line with
// the line's checksum and with run.json, and compares the files with each other. The fields Changed, Extent and Record
// describe the faults that the audit found.
type Holdings struct {
	Evidence *Evidence // nil if run.json is damaged
	Records  []Record  // examples with votes and a certificate, up to the first damaged line
	Changed  []string  // files or lines that changed after they were written
	Extent   []string  // examples that are missing or do not belong to the run
	Record   []string  // contradictions in run.json
	// OwnBounds means that bounds.csv has the columns that this version of rscert writes.
	OwnBounds bool
}

// Audit audits the run folder at path. It returns an error if path is not a run folder, has a newer format or cannot be
// read.
func Audit(path string) (*Holdings, error) {
	h := &Holdings{}
	found, err := Find(path)
	var format *FormatError
	if err != nil {
		if _, readErr := Read(path); missing(readErr) || errors.As(err, &format) || !isDamage(err) {
			return nil, err
		}
		h.Changed = append(h.Changed, err.Error())
		return h, nil
	}
	if found.Run == nil {
		return nil, fmt.Errorf("%s: is no run folder", path)
	}
	h.Evidence = found.Whole()
	if err := h.readLines(); err != nil {
		return nil, err
	}
	h.auditExtent()
	h.auditRecord()
	return h, nil
}

// isDamage reports whether err describes a fault in the data. It returns false for a failure to read the data.
func isDamage(err error) bool {
	var damage *DamageError
	var limit *memory.LimitError
	return errors.As(damaged(err), &damage) && !errors.As(err, &limit)
}

// readLines reads the lines of all files.
func (h *Holdings) readLines() error {
	e := h.Evidence
	path := func(name string) string { return filepath.Join(e.dir, name) }
	votes, err := hold(path(VotesFile), e.Run.openVotes)
	if err := h.take(path(VotesFile), votes.damage, err); err != nil {
		return err
	}
	certs, err := hold(path(CertificatesFile), e.Run.openCertificates)
	if err := h.take(path(CertificatesFile), certs.damage, err); err != nil {
		return err
	}
	h.pair(votes, certs)
	if len(e.Run.Parameters.ConfidenceRadii) == 0 {
		return nil
	}
	rows, err := e.Run.readBounds(path(BoundsFile))
	if missing(err) {
		h.Extent = append(h.Extent, BoundsFile+" is missing")
		return nil
	}
	if err := h.take(path(BoundsFile), rows.damage, err); err != nil {
		return err
	}
	h.OwnBounds = rows.header != certifiedHeader
	var own []certify.Certificate
	for _, r := range h.Records {
		own = append(own, r.Certificate)
	}
	n, end := e.Run.Parameters.boundsOf(own, rows)
	switch {
	case n < len(own):
		h.Extent = append(h.Extent, fmt.Sprintf("%s: the rows of example %d are not those of its certificate", BoundsFile, own[n].Index))
	case len(rows.ends) > 0 && rows.ends[len(rows.ends)-1] > end:
		h.Extent = append(h.Extent, BoundsFile+" has rows of no certificate")
	}
	return nil
}

// The method 'take' records the faults of the file at path. It adds the damage d to h.Changed. If err says that lines
// of the file do not belong to the run, take adds err to h.Extent. It returns any other error, for example the error of
// a failed read.
func (h *Holdings) take(path string, d *damage, err error) error {
	if d != nil {
		h.Changed = append(h.Changed, fmt.Sprintf("%s:%d: %v", path, d.line, d.err))
	}
	if err != nil && !isDamage(err) {
		return err
	}
	if err != nil {
		h.Extent = append(h.Extent, err.Error())
	}
	return nil
}

// pair checks that the votes and the certificates belong to the same examples.
func (h *Holdings) pair(votes content[votesLine], certs content[certify.Certificate]) {
	n := min(len(votes.values), len(certs.values))
	for i, v := range votes.values[:n] {
		if err := checkPair(v.Votes, certs.values[i]); err != nil {
			h.Extent = append(h.Extent, fmt.Sprintf("%s:%d: %v", CertificatesFile, certs.lines[i], err))
			return
		}
	}
	for i, v := range votes.values[:n] {
		h.Records = append(h.Records, Record{Votes: v.Votes, Certificate: certs.values[i], Scores: v.Scores, Compared: v.Compared})
	}
	if v, c := len(votes.values), len(certs.values); v != c && len(h.Changed) == 0 {
		h.Extent = append(h.Extent, fmt.Sprintf("%s has %d examples, %s %d", VotesFile, v, CertificatesFile, c))
	}
}

// auditExtent records a fault in h.Extent if shards, examples or the scores of the run are missing.
func (h *Holdings) auditExtent() {
	run := h.Evidence.Run
	if len(run.Data.Shards) > 0 {
		h.Extent = append(h.Extent, fmt.Sprintf("%d of the run's %d examples are in no shard that it was merged of", run.Data.Selected-len(run.positions()), run.Data.Selected))
	}
	want := run.Data.Selected
	if run.sealed() {
		want = len(run.positions())
	}
	if n := len(h.Records); n < want {
		h.Extent = append(h.Extent, fmt.Sprintf("not finished: it has %d of its %d examples", n, want))
	}
	if run.Parameters.SaveScores {
		if err := h.Evidence.finished(filepath.Join(h.Evidence.dir, ScoresFile)); err != nil {
			h.Extent = append(h.Extent, err.Error())
		}
	}
}

// auditRecord compares the entries of run.json that must agree with each other.
func (h *Holdings) auditRecord() {
	run := h.Evidence.Run
	p := run.Parameters
	if whole := p.Positions(run.Data.Examples); run.sealed() && len(whole) != run.Data.Selected {
		h.Record = append(h.Record, fmt.Sprintf("%d examples are selected, and the parameters select %d of %d", run.Data.Selected, len(whole), run.Data.Examples))
	}
	if k := p.TangentSamples(); k != run.TangentSamples {
		h.Record = append(h.Record, fmt.Sprintf("tangent_samples is %d, and the parameters give %d", run.TangentSamples, k))
	}
}

// Format returns the folder's format version and reports whether the lines carry checksums.
func (r Run) Format() (schema int, checksums bool) { return r.Schema, r.sealed() }
