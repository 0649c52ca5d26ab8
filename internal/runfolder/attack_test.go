package runfolder

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const attackValues = 3

var attackIdentity = []byte(`{"eps":0.1}`)

// attackLines returns n examples. Example i has i mod 3 inputs.
func attackLines(n int) (lines []Attacked, inputs [][][]float32) {
	for i := range n {
		line := Attacked{Index: 2 * i, Label: i, Predicted: -1}
		var values [][]float32
		for k := range i % 3 {
			line.Inputs = append(line.Inputs, AttackedInput{Name: "adversarial", Class: k, Distance: .1 / float64(i+1)})
			values = append(values, []float32{float32(i), float32(k), .25})
		}
		lines, inputs = append(lines, line), append(inputs, values)
	}
	return lines, inputs
}

// newAttack makes the folder of an attack, and appends n examples in two steps.
func newAttack(t *testing.T, n int) (dir string, lines []Attacked) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "attack")
	f, err := CreateAttack(dir, []byte("{\n  \"eps\": 0.1\n}\n"), attackIdentity)
	if err != nil {
		t.Fatal(err)
	}
	lines, inputs := attackLines(n)
	if err := errors.Join(f.Append(lines[:n/2], inputs[:n/2]), f.Append(lines[n/2:], inputs[n/2:]), f.Close()); err != nil {
		t.Fatal(err)
	}
	return dir, lines
}

func resumeAttack(t *testing.T, dir string) *AttackFolder {
	t.Helper()
	f, err := ResumeAttack(dir, attackIdentity, attackValues)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// TestAttackFolder checks that examples, inputs and the plan are read back as they were written.
func TestAttackFolder(t *testing.T) {
	dir, lines := newAttack(t, 8)
	if plan, err := ReadAttackPlan(dir); err != nil || string(plan) != "{\n  \"eps\": 0.1\n}\n" {
		t.Errorf("the plan is %q, %v", plan, err)
	}
	f := resumeAttack(t, dir)
	if got := f.Done(); len(got) != 8 || !slices.EqualFunc(got, lines, func(a, b Attacked) bool {
		return a.Index == b.Index && a.Label == b.Label && slices.Equal(a.Inputs, b.Inputs)
	}) {
		t.Fatalf("the lines are %+v", got)
	}
	_, want := attackLines(8)
	seen := 0
	err := f.EachInput(f.Done(), attackValues, func(line, input int, x []float32) error {
		if !slices.Equal(x, want[line][input]) {
			t.Errorf("input %d of line %d is %v", input, line, x)
		}
		seen++
		return nil
	})
	if err != nil || seen != 7 {
		t.Errorf("%d inputs, want 7; %v", seen, err)
	}
	if _, err := CreateAttack(dir, []byte("{}\n"), attackIdentity); !errors.Is(err, ErrExists) {
		t.Errorf("a second attack in the folder: %v", err)
	}
	if _, err := ResumeAttack(dir, attackIdentity, attackValues); err == nil || !strings.Contains(err.Error(), "another rscert") {
		t.Errorf("a second process: %v", err)
	}
	if Finished(dir) {
		t.Error("it is finished")
	}
	if err := f.Finish([]byte("{}\n")); err != nil || !Finished(dir) {
		t.Errorf("it is not finished: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dir, AttackInputsFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the part stays: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if again := resumeAttack(t, dir); len(again.Done()) != 8 {
		t.Errorf("a finished attack has %d examples", len(again.Done()))
	}
}

// TestAttackCut cuts attacked.jsonl or inputs.part at many lengths. It also replaces the end of each file by zeros. The
// resumed attack must keep the examples whose line and inputs are whole. It must continue after these examples. In the
// end, both files must have the same bytes as in an uninterrupted attack.
func TestAttackCut(t *testing.T) {
	const n = 6
	dir, _ := newAttack(t, n)
	read := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	lines, inputs := read(AttackedFile), read(AttackInputsFile)
	attempt := func(keptLines, keptInputs int, zero bool) {
		cut := func(name string, data []byte, kept int) {
			data = bytes.Clone(data)
			if zero { // a power cut may leave zeros
				clear(data[kept:])
			} else {
				data = data[:kept]
			}
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cut(AttackedFile, lines, keptLines)
		cut(AttackInputsFile, inputs, keptInputs)
		whole, size := 0, 0
		for whole < bytes.Count(lines[:keptLines], []byte("\n")) && size+whole%3*4*attackValues <= keptInputs {
			size += whole % 3 * 4 * attackValues
			whole++
		}
		f, err := ResumeAttack(dir, attackIdentity, attackValues)
		if err != nil {
			t.Fatalf("cut to %d and %d bytes: %v", keptLines, keptInputs, err)
		}
		if len(f.Done()) != whole {
			t.Fatalf("cut to %d and %d bytes: %d examples, want %d", keptLines, keptInputs, len(f.Done()), whole)
		}
		l, x := attackLines(n)
		if err := errors.Join(f.Append(l[whole:], x[whole:]), f.Close()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(read(AttackedFile), lines) || !bytes.Equal(read(AttackInputsFile), inputs) {
			t.Fatalf("cut to %d and %d bytes: other bytes in the end", keptLines, keptInputs)
		}
	}
	for k := 0; k <= len(lines); k += 7 {
		attempt(k, len(inputs), false)
	}
	for k := 0; k <= len(inputs); k += 4 {
		attempt(len(lines), k, false)
	}
	attempt(len(lines), len(inputs)-5, true)
	attempt(len(lines)-9, len(inputs), true)
}

// TestAttackDamage changes a folder in ways that an interruption cannot cause. The readers must return a DamageError.
func TestAttackDamage(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		edit func([]byte) []byte
		want string
	}{
		"a changed line": {AttackedFile, func(b []byte) []byte { return bytes.Replace(b, []byte(`"label":1`), []byte(`"label":7`), 1) },
			"attacked.jsonl:2: the line has changed"},
		"a line without a checksum": {AttackedFile, func(b []byte) []byte { return append(b, `{"index":1,"label":1,"predicted":1}`+"\n"...) },
			"the line has no checksum"},
		"no inputs": {AttackInputsFile, nil, "inputs.part: is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := newAttack(t, 6)
			path := filepath.Join(dir, c.file)
			data, err := os.ReadFile(path)
			if err == nil && c.edit != nil {
				err = os.WriteFile(path, c.edit(data), 0o600)
			} else if err == nil {
				err = os.Remove(path)
			}
			if err != nil {
				t.Fatal(err)
			}
			var damage *DamageError
			if _, err := ResumeAttack(dir, attackIdentity, attackValues); !errors.As(err, &damage) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	dir, _ := newAttack(t, 6)
	var damage *DamageError
	if _, err := ResumeAttack(dir, []byte(`{"eps":0.2}`), attackValues); !errors.As(err, &damage) {
		t.Errorf("the lines pass as another attack's: %v", err)
	}
	path := filepath.Join(dir, AttackPlanFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(data, []byte("0.1"), []byte("0.2"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadAttackPlan(dir); !errors.As(err, &damage) {
		t.Errorf("a changed plan: %v", err)
	}
}
