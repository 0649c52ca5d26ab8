package main

import (
	"context"
	"sync"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/warning"
)

// strictness ends a command after its first warning, if the user gave --strict.
type strictness struct {
	on     bool
	cancel context.CancelFunc // cancels the work of the command
	lock   sync.Mutex         // guards the field 'first', because warnings come from several goroutines
	first  error              // the error for the first warning, or nil
}

// take records a warning. It returns an error if the warning ends the command. If the strictness is nil, no warning
// ends the command.
func (t *strictness) take(code warning.Code) error {
	if t == nil || !t.on {
		return nil
	}
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.first == nil {
		t.first = hint.Add(badInputf("--strict: stopped at the warning [%s]", code), "'rscert explain %s' says what to do", code)
	}
	t.cancel()
	return t.first
}

// verdict returns the error for the warning that ended the command. If no warning has ended the command, it returns
// err.
func (t *strictness) verdict(err error) error {
	t.lock.Lock()
	defer t.lock.Unlock()
	if t.first != nil {
		return t.first
	}
	return err
}

// addStrict adds --strict to the commands below cmd. It leaves out 'explain', hidden commands, and commands whose flags
// cobra does not parse (DisableFlagParsing).
func addStrict(cmd *cobra.Command, t *strictness) {
	for _, c := range cmd.Commands() {
		addStrict(c, t)
		if c.HasSubCommands() || !c.Runnable() || c.Hidden || c.DisableFlagParsing || c.Name() == "explain" {
			continue
		}
		c.Flags().BoolVar(&t.on, "strict", false, "end with exit code 2 at the first warning ('rscert explain' lists the warnings)")
		if c.Flags().Lookup("model") != nil {
			group(c, "How it is run")
		}
	}
}
