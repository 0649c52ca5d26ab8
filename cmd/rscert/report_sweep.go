package main

import (
	"strings"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/sweep"
	"github.com/rscert/rscert/internal/warning"
)

// expandSweeps returns the paths, with each folder of several runs replaced by the paths of these runs. The second
// result is the number of points that the sweeps have not begun. If this number is not 0, expandSweeps warns. If there
// are also requirements, it returns an error instead.
func expandSweeps(s streams, paths []string, required bool) ([]string, int, error) {
	runs, missing, err := sweep.Expand(paths)
	switch {
	case err != nil:
		return nil, 0, badInput(err)
	case len(missing) == 0:
		return runs, 0, nil
	case required:
		return nil, 0, hint.Add(badInputf("these points of the sweep have not begun: %s", strings.Join(missing, ", ")),
			"finish the sweep with 'rscert certify … --resume'")
	}
	return runs, len(missing), s.warnf(warning.RunUnfinished, "these points of the sweep have not begun: %s", strings.Join(missing, ", "))
}
