package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/calib"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/picture"
	"github.com/rscert/rscert/internal/predictions"
	"github.com/rscert/rscert/internal/reliability"
	"github.com/rscert/rscert/internal/table"
)

// rejectionOptions are flags of the command 'metrics'. They describe a classifier that answers only if its confidence
// reaches a threshold.
type rejectionOptions struct {
	heldOut  string
	share    *float64 // share of the rows reserved for choosing the threshold; nil without --holdout
	attacks  []string
	tpr, tau []float64
	byTau    []string
	models   string
}

// rejectionFlags adds the flags of rejectionOptions to the command 'metrics'.
func rejectionFlags(cmd *cobra.Command, o *rejectionOptions, share *float64) {
	f := cmd.Flags()
	f.StringVar(&o.heldOut, "held-out", "", "`file` with held-out predictions (without attack); --tpr takes its thresholds from these predictions")
	f.Float64Var(share, "holdout", 0, "take this share of the input's rows, such as 0.1, as the held-out predictions that --tpr needs; --seed chooses the rows at random; give this flag or --held-out, not both")
	f.StringSliceVar(&o.attacks, "attack", nil,
		"`file` with predictions on the same rows under an attack; if the flag is repeated, each row counts with its worst case over all these attacks")
	f.Float64SliceVar(&o.tpr, "tpr", []float64{0.99}, "true positive rates, as `shares` such as 0.99,0.98; the held-out predictions give a threshold for each rate")
	f.Lookup("tpr").DefValue = "0.99" // pflag would print [0.990000]
	f.Float64SliceVar(&o.tau, "tau", nil, "further confidence `thresholds` τ, from 0 to 1; they need no held-out predictions")
	f.StringSliceVar(&o.byTau, "by-tau", nil, "write the test error, the robust test error, and the true and false positive rates at every threshold to this .csv, .svg, .png or .pdf `file`")
	f.StringVar(&o.models, "models", "", "compare the models and attacks in this CSV `file`, which has the columns 'model', 'attack' and 'file'")
	group(cmd, "Thresholds under attack")
}

// given reports whether the user wants the classifier to answer only if its confidence reaches a threshold.
func (o rejectionOptions) given() bool {
	return o.heldOut != "" || o.share != nil || len(o.tau) > 0 || len(o.byTau) > 0
}

// flag returns the name of one of the user's flags that make the method 'given' return true.
func (o rejectionOptions) flag() string {
	switch {
	case o.heldOut != "":
		return "--held-out"
	case o.share != nil:
		return "--holdout"
	case len(o.tau) > 0:
		return "--tau"
	}
	return "--by-tau"
}

func (o rejectionOptions) check() error {
	switch {
	case len(o.attacks) > 0 && !o.given():
		return hint.Add(badInputf("--attack needs --held-out, which sets the threshold"),
			"--holdout 0.1 takes the threshold from a tenth of the rows, and --tau 0.9 gives a threshold")
	case o.heldOut != "" && o.share != nil:
		return badInputf("--held-out and --holdout both set the threshold: give one of them")
	case o.share != nil && !(*o.share > 0 && *o.share < 1):
		return badInputf("--holdout %v: want more than 0 and less than 1", *o.share)
	}
	for _, tau := range o.tau {
		if !(tau >= 0 && tau <= 1) {
			return badInputf("--tau %v: want 0 to 1", tau)
		}
	}
	return nil
}

// checkModels checks the flags that the user gave together with --models.
func (o rejectionOptions) checkModels() error {
	switch {
	case o.heldOut != "":
		return hint.Add(badInputf("--held-out is for one input"), "with --models, name the held-out file of each model in a row with the attack held-out")
	case len(o.attacks) > 0:
		return hint.Add(badInputf("--attack is for one input"), "with --models, name the attack files of each model in the file of --models")
	case len(o.byTau) > 0:
		return badInputf("--by-tau is for one input")
	}
	return o.check()
}

// plan says how to choose the thresholds. The argument 'heldOut' is nil if there are no held-out predictions.
func (o rejectionOptions) plan(heldOut *calib.Predictions, seed uint64) calib.RejectionPlan {
	plan := calib.RejectionPlan{Tau: o.tau, Seed: seed}
	if heldOut != nil {
		answers := calib.AnswersOf(heldOut)
		plan.HeldOut, plan.TPR = &answers, o.tpr
	} else if o.share != nil {
		plan.Share, plan.TPR = *o.share, o.tpr
	}
	return plan
}

// rejectByThreshold reads the held-out file and the attacks. For each threshold, it computes the errors of a classifier
// that answers only if its confidence reaches the threshold. It computes these errors from the predictions p and from
// the answers under the attacks. It returns nil if the user asks for no threshold.
func rejectByThreshold(
	ctx context.Context, s streams, path string, p *calib.Predictions, t *table.Table, o metricsOptions,
) (*thresholdErrors, error) {
	if !o.rejection.given() {
		return nil, nil
	}
	if p.Weight != nil {
		return nil, badInputf("%s: examples cannot have weights", o.rejection.flag())
	}
	var heldOut *calib.Predictions
	chooser := path
	if o.rejection.heldOut != "" {
		var err error
		if heldOut, _, err = readPredictions(ctx, s, o.rejection.heldOut, metricsOptions{quiet: o.quiet}); err != nil {
			return nil, err
		}
		chooser = o.rejection.heldOut
	}
	names, attacks, err := readAttacks(ctx, s, p, t, o)
	if err != nil {
		return nil, err
	}
	plan := o.rejection.plan(heldOut, o.Seed)
	found, err := plan.Measure(calib.AnswersOf(p), attacks)
	if err != nil {
		return nil, badInput(fmt.Errorf("%s: %w", displayPath(chooser), err))
	}
	return newThresholdErrors(plan, found, names), nil
}

// readAttacks returns the answers under each attack, and a name for each attack. The answers come from the input, if it
// has columns for an attack, and from every --attack file.
func readAttacks(
	ctx context.Context, s streams, p *calib.Predictions, t *table.Table, o metricsOptions,
) (names []string, attacks [][]calib.Answers, err error) {
	if t != nil && predictions.HasAttacked(t) {
		answers, err := predictions.Attacked(t)
		if err != nil {
			return nil, nil, badInput(fmt.Errorf("%s: %w", o.rejection.flag(), err))
		}
		names, attacks = append(names, "columns of the input"), append(attacks, []calib.Answers{answers})
	}
	for _, path := range o.rejection.attacks {
		answers, err := readAttack(ctx, s, p, path, metricsOptions{quiet: o.quiet, radius: o.radius})
		if err != nil {
			return nil, nil, fmt.Errorf("--attack: %w", err)
		}
		names, attacks = append(names, displayPath(path)), append(attacks, []calib.Answers{answers})
	}
	return names, attacks, nil
}

// readAttack reads the answers under an attack from a file.
func readAttack(ctx context.Context, s streams, clean *calib.Predictions, path string, o metricsOptions) (calib.Answers, error) {
	attack, _, err := readPredictions(ctx, s, path, o)
	if err != nil {
		return calib.Answers{}, err
	}
	answers, err := predictions.AttackedBy(clean, attack)
	if err != nil {
		return calib.Answers{}, badInput(fmt.Errorf("%s: %w", displayPath(path), err))
	}
	return answers, nil
}

// byTauFormats checks the files of --by-tau. It returns the format of each picture, and nil for a CSV file.
func (o rejectionOptions) byTauFormats(inputs ...string) ([]*picture.Format, error) {
	formats := make([]*picture.Format, len(o.byTau))
	for k, path := range o.byTau {
		if err := checkOutput("by-tau", path, inputs...); err != nil {
			return nil, err
		}
		if filepath.Ext(path) == ".csv" {
			continue
		}
		format, err := picture.FormatOf(path)
		if err != nil {
			return nil, badInputf("--by-tau: %s: want a .csv, .svg, .png or .pdf file", path)
		}
		formats[k] = &format
	}
	return formats, nil
}

// writeByTau writes the files of --by-tau.
func (o metricsOptions) writeByTau(s streams, formats []*picture.Format, found *thresholdErrors, path string) error {
	for k, file := range o.rejection.byTau {
		content, err := errorTable(found.curve)
		if formats[k] != nil {
			drawing := reliability.Rejection{Title: filepath.Base(displayPath(path)) + ": errors by threshold", Curve: found.curve,
				Size: picture.Size{Width: 14, Height: 10}}
			for _, p := range found.Points {
				drawing.Chosen = append(drawing.Chosen, p.Threshold)
			}
			content, err = drawing.Draw(*formats[k])
		}
		if err == nil {
			err = durable.WriteFile(file, content)
		}
		if err != nil {
			return err
		}
	}
	s.wrote(o.rejection.byTau...)
	return nil
}

// errorTable returns a CSV file. It has a row with the errors for each threshold in curve.Thresholds. A field without a
// value is empty.
func errorTable(curve *calib.RejectionCurve) ([]byte, error) {
	var b bytes.Buffer
	w := table.NewWriter(&b)
	w.Header("threshold", "true_positive_rate", "false_positive_rate", "clean_error", "clean_answered",
		"robust_test_error", "robust_test_error_listing_2")
	for _, tau := range curve.Thresholds() {
		e := curve.At(tau)
		for _, x := range []float64{tau, e.TruePositives, e.FalsePositives, e.CleanError, e.CleanAnswered, e.Robust, e.Listed} {
			if math.IsNaN(x) {
				w.Empty()
			} else {
				w.Float(x)
			}
		}
		w.EndRow()
	}
	err := w.Flush()
	return b.Bytes(), err
}

// readModels reads the files of --models and computes the errors of each model.
func readModels(ctx context.Context, s streams, o metricsOptions) (*modelErrors, error) {
	models, err := predictions.ReadModelFiles(o.rejection.models)
	if err != nil {
		return nil, badInput(err)
	}
	out := &modelErrors{}
	for _, m := range models {
		found, err := measureModel(ctx, s, m, o)
		if err != nil {
			return nil, fmt.Errorf("model %s: %w", m.Name, err)
		}
		out.Models = append(out.Models, *found)
	}
	return out, nil
}

// measureModel computes the errors of one model.
func measureModel(ctx context.Context, s streams, m predictions.ModelFiles, o metricsOptions) (*modelError, error) {
	read := metricsOptions{quiet: o.quiet, radius: o.radius}
	clean, _, err := readPredictions(ctx, s, m.Clean, read)
	if err != nil {
		return nil, err
	}
	if clean.Weight != nil {
		return nil, badInputf("%s: examples cannot have weights", displayPath(m.Clean))
	}
	var heldOut *calib.Predictions
	if m.HeldOut != "" {
		if o.rejection.share != nil {
			return nil, badInput(errors.New("--holdout and the file held-out both set the threshold"))
		}
		if heldOut, _, err = readPredictions(ctx, s, m.HeldOut, metricsOptions{quiet: o.quiet}); err != nil {
			return nil, err
		}
	}
	plan := o.rejection.plan(heldOut, o.Seed)
	if plan.TPR == nil && plan.Tau == nil {
		return nil, hint.Add(badInput(errors.New("nothing sets the threshold")),
			"--holdout 0.1 takes the threshold from a tenth of the rows, and --tau 0.9 gives a threshold")
	}
	var names []string
	var attacks [][]calib.Answers
	for _, attack := range m.Attacks {
		var restarts []calib.Answers
		for _, file := range attack.Files {
			answers, err := readAttack(ctx, s, clean, file, read)
			if err != nil {
				return nil, err
			}
			restarts = append(restarts, answers)
		}
		names, attacks = append(names, attack.Name), append(attacks, restarts)
	}
	found, err := plan.Measure(calib.AnswersOf(clean), attacks)
	if err != nil {
		return nil, badInput(fmt.Errorf("%s: %w", displayPath(m.Clean), err))
	}
	return &modelError{Model: m.Name, thresholdErrors: *newThresholdErrors(plan, found, names)}, nil
}
