package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report/curves"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/report/history"
	"github.com/rscert/rscert/internal/report/summary"
)

// historyOptions are the flags --history and --commit.
type historyOptions struct {
	file   string
	commit string
}

func historyFlags(cmd *cobra.Command, o *historyOptions) {
	f := cmd.Flags()
	f.StringVar(&o.file, "history", "", "append the values of the requirements to this `file`, as one line of JSON per commit")
	f.StringVar(&o.commit, "commit", "", "`name` of the commit in --history; default: the commit that the CI system or the git repository gives")
}

// checkHistory checks the flags of the history before any work starts. It reads the history, so that a damaged file is
// noticed early.
func (o reportOptions) checkHistory(inputs ...string) error {
	h := o.history
	switch {
	case h.file == "" && h.commit != "":
		return badInputf("--commit needs --history")
	case h.file == "" && o.curve == curves.History:
		return badInputf("--curve history needs --history")
	case h.file == "":
		return nil
	case !o.given():
		return hint.Add(badInputf("--history: without --require there is nothing to record"), "add --require 'certified-accuracy@0.5>=0.60'")
	}
	if h.commit != "" {
		if err := history.CheckCommit(h.commit); err != nil {
			return badInput(fmt.Errorf("--commit %w", err))
		}
	}
	if err := checkOutput("history", h.file, inputs...); err != nil {
		return err
	}
	if _, err := h.name(); err != nil {
		return err
	}
	_, err := history.Read(h.file)
	return badInput(err)
}

// name returns the name of the commit.
func (o historyOptions) name() (string, error) {
	if o.commit != "" {
		return o.commit, nil
	}
	commit, err := history.FindCommit(".")
	if err != nil {
		return "", badInput(fmt.Errorf("--history: %w", err))
	}
	return commit, nil
}

// record appends the outcomes to the history, unless the history already has a line for the commit. Without --history
// it returns nil.
func (o historyOptions) record(s streams, runs []summary.Summary, outcomes []gate.Outcome) (*history.Result, error) {
	if o.file == "" {
		return nil, nil
	}
	commit, err := o.name()
	if err != nil {
		return nil, err
	}
	var of []history.Run
	for _, run := range runs {
		r := history.Run{Name: run.Name}
		if run.Run != nil {
			r.ID = run.Run.Digest()
		}
		of = append(of, r)
	}
	result, err := history.Record(o.file, history.NewEntry(commit, version(), time.Now(), of, outcomes))
	if err != nil {
		return nil, badInput(err)
	}
	if result.Added {
		s.wrote(o.file)
	} else {
		fmt.Fprintln(s.err, quote.Line(fmt.Sprintf("%s: commit %s already has line %d; nothing is added or replaced", o.file, commit, result.Line)))
	}
	return result, nil
}
