package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/choice"
	"github.com/rscert/rscert/internal/durable"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report/gate"
	"github.com/rscert/rscert/internal/report/summary"
	"github.com/rscert/rscert/internal/report/tables"
	"github.com/rscert/rscert/internal/runfolder"
)

// gateOptions are the flags for requirements, shared by several commands.
type gateOptions struct {
	required    []gate.Requirement
	also        []gate.Requirement // quantities that the command shows but does not check
	drop        gate.Drop          // only for 'rscert report'
	junit       string
	codeQuality string
	annotations annotations
	several     bool // whether the command takes several runs, so that a requirement can be about the best one
	// shown holds the main table of the results. GitHub shows this table on the page of a workflow run. The function
	// 'work' sets shown.write. The method 'decide' calls the function 'work'.
	shown *shownTable
}

// shownTable writes a table in Markdown. The field 'write' is nil if there is no table.
type shownTable struct{ write func(io.Writer) error }

// annotations selects the CI system whose log shows the outcomes.
type annotations string

const (
	annotateAuto   annotations = "auto"
	annotateGitHub annotations = "github"
	annotateNone   annotations = "none"
)

var annotationKinds = choice.Of("annotations", annotateGitHub, annotateNone, annotateAuto).Describe(func(a annotations) string {
	return map[annotations]string{annotateAuto: "'github' if GITHUB_ACTIONS=true, otherwise 'none'"}[a]
})

func (a annotations) String() string { return string(a) }

// github reports whether to write GitHub's workflow commands.
func (a annotations) github() bool {
	return a == annotateGitHub || a == annotateAuto && os.Getenv("GITHUB_ACTIONS") == "true"
}

// requirementList is the value of --require. Each --require adds a single requirement, because a requirement can
// contain commas.
type requirementList struct{ list *[]gate.Requirement }

func (l requirementList) Set(s string) error {
	r, err := gate.Parse(s)
	if err == nil {
		*l.list = append(*l.list, r)
	}
	return err
}

func (l requirementList) String() string {
	if l.list == nil { // pflag calls String on a zero value
		return ""
	}
	var all []string
	for _, r := range *l.list {
		all = append(all, r.String())
	}
	return strings.Join(all, " ")
}

func (requirementList) Type() string { return "requirement" }

// gateFlags adds the flags for requirements to a command.
func gateFlags(cmd *cobra.Command, o *gateOptions) {
	f := cmd.Flags()
	example := "certified-accuracy@0.5>=0.60"
	if own := map[string]string{"acce": "cbs@0.25<=0.05", "ce": "ce-upper<=0.03", "evaluate": "conformal-coverage>=0.9"}[cmd.Name()]; own != "" {
		example = own
	}
	f.Var(requirementList{&o.required}, "require", "check this `requirement`, such as "+example+"; exit with code 3 if it is not met; can be repeated (docs/gate.md)")
	o.shown = &shownTable{}
	f.StringVar(&o.junit, "junit", "", "write a JUnit XML `file` with one test for each requirement")
	f.StringVar(&o.codeQuality, "code-quality", "", "write a GitLab code quality `file` (JSON) with one issue for each requirement that is not met")
	choiceVar(f, &o.annotations, "annotations", annotateAuto, annotationKinds, "also write each requirement's result to stderr, as an annotation for this CI `system`: "+annotationKinds.Described())
}

// The method 'given' reports whether the user gave any requirement.
func (o gateOptions) given() bool { return len(o.required) > 0 || o.drop.Given() }

// check refuses invalid flags of output files before any work starts. It also refuses a requirement on the best run if
// the command checks each run by itself.
func (o gateOptions) check(inputs ...string) error {
	for _, f := range o.files() {
		if f.path != "" && !o.given() {
			return badInputf("--%s: without --require there is nothing to report", f.flag)
		}
	}
	if err := checkDistinct(o.files()...); err != nil {
		return err
	}
	for _, r := range o.required {
		if r.Best() && !o.several {
			return hint.Add(badInputf("--require %s: this command checks each run by itself", r),
				"'rscert report RUN RUN… --require best:…' checks the best of several runs")
		}
	}
	return errors.Join(checkOutput("junit", o.junit, inputs...), checkOutput("code-quality", o.codeQuality, inputs...))
}

// files returns the files that the flags name.
func (o gateOptions) files() []written {
	return []written{{"junit", o.junit}, {"code-quality", o.codeQuality}}
}

// names returns the names that the requirements have in a JUnit file.
func (o gateOptions) names() []string {
	var names []string
	for _, r := range o.required {
		names = append(names, r.String())
	}
	if o.drop.Given() {
		names = append(names, "max-drop")
	}
	return names
}

// taus returns the thresholds that the requirements need.
func (o gateOptions) taus() (taus []float64) {
	for _, r := range slices.Concat(o.required, o.also) {
		if tau, ok := r.Tau(); ok {
			taus = append(taus, tau)
		}
	}
	return taus
}

// norms returns the norms that the requirements name.
func (o gateOptions) norms() (norms []law.Norm) {
	for _, r := range slices.Concat(o.required, o.also) {
		if norm, ok := r.Norm(); ok && !slices.Contains(norms, norm) {
			norms = append(norms, norm)
		}
	}
	return norms
}

// If a requirement limits the error among answers, addSelection adds the certificates for this error to the source.
func (o gateOptions) addSelection(ctx context.Context, source *summary.Source) (err error) {
	if slices.ContainsFunc(slices.Concat(o.required, o.also), gate.Requirement.Selective) {
		source.Selection, err = summary.ReadSelection(ctx, source.Path)
	}
	return badInput(err)
}

// errDidNotFinish is the error that commands write into the files for the CI system before their work begins.
var errDidNotFinish = errors.New("rscert did not finish")

// decide calls the function 'work'. It returns an error unless all requirements are met. Before the work, it writes
// files for the CI system (--junit, --code-quality) which say that rscert did not finish. If the process is killed,
// these files remain. If the work fails, decide replaces them by files with the error.
func (o gateOptions) decide(s streams, work func() ([]gate.Outcome, error)) error {
	if err := o.writeNotChecked(errDidNotFinish); err != nil {
		return err
	}
	outcomes, err := work()
	if err != nil {
		if o.annotations.github() && o.given() {
			fmt.Fprintln(s.err, gate.GitHubCommand("error", "rscert: requirements not checked", quote.Line(errorText(err))))
		}
		summed := o.addStepSummary(func() ([]byte, error) { return gate.MarkdownError(errors.New(errorText(err))), nil })
		return errors.Join(err, summed, o.writeNotChecked(errors.New(errorText(err))))
	}
	if err := o.writeOutcomes(outcomes); err != nil {
		return err
	}
	s.wrote(o.junit, o.codeQuality)
	if err := o.addStepSummary(func() ([]byte, error) { return gate.Markdown(outcomes, o.shown.write) }); err != nil {
		return err
	}
	for _, outcome := range outcomes {
		if o.annotations.github() {
			fmt.Fprintln(s.err, outcome.GitHub())
		}
		if !outcome.Met {
			fmt.Fprintln(s.err, quote.Line(outcome.Line()))
		}
	}
	if n := gate.Unmet(outcomes); n > 0 {
		return requirementError{n, len(outcomes)}
	}
	return nil
}

// stepSummary is the name of the environment variable that holds the path of a file. GitHub Actions shows this file on
// the page of a workflow run.
const stepSummary = "GITHUB_STEP_SUMMARY"

// addStepSummary appends a section to the file $GITHUB_STEP_SUMMARY. It does nothing if the variable is not set, if
// there are no requirements, or with --annotations none.
func (o gateOptions) addStepSummary(section func() ([]byte, error)) (err error) {
	path := os.Getenv(stepSummary)
	if path == "" || !o.given() || o.annotations == annotateNone {
		return nil
	}
	text, err := section()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("$%s: %w", stepSummary, err)
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// writeOutcomes writes the outcomes to the files for the CI system.
func (o gateOptions) writeOutcomes(outcomes []gate.Outcome) error {
	return errors.Join(writeReport(o.junit, func() ([]byte, error) { return gate.JUnit(outcomes) }),
		writeReport(o.codeQuality, func() ([]byte, error) { return gate.CodeQuality(outcomes) }))
}

// writeNotChecked writes the files for the CI system. The files say that the requirements were not checked, and give
// err as the reason.
func (o gateOptions) writeNotChecked(err error) error {
	return errors.Join(writeReport(o.junit, func() ([]byte, error) { return gate.JUnitError(o.names(), err) }),
		writeReport(o.codeQuality, func() ([]byte, error) { return gate.CodeQualityError(o.names(), err) }))
}

// writeReport writes a file, if it has a name.
func writeReport(file string, content func() ([]byte, error)) error {
	if file == "" {
		return nil
	}
	text, err := content()
	if err != nil {
		return err
	}
	return durable.WriteFile(file, text)
}

// requirementError says how many requirements are not met. The process then ends with exit code 3.
type requirementError struct{ unmet, of int }

func (e requirementError) Error() string {
	if e.of == 1 {
		return "the requirement is not met"
	}
	return fmt.Sprintf("%d of %d requirements are not met", e.unmet, e.of)
}

// checkSummary checks the requirements on summaries of runs.
func (o gateOptions) checkSummary(all ...summary.Summary) ([]gate.Outcome, error) {
	if len(o.required) > 0 {
		if err := refuseChosen("require", all...); err != nil {
			return nil, err
		}
	}
	outcomes, err := gate.Check(o.required, all...)
	return outcomes, badInput(err)
}

// refuseChosen refuses a requirement on runs whose examples were selected by the results of another run. The argument
// 'flag' is the flag of the requirement.
func refuseChosen(flag string, runs ...summary.Summary) error {
	for _, s := range runs {
		if s.Conditions.Only != "" {
			return hint.Add(badInputf("--%s: %s: %s", flag, s.Path, s.Conditions.Only), "check the requirement on a run of all examples")
		}
	}
	return nil
}

// checkAll checks the requirements on the runs. A requirement on the best run is checked once for all runs. Every other
// requirement is checked on each run.
func (o gateOptions) checkAll(all summarised) ([]gate.Outcome, error) {
	if len(o.required) == 0 {
		return nil, nil
	}
	if err := refuseChosen("require", all.runs...); err != nil {
		return nil, err
	}
	var each, best []gate.Requirement
	for _, r := range o.required {
		if r.Best() {
			best = append(best, r)
		} else {
			each = append(each, r)
		}
	}
	outcomes, err := gate.Check(each, all.runs...)
	if err != nil || len(best) == 0 {
		return outcomes, badInput(err)
	}
	chosen, err := gate.CheckBest(best, all.choice...)
	return append(outcomes, chosen...), badInput(err)
}

// checkPath checks the requirements on the run at a path. If a requirement is about the worst group, the groups are the
// true classes.
func (o gateOptions) checkPath(ctx context.Context, path string) ([]gate.Outcome, error) {
	if len(o.required) == 0 {
		return nil, nil
	}
	source, err := summary.Read(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := o.addSelection(ctx, &source); err != nil {
		return nil, err
	}
	options := summary.Default()
	options.Taus = append(options.Taus, o.taus()...)
	options.Norms = o.norms()
	if slices.ContainsFunc(o.required, gate.Requirement.Grouped) {
		options.Groups = &summary.Grouping{Columns: []string{"label"}}
	}
	s, err := summary.New(source, options)
	if err != nil {
		return nil, err
	}
	o.shown.write = tables.Report{Runs: []summary.Summary{s}}.WriteMain
	return o.checkSummary(s)
}

// checkStudy checks the requirements on the results of acce.
func (o gateOptions) checkStudy(path string, b runfolder.Bounds, results []acce.Result) ([]gate.Outcome, error) {
	if len(o.required) == 0 {
		return nil, nil
	}
	at, err := summary.Calibrate(results)
	if err != nil {
		return nil, badInput(fmt.Errorf("--require: %w", err))
	}
	o.shown.write = func(w io.Writer) error { return writeStudyMarkdown(w, results) }
	s := summary.Summary{Name: filepath.Base(path), Path: path, Selected: b.Unfinished, Calibration: at}
	if b.Alpha > 0 { // the bounds come from a run in which sound methods certified all classes
		sound := true
		s.Conditions = summary.Conditions{Sound: &sound, Arithmetic: b.Arithmetic}
	}
	if evidence, err := runfolder.Find(path); err == nil && evidence.Run != nil && evidence.Run.Parameters.Only.Given() {
		s.Conditions.Only = evidence.Run.Parameters.Only.Says()
	}
	return o.checkSummary(s)
}

// needRadii refuses requirements at radii for which the run will have no bounds.
func (o gateOptions) needRadii(radii []float64) error {
	for _, r := range o.required {
		if radius, ok := r.Radius(); ok && r.OfBounds() && !slices.Contains(radii, radius) {
			return hint.Add(badInputf("--require %s: the run will have no bounds on the confidence at radius %v", r, radius),
				"add --confidence-radii %v", radius)
		}
	}
	return nil
}
