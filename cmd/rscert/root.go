package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/param"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/warning"
)

// These are the exit codes, in the order of the table in the help text.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2 // wrong usage or input, or a warning with --strict
	// unmet --require, invalid run (verify), result that is not confirmed (attack --verify), contradicted run (audit),
	// answer that differs from the log (predict --replay)
	exitRequirement = 3
	exitInterrupted = 130 // SIGINT or SIGTERM
)

// streams are the standard streams of a command.
type streams struct {
	in       io.Reader
	out, err io.Writer
	strict   *strictness // nil: a warning does not end the command
}

// wrote prints the names of the files that a command wrote besides its results. It leaves out empty names.
func (s streams) wrote(files ...string) {
	for _, file := range files {
		if file != "" {
			fmt.Fprintf(s.err, "wrote %s\n", quote.Line(file))
		}
	}
}

// terminal reports whether s.err is a terminal on which progress can be shown by redrawing a single line.
func (s streams) terminal() bool {
	f, ok := s.err.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && !withoutEscapes(os.Getenv)
}

// withoutEscapes reports whether TERM=dumb or NO_COLOR (no-color.org) in the environment asks for text without escape
// codes. rscert uses escape codes only for progress.
func withoutEscapes(getenv func(string) string) bool {
	return getenv("TERM") == "dumb" || getenv("NO_COLOR") != ""
}

// progress returns the options for showing progress.
func (s streams) progress(quiet bool) progress.Options {
	return progress.Options{Writer: s.err, Terminal: s.terminal(), Quiet: quiet}
}

// console returns the console of a run. This console prints warnings even if quiet is set.
func (s streams) console(quiet bool) experiment.Console {
	note := func(t param.Text) { fmt.Fprintln(s.err, quote.Line(t.Spell(asFlag))) }
	if quiet {
		note = func(param.Text) {}
	}
	return experiment.Console{
		// the error is not needed, because with --strict the warning itself cancels the context
		Warn: func(w warning.Warning) { _ = s.warn(w) },
		Note: note, Progress: s.progress(quiet),
	}
}

// asFlag spells a parameter as a flag.
func asFlag(n param.Name) string { return "--" + string(n) }

// errorText returns the text of err with its parameters spelled as flags. It leaves out the name of the system call in
// an error about a file.
func errorText(err error) string {
	text := param.Spell(err, asFlag)
	var file *fs.PathError
	if errors.As(err, &file) {
		text = strings.Replace(text, file.Error(), file.Path+": "+file.Err.Error(), 1)
	}
	return text
}

// badInput marks an error as a mistake in the usage or in the input (see spec.BadInput). The exit code is then 2. If
// err is nil, badInput returns nil.
func badInput(err error) error { return spec.BadInput(err) }

func badInputf(format string, args ...any) error { return badInput(fmt.Errorf(format, args...)) }

// newRoot builds the command tree. It sets *started to true when the code of a command starts. An error before this
// moment is an error in the command line.
func newRoot(s streams, started *bool) *cobra.Command {
	if s.strict == nil {
		s.strict = &strictness{cancel: func() {}} // there is no work to cancel
	}
	root := &cobra.Command{
		Use:   "rscert",
		Short: "Certify classifiers: certified radii, confidence bounds and calibration under attack",
		Long: `rscert certifies ONNX classifiers with randomized smoothing. Every certificate is true
with its stated probability.

The exit code says how a command ended:

  0    it is done
  1    it failed
  2    the usage or the input is wrong, or --strict met a warning
  3    a requirement is not met, a run is not valid, an audit finds more
       contradicted certificates than chance explains, or 'attack --verify'
       or 'predict --replay' does not confirm a result
  130  it was interrupted`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          unknownCommand,
		Version:       version(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := takeSettings(cmd, s); err != nil {
				return err
			}
			*started = true
			return nil
		},
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(explainFlag)
	root.AddCommand(
		newACCE(s),
		newAttack(s),
		newAudit(s),
		newCalibrate(s),
		newCE(s),
		newCertify(s),
		newCombine(s),
		newCompare(s),
		newConfidence(s),
		newConformal(s),
		newDoctor(s),
		newExplain(s),
		newInit(s),
		newKubernetes(s),
		newLipschitz(s),
		newLs(s),
		newMan(),
		newMerge(s),
		newMethodsTopic(),
		newMetrics(s),
		newPerturb(s),
		newWeights(s),
		newPredict(s),
		newRadius(s),
		newReport(s),
		newServe(s),
		newSetup(s),
		newSlurm(s),
		newTemperature(s),
		newTrain(s),
		newVerify(s),
	)
	root.SetVersionTemplate(versionText())
	addConfig(root)
	addStrict(root, s.strict)
	groupFlags(root)
	completeValues(root)
	return root
}

// execute runs the command line and returns the exit code.
func execute(args []string, s streams) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	defer watchSignals(ctx, stop, s.err)()
	var started bool
	work, cancel := context.WithCancel(ctx)
	defer cancel()
	s.strict = &strictness{cancel: cancel}
	out := &output{w: s.out, strict: s.strict}
	s.out = out
	root := newRoot(s, &started)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(work)
	if out.err != nil {
		started, err = true, out.err
	}
	err = s.strict.verdict(err)
	if err == nil {
		return exitDone
	}
	if !started {
		err = withSeeHelp(cmd, badInput(err))
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = interruption(err)
	}
	fmt.Fprintf(s.err, "rscert: %s\n", quote.Line(errorText(err)))
	if advice, ok := hint.Spelled(err, asFlag); ok {
		fmt.Fprintf(s.err, "hint: %s\n", quote.Line(advice))
	}
	return exitCode(err)
}

// signalPatience is the maximum time from the first signal to the end of a command. This limit exists because nothing
// can interrupt ONNX Runtime while it opens a session or executes one long operation.
const signalPatience = 4 * time.Second

// morePatience is the time that a command has added to signalPatience.
var morePatience atomic.Int64

// extendPatience gives a command more time to end after the first signal.
func extendPatience(by time.Duration) { morePatience.Store(int64(by)) }

// watchSignals limits the time from a signal to the end of the process. A signal cancels ctx. The caller must call the
// function 'done' when the command has ended.
func watchSignals(ctx context.Context, stop func(), w io.Writer) (done func()) {
	ended := make(chan struct{})
	go func() {
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		stop() // a second signal ends the process at once
		select {
		case <-ended:
		case <-time.After(signalPatience + time.Duration(morePatience.Load())):
			abandon(w)
		}
	}()
	return func() { close(ended) }
}

// abandon ends the process during a call of ONNX Runtime. No results are lost. As soon as results exist, rscert appends
// them to a run in whole lines. Other files appear only when they are complete.
func abandon(w io.Writer) {
	go fmt.Fprintf(w, "rscert: interrupted: a call of ONNX Runtime did not end within %v\n", signalPatience+time.Duration(morePatience.Load()))
	time.Sleep(100 * time.Millisecond) // w may block
	os.Exit(exitInterrupted)
}

// withSeeHelp appends the command for help to the hint of err, for example: see 'rscert certify --help'.
func withSeeHelp(cmd *cobra.Command, err error) error {
	see := fmt.Sprintf("see '%s --help'", cmd.CommandPath())
	if meant, ok := hint.Spelled(err, asFlag); ok {
		see = meant + " " + see
	}
	return hint.Add(err, "%s", see)
}

// errInterrupted is the error of a command that a signal has interrupted.
var errInterrupted = errors.New("interrupted")

// interruption returns errInterrupted with the hint of err.
func interruption(err error) error {
	if advice, ok := hint.Spelled(err, asFlag); ok {
		return hint.Add(errInterrupted, "%s", advice)
	}
	return errInterrupted
}

// exitCode returns the exit code for err.
func exitCode(err error) int {
	if errors.Is(err, errInterrupted) {
		return exitInterrupted
	}
	var input spec.InputError
	if errors.As(err, &input) {
		return exitUsage
	}
	var unmet requirementError
	var invalid invalidError
	var different replayError
	var contradicted contradictedError
	if errors.As(err, &unmet) || errors.As(err, &invalid) || errors.As(err, &different) || errors.As(err, &contradicted) {
		return exitRequirement
	}
	return exitFailed
}
