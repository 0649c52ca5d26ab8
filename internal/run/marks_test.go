package run

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/runfolder"
)

// recertifyAlone writes the votes of a run to a file outside the run folder. It then certifies the votes in this file.
func recertifyAlone(t *testing.T, text string, l law.Name) ([]certify.Certificate, error) {
	t.Helper()
	sigma, class := 1., certify.Label
	e := mustFind(t, writeText(t, "alone.jsonl", text))
	target, err := e.ClassTarget(runfolder.Given{Sigma: &sigma, Class: &class, Law: &l})
	if err != nil {
		t.Fatal(err)
	}
	sets, err := Recertification{Evidence: e, Target: target}.Certify(t.Context(), quiet)
	if err != nil {
		return nil, err
	}
	return sets[0], nil
}

func votesText(t *testing.T, run string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(run, runfolder.VotesFile))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The votes of a run with the law 'splitting' are not random samples. If a file outside the run folder holds these
// votes, their certification must fail.
func TestSplittingVotesAlone(t *testing.T) {
	p := goldenPlan(func(p *Plan) {
		p.Law, p.Sigma, p.Out = law.Of(law.Splitting), 64./255, filepath.Join(t.TempDir(), "run")
	})
	p.Settle()
	mustCertify(t, p)
	text := votesText(t, p.Out)
	if !strings.Contains(text, `"deterministic":true`) {
		t.Errorf("votes %s", text)
	}
	if _, err := recertifyAlone(t, text, law.Of(law.Uniform)); err == nil || !strings.Contains(err.Error(), "fixed inputs") {
		t.Errorf("certified as random samples: %v", err)
	}
}

// The parameter reject-below sets a minimum confidence: samples with less confidence do not vote. Certificates of such
// a run must state the parameter, even if its votes are certified outside the run folder.
func TestRejectVotesAlone(t *testing.T) {
	p := goldenPlan(func(p *Plan) {
		p.RejectBelow, p.Temperature, p.Out = .5, 1, filepath.Join(t.TempDir(), "run")
	})
	mustCertify(t, p)
	text := votesText(t, p.Out)
	certs, err := recertifyAlone(t, text, "")
	if err != nil || len(certs) == 0 {
		t.Fatal(certs, err)
	}
	for _, c := range certs {
		if c.RejectBelow != .5 {
			t.Errorf("the certificate claims %+v", c.Claim)
		}
	}
	const lines = `{"index":0,"label":0,"n":9,"counts":[9,0],"reject_below":0.5}` + "\n" + `{"index":1,"label":0,"n":9,"counts":[9,0]}` + "\n"
	if _, err := recertifyAlone(t, lines, ""); err == nil || !strings.Contains(err.Error(), "the lines before have 0.5") {
		t.Errorf("lines of two classifiers: %v", err)
	}
}
