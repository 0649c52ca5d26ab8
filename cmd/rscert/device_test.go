package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// TestCertifyLineOnGPUs checks that the command line of a run on GPUs repeats the flags of the run.
func TestCertifyLineOnGPUs(t *testing.T) {
	var r runfolder.Run
	r.Parameters.Precision, r.Parameters.PreferNHWC, r.Parameters.ConvSearch = onnx.TF32, true, onnx.DefaultSearch
	r.Runtime.Device = "cuda:0,2"
	line := certifyLine(r, "run")
	for _, want := range []string{" --device cuda:0,2", " --precision tf32", " --prefer-nhwc", " --conv-search default"} {
		if !strings.Contains(line+" ", want+" ") {
			t.Errorf("%s: no %s", line, want)
		}
	}
	if line := certifyLine(runfolder.Run{}, "run"); strings.Contains(line, "nhwc") || strings.Contains(line, "conv-search") || strings.Contains(line, "tf32") {
		t.Error(line)
	}
}

func TestChoosePrecision(t *testing.T) {
	for _, c := range []struct {
		args []string
		want onnx.Precision
		err  string
	}{
		{nil, onnx.F32, ""},
		{[]string{"--allow-tf32"}, onnx.TF32, ""},
		{[]string{"--precision", "tf32"}, onnx.TF32, ""},
		{[]string{"--precision", "tf32", "--allow-tf32"}, onnx.TF32, ""},
		{[]string{"--precision", "bf16", "--allow-tf32"}, onnx.BF16, "--allow-tf32 and --precision bf16 contradict each other"},
		{[]string{"--precision", "f32", "--allow-tf32"}, onnx.F32, "contradict"},
	} {
		var o spec.Spec
		cmd := &cobra.Command{Use: "x"}
		settle := addExperimentFlags(cmd, &o, law.Laws, nil)
		if err := cmd.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		err := settle()
		if o.Precision != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v: %v, %v", c.args, o.Precision, err)
		}
	}
}
