package run

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rscert/rscert/internal/conformal"
	"github.com/rscert/rscert/internal/conformalfile"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

// ConformalApply says which inputs get prediction sets.
type ConformalApply struct {
	// Spec holds the paths, the options for reading labels, the choice of examples, the seed, the device, the batch
	// size and the number of threads. Everything else comes from conformal.json.
	Spec   spec.Spec
	Path   string   // path of conformal.json
	Round  bool     // if true, inputs that are off the lattice are rounded to lattice points
	Groups []string // the group of each input, by index, for the guarantee conformal.Group
	// If CertifiedSize is true, ApplyConformal also draws the samples for the certified size of each set.
	CertifiedSize bool
}

// ConformalSets is the result of ApplyConformal.
type ConformalSets struct {
	Conformal string `json:"conformal"` // path of conformal.json
	Model     string `json:"model,omitempty"`
	Data      string `json:"data"`
	conformalfile.Conditions
	NoiseSeed  uint64 `json:"seed"`
	Inputs     int    `json:"inputs"`
	Labelled   int    `json:"labelled"`   // inputs with a label
	Covered    int    `json:"covered"`    // sets that contain the label
	Empty      int    `json:"empty"`      // sets without a class
	Singletons int    `json:"singletons"` // sets of one class
	Classes    int64  `json:"classes"`    // sum of the sizes of all sets
	Draws      int64  `json:"draws"`      // number of draws for all sets together
	// The field Different lists the software and hardware that differ between the calibration and this machine.
	Different []string            `json:"different,omitempty"`
	Statement string              `json:"statement"` // what the sets promise
	Seconds   float64             `json:"seconds"`
	Sets      []conformalfile.Set `json:"sets"`
}

// ApplyConformal computes the prediction set of every input of the data. Errors in the user's input are InputErrors.
func ApplyConformal(ctx context.Context, p ConformalApply, console experiment.Console) (*ConformalSets, error) {
	f, err := conformalfile.Read(p.Path)
	if err != nil {
		return nil, spec.BadInput(err)
	}
	if grouped := f.Predictor.Guarantee == conformal.Group; grouped != (p.Groups != nil) {
		return nil, spec.BadInputf("%s: has the guarantee %s; the guarantee group needs %s, and the other guarantees have none",
			p.Path, f.Predictor.Guarantee, param.Groups)
	}
	a := &applying{plan: p, file: f, result: &ConformalSets{Conformal: p.Path, Data: p.Spec.Data}}
	began := time.Now()
	if f.Classifier == nil {
		err = a.fromScores(ctx, console)
	} else {
		err = a.fromModel(ctx, console)
	}
	if err != nil {
		return nil, err
	}
	a.result.Seconds = time.Since(began).Seconds()
	return a.result, nil
}

// The type 'applying' is a running computation of prediction sets.
type applying struct {
	plan       ConformalApply
	file       *conformalfile.File
	experiment *experiment.Experiment
	conditions conformalfile.Conditions
	result     *ConformalSets
	bar        *progress.Bar
	digest     exampleDigest // digest of the examples in a file of scores
}

// fromModel computes the prediction sets from samples of the model.
func (a *applying) fromModel(ctx context.Context, console experiment.Console) (err error) {
	f := a.file
	then := f.Run()
	s, err := reopen(then, a.plan.Spec, a.plan.Round)
	if err != nil {
		return err
	}
	if s.Batch == 0 {
		s.Batch = then.Runtime.Batch
	}
	if f.Classifier.Noiseless() {
		s.Noise = spec.NoNoise
	}
	if err := freshSeed(&s); err != nil {
		return err
	}
	if a.experiment, err = experiment.Open(ctx, s, console); err != nil {
		return err
	}
	defer func() {
		if err := a.experiment.Close(); err != nil {
			console.Warnf(warning.CloseFailed, "%v", err)
		}
	}()
	a.result.Model, a.result.NoiseSeed = s.ModelName(), a.experiment.Spec.Seed
	if err := a.prepare(console); err != nil {
		return err
	}
	now := recordOf(a.experiment)
	if err := a.disjoint(then, now); err != nil {
		return err
	}
	if err := checkGroups(a.plan.Groups, now.Data.Examples, now.Data.File); err != nil {
		return err
	}
	if err := a.sample(ctx, console); err != nil {
		return err
	}
	a.conclude()
	return nil
}

// prepare checks that the experiment takes its scores from the same classifier as the calibration. It also fills in the
// conditions that all prediction sets share.
func (a *applying) prepare(console experiment.Console) (err error) {
	then, now := a.file.Run(), recordOf(a.experiment)
	if a.result.Different, err = sameScores(then, now); err != nil {
		return err
	}
	for _, d := range a.result.Different {
		console.Warnf(warning.OtherConditions, "%s: scores may differ in their last bits, and the sets promise nothing", d)
	}
	a.promise()
	shortenBy(&a.conditions, max(0, a.experiment.Allowance()-a.file.Allowance))
	return a.chargeLattice()
}

// chargeLattice raises the probability of a miss if the plan rounds inputs to the lattice. This lattice was chosen from
// the calibration examples alone. The predictor's own probability of a miss would be valid for a lattice that is chosen
// from the calibration examples and the clean query (the input without an attack). If the n calibration examples and
// the query are exchangeable, the two lattices differ with a probability of at most dataset.LatticeChanges/(n+1).
// chargeLattice adds this probability. If the predictor has several cells (conformal.Cell), n counts the calibration
// examples of a cell, and chargeLattice adds the largest probability over the cells.
//
// The bound on the certified size is not valid if attacked inputs are rounded. So chargeLattice returns an error if the
// plan rounds inputs and asks for the certified size.
func (a *applying) chargeLattice() error {
	p, noise := &a.file.Predictor, a.file.Classifier.Noise
	if !a.plan.Round || noise.Quantised || noise.Distribution == "" {
		return nil
	}
	if a.plan.CertifiedSize {
		return hint.Add(spec.BadInputf("%s round: the certified size does not allow for the distances that attacked inputs move", param.OffLattice),
			"give inputs on the lattice")
	}
	if p.Guarantee == conformal.Training || p.Attack.PoisonRadius > 0 || p.Poisoned > 0 {
		return hint.Add(spec.BadInputf("%s round: for this guarantee, the choice of the lattice by the calibration data has no known price", param.OffLattice),
			"give inputs on the lattice")
	}
	charge := 0.
	for _, c := range p.Cells {
		if !math.IsInf(float64(c.Tau), -1) { // with the threshold −∞, the sets hold all classes
			charge = max(charge, dataset.LatticeChanges/float64(c.N+1))
		}
	}
	if charge == 0 {
		return nil
	}
	if a.conditions.Miss = math.Nextafter(p.Miss+charge, 1); !(a.conditions.Miss < 1) {
		return spec.BadInputf("%s round: there are too few calibration examples", param.OffLattice)
	}
	return nil
}

// sameScores makes the same checks as sameClassifier and lists the same differences. It also lists differences that may
// change the last bits of scores.
func sameScores(then, now runfolder.Run) (different []string, err error) {
	if different, err = sameClassifier(then, now); err != nil {
		return nil, hint.Add(err, "fit a predictor for this classifier")
	}
	add := func(what string, before, here any) {
		different = append(different, fmt.Sprintf("%s was %v, now %v", what, before, here))
	}
	runtimes := []runfolder.Runtime{then.Runtime}
	for _, r := range then.Runtime.Resumed {
		runtimes = append(runtimes, r.Runtime)
	}
	for _, s := range then.Runtime.Shards {
		runtimes = append(runtimes, s.Runtime)
	}
	for _, r := range runtimes {
		if r.Call != 0 && now.Runtime.Call != 0 && r.Call != now.Runtime.Call {
			add("the number of samples a call", r.Call, now.Runtime.Call)
			break
		}
	}
	for _, r := range runtimes {
		if r.NoiseOn != "" && r.NoiseOn != now.Runtime.NoiseOn {
			add("the place of the noise", r.NoiseOn, now.Runtime.NoiseOn)
			break
		}
	}
	if sums := then.Runtime.Libraries(); len(sums) > 0 && !slices.Equal(sums, []string{now.Runtime.LibrarySHA256}) {
		add("the library of ONNX Runtime", shortSums(sums), shortSums([]string{now.Runtime.LibrarySHA256}))
	}
	return different, nil
}

// shortSums shortens hashes for messages.
func shortSums(sums []string) []string {
	short := make([]string, len(sums))
	for i, s := range sums {
		short[i] = fmt.Sprintf("%.12s…", s)
	}
	return short
}

// disjoint returns an error if an input is a calibration example.
func (a *applying) disjoint(then, now runfolder.Run) error {
	originals, known := a.originals(then, now)
	if !known {
		return nil
	}
	calibration := map[int]bool{}
	shards := then.Data.Shards
	if len(shards) == 0 {
		shards = []spec.Shard{then.Parameters.Shard}
	}
	c := then.Parameters.Conditions
	for _, c.Shard = range shards {
		for _, position := range c.Positions(then.Data.Examples) {
			calibration[position] = true
		}
	}
	common := 0
	for _, position := range originals {
		if calibration[position] {
			common++
		}
	}
	if common == 0 {
		return nil
	}
	return hint.Add(spec.BadInputf("%s: %d of its inputs are calibration examples of %s, about which a set promises nothing", now.Data.File, common, a.plan.Path),
		"take other data, or fit with %s 0/2 and apply with %s 1/2", param.Shard, param.Shard)
}

// originals returns, for each input, the position of its original example in the calibration's data file. It knows
// these positions if the inputs are from this file, or from the folder of an attack on this file. The result 'known' is
// false for other inputs.
func (a *applying) originals(then, now runfolder.Run) (positions []int, known bool) {
	if then.Data.SHA256 == now.Data.SHA256 {
		return a.experiment.Positions(), true
	}
	all := attackedPositions(now.Data.File, then.Data.SHA256)
	for _, position := range a.experiment.Positions() {
		if position < len(all) {
			positions = append(positions, all[position])
		}
	}
	return positions, all != nil
}

// attackedPositions reads the record of the attack that wrote the archive 'file'. For each input in the archive, it
// returns the position of the original example in the attacked data file. The argument 'sum' is the expected SHA-256 of
// this data file. If the attack had other data, or if no attack wrote the archive, attackedPositions returns nil.
func attackedPositions(file, sum string) (positions []int) {
	name, archive := strings.CutSuffix(filepath.Base(file), ".npz")
	if !archive {
		return nil
	}
	record, err := readAttackRecord(filepath.Dir(file))
	if err != nil || record.Data.SHA256 != sum {
		return nil // the folder holds no attack, or an attack on other data
	}
	identity, err := record.identity()
	if err != nil {
		return nil
	}
	lines, err := runfolder.ReadAttacked(filepath.Dir(file), identity)
	if err != nil {
		return nil
	}
	for _, line := range lines {
		for _, in := range line.Inputs {
			if in.Name == name {
				positions = append(positions, line.Index)
			}
		}
	}
	return positions
}

// promise fills in a.conditions, which holds the conditions that all prediction sets share.
func (a *applying) promise() {
	f, p := a.file, &a.file.Predictor
	a.conditions = conformalfile.Conditions{
		Predictor: f.ID(), Rule: p.Rule, Law: p.Attack.Law, Scale: p.Attack.Scale, Norm: p.Attack.Norm, Radius: p.Attack.Radius,
		Poison: p.Attack.PoisonRadius, Poisoned: p.Poisoned, Queries: p.Attack.Queries, Shift: p.Shift, Miss: p.Miss,
		Guarantee: p.Guarantee, Delta: p.Delta, Sound: f.Sound && len(a.result.Different) == 0, Arithmetic: f.Arithmetic,
		OwnRange: p.OwnRange, M: p.M, T: p.T, QueryM: p.QueryM, QueryT: p.QueryT, N: p.N,
	}
	random := f.Classifier != nil && !f.Classifier.Noiseless() || p.Kind.Random()
	if a.plan.Spec.FixedSeed != nil && random {
		a.conditions.Sound, a.conditions.Seed = false, a.plan.Spec.FixedSeed
	}
	if len(p.Cells) == 1 {
		a.conditions.K = p.Cells[0].K
	}
}

// conditionsOf returns the conditions of one input's prediction set. If the guarantee is Label or Group, the numbers N
// and K are those of the predictor's cell for the input's label or group (conformal.Cell).
func (a *applying) conditionsOf(label *int, group string) conformalfile.Conditions {
	c := a.conditions
	if g := a.file.Predictor.Guarantee; g != conformal.Label && g != conformal.Group {
		return c
	}
	c.N, c.K = 0, 0
	for _, cell := range a.file.Predictor.Cells {
		if cell.Label != nil && label != nil && *cell.Label == *label || cell.Label == nil && cell.Group == group {
			c.N, c.K = cell.N, cell.K
		}
	}
	return c
}

// sample draws the samples of all inputs.
func (a *applying) sample(ctx context.Context, console experiment.Console) error {
	positions := a.experiment.Positions()
	a.bar = progress.Start(console.Progress, "apply", int64(len(positions)), 0)
	defer a.bar.Finish()
	next := 0
	return dependent(a.experiment.Sampler().Run(ctx, func() (smoothing.Experiment, error) {
		if next == len(positions) {
			return nil, nil
		}
		example, err := a.experiment.Example(positions[next])
		next++
		if err != nil {
			return nil, err
		}
		return a.start(example)
	}))
}

// take adds a set to the result.
func (a *applying) take(s conformalfile.Set) {
	r := a.result
	r.Inputs++
	r.Draws += s.Draws
	r.Classes += int64(s.Size)
	switch s.Size {
	case 0:
		r.Empty++
	case 1:
		r.Singletons++
	}
	if s.Label != nil {
		r.Labelled++
		if slices.Contains(s.Set, *s.Label) {
			r.Covered++
		}
	}
	r.Sets = append(r.Sets, s)
	a.bar.Add(1, fmt.Sprintf("mean size %.3f", float64(r.Classes)/float64(r.Inputs)))
}

// conclude writes the guarantee for the prediction sets into the result.
func (a *applying) conclude() {
	r := a.result
	r.Conditions = a.conditions
	for _, s := range r.Sets { // rounding may reduce the radius of a set, or remove its guarantee
		r.Radius, r.Sound = min(r.Radius, s.Radius), r.Sound && s.Sound
	}
	switch {
	case r.Seed != nil:
		r.Statement = fmt.Sprintf("These sets promise nothing: they repeat the noise of seed %d, which whoever chose the inputs may have known.", *r.Seed)
	case len(r.Different) > 0:
		r.Statement = "These sets promise nothing: the software and hardware of the calibration differ here."
	case !a.file.Sound:
		r.Statement = "These sets promise nothing under attack: " + a.file.Why + "."
	case !r.Sound:
		r.Statement = "Some of these sets promise nothing: rounding moved their inputs farther than the radius."
	default:
		r.Statement = a.file.Statement() + "."
		if r.Radius < a.file.Predictor.Attack.Radius {
			r.Statement += fmt.Sprintf(" Rounding of the inputs reduces the radius, down to %v for some of them.", r.Radius)
		}
		if r.Miss > a.file.Predictor.Miss {
			r.Statement += fmt.Sprintf(" Rounding to the lattice of the calibration examples raises the allowed probability of a miss to %.4g.", r.Miss)
		}
	}
}
