package run

import (
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// needAnswers returns an error unless the certificates of a run make the usual claim: the certified class is the answer
// of the smoothed classifier, and every sample with finite outputs has a vote. Commands that support only this claim
// call needAnswers.
func needAnswers(path string, run runfolder.Run) error {
	c := run.Parameters.Claim()
	switch {
	case c.Usual():
		return nil
	case c.RejectBelow > 0:
		return hint.Add(spec.BadInputf("%s: this command does not support runs with %s", path, param.RejectBelow), "name a run without it")
	case c.None != certify.NoneAnswer:
		return hint.Add(spec.BadInputf("%s: this command does not support runs with %s %s", path, param.None, c.None), "name a run with %s %s", param.None, certify.NoneAnswer)
	}
	return needOneClass(path, run)
}

// needOneClass returns an error if the certificates of a run claim only that the class stays among the k most probable
// classes, for a k above 1.
func needOneClass(path string, run runfolder.Run) error {
	if k := run.Parameters.TopK; k > 1 {
		return hint.Add(spec.BadInputf("%s: its certificates are about the first %d classes, and this command answers one class", path, k),
			"name a run without %s", param.TopK)
	}
	return nil
}
