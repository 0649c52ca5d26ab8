package run

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// OnlyOf names the run whose results select the examples of a new run. The zero value means all examples.
type OnlyOf struct {
	Choice spec.Choice
	Run    string // path of the run folder
}

// String returns the form CHOICE=RUN.
func (o OnlyOf) String() string {
	if o.Run == "" {
		return ""
	}
	return o.Choice.String() + "=" + o.Run
}

// Set parses the form CHOICE=RUN.
func (o *OnlyOf) Set(text string) error {
	name, path, found := strings.Cut(text, "=")
	choice, err := spec.Choices.Parse(name)
	switch {
	case !found || path == "":
		return fmt.Errorf("%q: want abstained=RUN or failed=RUN, where RUN is a run folder", text)
	case err != nil:
		return err
	}
	*o = OnlyOf{choice, path}
	return nil
}

// selecting is the run that selected the examples of a new run. It is a nil pointer if the new run takes all examples.
type selecting struct {
	path string
	run  runfolder.Run
}

// selectExamples fills in p.Only from the certificates of the run p.OnlyOf. The run must be finished, because only an
// example's certificate shows whether the choice includes the example.
func (p *Plan) selectExamples() (*selecting, error) {
	of := p.OnlyOf
	if of.Run == "" {
		return nil, nil
	}
	evidence, err := runfolder.Find(of.Run)
	if err == nil && evidence.Run == nil {
		err = fmt.Errorf("%s: is no run folder", of.Run)
	}
	if err != nil {
		return nil, spec.BadInputf("%s: %w", param.Only, err)
	}
	certs, err := evidence.Whole().Certificates()
	if err != nil {
		return nil, spec.BadInputf("%s: %w", param.Only, err)
	}
	run := *evidence.Run
	if len(certs) < run.Data.Selected {
		return nil, hint.Add(spec.BadInputf("%s: %s is not finished: it has %d of %d examples", param.Only, of.Run, len(certs), run.Data.Selected),
			"finish the run with %s, or merge all shards", param.Resume)
	}
	p.Only = spec.Only{Choice: of.Choice, Run: run.ID(), Of: len(certs), Seeds: append([]uint64{run.Parameters.Seed}, run.Parameters.Only.Seeds...)}
	for _, c := range certs {
		if of.Choice == spec.Failed && c.Label == certify.UnknownLabel {
			return nil, hint.Add(spec.BadInputf("%s %s: example %d of %s has no label, so it cannot fail", param.Only, of.Choice, c.Index, of.Run),
				"choose %s", spec.Abstained)
		}
		if selects(of.Choice, c) {
			p.Only.Examples = append(p.Only.Examples, c.Index)
		}
	}
	slices.Sort(p.Only.Examples)
	if len(p.Only.Examples) == 0 {
		return nil, spec.BadInputf("%s: %s %s none of its %d examples: there is nothing to certify again", param.Only, of.Run, of.Choice.Did(), len(certs))
	}
	return &selecting{of.Run, run}, nil
}

// selects reports whether a choice includes the example of a certificate.
func selects(choice spec.Choice, c certify.Certificate) bool {
	if choice == spec.Abstained {
		return c.Prediction == certify.Abstained
	}
	return !c.Correct
}

// check returns an error if the experiment does not have the data of the selecting run. If the noise is random, check
// also returns an error if the seed is not new. A seed is not new if the selecting run used it. It is also not new if
// it was used by a run that selected the examples of the selecting run. With such a seed, the experiment would repeat
// noise that helped to select its examples.
func (s *selecting) check(e *experiment.Experiment) error {
	if s == nil {
		return nil
	}
	now := e.Record()
	then := s.run.Data
	if then.SHA256 != now.Data.SHA256 || then.Examples != now.Data.Examples {
		return spec.BadInputf("%s: the data of %s have the SHA-256 %.12s…, and %s has %.12s…: the examples are not the same",
			param.Only, s.path, then.SHA256, now.Data.File, now.Data.SHA256)
	}
	if p := e.Spec; !p.Law.Deterministic() && slices.Contains(p.Only.Seeds, p.Seed) {
		return hint.Add(spec.BadInputf("%s %d: the noise of this seed selected the examples, so it is no new evidence about them", param.Seed, p.Seed),
			"leave %s out; rscert then draws a new seed", param.Seed)
	}
	return nil
}
