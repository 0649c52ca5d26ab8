package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/scorefile"
)

// scoreSource is a file of scores and what the run folder around it, if there is one,
// says of it.
type scoreSource struct {
	path string
	run  *runfolder.Run // nil: a file from elsewhere
}

// findScores finds the scores of a run folder or of a file.
func findScores(path string) (scoreSource, error) {
	info, err := os.Stat(path)
	if err != nil {
		return scoreSource{}, badInput(err)
	}
	if !info.IsDir() {
		if run, err := runfolder.Read(filepath.Dir(path)); err == nil && filepath.Base(path) == runfolder.ScoresFile {
			return scoreSource{path, &run}, nil // named by its file
		}
		return scoreSource{path: path}, nil
	}
	run, err := runfolder.Read(path)
	if err != nil {
		return scoreSource{}, badInput(err)
	}
	file := filepath.Join(path, runfolder.ScoresFile)
	if _, err := os.Stat(file); err != nil {
		if _, err := os.Stat(file + ".part"); err == nil {
			return scoreSource{}, withHint(badInputf("%s: the run is not finished", path), "finish it with 'rscert certify … --resume'")
		}
		return scoreSource{}, withHint(badInputf("%s: has no %s", path, runfolder.ScoresFile),
			"keep all scores with 'rscert certify --save-scores', or certify in one run with --scores and --confidence-radii")
	}
	return scoreSource{file, &run}, nil
}

// scoreRequest says what to certify from a file of scores.
type scoreRequest struct {
	scoreSource
	params certify.ScoreParams
	// n0, if above 0, takes so many of the estimation samples as selection samples:
	// for files that have none.
	n0          int64
	temperature float64 // of the probabilities, which were saved at 1
	quiet       bool
}

// certifyScores certifies every example of a file of scores.
func certifyScores(ctx context.Context, s streams, q scoreRequest, take func(certify.Certificate, []certify.ConfidenceBound)) (err error) {
	if !(q.temperature > 0) || math.IsInf(q.temperature, 1) {
		return badInputf("--temperature %v: want a number above 0", q.temperature)
	}
	if !(q.params.Sigma > 0) {
		return withHint(badInputf("--sigma is missing"), "%s does not say the σ of its noise", q.path)
	}
	certifier, err := certify.NewScoreCertifier(q.params)
	if err != nil {
		return badInput(err)
	}
	r, err := scorefile.Open(q.path)
	if err != nil {
		return badInput(err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	example := certify.ScoreExample{Classes: r.Classes, N0: r.N0, N: r.N}
	switch {
	case q.n0 < 0 || q.n0 >= r.N:
		return badInputf("--n0 %d: want a part of the %d samples of %s", q.n0, r.N, q.path)
	case q.n0 > 0 && r.N0 > 0:
		return badInputf("--n0 %d: %s has selection samples of its own, %d an example", q.n0, q.path, r.N0)
	case q.n0 > 0:
		example.N0, example.N = q.n0, r.N-q.n0
	}
	bar := progress.Start(progress.Options{Writer: s.err, Terminal: s.terminal(), Quiet: q.quiet}, "scores", int64(r.Examples), 0)
	defer bar.Finish()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		index, label, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return badInput(err)
		}
		example.Index, example.Label = index, label
		if err := q.certifyExample(certifier, r, example, take); err != nil {
			if errors.Is(err, certify.ErrNoSelection) {
				return withHint(badInputf("%s: no array scores0: the predicted class needs selection samples", q.path),
					"take the first k samples for it with --n0 k, or certify --class label")
			}
			return badInput(fmt.Errorf("%s: example %d: %w", q.path, index, err))
		}
		bar.Add(1, "")
	}
}

func (q scoreRequest) certifyExample(certifier *certify.ScoreCertifier, r *scorefile.Reader, e certify.ScoreExample, take func(certify.Certificate, []certify.ConfidenceBound)) error {
	a, err := certifier.Start(e)
	if err != nil {
		return err
	}
	select0 := q.n0
	if err := r.Selection(func(probs []float32) error {
		certify.Retemper(probs, r.Classes, q.temperature)
		return a.Selection(probs)
	}); err != nil {
		return err
	}
	if err := r.Estimation(func(probs []float32) error {
		certify.Retemper(probs, r.Classes, q.temperature)
		k := int(min(select0, int64(len(probs)/r.Classes)))
		select0 -= int64(k)
		if err := a.Selection(probs[:k*r.Classes]); err != nil || k*r.Classes == len(probs) {
			return err
		}
		return a.Estimation(probs[k*r.Classes:])
	}); err != nil {
		return err
	}
	cert, err := a.Certificate()
	if err != nil {
		return err
	}
	take(cert, a.Confidence(cert))
	return nil
}
