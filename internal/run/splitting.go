package run

import (
	"math/big"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// settleSplitting sets the parameters that the law Splitting determines. The number of evaluations, N, depends on the
// lattice of the data, so it stays 0 until the data are open.
func (p *Plan) settleSplitting() (idle []spec.Idle) {
	if !p.Method.Given() {
		p.Method = runfolder.ByVotes(certify.Splitting)
	}
	p.N, p.N0, p.Alpha, p.Margin = 0, 0, 0, certify.FirstMargin
	random := "law " + law.Additives()[0].Name()
	for _, flag := range []param.Name{param.N, param.N0, param.Alpha, "margin"} {
		idle = append(idle, spec.Idle{Flag: string(flag), Without: random + " or another random law"})
	}
	return idle
}

// validateSplitting checks the parameters of the law Splitting that can be checked before the lattice is known.
func (p Plan) validateSplitting() error {
	switch {
	case p.Scores || len(p.ConfidenceRadii) > 0:
		return spec.BadInputf("%s %s certifies by votes: it has no %s, %s or %s", param.Law, p.Law, param.Scores, param.SaveScores, param.ConfidenceRadii)
	case p.Scales.Given() || p.Scaled():
		return spec.BadInputf("%s %s has one scale for all columns: it fits neither %s nor %s", param.Law, p.Law, param.SigmaColumns, param.SigmaScale)
	case !p.Claim().Usual():
		return spec.BadInputf("%s %s certifies the answer alone: it fits no %s, %s or %s", param.Law, p.Law, param.TopK, param.None, param.RejectBelow)
	case p.Stop.Given() && !p.Stop.AtRadius():
		return spec.BadInputf("%s %s: %s %s can stop only at a radius, by radius>=R", param.Stop, p.Stop, param.Law, p.Law)
	}
	parameters := p.Parameters()
	parameters.Stop = certify.StopRule{}
	target := parameters.Target(p.Alpha)
	target.Step = new(big.Rat).SetFloat64(p.Sigma) // placeholder for the step of the lattice
	_, err := parameters.Certifiers(target)
	return spec.BadInput(err)
}
