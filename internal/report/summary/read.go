package summary

import (
	"bufio"
	"context"
	"fmt"
	"os"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/table"
)

// Read reads the evidence at a path. The path may lead to a run folder, to one of the run's files (runfolder.Owns), to
// a file of certificates, or to a log with the columns idx, label, predict, radius, correct. The programs of Cohen et
// al. 2019 write such logs.
func Read(ctx context.Context, path string) (Source, error) {
	s, err := read(ctx, path, readRun)
	if err == nil && s.gathered == nil {
		if s.gathered, err = s.gather(); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
		s.Certificates = nil
	}
	return s, err
}

// ReadAll does the same as Read, and keeps the certificates and the votes of all examples in memory.
func ReadAll(ctx context.Context, path string) (Source, error) { return read(ctx, path, holdRun) }

func read(ctx context.Context, path string, readRun func(context.Context, *runfolder.Evidence) (Source, error)) (Source, error) {
	file := runfolder.Certificates(path)
	evidence, err := runfolder.Find(file)
	if err != nil {
		return Source{}, err
	}
	if evidence.Run != nil {
		return readRun(ctx, evidence.Whole())
	}
	isLog, err := isLog(file)
	if err != nil {
		return Source{}, err
	}
	s := Source{Path: path, Kind: CertificatesKind}
	if isLog {
		s.Kind = LogKind
		s.Certificates, err = readLog(ctx, path)
	} else {
		s.Certificates, err = evidence.Certificates()
	}
	return s, err
}

// holdRun reads a run's certificates and votes, and keeps them. It returns an error if a certificate does not follow
// from the votes of its example.
func holdRun(ctx context.Context, e *runfolder.Evidence) (Source, error) {
	s := Source{Path: e.Path, Kind: RunKind, Run: e.Run}
	records, err := e.Records(ctx)
	for _, r := range records {
		s.Certificates, s.Votes = append(s.Certificates, r.Certificate), append(s.Votes, r.Votes)
	}
	if err != nil || len(records) == 0 {
		return s, err
	}
	s.Bounds, err = readBounds(ctx, e, records[0].Certificate)
	return s, err
}

// readRun gathers a run's examples, and reads the run's bounds if there are any. It returns an error if a certificate
// does not follow from the votes of its example.
func readRun(ctx context.Context, e *runfolder.Evidence) (Source, error) {
	s := Source{Path: e.Path, Kind: RunKind, Run: e.Run, gathered: newGathered(e.Run.Data.Selected)}
	err := e.EachRecord(ctx, func(r runfolder.Record) error {
		if err := s.gathered.add(r.Certificate, &r.Votes); err != nil {
			return fmt.Errorf("%s: %w", e.Path, err)
		}
		return nil
	})
	if err == nil {
		if err = s.gathered.check(); err != nil {
			err = fmt.Errorf("%s: %w", e.Path, err)
		}
	}
	if err != nil {
		return s, err
	}
	s.Bounds, err = readBounds(ctx, e, s.gathered.first)
	return s, err
}

// readBounds reads the bounds of a run. It returns nil if there are none, or if the run's certificates are not sound.
// The argument 'first' is a certificate of the run; all others have the same conditions.
func readBounds(ctx context.Context, e *runfolder.Evidence, first certify.Certificate) (*Bounds, error) {
	if len(e.Run.Parameters.ConfidenceRadii) == 0 || !first.Sound {
		return nil, nil
	}
	bounds, err := e.Bounds()
	if err != nil {
		return nil, err
	}
	table, err := table.Read(ctx, bounds.File, acce.Columns())
	if err != nil {
		return nil, err
	}
	return &Bounds{table, bounds}, nil
}

// isLog reports whether a file is a log, not JSON. A log is a table, and a table does not begin with '{'.
func isLog(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	// Peek fails for an empty file; then the reader of certificates returns an error later
	first, _ := bufio.NewReader(f).Peek(1)
	return len(first) > 0 && first[0] != '{', nil
}

// readLog reads a log. A log does not state α, n, σ or the rounding of its radii.
func readLog(ctx context.Context, path string) ([]certify.Certificate, error) {
	columns := []string{"idx", "label", "predict", "radius", "correct"}
	t, err := table.Read(ctx, path, table.Options{Required: columns})
	if err != nil {
		return nil, err
	}
	var certs []certify.Certificate
	for i := range t.N {
		var x [5]float64
		for k, name := range columns {
			column, _ := t.Column(name)
			x[k] = column[i]
			if name != "radius" && x[k] != float64(int(x[k])) {
				return nil, t.Errorf(i, "%s %v is not a whole number", name, x[k])
			}
		}
		c := certify.Certificate{Index: int(x[0]), Label: int(x[1]), Prediction: int(x[2]), Radius: x[3], Correct: x[4] == 1}
		switch {
		case c.Index < 0 || c.Label < 0 || c.Prediction < certify.Abstained:
			return nil, t.Errorf(i, "idx %d, label %d, predict %d: want numbers from 0, and -1 for no prediction", c.Index, c.Label, c.Prediction)
		case !(c.Radius >= 0):
			return nil, t.Errorf(i, "radius %v is below 0", c.Radius)
		case c.Prediction == certify.Abstained && c.Radius != 0:
			return nil, t.Errorf(i, "radius %v without a prediction", c.Radius)
		case x[4] != 0 && x[4] != 1, c.Correct != (c.Prediction == c.Label):
			return nil, t.Errorf(i, "correct is %v of label %d and prediction %d", x[4], c.Label, c.Prediction)
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, fmt.Errorf("%s: no rows", path)
	}
	return certs, nil
}
