package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// oneFile is the field Args of commands with one input file.
func oneFile(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one input file, got %d arguments", len(args))
	}
	return nil
}

// oneArgument returns the field Args of commands with one path.
func oneArgument(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return badInput(errors.New("want " + what + fmt.Sprintf(", got %d arguments", len(args))))
		}
		return nil
	}
}

// noArguments is the field Args of commands that have only flags.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes flags only, as in --flag VALUE, but got %q", cmd.Name(), args[0])
	}
	return nil
}
