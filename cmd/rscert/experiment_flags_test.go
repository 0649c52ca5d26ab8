package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/smoothing"
	"github.com/rscert/rscert/internal/spec"
)

// newVotes returns a command that samples a model and certifies nothing: it prints the votes of every example.
func newVotes(s streams) *cobra.Command {
	var e spec.Spec
	var n int64
	var settle func() error
	cmd := &cobra.Command{
		Use: "votes",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := settle(); err != nil {
				return err
			}
			opened, err := experiment.Open(cmd.Context(), e, s.console(true))
			if err != nil {
				return err
			}
			defer opened.Close()
			turn := 0
			return opened.Sampler().Run(cmd.Context(), func() (smoothing.Experiment, error) {
				if turn == len(opened.Positions()) {
					return nil, nil
				}
				example, err := opened.Example(opened.Positions()[turn])
				turn++
				return &votesOf{example, n, s.out, ""}, err
			})
		},
	}
	integerVar(cmd.Flags(), &n, "samples", 100, "samples an example")
	group(cmd, "Samples")
	settle = addExperimentFlags(cmd, &e, law.Laws, nil)
	return cmd
}

// votesOf counts the votes of n samples of one example, and prints them.
type votesOf struct {
	experiment.Example
	n    int64
	to   io.Writer
	line string
}

func (v *votesOf) Input() (int, smoothing.Input)          { return v.Index, v.Example.Input }
func (v *votesOf) Goal(smoothing.Votes) (int64, error)    { return v.n, nil }
func (v *votesOf) Restart() (smoothing.Experiment, error) { return v, nil }

func (v *votesOf) Finish(t smoothing.Votes) error {
	v.line = fmt.Sprintln(v.Index, v.Label, t.Counts)
	return nil
}

func (v *votesOf) Emit() error {
	_, err := io.WriteString(v.to, v.line)
	return err
}

// TestExperimentOfAnotherCommand checks the flags of an experiment in a command other than certify. The votes must
// depend on the seed, but not on the batch size or on the place where the noise is made. The command must refuse
// invalid values.
func TestExperimentOfAnotherCommand(t *testing.T) {
	votes := func(args ...string) (string, error) {
		var out, errs strings.Builder
		cmd := newVotes(streams{out: &out, err: &errs})
		cmd.SetArgs(append([]string{"--model", "../../testdata/mnist-cnn.onnx", "--data", "../../testdata/mnist", "--max", "3", "--samples", "50"}, args...))
		cmd.SetOut(&errs)
		cmd.SetErr(&errs)
		err := cmd.ExecuteContext(t.Context())
		return out.String(), err
	}
	got, err := votes("--sigma", "1", "--seed", "1", "--threads", "2")
	if lines := regexp.MustCompile(`(?m)^\d+ \d \[(\d+ ){9}\d+\]$`).FindAllString(got, -1); err != nil || len(lines) != 3 {
		t.Fatalf("%q, %v", got, err)
	}
	if again, err := votes("--sigma", "1", "--seed", "1", "--batch", "7", "--noise-on", "device"); err != nil || again != got {
		t.Errorf("the same seed: %q, %v; want %q", again, err, got)
	}
	if other, err := votes("--sigma", "1", "--seed", "2"); err != nil || other == got {
		t.Errorf("another seed: %q, %v", other, err)
	}
	if _, err := votes("--sigma", "0"); exitCode(err) != exitUsage || errorText(err) != "--sigma 0: want a number above 0" {
		t.Errorf("error %v", err)
	}
	if _, err := votes("--sigma", "1", "--allow-tf32", "--precision", "bf16"); exitCode(err) != exitUsage {
		t.Errorf("error %v", err)
	}
}
