package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
)

// oneFile checks that the user gave one argument, an input file. Commands set their cobra field Args to this function.
func oneFile(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one input file, got %d arguments", len(args))
	}
	return nil
}

// oneArgument returns a function that checks that the user gave one argument. Commands set this function as their cobra
// field Args. The text 'what' describes the argument in the error.
func oneArgument(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return badInput(errors.New("want " + what + fmt.Sprintf(", got %d arguments", len(args))))
		}
		return nil
	}
}

// noArguments checks that the user gave only flags. Commands that take only flags set their cobra field Args to this
// function.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("%s takes flags only, as in --flag VALUE, but got %q", cmd.Name(), args[0])
	}
	return nil
}
