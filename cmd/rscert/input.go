package main

import (
	"context"
	"os"

	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/table"
)

// readTable reads a table and shows its progress. Its errors are input errors.
func readTable(ctx context.Context, s streams, path string, quiet bool, opt table.Options) (*table.Table, error) {
	size := int64(-1)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	bar := progress.Start(s.progress(quiet), "reading", size, 0)
	defer bar.Finish()
	opt.Progress = func(n int64) { bar.Add(n, "") }
	opt.Input = s.in
	t, err := table.Read(ctx, path, opt)
	return t, badInput(err)
}

func displayPath(path string) string {
	if path == table.Stdin {
		return "stdin"
	}
	return path
}
