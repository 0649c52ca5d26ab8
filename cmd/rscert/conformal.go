package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/hint"
)

func newConformal(s streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "conformal",
		Short: "Prediction sets that contain the label with a stated probability, also under attack",
		Long: `A prediction set is a set of classes. It contains the label of an input with probability
at least 1 − miss (--miss), even if somebody has moved the input by any amount up to a
given radius.

  rscert conformal fit       chooses a threshold from calibration examples
  rscert conformal apply     computes the sets of other inputs
  rscert conformal evaluate  measures coverage and size of the sets of labelled inputs

The page docs/conformal.md explains the guarantee and proves it.`,
		Args: unknownSubcommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConformalFit(s), newConformalApply(s), newConformalEvaluate(s))
	return cmd
}

// unknownSubcommand refuses every argument as an unknown subcommand. Commands that have subcommands set their cobra
// field Args to this function.
func unknownSubcommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q of '%s'", args[0], cmd.CommandPath())
	var known []string
	for _, c := range cmd.Commands() {
		known = append(known, c.Name())
	}
	if name := nearest(args[0], known, nil); name != "" {
		return hint.Add(err, "did you mean '%s %s'?", cmd.CommandPath(), name)
	}
	return err
}
