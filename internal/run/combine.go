package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// CombinePlan says which runs to combine, and how.
type CombinePlan struct {
	Runs   []string // experts in the order of the router's classes, or members of equal rank
	Router string   // empty: no router
	// The field By is the rule that combines the answers of members of equal rank. AtLeast is the number of members
	// that must certify a class. The value 0 stands for the result of By.Quorum.
	By      certify.Composition
	AtLeast int
	Out     string
	Version string
}

// Combine composes the certificates of runs, and writes them to a folder. Errors in the user's input are InputErrors.
func Combine(ctx context.Context, p CombinePlan, show progress.Options) (*runfolder.Combined, error) {
	c := &combining{plan: p}
	paths := p.Runs
	if p.Router != "" {
		paths = append([]string{p.Router}, paths...)
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	bar := progress.Start(show, "combine", int64(len(paths)), 0)
	defer bar.Finish()
	for _, path := range paths {
		if err := c.read(ctx, path); err != nil {
			return nil, spec.BadInput(err)
		}
		bar.Add(1, "")
	}
	for _, m := range c.members[1:] {
		if err := c.match(ctx, m); err != nil {
			return nil, spec.BadInput(fmt.Errorf("%s and %s: %w", c.members[0].path, m.path, err))
		}
	}
	done, err := c.settle()
	if err == nil && done.Alpha >= 1 {
		err = fmt.Errorf("the alphas of the runs add up to %v", done.Alpha)
	}
	if err != nil {
		return nil, spec.BadInput(err)
	}
	certs := c.compose(done)
	err = runfolder.WriteCombined(p.Out, *done, certs)
	if errors.Is(err, runfolder.ErrExists) {
		err = hint.Add(spec.BadInput(err), "choose another %s", param.Out)
	}
	return done, err
}

// check returns an error if the plan has a fault that can be found without reading the runs.
func (p CombinePlan) check() error {
	switch n := len(p.Runs); {
	case p.Out == "":
		return spec.BadInputf("%s is missing", param.Out)
	case p.Router != "" && p.AtLeast != 0:
		return spec.BadInputf("%s: is for runs of equal rank, not for %s", param.AtLeast, param.Router)
	case n < 2:
		return spec.BadInputf("%d run: want two or more to combine", n)
	case n > certify.MostMembers:
		return spec.BadInputf("%d runs: want at most %d", n, certify.MostMembers)
	case p.Router != "":
		return nil
	case p.AtLeast != 0 && (p.AtLeast < p.By.Quorum(n) || p.AtLeast > n):
		return spec.BadInputf("%s %d: of %d runs, %d must answer a class, so %d to %d can be required to certify it",
			param.AtLeast, p.AtLeast, n, p.By.Quorum(n), p.By.Quorum(n), n)
	}
	return nil
}

// combining holds the state of one combination of several runs.
type combining struct {
	plan    CombinePlan
	members []*combined // the router first, if there is one
}

// combined is one of the runs whose certificates are combined.
type combined struct {
	path    string
	run     runfolder.Run
	sampled int
	certs   []certify.Certificate
}

// read reads a run. It returns an error unless the run's certificates can be recomputed from its votes. Certificates
// from scores cannot be recomputed in this way.
func (c *combining) read(ctx context.Context, path string) error {
	evidence, err := runfolder.Find(path)
	switch {
	case err != nil:
		return err
	case evidence.Run == nil || !evidence.IsFolder():
		return fmt.Errorf("%s: is no run folder", path)
	}
	m := &combined{path: path, run: *evidence.Run}
	if _, sealed := m.run.Format(); !sealed {
		return hint.Add(fmt.Errorf("%s: is of format 1, which does not record the conditions of its certificates", path), "certify again with this version")
	}
	if _, byVotes := m.run.Parameters.Method.Votes(); !byVotes {
		return hint.Add(fmt.Errorf("%s: its method %s certifies from scores, and such certificates cannot be recomputed from votes", path, m.run.Parameters.Method),
			"certify again with a method for votes")
	}
	if only := m.run.Parameters.Only; only.Given() {
		return fmt.Errorf("%s: %s; combined runs certify all examples", path, only.Says())
	}
	records, err := evidence.Records(ctx)
	if err != nil {
		return err
	}
	if len(records) == 0 {
		return fmt.Errorf("%s: has no certificates", path)
	}
	m.sampled = evidence.Sampled(len(records))
	for _, r := range records {
		if err := composable(r.Certificate, records[0].Certificate.Alpha); err != nil {
			return fmt.Errorf("%s: example %d: %w", path, r.Certificate.Index, err)
		}
		m.certs = append(m.certs, r.Certificate)
	}
	c.members = append(c.members, m)
	return nil
}

// composable returns an error unless a certificate makes exactly this claim: with probability at least 1 − alpha, the
// smoothed classifier gives the same class everywhere within the radius. It also returns an error if the certificate
// has a condition that composable does not know.
func composable(c certify.Certificate, alpha float64) error {
	switch {
	case !c.Sound:
		return fmt.Errorf("its method %s is not sound", c.Method)
	case c.Lipschitz != 0:
		return errors.New("its radius rests on a given Lipschitz constant")
	case c.Alpha != alpha:
		return fmt.Errorf("its alpha is %v, that of the first example %v", c.Alpha, alpha)
	}
	plain := certify.Certificate{
		Index: c.Index, Label: c.Label, Prediction: c.Prediction, Correct: c.Correct, Radius: c.Radius, Norm: c.Norm, Margin: c.Margin,
		Method: c.Method, MarginKind: c.MarginKind, Alpha: c.Alpha, Law: c.Law, Sigma: c.Sigma, N: c.N, Stop: c.Stop, Sound: c.Sound,
		Arithmetic: c.Arithmetic, Precision: c.Precision, Quantisation: c.Quantisation, Sampled: c.Sampled, Bounds: c.Bounds, Steps: c.Steps,
	}
	if !runfolder.EqualCertificates(plain, c) {
		return fmt.Errorf("its certificate has the condition %q, and such certificates cannot be combined", strings.Join(keysBeyond(plain, c), ", "))
	}
	return nil
}

// keysBeyond returns the keys that are in the JSON of c but not in the JSON of plain.
func keysBeyond(plain, c certify.Certificate) (keys []string) {
	var known, all map[string]json.RawMessage
	for to, v := range map[*map[string]json.RawMessage]certify.Certificate{&known: plain, &all: c} {
		text, err := json.Marshal(v)
		if err == nil {
			err = json.Unmarshal(text, to)
		}
		if err != nil {
			panic(err) // impossible: the certificate came from a file of JSON lines, so JSON can hold it
		}
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if _, ok := known[key]; !ok {
			keys = append(keys, key)
		}
	}
	return keys
}

// match returns an error unless two conditions hold: run m has the same inputs as the first run, and the certificates
// of m can be combined with the certificates of the other runs.
func (c *combining) match(ctx context.Context, m *combined) error {
	first, one, other := c.members[0], c.members[0].certs[0], m.certs[0]
	a, b := first.run, m.run
	routed := c.plan.Router != ""
	for _, d := range []struct {
		what      string
		one, this any
	}{
		{"the norm of the radii", one.Norm, other.Norm}, {"the law of the noise", one.Law, other.Law},
		{"the arithmetic", one.Arithmetic, other.Arithmetic}, {"the precision", one.Precision, other.Precision},
		{"the shape of the inputs", fmt.Sprint(a.Data.Shape), fmt.Sprint(b.Data.Shape)},
		{"the lattice of the inputs", a.Noise.Inputs, b.Noise.Inputs}, {"the rounding of the inputs", a.Noise.Quantised, b.Noise.Quantised},
	} {
		if d.one != d.this {
			return fmt.Errorf("%s is %v, then %v", d.what, d.one, d.this)
		}
	}
	if !slices.EqualFunc(first.certs, m.certs, func(x, y certify.Certificate) bool { return x.Index == y.Index }) {
		return fmt.Errorf("they certify other examples: %d, then %d", len(first.certs), len(m.certs))
	}
	if a.Data.SHA256 != b.Data.SHA256 || a.Data.Reading() != b.Data.Reading() {
		if !routed {
			return fmt.Errorf("the data sets differ: SHA-256 %.12s…, then %.12s…", a.Data.SHA256, b.Data.SHA256)
		}
		if err := sameInputs(ctx, first, m); err != nil {
			return err
		}
	}
	if !routed {
		return c.matchRank(first, m)
	}
	return c.matchRank(c.members[1], m)
}

// matchRank returns an error unless two experts, or two members of equal rank, can be combined. The runs must have the
// same number of classes, the same data, the same value of the parameter 'class' and the same kind of margin. Without a
// router, the runs must be different runs.
func (c *combining) matchRank(first, m *combined) error {
	if first == m {
		return nil
	}
	a, b := first.run, m.run
	switch {
	case a.Model.Classes != b.Model.Classes:
		return fmt.Errorf("the models have %d classes, then %d", a.Model.Classes, b.Model.Classes)
	case a.Data.SHA256 != b.Data.SHA256:
		return fmt.Errorf("the data sets differ: SHA-256 %.12s…, then %.12s…", a.Data.SHA256, b.Data.SHA256)
	case a.Parameters.Class != b.Parameters.Class:
		return param.Errorf("%s was %s, then %s", param.Class, a.Parameters.Class, b.Parameters.Class)
	case first.certs[0].MarginKind != m.certs[0].MarginKind:
		return fmt.Errorf("the margins are of kind %v, then %v", first.certs[0].MarginKind, m.certs[0].MarginKind)
	}
	if c.plan.Router == "" {
		for _, other := range c.members {
			if other != m && other.run.Digest() == m.run.Digest() {
				return fmt.Errorf("%s is the same run as %s", other.path, m.path)
			}
			if other == m {
				break
			}
		}
	}
	return nil
}

// sameInputs returns an error unless two runs have the same inputs. The labels of the runs may differ. sameInputs reads
// the data of both runs.
func sameInputs(ctx context.Context, a, b *combined) error {
	one, err := openOf(ctx, a.run)
	if err != nil {
		return err
	}
	defer one.Close()
	two, err := openOf(ctx, b.run)
	if err != nil {
		return err
	}
	defer two.Close()
	for _, c := range a.certs {
		x, err := one.Example(c.Index)
		if err != nil {
			return err
		}
		y, err := two.Example(c.Index)
		if err != nil {
			return err
		}
		if !slices.Equal(x.Values, y.Values) {
			return fmt.Errorf("the inputs of example %d differ", c.Index)
		}
	}
	return nil
}

// openOf opens the data of a run at the path that the run recorded.
func openOf(ctx context.Context, r runfolder.Run) (*dataset.Dataset, error) {
	d, err := dataset.Open(ctx, r.Data.File, r.Data.Options)
	if err != nil {
		return nil, hint.Add(err, "the labels of the runs differ, so their inputs are compared; start this command where the runs found their data")
	}
	if d.SHA256() != r.Data.SHA256 && len(r.Data.Shape) > 0 {
		d.FitChannels(r.Data.Shape[0])
	}
	if d.SHA256() != r.Data.SHA256 {
		return nil, errors.Join(fmt.Errorf("%s: is not the data set of the run: SHA-256 %.12s… there, %.12s… here", r.Data.File, r.Data.SHA256, d.SHA256()), d.Close())
	}
	return d, nil
}

// settle returns the content of combined.json: how the certificates are composed, and their failure probability.
func (c *combining) settle() (*runfolder.Combined, error) {
	p := c.plan
	done := &runfolder.Combined{Version: p.Version, Examples: len(c.members[0].certs), Independent: true}
	alphas, seeds := []float64{}, map[uint64]bool{}
	for k, m := range c.members {
		role := "member"
		switch {
		case p.Router != "" && k == 0:
			role = "router"
		case p.Router != "":
			role = fmt.Sprintf("expert for class %d", k-1)
		}
		cert, seed := m.certs[0], m.run.Parameters.Seed
		done.Independent = done.Independent && !seeds[seed]
		seeds[seed] = true
		alphas = append(alphas, cert.Alpha)
		done.Sampled = max(done.Sampled, m.sampled)
		done.Members = append(done.Members, runfolder.CombinedMember{
			Role: role, Path: m.path, Run: m.run.ID(), Digest: m.run.Digest(), Model: m.run.Model.File, ModelSHA256: m.run.Model.SHA256,
			DataSHA256: m.run.Data.SHA256, Method: cert.Method, Alpha: cert.Alpha, Sigma: cert.Sigma, Seed: seed,
		})
	}
	if p.Router != "" {
		if classes := c.members[0].run.Model.Classes; classes != len(p.Runs) {
			return nil, fmt.Errorf("%s: the router has %d classes, and %d runs are given: want one for each class, in their order", p.Router, classes, len(p.Runs))
		}
		done.Composition, done.Alpha = certify.Router, certify.RouterAlpha(alphas[0], alphas[1:])
		done.Says = fmt.Sprintf("router with %d experts", len(p.Runs))
		return done, nil
	}
	n := len(p.Runs)
	done.Composition, done.Quorum, done.AtLeast = p.By, p.By.Quorum(n), cmp.Or(p.AtLeast, p.By.Quorum(n))
	done.Says = fmt.Sprintf("%s of %d, certified by %d", p.By, n, done.AtLeast)
	var err error
	done.Alpha, err = certify.PollAlpha(alphas, done.Quorum, done.AtLeast, c.members[0].run.Parameters.Class, done.Independent)
	return done, err
}

// compose returns the composed certificates.
func (c *combining) compose(done *runfolder.Combined) []certify.Certificate {
	sigma := c.members[0].certs[0].Sigma
	for _, m := range c.members {
		if m.certs[0].Sigma != sigma {
			sigma = 0 // the runs have different values of σ
		}
	}
	labelled := c.members[len(c.members)-1].certs
	all := make([]certify.Certificate, len(labelled))
	for i, one := range labelled {
		certs := make([]certify.Certificate, len(c.members))
		quantisation := 0.0
		for k, m := range c.members {
			certs[k] = m.certs[i]
			quantisation = max(quantisation, certs[k].Quantisation)
		}
		var claim certify.CombinedClaim
		if done.Composition == certify.Router {
			claim = certify.Route(certs[0], certs[1:])
		} else {
			claim = certify.Poll(certs, done.AtLeast)
		}
		all[i] = certify.Certificate{
			Index: one.Index, Label: one.Label, Prediction: claim.Class, Correct: claim.Class != certify.Abstained && claim.Class == one.Label,
			Radius: claim.Radius, Norm: one.Norm, Method: certify.Composed, MarginKind: one.MarginKind, Alpha: done.Alpha, Law: one.Law,
			Sigma: sigma, Sound: true, Arithmetic: one.Arithmetic, Precision: one.Precision, Quantisation: quantisation,
			Sampled: done.Sampled, Composition: done.Says,
		}
		for _, k := range claim.Used {
			all[i].Members = append(all[i].Members, certify.MemberCertificate{
				Run: done.Members[k].Run, Prediction: certs[k].Prediction, Radius: certs[k].Radius, Alpha: certs[k].Alpha, Sigma: certs[k].Sigma,
			})
		}
		if claim.Class != certify.Abstained {
			done.Certified++
		}
	}
	return all
}
