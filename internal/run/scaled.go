package run

import (
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// checkScaled returns an error for settings that do not work if each column has its own scale.
func (p Plan) checkScaled() error {
	switch {
	case len(p.ConfidenceRadii) > 0:
		return hint.Add(spec.BadInputf("%s: bounds on the confidence are for noise with one σ", param.ConfidenceRadii), "leave it out, or leave out %s", param.SigmaColumns)
	case p.SaveScores:
		return hint.Add(spec.BadInputf("%s: a file of scores does not say that each column has a σ of its own", param.SaveScores), "give %s, which writes no such file, or leave out %s", param.Scores, param.SigmaColumns)
	case len(p.Norms) > 0:
		return spec.BadInputf("%s: radii in units of each column's σ imply none in other norms", param.Norms)
	}
	return nil
}

// refuseScaled returns an error if a run has a scale for each column. The argument 'what' names the results of the
// command, such as "audits". The error says that these results are for runs with one σ.
func refuseScaled(run runfolder.Run, path, what string) error {
	if !run.Parameters.Scaled() {
		return nil
	}
	return spec.BadInputf("%s: has a σ for each column (%s), and %s are for runs with one σ", path, param.SigmaColumns, what)
}

// checkColumnTables recomputes the noise tables of a run that has a scale for each column, and compares them with
// run.json.
func checkColumnTables(run runfolder.Run) error {
	t, err := run.ColumnTables()
	if err != nil {
		return err
	}
	if n := run.Noise; n.Distribution != t.Name() || n.Table != t.Digest() || n.Entries != t.Entries() || n.Eta != t.Eta() {
		return param.Errorf("the tables of the noise are %s with %d entries, SHA-256 %.12s… and eta %v; %s gives %s with %d entries, %.12s… and %v",
			n.Distribution, n.Entries, n.Table, n.Eta, param.SigmaColumns, t.Name(), t.Entries(), t.Digest(), t.Eta())
	}
	return nil
}
