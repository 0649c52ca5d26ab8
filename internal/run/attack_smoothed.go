package run

import (
	"cmp"
	"context"
	"errors"

	"github.com/rscert/rscert/internal/attack"
	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/graph"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/predict"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// SmoothedAttackPlan holds the settings of an attack on a smoothed classifier.
type SmoothedAttackPlan struct {
	Spec            spec.Spec
	Threat          attack.Threat
	Method          attack.SmoothedMethod
	Steps, Restarts int // 0: the defaults of a SmoothedSearch
	Samples         int // number of noisy copies for the gradient of the last step; 0: the default
	N               int // fresh samples for an answer; also the maximum number of samples to screen a perturbation
	Alpha           float64
	Keep            attack.Keep
	Run             *runfolder.Run // the run, if Spec describes the smoothed classifier of a run; otherwise nil
	Out             string
	Resume          bool // continue the attack in Out, with its seed and its examples
	Pictures        int  // number of pictures in Out
}

// AttackedNoise says how an attack on a smoothed classifier sampled this classifier.
type AttackedNoise struct {
	Law     law.Name `json:"law,omitempty"`
	Sigma   float64  `json:"sigma"`
	Samples int      `json:"samples"` // number of noisy copies for the gradient of the last step
	Screen  int      `json:"screen"`  // largest number of selection samples per perturbation
	// N fresh samples decide each answer. The answer at an example is wrong with probability at most Alpha. The same
	// bound holds for the answer at a verified perturbation. VerificationSeed is the seed of the fresh samples. The
	// search uses another seed.
	N                int     `json:"n"`
	Alpha            float64 `json:"alpha"`
	VerificationSeed uint64  `json:"verification_seed"`
	// number of examples at which the smoothed classifier abstained before the attack
	Abstained int `json:"abstained"`
	// Keep is attack.KeepAll or empty. Lowered is nil for an empty Keep.
	Keep    attack.Keep         `json:"keep,omitempty"`
	Lowered *LoweredProbability `json:"label_probability,omitempty"`
}

// LoweredProbability describes the result of an attack that keeps one input for every example (attack.KeepAll). It
// holds two means of the label's probability under noise, each over all examples. The attack estimates each probability
// from selection samples.
type LoweredProbability struct {
	Before float64 `json:"before"` // mean of the label's probability at the unperturbed examples
	After  float64 `json:"after"`  // at the kept inputs
}

// AttackSmoothed attacks the smoothed classifier. It writes the folder of the attack if the plan names one.
func AttackSmoothed(ctx context.Context, p SmoothedAttackPlan, console experiment.Console) (r *Attacked, err error) {
	base, err := p.settle()
	if err != nil {
		return nil, spec.BadInput(err)
	}
	if err := base.keepResumed(); err != nil {
		return nil, err
	}
	e, err := experiment.Open(ctx, base.Spec, console)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	if err := checkRun(p.Run, e.Record()); err != nil {
		return nil, err
	}
	s, closeSearch, err := openSmoothedSearch(ctx, e, p.Method, p.Threat, console)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeSearch()) }()
	s.Seed, s.Screen = e.Spec.Seed, p.N
	s.Steps, s.Restarts, s.Samples = cmp.Or(p.Steps, s.Steps), cmp.Or(p.Restarts, s.Restarts), cmp.Or(p.Samples, s.Samples)
	s.Probabilities = e.Model().Outputs() == graph.Probabilities
	v := verification{
		search: s, method: base.Method, keep: p.Keep, n: p.N, seed: e.Spec.Seed ^ verificationSeed,
		level: smoothing.Deflate(p.Alpha, e.Record().Noise.Eta, int64(p.N)*int64(e.Model().InputLen())),
	}
	noise := &AttackedNoise{
		Law: p.Spec.Law, Sigma: p.Spec.Sigma, Samples: s.Samples, Screen: s.Screen, N: p.N, Alpha: p.Alpha, VerificationSeed: v.seed,
	}
	if p.Keep == attack.KeepAll {
		noise.Keep = p.Keep
	}
	stages := []AttackStage{{Attack: base.Method, Steps: s.Steps, Restarts: s.Restarts}}
	a := &attacking{plan: base, e: e, search: v.attackAll, chunk: 1}
	if err := a.checkExamples(ctx); err != nil {
		return nil, err
	}
	record := base.record(e, stages)
	record.Conditions.Noise, record.Smoothed = p.Spec.Noise, noise
	if err := a.run(ctx, record, console); err != nil {
		return nil, err
	}
	defer a.close()
	r = base.result(e, stages, a.found)
	r.Warnings = []attack.Warning{}
	r.Smoothed = noise.count(a.found)
	return r, a.finish(r)
}

// count returns a copy of n in which Abstained and Lowered are computed from the outcomes of all examples.
func (n AttackedNoise) count(found []attack.Found) *AttackedNoise {
	if n.Keep == attack.KeepAll {
		n.Lowered = new(LoweredProbability)
	}
	for _, f := range found {
		if f.Clean < 0 {
			n.Abstained++
		}
		if f.Lowered != nil {
			n.Lowered.Before += f.Lowered.Before / float64(len(found))
			n.Lowered.After += f.Lowered.After / float64(len(found))
		}
	}
	return &n
}

// The seed of the samples that verify perturbations is the attack's seed XOR verificationSeed, which is 2⁶⁴ divided by
// the golden ratio.
const verificationSeed = 0x9E3779B97F4A7C15

// settle checks the plan. It returns the AttackPlan that writes this attack's record and folder.
func (p *SmoothedAttackPlan) settle() (*AttackPlan, error) {
	if err := errors.Join(p.Spec.Law.NeedRandom(), checkDevice(p.Spec.Device)); err != nil {
		return nil, err
	}
	switch {
	case p.Threat.Norm != attack.L2:
		return nil, hint.Add(param.Errorf("%s %s: an attack on a smoothed classifier is for norm %s", param.Norm, p.Threat.Norm, attack.L2), "give %s %s", param.Norm, attack.L2)
	case p.Steps < 0:
		return nil, param.Errorf("%s %d: want at least 1", param.Steps, p.Steps)
	case p.Restarts < 0:
		return nil, param.Errorf("%s %d: want at least 1", param.Restarts, p.Restarts)
	case p.Samples < 0:
		return nil, param.Errorf("%s %d: want at least 1", param.Samples, p.Samples)
	case p.Keep == attack.KeepAll && p.Out == "":
		return nil, param.Errorf("%s %s needs %s, the folder for the inputs", param.Keep, p.Keep, param.Out)
	case p.N < 1 || p.N >= smoothing.MaxSamples:
		return nil, param.Errorf("%s %d: want at least 1 and less than 2³¹", param.N, p.N)
	case !(p.Alpha > 0 && p.Alpha < 1):
		return nil, param.Errorf("%s %v: want a number between 0 and 1", param.Alpha, p.Alpha)
	}
	p.Spec.KeepSource, p.Spec.NoiseOn = p.Method == attack.SmoothAdv, spec.NoiseOnHost
	// KeepOutputs makes the loader return an error if it cannot tell whether the outputs are logits or probabilities.
	// With the method SmoothAdv or with attack.KeepAll, the search must know this: it computes class probabilities from
	// logits in one way, and from other outputs in another way.
	p.Spec.KeepOutputs = p.Spec.KeepSource || p.Keep == attack.KeepAll
	base := &AttackPlan{Spec: p.Spec, Threat: p.Threat, Method: attack.Method(p.Method), Out: p.Out, Resume: p.Resume, Pictures: p.Pictures, keep: p.Keep}
	if err := base.checkOut(); err != nil {
		return nil, err
	}
	return base, p.Threat.Check()
}

// verification attacks examples. It verifies each perturbation by asking the smoothed classifier with fresh noise.
type verification struct {
	search *attack.SmoothedSearch
	method attack.Method
	keep   attack.Keep
	n      int
	seed   uint64
	level  float64
}

// attackAll attacks examples.
func (v *verification) attackAll(ctx context.Context, examples []attack.Example) ([]attack.Found, error) {
	found := make([]attack.Found, len(examples))
	for i, x := range examples {
		var err error
		if found[i], err = v.attack(ctx, x); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// attack attacks an example if the smoothed classifier answers the example's label. A perturbation counts only if it is
// verified.
func (v *verification) attack(ctx context.Context, x attack.Example) (attack.Found, error) {
	f := attack.Found{Index: x.Index, Label: x.Label}
	if x.Label < 0 {
		return f, spec.BadInputf("example %d has no label", x.Index)
	}
	votes, err := v.search.Votes(ctx, x.Values, smoothing.NewStream(v.seed, x.Index, smoothing.Selection), v.n)
	if err != nil {
		return f, err
	}
	f.Clean = answer(votes, v.n, v.level)
	if v.keep == attack.KeepAll {
		return v.lower(ctx, x, f)
	}
	if !f.Correct() {
		return f, nil
	}
	candidates, flat, err := v.search.Search(ctx, x)
	f.Flat = flat
	if err != nil {
		return f, err
	}
	// The tests begin with the farthest candidate and end at the first test that does not reject. All rejections are
	// right with probability at least 1 − level. To see why, consider the first test whose null hypothesis is true. All
	// rejections before this test are right. If this test does not reject, no further test follows. A wrong rejection
	// therefore occurs only if this test rejects, and this test rejects with probability at most level.
	for _, c := range candidates {
		votes, err := v.search.Votes(ctx, c.Values, smoothing.NewStream(v.seed, x.Index, smoothing.Estimation), v.n)
		if err != nil {
			return f, err
		}
		if !beats(votes[c.Rival], votes[x.Label], v.level) {
			break
		}
		f.Adversarial, f.Class, f.Distance, f.By = c.Values, c.Rival, c.Distance, v.method
	}
	return f, nil
}

// The method 'lower' attacks an example and finds the perturbed input that attack.KeepAll keeps. If the smoothed
// classifier answers the label at the example and another class at this input, the input is also an adversarial input.
func (v *verification) lower(ctx context.Context, x attack.Example, f attack.Found) (attack.Found, error) {
	kept, flat, err := v.search.Lower(ctx, x)
	f.Flat, f.Lowered = flat, &kept
	if err != nil {
		return f, err
	}
	votes, err := v.search.Votes(ctx, kept.Values, smoothing.NewStream(v.seed, x.Index, smoothing.Estimation), v.n)
	if err != nil {
		return f, err
	}
	kept.Class = answer(votes, v.n, v.level)
	if f.Correct() && kept.Class >= 0 && kept.Class != x.Label {
		f.Adversarial, f.Class, f.Distance, f.By = kept.Values, kept.Class, kept.Distance, v.method
	}
	return f, nil
}

// beats reports whether a binomial test at a level shows that one class is more probable than another. The arguments
// 'votes' and 'other' are the numbers of votes of the two classes.
func beats(votes, other int, level float64) bool {
	return binomial.Tail(int64(votes+other), int64(votes), .5).Upper <= level
}

// answer returns the class that the smoothed classifier answers for the votes of n samples, or −1 to abstain. "No
// class" counts as one more outcome.
func answer(votes []int, n int, level float64) int {
	m := len(votes)
	counts := make([]int64, m+1)
	counts[m] = int64(n)
	for class, k := range votes {
		counts[class] = int64(k)
		counts[m] -= int64(k)
	}
	if class := predict.Fixed(counts, level); class < m {
		return class
	}
	return -1
}

// AttackedRun returns the spec for an attack on a run's smoothed classifier, and the record of the run. The arguments
// 'models' and 'data' replace the paths in the run's record. If an argument is empty, the recorded path stays. The
// attack's noise has another seed than the run's noise.
func AttackedRun(dir string, models []string, data string) (spec.Spec, runfolder.Run, error) {
	r, err := runfolder.Read(dir)
	if err != nil {
		return spec.Spec{}, r, spec.BadInput(err)
	}
	if err := refuseScaled(r, dir, "attacks"); err != nil {
		return spec.Spec{}, r, err
	}
	again := Again{Data: cmp.Or(data, r.Data.File)}
	if again.Model, again.Further = r.Model.Paths(); models[0] != "" {
		again.Model, again.Further = models[0], models[1:]
	}
	plan, err := again.plan(r, "")
	plan.FixedSeed = nil
	return plan.Spec, r, err
}

// checkRun compares an attack with the run that it attacks. The argument 'then' is the run, and the argument 'now'
// states the model, the data, the noise and the seed of the attack. checkRun returns an error if the models, the data
// or the noise differ, or if the seeds are equal.
func checkRun(then *runfolder.Run, now runfolder.Run) error {
	if then == nil {
		return nil
	}
	if err := needAnswers("the run", *then); err != nil {
		return err
	}
	for _, c := range []struct{ what, then, now string }{
		{"model", then.Model.SHA256, now.Model.SHA256}, {"data", then.Data.SHA256, now.Data.SHA256}, {"noise", then.Noise.Table, now.Noise.Table},
	} {
		if c.then != c.now {
			return spec.BadInputf("the %s differs from the run's: %s there, %s here", c.what, c.then, c.now)
		}
	}
	if now.Parameters.Seed == then.Parameters.Seed {
		return spec.BadInputf("%s %d is the run's: the attack needs noise of its own", param.Seed, then.Parameters.Seed)
	}
	return nil
}
