package runfolder

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"github.com/rscert/rscert/internal/checksum"
	"github.com/rscert/rscert/internal/confined"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
)

// These are the names of the files that a running attack keeps in its folder. The files with the attack's results have
// other names.
const (
	AttackPlanFile   = "plan.json"      // model, data and settings; written first
	AttackedFile     = "attacked.jsonl" // one line per example
	AttackInputsFile = "inputs.part"    // the perturbed inputs (float32, little-endian), in the order of attacked.jsonl
)

// Attacked is a line of attacked.jsonl: the outcome of an attack on one example.
type Attacked struct {
	Index         int             `json:"index"`
	Label         int             `json:"label"`
	Predicted     int             `json:"predicted"` // class predicted for the unperturbed example; −1: none
	ZeroGradients int             `json:"zero_gradients,omitempty"`
	Confidence    *float64        `json:"confidence,omitempty"` // confidence of the unperturbed example
	Probability   *float64        `json:"label_probability,omitempty"`
	Attack        string          `json:"attack,omitempty"` // the attack that found the adversarial input
	Inputs        []AttackedInput `json:"inputs,omitempty"`
}

// AttackedInput describes a perturbed input in inputs.part.
type AttackedInput struct {
	Name       string   `json:"name"`
	Class      int      `json:"class"`
	Distance   float64  `json:"distance"` // norm of the perturbation, rounded up
	Confidence *float64 `json:"confidence,omitempty"`
	// Probability is the label's probability under noise. It is set only in attacks with '--keep all', which store one
	// input for each example. The label's probability at the unperturbed example is in Attacked.Probability.
	Probability *float64 `json:"label_probability,omitempty"`
	Sum         string   `json:"sha256"` // SHA-256 of the values in inputs.part
}

// attackedKeys lists the keys that every line of attacked.jsonl must have.
var attackedKeys = []string{"index", "label", "predicted"}

// AttackFolder is the folder of an attack, open for appending.
type AttackFolder struct {
	dir    string
	root   *os.Root
	lock   *flock.Flock
	seed   checksum.Seed
	lines  *appendFile
	inputs *appendFile
	done   []Attacked
}

// ReadAttackPlan returns the document in the plan.json of a folder. The error is fs.ErrNotExist if the folder has no
// plan.json.
func ReadAttackPlan(dir string) ([]byte, error) {
	path := filepath.Join(dir, AttackPlanFile)
	file, err := confined.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxLine))
	if err != nil {
		return nil, err
	}
	plan, state := checksum.VerifySealed(text)
	if state != checksum.Good {
		return nil, damaged(fmt.Errorf("%s: has changed since it was written: its checksum does not match", path))
	}
	return plan, nil
}

// attackSeed computes a seed from an attack's identity. The checksums of the attack's lines start from this seed.
func attackSeed(identity []byte) checksum.Seed {
	digest := sha256.Sum256(identity)
	return checksum.NewSeed(digest[:])
}

// CreateAttack creates the folder of an attack. It writes the document 'plan' to plan.json. The caller must have
// indented the document by two spaces. The checksums of the lines in attacked.jsonl start from a seed that depends on
// the argument 'identity'. CreateAttack returns ErrExists if the folder is not empty. It ignores files that remain from
// a start that was interrupted before it wrote plan.json.
func CreateAttack(dir string, plan, identity []byte) (*AttackFolder, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	if err := checkUnused(dir); err != nil {
		return nil, err
	}
	f, err := openAttack(dir, identity)
	if err != nil {
		return nil, err
	}
	err = durable.SyncFolder(filepath.Dir(filepath.Clean(dir)))
	if err == nil {
		err = durable.WriteIn(f.root, AttackPlanFile, checksum.Seal(plan), 0o666)
	}
	if err == nil {
		err = f.open(0, 0)
	}
	return f, f.closeAfter(err)
}

// ResumeAttack opens the folder of an attack to add examples. The argument 'values' is the number of values of an
// input. ResumeAttack keeps complete examples. A kill or a power cut can leave incomplete examples. ResumeAttack cuts
// these off. For any other damage, it returns a DamageError.
func ResumeAttack(dir string, identity []byte, values int) (*AttackFolder, error) {
	f, err := openAttack(dir, identity)
	if err != nil {
		return nil, err
	}
	content, err := readAttacked(dir, f.seed)
	if err != nil {
		return nil, f.closeAfter(err)
	}
	if Finished(dir) {
		f.done = content.values
		return f, nil
	}
	whole, size, err := f.countWhole(content.values, values)
	if err == nil {
		f.done = content.values[:whole]
		end := int64(0)
		if whole > 0 {
			end = content.ends[whole-1]
		}
		err = f.open(end, size)
	}
	return f, f.closeAfter(err)
}

// AttackResultFile is the name of the file with the result of an attack. The file is written last.
const AttackResultFile = "attack.json"

// Finished reports whether the folder of an attack holds the attack's result.
func Finished(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, AttackResultFile))
	return err == nil
}

func openAttack(dir string, identity []byte) (*AttackFolder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	l, err := lockDir(root, dir)
	if err != nil {
		return nil, err
	}
	f := &AttackFolder{dir: dir, root: root, lock: l, seed: attackSeed(identity)}
	return f, f.closeAfter(removeTemporary(root))
}

// closeAfter closes the folder if err is not nil, and returns err.
func (f *AttackFolder) closeAfter(err error) error {
	if err != nil {
		_ = f.Close()
	}
	return err
}

func (f *AttackFolder) open(lines, inputs int64) (err error) {
	if f.inputs, err = openAppend(f.root, AttackInputsFile, inputs); err != nil {
		return err
	}
	if f.lines, err = openAppend(f.root, AttackedFile, lines); err != nil {
		return err
	}
	return durable.SyncFolder(f.dir)
}

// ReadAttacked returns the complete lines of attacked.jsonl in the folder of an attack.
func ReadAttacked(dir string, identity []byte) ([]Attacked, error) {
	content, err := readAttacked(dir, attackSeed(identity))
	return content.values, err
}

func readAttacked(dir string, seed checksum.Seed) (c content[Attacked], err error) {
	path := filepath.Join(dir, AttackedFile)
	format := fileFormat[Attacked]{
		keys: attackedKeys, sealed: true, seed: seed, own: true, valid: func(Attacked) error { return nil },
	}
	if _, err := os.Lstat(path); missing(err) { // the process was killed before it made this file
		return c, nil
	}
	if err := checkOwn(path); err != nil {
		return c, err
	}
	file, err := confined.Open(path)
	if err != nil {
		return c, err
	}
	r := newValueReader(file, format.decoder())
	r.path, r.file = path, file
	if c, err = r.collect(); err == nil {
		err = c.damage.repairable(path)
	}
	return c, damaged(err)
}

// countWhole counts the lines before the first line with missing or changed inputs. The result 'size' is the number of
// bytes that the inputs of these lines take in inputs.part. After a power cut, the inputs of the last lines may be
// missing.
func (f *AttackFolder) countWhole(lines []Attacked, values int) (whole int, size int64, err error) {
	if len(lines) == 0 {
		return 0, 0, nil
	}
	file, err := confined.OpenIn(f.root, AttackInputsFile, os.O_RDONLY)
	if missing(err) {
		return 0, 0, &DamageError{hint.New(fmt.Sprintf("%s: is missing", filepath.Join(f.dir, AttackInputsFile)),
			"start again in another folder")}
	}
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	block := make([]byte, 4*values)
	for _, line := range lines {
		end := size
		for _, in := range line.Inputs {
			if _, err := file.ReadAt(block, end); err != nil || digestOf(block) != in.Sum {
				return whole, size, nil
			}
			end += int64(len(block))
		}
		whole, size = whole+1, end
	}
	return whole, size, nil
}

func digestOf(block []byte) string { return fmt.Sprintf("%x", sha256.Sum256(block)) }

// Done returns the examples that the folder contained when it was opened.
func (f *AttackFolder) Done() []Attacked { return f.done }

// Append adds the examples of the argument 'lines' to the folder. The values of the perturbed input lines[i].Inputs[k]
// are in inputs[i][k]. Append computes the checksum of these values and writes the checksum into
// lines[i].Inputs[k].Sum. Once Append has returned, the examples and the values survive a power cut.
func (f *AttackFolder) Append(lines []Attacked, inputs [][][]float32) error {
	var blocks, text []byte
	for i := range lines {
		for k, values := range inputs[i] {
			from := len(blocks)
			for _, v := range values {
				blocks = binary.LittleEndian.AppendUint32(blocks, math.Float32bits(v))
			}
			lines[i].Inputs[k].Sum = digestOf(blocks[from:])
		}
		line, err := encodeLine(f.seed, lines[i])
		if err != nil {
			return err
		}
		text = append(text, line...)
	}
	if err := f.inputs.append(blocks); err != nil {
		return err
	}
	if err := f.inputs.sync(); err != nil {
		return err
	}
	if err := f.lines.append(text); err != nil {
		return err
	}
	return f.lines.sync()
}

// EachInput calls the function 'visit' with each input of the lines, in order. The argument 'values' is the number of
// values of an input. The function 'visit' may keep the slice x.
func (f *AttackFolder) EachInput(lines []Attacked, values int, visit func(line, input int, x []float32) error) error {
	file, err := confined.OpenIn(f.root, AttackInputsFile, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer file.Close()
	block := make([]byte, 4*values)
	for i, line := range lines {
		for k, in := range line.Inputs {
			if _, err := io.ReadFull(file, block); err != nil {
				return err
			}
			if digestOf(block) != in.Sum {
				return &DamageError{fmt.Errorf("%s: the input of example %d has changed since it was written", file.Name(), line.Index)}
			}
			x := make([]float32, values)
			if err := binary.Read(bytes.NewReader(block), binary.LittleEndian, x); err != nil {
				return err
			}
			if err := visit(i, k, x); err != nil {
				return err
			}
		}
	}
	return nil
}

// Write writes a file with the given name into the folder. The file appears whole or not at all.
func (f *AttackFolder) Write(name string, data func(io.Writer) error) error {
	return durable.StreamIn(f.root, name, 0o666, data)
}

// Finish writes attack.json and removes inputs.part. The caller must copy the inputs to other files before it calls
// Finish.
func (f *AttackFolder) Finish(result []byte) error {
	err := f.Write(AttackResultFile, func(w io.Writer) error {
		_, err := w.Write(result)
		return err
	})
	if err != nil {
		return err
	}
	return f.RemoveParts()
}

// RemoveParts removes the file inputs.part of a finished attack.
func (f *AttackFolder) RemoveParts() error {
	if err := f.root.Remove(AttackInputsFile); err != nil && !missing(err) {
		return err
	}
	return nil
}

// Close stops writing. The folder can still be resumed.
func (f *AttackFolder) Close() (err error) {
	for _, a := range []*appendFile{f.inputs, f.lines} {
		if a != nil {
			err = errors.Join(err, a.file.Close())
		}
	}
	f.inputs, f.lines = nil, nil
	_ = f.lock.Unlock()
	return errors.Join(err, f.root.Close())
}
