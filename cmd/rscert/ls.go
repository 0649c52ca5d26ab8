package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/warning"
)

func newLs(s streams) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "ls [FOLDER]",
		Short: "List the runs in a folder and below",
		Long: `This command lists all run folders in a folder and its subfolders (default: the working
directory). If the folder is itself a run folder, the command lists only this run.

Each row shows the model, the data, σ, the number n of samples, the number of finished
examples, the state, and the certified accuracy at radius 0. The state is 'finished',
'resumable' or 'unreadable'. 'rscert certify … --resume' continues a resumable run.

The accuracy of an unfinished run counts only the finished examples. The command does
not check whether the votes support the certificates; 'rscert verify RUN' does.`,
		Example: `  rscert ls
  rscert ls experiments
  rscert ls experiments --json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return errors.New("want one folder")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			folder := "."
			if len(args) == 1 {
				folder = args[0]
			}
			return runLs(cmd.Context(), s, folder, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the list as JSON")
	return cmd
}

// lsReport is what ls --json prints.
type lsReport struct {
	Folder string             `json:"folder"`
	Runs   []runfolder.Listed `json:"runs"`
}

func runLs(ctx context.Context, s streams, folder string, asJSON bool) error {
	runs, err := runfolder.List(ctx, folder)
	if err != nil {
		return badInput(err)
	}
	for _, r := range runs {
		if r.Problem == "" {
			continue
		}
		if err := s.warnf(warning.RunUnreadable, "%s: %s", r.Path, r.Problem); err != nil {
			return err
		}
	}
	if asJSON {
		return report.WriteJSON(s.out, "ls", lsReport{folder, append([]runfolder.Listed{}, runs...)})
	}
	if len(runs) == 0 {
		fmt.Fprintf(s.err, "no runs in %s\n", quote.Line(folder))
		return nil
	}
	t := report.Table{Columns: []report.Column{report.TextColumn("run"), report.TextColumn("model"), report.TextColumn("data"),
		report.ExactColumn("σ"), report.ExactColumn("n"), report.TextColumn("examples"), report.TextColumn("state"),
		{Name: "accuracy at 0", Align: report.Right, Round: report.Down, Decimals: 1, Percent: true}}, Flush: true}
	for _, r := range runs {
		t.AddRow(lsRow(r)...)
	}
	return t.WriteText(s.out)
}

func lsRow(r runfolder.Listed) []report.Cell {
	text := func(s string) report.Cell { return report.Text(quote.Line(s)) }
	if r.Model == "" {
		return []report.Cell{text(r.Path), nil, nil, nil, nil, nil, text(string(r.State)), nil}
	}
	examples := fmt.Sprintf("%d of %d", r.Done, r.Examples)
	if r.Shard != "" {
		examples += ", shard " + r.Shard
	}
	var accuracy report.Cell
	if r.Accuracy != nil {
		accuracy = report.Number(*r.Accuracy)
	}
	return []report.Cell{text(r.Path), text(r.Model), text(r.Data), report.Number(r.Sigma), report.Count(int(r.N)), text(examples), text(string(r.State)), accuracy}
}
