package main

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/spec"
)

// fromRun is the value of --from: a run whose parameters a new run repeats.
type fromRun struct {
	path  string
	run   *runfolder.Run
	taken []string // flags that come from the run
}

func (f *fromRun) String() string { return f.path }

func (f *fromRun) Set(path string) error {
	f.path = path
	return nil
}

func (*fromRun) Type() string { return "string" }

func (f *fromRun) took(flags []string) { f.taken = flags }

// settings reads the flags of the old run from run.json. If the user gives another model, the new run draws its own
// seed. The reason is that results with the old seed may have led the user to this model.
func (f *fromRun) settings(cmd *cobra.Command) (settings, error) {
	dir := f.path
	if filepath.Base(dir) == runfolder.RunFile {
		dir = filepath.Dir(dir)
	}
	run, err := runfolder.Read(dir)
	if err != nil {
		return settings{}, badInput(err)
	}
	switch {
	case run.Schema != runfolder.Schema:
		return settings{}, hint.Add(badInputf("%s has format %d; only runs of format %d can be repeated", dir, run.Schema, runfolder.Schema),
			"give the flags of the run: %s", certifyLine(run, "RUN"))
	case run.Parameters.Scaled():
		return settings{}, badInputf("%s has a σ for each column; repeat it by its flags", dir)
	}
	f.run = &run
	s := settings{filepath.Join(dir, runfolder.RunFile), map[string][]string{}}
	for name, values := range recordedFlags(run) {
		if f := cmd.Flags().Lookup(name); f == nil || slices.Equal(values, []string{""}) {
			continue
		}
		s.values[name] = values
	}
	if cmd.Flags().Changed("model") {
		delete(s.values, "seed")
	}
	// The examples that --only selects need new noise. The old run's --skip, --max, --select and --shard chose among
	// all examples, so they do not fit the examples that --only selects.
	if cmd.Flags().Changed("only") {
		for _, name := range []string{"seed", "skip", "max", "select", "shard"} {
			delete(s.values, name)
		}
	}
	return s, nil
}

// The new run reads some files whose names come from the old run. expect returns the SHA-256s that these files must
// have. A file that the user named may have any content.
func (f *fromRun) expect() (e spec.Expected) {
	if f.run == nil {
		return e
	}
	e.Run = f.path
	if slices.Contains(f.taken, "model") {
		e.Model = f.run.Model.SHA256
	}
	if slices.Contains(f.taken, "data") {
		e.Data = f.run.Data.SHA256
	}
	if d := f.run.Model.Denoiser; d != nil && slices.Contains(f.taken, "denoiser") {
		e.Denoiser = d.SHA256
	}
	return e
}

// recordedFlags returns the names and values of the certify flags that repeat a run.
func recordedFlags(run runfolder.Run) map[string][]string {
	values := flagValues(run.Parameters)
	maps.Copy(values, flagValues(run.Data.Options))
	first, further := run.Model.Paths()
	if len(further) > 0 {
		values["outputs"] = run.Model.Reopened(run.Parameters.Conditions).Outputs.String()
	}
	maps.Copy(values, map[string]string{"data": run.Data.File, "device": run.Runtime.Device})
	if d := run.Model.Denoiser; d != nil {
		values["denoiser"] = d.File
	}
	delete(values, "only")
	if only := run.Parameters.Only; only.Given() {
		values["only"] = only.Choice.String() + "=" + run.Data.OnlyRun
	}
	delete(values, "select")
	if run.Parameters.Max > 0 { // --select matters only with --max
		values["select"] = run.Parameters.Select.String()
	}
	if run.Parameters.Law.Deterministic() { // with a deterministic law, the user cannot choose these parameters
		for _, name := range []string{"n", "n0", "alpha", "margin"} {
			delete(values, name)
		}
	}
	if values["temperature"] == "0" { // a run without scores
		delete(values, "temperature")
	}
	all := map[string][]string{"model": append([]string{first}, further...)}
	for name, value := range values {
		all[name] = []string{strings.TrimSpace(value)}
	}
	return all
}
