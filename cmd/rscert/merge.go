package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/signature"
	"github.com/rscert/rscert/internal/spec"
	"github.com/rscert/rscert/internal/sweep"
	"github.com/rscert/rscert/internal/warning"
)

// mergeOptions are the flags of merge.
type mergeOptions struct {
	out         string
	allowGaps   bool
	sign        signOptions
	json, quiet bool
}

func newMerge(s streams) *cobra.Command {
	var o mergeOptions
	cmd := &cobra.Command{
		Use:   "merge RUN… --out RUN",
		Short: "Join the shards of a run",
		Long: `This command joins the run folders of 'rscert certify --shard i/k' into one. Votes,
certificates, scores and bounds on the confidence have the same bytes as in an unsplit
run. Only run.json differs: it lists the hardware of every shard.

The command refuses to merge if a shard of the run is missing, or if two of the given
shards share an example. If a shard is unfinished or damaged, the command refuses to
merge. In this case, it prints the 'rscert certify … --resume' line that finishes the
shard. If you must first delete a damaged line of a file and all lines after it, the
command says so. It refuses shards that differ in a parameter, the model, the data or
the software. With --allow-gaps, it joins the given shards even if other shards are
missing. If shards are missing, run.json lists the joined shards, and the merged run
counts as unfinished.

Shards of different sizes can form a whole run. For example, the shard 0/2 has every
second example, and the shards 1/4 and 3/4 have the others.

The command also merges the shards of a sweep. Each point of a sweep is a combination of
parameter values, and the sweep has a run for each point (docs/sweeps.md). For a sweep,
the folder of --out gets one run folder for each point.

--sign signs the merged run. The command neither checks nor copies signatures of
shards.`,
		Example: `  rscert merge part0 part1 part2 part3 --out run
  rscert merge part* --out run --allow-gaps
  rscert merge part* --out run --sign minisign.key
  rscert merge sweep0 sweep1 --out sweep`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return badInput(errors.New("want the run folders to merge"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return runMerge(cmd.Context(), s, args, o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.out, "out", "", "`folder` to which rscert writes the joined run")
	f.BoolVar(&o.allowGaps, "allow-gaps", false, "join the given shards even if other shards of the run are missing")
	o.sign.add(f)
	f.BoolVar(&o.json, "json", false, "print the shards and the numbers of examples as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	return cmd
}

// mergeReport is the document that merge --json prints.
type mergeReport struct {
	Out      string       `json:"out"`
	Examples int          `json:"examples"`
	Shards   []spec.Shard `json:"shards"`
	// Missing lists shards that belong to the run but were not given. Absent is the number of examples in these shards.
	Missing []spec.Shard `json:"missing_shards,omitempty"`
	Absent  int          `json:"missing_examples,omitempty"`
	// SignedBy is the ID of the key that signed the merged run, or "" if no key signed it.
	SignedBy string `json:"signed_by,omitempty"`
}

func runMerge(ctx context.Context, s streams, dirs []string, o mergeOptions) error {
	if o.out == "" {
		return hint.Add(badInput(errors.New("--out is missing")), "see 'rscert merge --help'")
	}
	if o.sign.given() && o.allowGaps {
		return badInputf("--sign: a run with gaps (--allow-gaps) is not finished, and only finished runs are signed")
	}
	key, err := o.sign.key(ctx, s)
	if err != nil {
		return err
	}
	sweeps, err := sweep.ReadParts(dirs)
	if err != nil {
		return badInput(err)
	}
	if sweeps != nil {
		return o.mergeSweep(ctx, s, *sweeps, key)
	}
	done, err := o.mergeRun(ctx, s, dirs, o.out, key)
	if err != nil {
		return err
	}
	if o.json {
		return report.WriteJSON(s.out, "merge", done)
	}
	fmt.Fprintf(s.out, "%d examples from %d shards are in %s\n", done.Examples, len(done.Shards), quote.Line(o.out))
	if done.SignedBy != "" {
		fmt.Fprintf(s.out, "signed by the key %s\n", done.SignedBy)
	}
	return nil
}

// mergeRun joins the shards of one run and writes the whole run to the folder 'out'.
func (o mergeOptions) mergeRun(ctx context.Context, s streams, dirs []string, out string, key *signature.SecretKey) (mergeReport, error) {
	done := mergeReport{Out: out}
	shards, err := openShards(dirs)
	if err != nil {
		return done, err
	}
	defer shards.Close()
	done.Examples = shards.Examples()
	if gap := shards.Gaps(); gap != nil {
		if !o.allowGaps {
			return done, badInput(explainGap(gap))
		}
		if err := s.warnf(warning.RunUnfinished, "%v", gap); err != nil {
			return done, err
		}
		done.Missing, done.Absent = gap.Missing, gap.Examples
	}
	if key != nil {
		shards.SignWith(*key)
		done.SignedBy = key.ID()
	}
	for _, ran := range shards.Run().Runtime.Shards {
		done.Shards = append(done.Shards, ran.Shard)
	}
	if libraries := shards.Run().Runtime.Libraries(); len(libraries) > 1 {
		err := s.warnf(warning.OtherConditions, "the shards ran with %d libraries of ONNX Runtime %s, of SHA-256 %s: votes near ties may differ",
			len(libraries), shards.Run().Runtime.Library, strings.Join(libraries, ", "))
		if err != nil {
			return done, err
		}
	}
	bar := progress.Start(s.progress(o.quiet), "merge", shards.Steps(), 0)
	err = shards.Merge(ctx, out, func(n int64) { bar.Add(n, "") })
	bar.Finish()
	return done, explainMerge(err)
}

// openShards opens the shards of one run.
func openShards(dirs []string) (*runfolder.Shards, error) {
	shards, err := runfolder.OpenShards(dirs)
	var failed *fs.PathError
	if errors.As(err, &failed) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return nil, err // the disk or the network failed; the shards may be intact
	}
	return shards, badInput(explainShard(err))
}

// explainMerge adds a hint to an error of merging.
func explainMerge(err error) error {
	var damaged *runfolder.ShardError
	var taken *runfolder.DamageError // damage in the folder where Merge writes
	switch {
	case errors.Is(err, runfolder.ErrExists):
		return hint.Add(badInput(err), "choose another --out")
	case errors.As(err, &damaged):
		return badInput(explainShard(err))
	case errors.As(err, &taken):
		return badInput(err)
	}
	return err
}

// explainShard adds a hint to an error about a shard. The hint has the command that finishes this shard.
func explainShard(err error) error {
	var shard *runfolder.ShardError
	if !errors.As(err, &shard) {
		return err
	}
	return hint.Add(err, "%s: %s --resume", shard.Advice, certifyLine(shard.Run, shard.Dir))
}

// explainGap adds a hint to the error. If shards are missing, the hint has the command that samples the first of them.
func explainGap(gap *runfolder.GapError) error {
	if len(gap.Missing) == 0 {
		return hint.Add(gap, "name all shards, or join these with --allow-gaps")
	}
	run := gap.Run
	run.Parameters.Shard = gap.Missing[0]
	folder := fmt.Sprintf("part%d", run.Parameters.Shard.I)
	return hint.Add(gap, "name all shards, join these with --allow-gaps, or sample the missing ones: %s", certifyLine(run, folder))
}
