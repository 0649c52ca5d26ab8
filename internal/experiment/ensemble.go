package experiment

import (
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/runfolder"
)

// readClassifier reads the model or, for an ensemble, joins its models. Before the call, Spec.Outputs says what every
// model of an ensemble returns. After the call, it says what the ensemble returns.
func (e *Experiment) readClassifier() (*graph.File, error) {
	paths := e.Spec.Models()
	files := make([]*graph.File, len(paths))
	for k, path := range paths {
		var err error
		if files[k], err = graph.ReadModel(path); err != nil {
			return nil, err
		}
	}
	if len(files) == 1 {
		e.recipe = files[0].RecipeSHA256()
		return files[0], nil
	}
	joined := graph.Ensemble{Average: e.Spec.Average, Outputs: e.Spec.Outputs, Output: e.Spec.ScoresOutput}
	file, members, err := joined.Join(files, paths)
	if err != nil {
		return nil, err
	}
	for k, m := range members {
		e.members = append(e.members, runfolder.Member{File: paths[k], SHA256: m.SHA256, Outputs: m.Outputs, Recipe: files[k].RecipeSHA256()})
	}
	e.Spec.Outputs = e.Spec.Average.Outputs()
	return file, nil
}
