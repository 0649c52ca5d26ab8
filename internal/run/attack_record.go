package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/rscert/rscert/internal/attack"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/graph/grad"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// attackFormat is the format of plan.json that this version of rscert reads and writes.
const attackFormat = 1

// attackRecord is the content of plan.json: everything that determines the results of an attack.
type attackRecord struct {
	Format     int              `json:"format"`
	Model      runfolder.Model  `json:"model"`
	Data       runfolder.Data   `json:"data"`
	Conditions spec.Conditions  `json:"conditions"`
	Device     string           `json:"device"`
	Attack     attack.Method    `json:"attack"`
	Norm       attack.Norm      `json:"norm"`
	Epsilon    float64          `json:"eps"`
	Box        [2]string        `json:"box"` // as text, because it may be infinite
	Settings   []attackSettings `json:"settings"`
	Smoothed   *AttackedNoise   `json:"smoothed,omitempty"`
}

// attackSettings are the settings of one attack of a sequence.
type attackSettings struct {
	Attack   attack.Method `json:"attack"`
	Loss     grad.Loss     `json:"loss,omitempty"`
	Steps    int           `json:"steps"`
	StepSize float64       `json:"step_size,omitempty"`
	Momentum float64       `json:"momentum,omitempty"`
	Targets  int           `json:"targets,omitempty"`
	Restarts int           `json:"restarts"`
}

// record describes the attack for plan.json.
func (p *AttackPlan) record(e *experiment.Experiment, stages []AttackStage) attackRecord {
	r := e.Record()
	a := attackRecord{
		Format: attackFormat, Model: r.Model, Data: r.Data, Conditions: r.Parameters.Conditions, Device: r.Runtime.Device,
		Attack: p.Method, Norm: p.Threat.Norm, Epsilon: p.Threat.Epsilon, Box: boxText(p.Threat),
	}
	a.Conditions.Noise = "" // only AttackSmoothed draws noise, and it sets this field again
	for _, s := range stages {
		a.Settings = append(a.Settings, attackSettings{s.Attack, s.Loss, s.Steps, s.StepSize, s.Momentum, s.Targets, s.Restarts})
	}
	return a
}

func boxText(t attack.Threat) [2]string { return [2]string{fmt.Sprint(t.Low), fmt.Sprint(t.High)} }

// identity returns the record as JSON without the paths of files, which may change.
func (a attackRecord) identity() ([]byte, error) {
	a.Model.File, a.Data.File = "", ""
	a.Model.Members = slices.Clone(a.Model.Members)
	for k := range a.Model.Members {
		a.Model.Members[k].File = ""
	}
	if d := a.Model.Denoiser; d != nil {
		other := *d
		other.File = ""
		a.Model.Denoiser = &other
	}
	return json.Marshal(a)
}

// document returns the content of plan.json.
func (a attackRecord) document() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(a)
	return b.Bytes(), err
}

// readAttackRecord reads the plan.json of a folder. The error is fs.ErrNotExist if the folder has no plan.json.
func readAttackRecord(dir string) (a attackRecord, err error) {
	text, err := runfolder.ReadAttackPlan(dir)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("%s/%s: %w", dir, runfolder.AttackPlanFile, err)
	}
	if a.Format != attackFormat {
		return a, fmt.Errorf("%s/%s: format %d, this version of rscert reads format %d", dir, runfolder.AttackPlanFile, a.Format, attackFormat)
	}
	return a, nil
}

// keepResumed completes the plan of a resumed attack. It copies the seed, the choice of examples and the order of the
// values in flat rows from the attack's record, unless the plan sets them.
func (p *AttackPlan) keepResumed() error {
	if p.Out == "" || !p.Resume {
		return nil
	}
	a, err := readAttackRecord(p.Out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // a new attack
	case err != nil:
		return spec.BadInput(err)
	}
	if p.Spec.FixedSeed == nil {
		p.Spec.FixedSeed = &a.Conditions.Seed
	}
	if p.Spec.Max > 0 && p.Spec.FixedSelect == nil {
		p.Spec.FixedSelect = &a.Conditions.Select
	}
	if p.Spec.ModelLayout {
		p.Spec.Layout, p.Spec.ModelLayout = a.Conditions.Layout, false
	}
	return nil
}

// openFolder creates the folder of an attack, or continues it.
func (p *AttackPlan) openFolder(now attackRecord, values int) (*runfolder.AttackFolder, error) {
	identity, err := now.identity()
	if err != nil {
		return nil, err
	}
	before, err := readAttackRecord(p.Out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p.createFolder(now, identity)
	case err != nil:
		return nil, spec.BadInput(err)
	}
	was, err := before.identity()
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(was, identity) {
		return nil, hint.Add(spec.BadInputf("%s %s: holds another attack: %s", param.Out, p.Out, differences(was, identity)),
			"give the same parameters to go on, or name a new folder")
	}
	folder, err := runfolder.ResumeAttack(p.Out, identity, values)
	var damage *runfolder.DamageError
	if errors.As(err, &damage) {
		err = spec.BadInput(err)
	}
	return folder, err
}

func (p *AttackPlan) createFolder(now attackRecord, identity []byte) (*runfolder.AttackFolder, error) {
	document, err := now.document()
	if err != nil {
		return nil, err
	}
	folder, err := runfolder.CreateAttack(p.Out, document, identity)
	if errors.Is(err, runfolder.ErrExists) {
		return nil, hint.Add(spec.BadInput(err), "name a new folder")
	}
	return folder, err
}

// differences lists the members in which two JSON objects differ.
func differences(a, b []byte) string {
	var was, now map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(a, &was), json.Unmarshal(b, &now)); err != nil {
		return err.Error()
	}
	var differ []string
	for _, name := range []string{"model", "data", "conditions", "device", "attack", "norm", "eps", "box", "settings", "smoothed"} {
		if !bytes.Equal(was[name], now[name]) {
			differ = append(differ, fmt.Sprintf("%s was %.200s, now %.200s", name, was[name], now[name]))
		}
	}
	return strings.Join(differ, "; ")
}
