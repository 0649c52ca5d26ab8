package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/programs"
	"github.com/rscert/rscert/internal/quote"
)

// pythonVariable is the name of the environment variable that holds the path of the Python interpreter for training.
// The launcher of rscert's Python package sets this variable to the interpreter that runs the launcher.
const pythonVariable = "RSCERT_PYTHON"

func newTrain(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "train --data FILE --sigma S --out FOLDER",
		Short: "Train a classifier under noise, with PyTorch",
		Long: `This command trains a classifier that predicts well under noise, and writes it to
FOLDER/model.onnx. Certify this file with 'rscert certify'. The command needs rscert's
Python package with PyTorch:

  pip install 'rscert[train]'

$` + pythonVariable + ` names the Python interpreter. If it is not set, rscert takes
python3 or python on the PATH. rscert runs 'python -m rscert.train' with the flags that
you give. If the package is installed, 'rscert train --help' lists the flags. An
interrupted training continues when you run the same command again. docs/training.md
explains the losses.`,
		Example: `  rscert train --data digits.npz --sigma 0.5 --out trained
  rscert train --data digits.npz --sigma 0.5 --loss smoothadv --epochs 30 --out robust
  rscert train --data digits.npz --sigma 0.5 --law laplace --out laplace`,
		// The Python module parses the flags.
		DisableFlagParsing: true,
		ValidArgsFunction:  cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault),
		RunE: func(cmd *cobra.Command, args []string) error {
			if slices.Contains(args, "--help") || slices.Contains(args, "-h") {
				return helpTrain(cmd, s)
			}
			return runTrain(cmd.Context(), s, args)
		},
	}
}

// helpTrain prints the help and, if Python has the package, the flags of the Python module.
func helpTrain(cmd *cobra.Command, s streams) error {
	if err := cmd.Help(); err != nil {
		return err
	}
	python, err := findPython(cmd.Context())
	if err != nil {
		return nil //nolint:nilerr // the help says how to install the package
	}
	fmt.Fprintf(s.out, "\nFlags of %s -m rscert.train:\n\n", quote.Line(python))
	return runTrain(cmd.Context(), s, []string{"--help"})
}

// runTrain runs the Python module. If the module prints a line that starts with "rscert: ", the rest of this line is
// the error.
func runTrain(ctx context.Context, s streams, args []string) error {
	python, err := findPython(ctx)
	if err != nil {
		return err
	}
	module := programs.Command(ctx, python, append([]string{"-m", "rscert.train"}, args...)...)
	module.Dir = "" // the flags name files relative to the current folder
	module.Stdout = s.out
	module.Cancel = func() error { return module.Process.Signal(os.Interrupt) }
	module.WaitDelay = pythonWait
	lines := &errorLine{to: s.err}
	module.Stderr = lines
	err = module.Run()
	lines.flush()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &exit) || lines.found == "":
		return fmt.Errorf("%s -m rscert.train: %w", python, err)
	case exit.ExitCode() == exitUsage:
		return badInput(errors.New(lines.found))
	}
	return errors.New(lines.found)
}

// pythonWait is how long runTrain waits for Python to end after an interrupt.
const pythonWait = 3 * time.Second

// probe is a Python program. Its exit code says whether the Python that runs it can train.
const probe = `import sys
if sys.version_info < (3, 11):
    sys.exit(3)
from importlib.util import find_spec
sys.exit(0 if all(map(find_spec, ("rscert", "torch", "onnx", "onnxruntime"))) and find_spec("rscert.train") else 4)`

// findPython returns the path of a Python that has rscert.train and PyTorch.
func findPython(ctx context.Context) (string, error) {
	names := []string{"python3", "python"}
	if name := os.Getenv(pythonVariable); name != "" {
		if !filepath.IsAbs(name) {
			return "", badInputf("$%s is %s: want an absolute path", pythonVariable, quote.Name(name))
		}
		names = []string{name}
	}
	var tried []string
	for _, name := range names {
		path, err := programs.Find(name)
		if err != nil {
			continue
		}
		if err := programs.Command(ctx, path, "-c", probe).Run(); err == nil {
			return path, nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		tried = append(tried, path)
	}
	const install = "pip install 'rscert[train]', with Python 3.11 or later, or set $" + pythonVariable + " to a Python that has it"
	if len(tried) == 0 {
		return "", hint.New("no Python was found: training needs Python and PyTorch", install)
	}
	return "", hint.New(quote.Line(tried[0])+" has no rscert.train with PyTorch", install)
}
