package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/hint"
)

// These maps hold the names that other programs and papers use for commands, flags and values.
var (
	commandsElsewhere = map[string]string{
		"check": "certify", "run": "certify", "smooth": "certify",
		"recertify": "radius", "votes": "radius", "attack": "acce", "calibration": "ce", "ece": "metrics",
		"reliability": "metrics",
		"isotonic":    "calibrate", "scale": "temperature", "info": "doctor", "env": "doctor", "version": "--version",
	}
	flagsElsewhere = map[string]string{
		"dataset": "data", "input": "data", "output": "out", "outfile": "out", "onnx": "model",
		"checkpoint": "model",
		"noise-sd":   "sigma", "noise-std": "sigma", "noise-level": "sigma", "samples": "n", "budget": "n", "conf-level": "alpha",
		"gpu": "device", "provider": "device", "workers": "threads", "jobs": "threads", "limit": "max",
		"classes":    "class-names",
		"batch-size": "batch", "fp16": "precision", "dtype": "precision", "verbose": "help",
	}
	valuesElsewhere = map[string]string{
		"cohen": "clopper-pearson", "cp": "clopper-pearson", "beta": "clopper-pearson", "exact": "margin",
		"empirical-bernstein": "bernstein", "maurer-pontil": "bernstein", "wsr": "betting",
		"gpu": "cuda", "fp32": "f32", "float32": "f32", "fp16": "f16", "float16": "f16", "half": "f16", "bfloat16": "bf16",
		"softmax": "probabilities", "scores": "probabilities", "nchw": "chw", "nhwc": "hwc",
		"true": "label", "linear": "bilinear", "cubic": "bicubic", "random": "spread",
	}
)

// nearest returns the candidate that a mistyped name probably means. First it looks for a candidate that has the typed
// name in other programs or papers. Then it looks for a single candidate that begins with the typed name. Last it takes
// the candidate with the least edit distance, if this distance is small. It returns "" if no candidate is near.
func nearest(typed string, candidates []string, elsewhere map[string]string) string {
	typed = strings.ReplaceAll(strings.ToLower(typed), "_", "-")
	if name := elsewhere[typed]; slices.Contains(candidates, name) {
		return name
	}
	var begin []string
	best, least := "", min(3, len(typed)/2)+1
	for _, name := range candidates {
		if len(typed) > 2 && strings.HasPrefix(name, typed) {
			begin = append(begin, name)
		}
		if d := levenshtein.ComputeDistance(typed, name); d < least {
			best, least = name, d
		}
	}
	if len(begin) == 1 {
		return begin[0]
	}
	return best
}

// explainFlag is the FlagErrorFunc of all commands: it names the valid values, and guesses the intended flag or value.
func explainFlag(cmd *cobra.Command, err error) error {
	var invalid *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &invalid):
		return explainValue(invalid)
	case errors.As(err, &unknown):
		typed := unknown.GetSpecifiedName()
		if short := unknown.GetSpecifiedShortnames(); short != "" { // one dash, as in -n or -model
			typed, _, _ = strings.Cut(short, "=")
		}
		var known []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
		if name := nearest(typed, known, flagsElsewhere); name != "" {
			return hint.Add(err, "did you mean --%s?", name)
		}
	}
	return err
}

// explainValue explains an invalid value of a flag.
func explainValue(invalid *pflag.InvalidValueError) error {
	f, typed := invalid.GetFlag(), invalid.GetValue()
	err := fmt.Errorf("--%s: %w", f.Name, invalid.Unwrap())
	var number *strconv.NumError
	if errors.As(invalid, &number) {
		want := "a number"
		switch {
		case f.Value.Type() == "bool":
			want = "true or false"
		case strings.HasSuffix(f.Value.Type(), "Slice"):
			want = "numbers, comma-separated"
		}
		err = fmt.Errorf("--%s: %q: want %s", f.Name, typed, want)
	}
	known := choicesOf(f)
	for part := range strings.SplitSeq(typed, ",") {
		if slices.Contains(known, part) {
			continue
		}
		if name := nearest(part, known, valuesElsewhere); name != "" {
			return hint.Add(err, "did you mean --%s %s?", f.Name, name)
		}
	}
	return err
}

// unknownCommand checks the arguments of the root command (the field Args). It treats any argument as an unknown
// command.
func unknownCommand(root *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q", args[0])
	known := []string{"--version"}
	for _, c := range root.Commands() {
		if !c.Hidden {
			known = append(known, c.Name())
		}
	}
	if name := nearest(args[0], known, commandsElsewhere); name != "" {
		return hint.Add(err, "did you mean '%s %s'?", root.Name(), name)
	}
	return err
}
