package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rscert/rscert/internal/cluster"
	"github.com/rscert/rscert/internal/hint"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/quote"
	"github.com/rscert/rscert/internal/report"
	"github.com/rscert/rscert/internal/runfolder"
)

// slurmOptions are the flags of the command 'slurm'.
type slurmOptions struct {
	shards, atOnce, retries int
	wait, dryRun            bool
	every                   time.Duration
	json, quiet, help       bool
}

func (o *slurmOptions) add(f *pflag.FlagSet) {
	f.SortFlags = false
	f.IntVar(&o.shards, "shards", 0, "number of shards of the run or, in a sweep, of each point; each task runs one shard")
	f.IntVar(&o.atOnce, "at-once", 0, "maximum number of tasks that run at the same time; 0 means no limit")
	f.BoolVar(&o.wait, "wait", false, "wait for all shards, resubmit failed shards, and merge all shards")
	f.IntVar(&o.retries, "retries", 2, "with --wait, maximum number of times that a failed shard is resubmitted")
	f.DurationVar(&o.every, "every", 10*time.Second, "with --wait, time between two checks of Slurm and the shards")
	f.BoolVar(&o.dryRun, "dry-run", false, "write the script and print its path, but submit nothing")
	f.BoolVar(&o.json, "json", false, "print the submission as JSON; with --wait, print the merged run")
	f.BoolVar(&o.quiet, "quiet", false, "do not show progress")
	f.BoolVarP(&o.help, "help", "h", false, "help for slurm")
}

func newSlurm(s streams) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "slurm --shards K [sbatch options] -- certify …",
		Short: "Run the shards of a run on a Slurm cluster",
		Long: `This command submits 'rscert certify …' as a job array, one task per shard. All shards
share one seed, which the runs record. You can write options of sbatch before the '--'.
The command itself reads the flags of 'rscert slurm'. All other options before the '--'
go to sbatch. Run the command on a machine that can submit jobs. In this help, RUN is
the folder that you give to certify in --out. The model, the data, rscert and RUN must
have the same paths on all machines.

The folder RUN.shards holds the script of the job, and a run folder and a log for each
shard. With --wait, the command shows the progress of all shards. It resubmits a failed
shard, which continues where it stopped. It does not resubmit a shard that ended with
exit code 2 (wrong input). At the end it merges all shards into RUN, as 'rscert merge'
does. To continue a run that is not finished, repeat the command with --resume among the
flags of certify. The repeated command leaves queued tasks in the queue, does not repeat
finished shards, and submits the other shards.

If a flag of certify has a list of values, the job array makes a sweep (docs/sweeps.md).
A sweep has one run, called a point, for each value. If several flags have lists, the
sweep has a point for each combination of values. The array runs all shards of all
points, and RUN is the folder of the sweep.`,
		Example: `  rscert slurm --shards 8 --wait -- certify --model cnn.onnx --data mnist/ --sigma 0.5 --out run
  rscert slurm --shards 8 --wait -- certify --model cnn.onnx --data mnist/ --sigma 0.5 --out run --resume
  rscert slurm --shards 32 --at-once 4 --partition gpu --gres gpu:1 -c 8 --time 2:00:00 -- \
      certify --model resnet.onnx --data imagenet/ --sigma 0.5 --device cuda --out run
  rscert slurm --shards 8 --wait -- certify --model cnn.onnx --data mnist/ --sigma 0.25,0.5,1 --out sweep
  rscert slurm --shards 8 --dry-run -- certify --model cnn.onnx --data mnist/ --sigma 0.5 --out run`,
		DisableFlagParsing: true, // rscert does not know the options of sbatch
	}
	var o slurmOptions
	o.add(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		own, options, certify, err := splitWords(cmd.Flags(), words)
		if err != nil {
			return hint.Add(err, "see 'rscert slurm --help'")
		}
		if len(options) > 0 && options[0] == "-h" {
			return cmd.Help()
		}
		if err := cmd.Flags().Parse(own); err != nil {
			return hint.Add(badInput(explainFlag(cmd, err)), "see 'rscert slurm --help'")
		}
		if o.help {
			return cmd.Help()
		}
		return runSlurm(cmd.Context(), s, o, options, certify)
	}
	return cmd
}

// slurmReport is what 'rscert slurm --json' prints without --wait.
type slurmReport struct {
	Out       string        `json:"out"`
	Script    string        `json:"script"`
	Shards    int           `json:"shards"`
	Points    []string      `json:"points,omitempty"` // names of the points of a sweep; every point has all shards
	Seed      uint64        `json:"seed"`
	Submitted []int         `json:"submitted,omitempty"`
	Jobs      []cluster.Job `json:"jobs,omitempty"`
}

func runSlurm(ctx context.Context, s streams, o slurmOptions, options, certify []string) error {
	a, resumed, err := openArray(o, options, certify)
	if err != nil {
		return err
	}
	w := o.watch(s, a)
	done := slurmReport{Out: a.Out, Script: a.Script(), Shards: a.Shards, Points: a.Points, Seed: a.Seed}
	if !resumed && !o.quiet {
		fmt.Fprintf(s.err, "seed: %d for all shards; --seed %d repeats the noise\n", a.Seed, a.Seed)
	}
	if !o.dryRun {
		if done.Submitted, err = w.Unfinished(ctx, a); err != nil {
			return err
		}
		if len(done.Submitted) > 0 {
			job, err := cluster.Submit(ctx, cluster.Slurm{}, a, done.Submitted)
			if err != nil {
				return hint.Add(err, "nothing was submitted: fix the cause and continue with --resume")
			}
			w.Note("job %s: %d %s", job.ID, len(done.Submitted), a.Noun())
		}
	}
	done.Jobs = a.Jobs
	if o.wait && !o.dryRun {
		return o.waitAndMerge(ctx, s, w, a)
	}
	if o.json {
		return report.WriteJSON(s.out, "slurm", done)
	}
	if o.dryRun {
		fmt.Fprintf(s.out, "%s\nnext: sbatch %s\n", quote.Line(done.Script), quote.Shell(done.Script))
		return nil
	}
	fmt.Fprintf(s.out, "%d of %d %s were submitted; their folders are in %s\nnext: the same command with --wait, and --resume at its end\n",
		len(done.Submitted), a.Tasks(), a.Noun(), quote.Line(a.Folder()))
	return nil
}

// openArray makes a new job array, or resumes the job array that was started in the folder of certify's --out.
func openArray(o slurmOptions, options, words []string) (a *cluster.Array, resumed bool, err error) {
	if err := checkShards(o.shards); err != nil {
		return nil, false, err
	}
	certify, err := splitShards(words)
	if err != nil {
		return nil, false, err
	}
	if err := o.check(options); err != nil {
		return nil, false, err
	}
	if a, err = newArray(o, options, certify); err != nil {
		return nil, false, err
	}
	if certify.resume {
		then, err := resumeArray(a, certify.seed)
		if then != nil || err != nil {
			return then, true, badInput(err)
		}
	}
	if a.Seed, err = certify.chooseSeed(); err != nil {
		return nil, false, err
	}
	return a, false, badInput(a.Create())
}

// check refuses numbers out of range, and sbatch options that conflict with the options or the script of 'rscert
// slurm'.
func (o slurmOptions) check(options []string) error {
	for _, option := range options {
		name, _, _ := strings.Cut(option, "=")
		if name == "--array" || name == "--wrap" || name == "--parsable" || strings.HasPrefix(option, "-a") {
			return hint.Add(badInputf("sbatch's %s does not work here", name), "--shards sets the number of tasks, --at-once how many run at a time")
		}
	}
	if o.every <= 0 || o.retries < 0 || o.atOnce < 0 {
		return badInput(errors.New("want --every above 0, --retries and --at-once at least 0"))
	}
	return nil
}

// newArray returns the job array for the flags of the commands 'slurm' and 'certify'. The caller must set the field
// Seed of the array.
func newArray(o slurmOptions, options []string, certify sharded) (a *cluster.Array, err error) {
	a = &cluster.Array{Shards: o.shards, Points: certify.points, Options: options, Certify: certify.flags, AtOnce: o.atOnce, OwnThreads: certify.threads}
	if a.Out, err = filepath.Abs(certify.out); err != nil {
		return nil, err
	}
	if a.Dir, err = os.Getwd(); err != nil {
		return nil, err
	}
	if a.Program, err = thisProgram(); err != nil {
		return nil, err
	}
	return a, errors.Join(badInput(a.Check()), checkMerged(a.Out))
}

// resumeArray loads the array that was started in a.Out. If the argument 'a' and the loaded array differ in their
// settings, resumeArray returns an error. If no array was started in a.Out, it returns nil.
func resumeArray(a *cluster.Array, seed *uint64) (*cluster.Array, error) {
	then, err := cluster.Load(a.Out)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if a.Seed = then.Seed; seed != nil {
		a.Seed = *seed
	}
	if err := then.Same(a); err != nil {
		return nil, err
	}
	return then, then.Resume(a)
}

// checkMerged returns an error if the folder of the merged run is not empty. 'rscert slurm' calls checkMerged before
// the sampling, which can take hours.
func checkMerged(out string) error {
	entries, err := os.ReadDir(out)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err == nil {
		err = runfolder.ErrExists
	}
	return hint.Add(badInput(fmt.Errorf("%s: %w", out, err)), "choose another --out")
}

// watch returns the cluster.Watch that waits for the array a.
func (o slurmOptions) watch(s streams, a *cluster.Array) *cluster.Watch {
	var bar *progress.Bar
	var shown int
	return &cluster.Watch{
		Queue: cluster.Slurm{}, Retries: o.retries, Every: o.every, Extent: runfolder.ReadExtent, Sleep: cluster.Pause,
		Note: s.console(o.quiet).Notef, Warn: s.console(o.quiet).Warnf,
		Show: func(done, total int, note string) {
			if bar == nil && total > 0 {
				bar = progress.Start(s.progress(o.quiet), fmt.Sprintf("%d %s", a.Tasks(), a.Noun()), int64(total), int64(done))
				shown = done
			}
			if bar != nil {
				bar.Add(int64(done-shown), note)
				shown = done
			}
		},
	}
}

// waitAndMerge waits for the array and merges its shards.
func (o slurmOptions) waitAndMerge(ctx context.Context, s streams, w *cluster.Watch, a *cluster.Array) error {
	if err := w.Run(ctx, a); err != nil {
		return a.Interrupted(err)
	}
	return runMerge(ctx, s, a.Parts(), mergeOptions{out: a.Out, json: o.json, quiet: o.quiet})
}
