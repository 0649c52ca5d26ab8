package run

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"

	"github.com/rscert/rscert/internal/attack"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/npy"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
)

// These are the names of files in an attack's folder. For each name NAME of altered inputs, the folder also has a file
// NAME.npz. After an attack on confidences, it has a file NAME.csv as well.
const (
	AttackFile      = runfolder.AttackResultFile
	AdversarialFile = adversarial + ".npz"
	CleanFile       = "predictions.csv" // only for attacks on confidences
)

// attacking is an attack in progress.
type attacking struct {
	plan   *AttackPlan
	e      *experiment.Experiment
	search func(context.Context, []attack.Example) ([]attack.Found, error)
	chunk  int                     // number of examples that are attacked side by side and stored together
	folder *runfolder.AttackFolder // nil: nothing is stored
	lines  []runfolder.Attacked    // lines of attacked.jsonl, for the same examples as the field 'found'
	found  []attack.Found          // without the values of inputs
}

// chunkOf returns the number of examples to attack side by side. With this number, a sequence of attacks that begins
// with 'first' is efficient.
func chunkOf(first *attack.Search) int {
	workers := max(1, first.Workers)
	for s := first; s != nil; s = s.Then {
		if s.Gradients != nil {
			return 2 * workers * gradientExamples
		}
	}
	return workers * max(1, first.Classifier.Batch())
}

// checkExamples reads all examples once, so that errors in the data are found before the attack starts.
func (a *attacking) checkExamples(ctx context.Context) error {
	for i, n := range a.e.Positions() {
		if i%a.chunk == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if _, err := a.plan.examples(a.e, []int{n}); err != nil {
			return err
		}
	}
	return nil
}

// first returns the first few examples, on which the attack checks whether the model's scores are random.
func (a *attacking) first() ([]attack.Example, error) {
	positions := a.e.Positions()
	return a.plan.examples(a.e, positions[:min(len(positions), attack.RandomExamples)])
}

// run attacks the examples that the folder does not hold yet. If it returns no error, the caller must later call the
// method 'close'.
func (a *attacking) run(ctx context.Context, record attackRecord, console experiment.Console) (err error) {
	if a.plan.Out != "" {
		if a.folder, err = a.plan.openFolder(record, a.e.Model().InputLen()); err != nil {
			return err
		}
	}
	if err = a.attackRest(ctx, console); err != nil {
		a.close()
	}
	return err
}

// close closes the attack's folder if the attack has a folder.
func (a *attacking) close() {
	if a.folder != nil {
		_ = a.folder.Close() // every append was flushed to the disk
	}
}

func (a *attacking) attackRest(ctx context.Context, console experiment.Console) error {
	positions := a.e.Positions()
	bar := progress.Start(console.Progress, "attack", int64(len(positions)), 0)
	defer bar.Finish()
	if a.folder != nil {
		a.lines = a.folder.Done()
		for _, line := range a.lines {
			a.found = append(a.found, foundOf(line))
		}
		bar.Add(int64(len(a.lines)), "")
	}
	for i := len(a.lines); i < len(positions); i = len(a.lines) {
		examples, err := a.plan.examples(a.e, positions[i:min(i+a.chunk, len(positions))])
		if err != nil {
			return err
		}
		found, err := a.search(ctx, examples)
		if err != nil {
			return err
		}
		if err := a.store(found); err != nil {
			return err
		}
		bar.Add(int64(len(found)), "")
	}
	return nil
}

// store appends the outcomes of attacked examples to the folder. It also keeps the outcomes in memory, but without the
// values of the perturbed inputs.
func (a *attacking) store(found []attack.Found) error {
	var lines []runfolder.Attacked
	var inputs [][][]float32
	for _, f := range found {
		line, values := lineOf(a.plan.Method, f)
		lines, inputs = append(lines, line), append(inputs, values)
		a.found = append(a.found, foundOf(line))
	}
	a.lines = append(a.lines, lines...)
	if a.folder == nil {
		return nil
	}
	return a.folder.Append(lines, inputs)
}

// lineOf converts the outcome of an example to a line of attacked.jsonl. It also returns the values of the perturbed
// inputs, which the line does not hold.
func lineOf(m attack.Method, f attack.Found) (line runfolder.Attacked, values [][]float32) {
	line = runfolder.Attacked{Index: f.Index, Label: f.Label, Predicted: f.Clean, ZeroGradients: f.Flat, Attack: string(f.By)}
	switch {
	case m.ChangesConfidence():
		line.Confidence = &f.Confidence
		names := alteredNames(m)
		for k, a := range f.Altered {
			line.Inputs = append(line.Inputs, runfolder.AttackedInput{Name: names[k], Class: a.Class, Distance: a.Distance, Confidence: &a.Confidence})
			values = append(values, a.Values)
		}
	case f.Adversarial != nil:
		line.Inputs = []runfolder.AttackedInput{{Name: adversarial, Class: f.Class, Distance: f.Distance}}
		values = [][]float32{f.Adversarial}
	}
	if w := f.Lowered; w != nil {
		line.Probability = &w.Before
		line.Inputs = append(line.Inputs, runfolder.AttackedInput{Name: worst, Class: w.Class, Distance: w.Distance, Probability: &w.After})
		values = append(values, w.Values)
	}
	return line, values
}

// foundOf returns the outcome that a line records. A line does not hold the values of inputs. So if there is an
// adversarial input, the field Adversarial of the result is an empty slice, and not nil.
func foundOf(line runfolder.Attacked) attack.Found {
	f := attack.Found{Index: line.Index, Label: line.Label, Clean: line.Predicted, Flat: line.ZeroGradients, By: attack.Method(line.Attack)}
	if line.Confidence != nil {
		f.Confidence = *line.Confidence
	}
	for _, in := range line.Inputs {
		if in.Name == worst {
			f.Lowered = &attack.Lowered{Class: in.Class, Distance: in.Distance, Before: *line.Probability, After: *in.Probability}
			continue
		}
		if in.Confidence != nil {
			f.Altered = append(f.Altered, attack.Altered{Class: in.Class, Confidence: *in.Confidence, Distance: in.Distance})
		}
		if f.Correct() && in.Class != f.Label {
			f.Adversarial, f.Class, f.Distance = []float32{}, in.Class, in.Distance
		}
	}
	return f
}

// finish writes the results of an attack whose examples are all in the folder. If the folder already has the file
// attack.json, the method only removes inputs.part.
func (a *attacking) finish(r *Attacked) error {
	if a.folder == nil {
		return nil
	}
	if runfolder.Finished(a.plan.Out) {
		return a.folder.RemoveParts()
	}
	for k, name := range a.plan.names() {
		if err := a.folder.Write(name+".npz", func(w io.Writer) error { return a.writeArchive(w, name) }); err != nil {
			return err
		}
		if r.Confidences == nil {
			continue
		}
		if err := a.folder.Write(name+".csv", func(w io.Writer) error { return r.writePredictions(w, r.altered(k)) }); err != nil {
			return err
		}
	}
	if r.Confidences != nil {
		if err := a.folder.Write(CleanFile, func(w io.Writer) error { return r.writePredictions(w, r.clean()) }); err != nil {
			return err
		}
	}
	if err := a.drawPictures(); err != nil {
		return err
	}
	var result bytes.Buffer
	encoder := json.NewEncoder(&result)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return err
	}
	return a.folder.Finish(result.Bytes())
}

// writeArchive writes a dataset of all inputs whose name is the argument 'name'. The array x holds the inputs, and the
// array y holds their labels.
func (a *attacking) writeArchive(w io.Writer, name string) error {
	y := []int64{}
	for _, line := range a.lines {
		for _, in := range line.Inputs {
			if in.Name == name {
				y = append(y, int64(line.Label))
			}
		}
	}
	archive := npy.NewArchiveWriter(w)
	x, err := archive.BeginFloat32("x", append([]int{len(y)}, a.e.Shape()...))
	if err != nil {
		return err
	}
	err = a.folder.EachInput(a.lines, a.e.Model().InputLen(), func(line, input int, values []float32) error {
		if a.lines[line].Inputs[input].Name != name {
			return nil
		}
		return binary.Write(x, binary.LittleEndian, values)
	})
	if err != nil {
		return err
	}
	return errors.Join(npy.Write(archive, "y", []int{len(y)}, y), archive.Close())
}
