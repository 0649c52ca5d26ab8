package run

import (
	"archive/zip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"

	"github.com/rscert/rscert/internal/attack"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/npy"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// VerifiedAttack is the outcome of a replay of a stored attack.
type VerifiedAttack struct {
	Examples int `json:"examples"`
	Inputs   int `json:"inputs"` // number of replayed inputs
	// Classes is true if the model classified the inputs again and VerifyAttack compared the new classes with the
	// recorded classes. Classes is false for an attack on the smoothed classifier, because this classifier's answers
	// depend on noise.
	Classes  bool            `json:"classes"`
	Wrong    []AttackProblem `json:"wrong"` // the first problems
	Problems int             `json:"problems"`
}

// AttackProblem is a stored result that the replay did not confirm.
type AttackProblem struct {
	Index int    `json:"index"`
	Name  string `json:"name,omitempty"` // name of the input; absent for the example itself
	What  string `json:"what"`
}

// mostProblems is the largest number of problems that VerifiedAttack.Wrong lists.
const mostProblems = 20

func (v *VerifiedAttack) wrong(index int, name, format string, args ...any) {
	if v.Problems++; v.Problems <= mostProblems {
		v.Wrong = append(v.Wrong, AttackProblem{index, name, fmt.Sprintf(format, args...)})
	}
}

// VerifyAttack replays a finished attack. If the attack was on the model itself, the model classifies every example and
// every stored input again, and VerifyAttack compares the classes with the recorded classes. VerifyAttack also checks
// each stored input. The input must be unchanged and at its recorded distance from the example. This distance must be
// at most the largest that the attack allows. The input must also lie in the box. If the attack was on a smoothed
// classifier, VerifyAttack classifies nothing. The spec names the device. If the model or the data are no longer at the
// recorded paths, the spec must also name them. All other settings come from the record in the folder.
func VerifyAttack(ctx context.Context, dir string, s spec.Spec, console experiment.Console) (*VerifiedAttack, error) {
	record, err := readAttackRecord(dir)
	if err != nil {
		return nil, spec.BadInput(err)
	}
	if !runfolder.Finished(dir) {
		return nil, spec.BadInputf("%s: the attack is not finished", dir)
	}
	identity, err := record.identity()
	if err != nil {
		return nil, err
	}
	lines, err := runfolder.ReadAttacked(dir, identity)
	if err != nil {
		return nil, spec.BadInput(err)
	}
	e, err := experiment.Open(ctx, record.spec(s), console)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	if now := e.Record(); now.Model.SHA256 != record.Model.SHA256 || now.Data.SHA256 != record.Data.SHA256 {
		return nil, spec.BadInputf("%s: the model or the data are not those of the attack: their SHA-256 differ", dir)
	}
	v, err := newAttackVerifier(dir, record, e)
	if err != nil {
		return nil, err
	}
	defer v.close()
	bar := progress.Start(console.Progress, "verify", int64(len(lines)), 0)
	defer bar.Finish()
	v.found.Examples = len(lines)
	if n := len(e.Positions()); n != len(lines) {
		v.found.wrong(-1, "", "the folder has %d examples, the attack has %d", len(lines), n)
	}
	for i, line := range lines[:min(len(lines), len(e.Positions()))] {
		if err := v.replay(ctx, line, e.Positions()[i]); err != nil {
			return nil, err
		}
		bar.Add(1, "")
	}
	if err := v.end(ctx); err != nil {
		return nil, err
	}
	return &v.found, nil
}

// spec returns the spec of the recorded experiment. If s names the model or the data, its path in s replaces the
// recorded path.
func (a attackRecord) spec(s spec.Spec) spec.Spec {
	if s.Model == "" {
		s.Model, s.Further = a.Model.Paths()
	}
	if s.Data == "" {
		s.Data = a.Data.File
	}
	s.DataOptions, s.Conditions = a.Data.Options, a.Model.Reopened(a.Conditions)
	s.Noise, s.KeepOutputs = spec.NoNoise, true
	s.FixedSeed, s.FixedSelect = &a.Conditions.Seed, &a.Conditions.Select
	return s
}

// threat returns the recorded norm, size and box of the attack's perturbations.
func (a attackRecord) threat() (t attack.Threat, err error) {
	low, err1 := strconv.ParseFloat(a.Box[0], 32)
	high, err2 := strconv.ParseFloat(a.Box[1], 32)
	t = attack.Threat{Norm: a.Norm, Epsilon: a.Epsilon, Low: float32(low), High: float32(high)}
	return t, errors.Join(err1, err2, t.Check())
}

// attackVerifier replays an attack, one line of attacked.jsonl after another.
type attackVerifier struct {
	dir        string
	e          *experiment.Experiment
	classifier *fed
	threat     attack.Threat
	keeps      bool // whether each perturbed input must have the class of its example (ACE)
	archives   map[string]*archive
	waiting    []float32   // inputs to classify
	checks     []func(int) // for each input in the field 'waiting': the function that checks the input's class
	found      VerifiedAttack
}

// archive reads a file NAME.npz in the attack's folder. The file holds the stored inputs with the name NAME.
type archive struct {
	file *zip.ReadCloser
	x, y *npy.Reader
}

func newAttackVerifier(dir string, record attackRecord, e *experiment.Experiment) (v *attackVerifier, err error) {
	v = &attackVerifier{
		dir: dir, e: e, classifier: &fed{e.Model(), e}, keeps: record.Attack == attack.ACE, archives: make(map[string]*archive),
		found: VerifiedAttack{Wrong: []AttackProblem{}, Classes: record.Smoothed == nil},
	}
	if v.threat, err = record.threat(); err != nil {
		return nil, spec.BadInput(fmt.Errorf("%s: %w", dir, err))
	}
	for _, name := range record.names() {
		if v.archives[name], err = openArchive(filepath.Join(dir, name+".npz")); err != nil {
			v.close()
			return nil, spec.BadInput(err)
		}
	}
	return v, nil
}

// names returns the names of all inputs that the attack makes.
func (a attackRecord) names() []string {
	if a.Smoothed == nil {
		return alteredNames(a.Attack)
	}
	return namesOf(a.Attack, a.Smoothed.Keep)
}

func openArchive(path string) (*archive, error) {
	file, err := zip.OpenReader(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	a := &archive{file: file}
	for _, member := range file.File {
		r, err := npy.Open(member)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
		}
		switch npy.ArrayName(member) {
		case "x":
			a.x = r
		case "y":
			a.y = r
		}
	}
	if a.x == nil || a.y == nil {
		return nil, errors.Join(fmt.Errorf("%s: has no arrays x and y", path), file.Close())
	}
	return a, nil
}

func (v *attackVerifier) close() {
	for _, a := range v.archives {
		if a != nil {
			_ = a.file.Close()
		}
	}
}

// replay checks an example and its inputs.
func (v *attackVerifier) replay(ctx context.Context, line runfolder.Attacked, position int) error {
	x, err := v.e.Values(position)
	if err != nil {
		return err
	}
	if x.Index != line.Index || x.Label != line.Label {
		v.found.wrong(line.Index, "", "the data have example %d with label %d here, the attack had label %d", x.Index, x.Label, line.Label)
	}
	err = v.classify(ctx, x.Values, func(class int) {
		if class != line.Predicted {
			v.found.wrong(line.Index, "", "the model gives class %d, recorded is %d", class, line.Predicted)
		}
	})
	for _, in := range line.Inputs {
		err = errors.Join(err, v.replayInput(ctx, line, in, x.Values))
	}
	return err
}

func (v *attackVerifier) replayInput(ctx context.Context, line runfolder.Attacked, in runfolder.AttackedInput, x []float32) error {
	wrong := func(format string, args ...any) { v.found.wrong(line.Index, in.Name, format, args...) }
	a := v.archives[in.Name]
	if a == nil {
		wrong("the attack makes no inputs of this name")
		return nil
	}
	values, label := make([]float32, len(x)), make([]int64, 1)
	if _, err := npy.Read(a.x, values); err != nil {
		wrong("its values are missing")
		return nil
	}
	if _, err := npy.Read(a.y, label); err != nil || int(label[0]) != line.Label {
		wrong("its label is missing or is not %d", line.Label)
	}
	v.found.Inputs++
	if sumOf(values) != in.Sum {
		wrong("its values have changed since they were found")
	}
	d, slack := v.threat.Distance(values, x), v.slack(values, x)
	if !(in.Distance <= v.threat.Epsilon) || !(math.Abs(d-in.Distance) <= slack) {
		wrong("its distance is %v, recorded is %v, allowed is %v", d, in.Distance, v.threat.Epsilon)
	}
	if value, outside := v.threat.Outside(values); outside {
		wrong("it has the value %v, outside the box", value)
	}
	return v.classify(ctx, values, func(class int) {
		if class != in.Class || v.keeps && class != line.Predicted {
			wrong("the model gives class %d, recorded is %d", class, in.Class)
		}
	})
}

// slack returns the largest allowed difference between a computed distance and the recorded distance. It is 0 if the
// attack was not on a smoothed classifier. An attack on the smoothed classifier records the exact distance between two
// points of a lattice. The values of these points are rounded to float32 when they are stored. So each difference of
// two values is off by at most 2⁻²³ times the largest magnitude.
func (v *attackVerifier) slack(values, x []float32) float64 {
	if v.found.Classes {
		return 0
	}
	most := 0.
	for i := range x {
		most = max(most, math.Abs(float64(x[i])), math.Abs(float64(values[i])))
	}
	return 0x1p-23 * most * math.Sqrt(float64(len(x)))
}

// sumOf returns the SHA-256 of values as little-endian float32, in hex. For each stored input, attacked.jsonl records
// this checksum.
func sumOf(values []float32) string {
	block := make([]byte, 0, 4*len(values))
	for _, v := range values {
		block = binary.LittleEndian.AppendUint32(block, math.Float32bits(v))
	}
	return fmt.Sprintf("%x", sha256.Sum256(block))
}

// classify queues the input x and the function 'check'. As soon as the queue fills a batch, the model classifies the
// queued inputs, and each function is called with the class of its input. If the attack was on a smoothed classifier
// (the field Classes is false), the method does nothing.
func (v *attackVerifier) classify(ctx context.Context, x []float32, check func(class int)) error {
	if !v.found.Classes {
		return nil
	}
	v.waiting, v.checks = append(v.waiting, x...), append(v.checks, check)
	if len(v.checks) < v.classifier.Batch() {
		return nil
	}
	return v.flush(ctx)
}

// flush classifies the inputs that wait for a full batch.
func (v *attackVerifier) flush(ctx context.Context) error {
	if len(v.checks) == 0 {
		return nil
	}
	batch, d, m := v.classifier.Batch(), v.classifier.InputLen(), v.classifier.Classes()
	in, out := make([]float32, batch*d), make([]float32, batch*m)
	copy(in, v.waiting)
	for row := len(v.checks); row < batch; row++ {
		copy(in[row*d:], v.waiting[:d])
	}
	if err := v.classifier.Run(ctx, in, out); err != nil {
		return err
	}
	for row, check := range v.checks {
		check(smoothing.Vote(out[row*m : (row+1)*m]))
	}
	v.waiting, v.checks = v.waiting[:0], v.checks[:0]
	return nil
}

// end classifies the last inputs. It records a problem for stored inputs that no line describes.
func (v *attackVerifier) end(ctx context.Context) error {
	for name, a := range v.archives {
		if err := errors.Join(a.x.End(), a.y.End()); err != nil {
			v.found.wrong(-1, name, "its file: %v", err)
		}
	}
	return v.flush(ctx)
}
