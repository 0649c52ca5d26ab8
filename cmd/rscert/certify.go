package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/scorefile"
	"github.com/rscert/rscert/internal/smoothing"
)

// certifyOptions are the flags of certify as given.
type certifyOptions struct {
	model, data, labels, out, library, device string

	runfolder.Parameters
	batch, threads int
	resume, quiet  bool
	json           bool
}

func newCertify(s streams) *cobra.Command {
	var o certifyOptions
	p := &o.Parameters
	cmd := &cobra.Command{
		Use:   "certify --model M.onnx --data D --sigma S --out RUN",
		Short: "Certify a classifier's predictions on a dataset",
		Long: `Certify samples the model's predictions under Gaussian noise N(0, σ²I) and
writes, for every example, the radius (L2) within which no perturbation changes
the smoothed prediction, with probability at least 1 − alpha an example (Cohen
et al. 2019). σ and every radius are in the units of the data as read: images
have values in [0,1]; --mean and --std are applied after the noise.

The run folder holds run.json, votes.jsonl and certificates.jsonl (see
docs/results.md), and bounds.csv or scores.npz where asked for. Results are the
same, byte for byte, for every --batch and --threads, and after --resume.`,
		Example: `  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --out run
  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --out run --resume
  rscert certify --model resnet.onnx --data cifar/test_batch.bin --sigma 0.25 --skip 20 \
      --mean 0.4914,0.4822,0.4465 --std 0.2023,0.1994,0.2010 --out run
  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --stop 'radius>=0.5' --out run
  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --confidence-radii 0.25,0.5 --out run`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, idle := range o.settle() {
				if cmd.Flags().Changed(idle.flag) {
					fmt.Fprintf(s.err, "warning: --%s plays no part without --%s\n", idle.flag, idle.without)
				}
			}
			return runCertify(cmd.Context(), s, o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.model, "model", "", "ONNX `file` of the classifier")
	f.StringVar(&o.data, "data", "", "dataset: MNIST IDX, CIFAR-10 binary, image `folder`, npz, npy or CSV")
	f.StringVar(&o.labels, "labels", "", "`file` of the labels, for IDX and npy data whose labels are not found beside it")
	f.Float64Var(&p.Sigma, "sigma", 0, "standard deviation σ of the noise, in the units of the data")
	f.StringVar(&o.out, "out", "", "run `folder` to write")
	f.Int64Var(&p.N, "n", 100000, "estimation samples an example; the budget with --stop")
	f.Int64Var(&p.N0, "n0", 100, "selection samples an example")
	f.Float64Var(&p.Alpha, "alpha", 0.001, "allowed failure probability of a certificate")
	f.StringVar(&p.Method, "method", "", "from votes: clopper-pearson, bonferroni, margin (default) or moutaouakil (not sound); with --scores: betting (default), hoeffding, bernstein, prpl-eb, chernoff or star")
	f.StringVar(&p.Class, "class", "predicted", "class to certify: predicted or label")
	f.StringVar(&p.Margin, "margin", "second", "margin to certify: second (Φ⁻¹(p_A)−Φ⁻¹(p_B)) or first (p_A−p_B)")
	f.Float64Var(&p.Lipschitz, "lipschitz", 0, "known Lipschitz constant for --margin first; 0 = use the smoothed classifier's")
	f.StringVar(&p.Stop, "stop", "", "stop early by a `rule`: radius>=R or precision=F")
	f.BoolVar(&p.Scores, "scores", false, "certify the mean scores (softmax), not the votes")
	f.BoolVar(&p.SaveScores, "save-scores", false, "keep all scores in scores.npz, to certify them again; implies --scores; takes 4·n·m bytes an example")
	f.StringVar(&p.Combine, "combine", "directed", "how --scores bound a margin: directed, projected, bonferroni or taylor (not sound)")
	f.Float64Var(&p.Temperature, "temperature", 1, "of the softmax of --scores")
	f.Float64SliceVar(&p.ConfidenceRadii, "confidence-radii", nil, "bound the confidence under attack at these `radii` too (bounds.csv); implies --scores and takes half of alpha")
	f.StringVar(&p.Confidence, "confidence", "tangent", "method of these bounds: tangent, standard or cdf")
	f.StringVar(&p.ConfidenceBound, "confidence-bound", "betting", "bound of the means in standard and tangent")
	f.StringVar(&p.Band, "band", "binomial", "band of the distribution in cdf: binomial or dkw")
	f.StringVar(&p.Outputs, "outputs", "auto", "what the model returns: logits, probabilities or auto")
	f.StringVar(&p.ScoresOutput, "scores-output", "", "`name` of the model's output with the scores, where it has several")
	f.StringVar(&p.Layout, "layout", "chw", "order of the values of flat rows: chw or hwc")
	f.Float64SliceVar(&p.Mean, "mean", nil, "`values` subtracted from the noisy input, one or one a channel")
	f.Float64SliceVar(&p.Std, "std", nil, "`values` the noisy input is divided by, one or one a channel")
	f.Uint64Var(&p.Seed, "seed", 1, "seed of the noise")
	f.IntVar(&p.Skip, "skip", 1, "take every `k`-th example of the dataset")
	f.IntVar(&p.Max, "max", 0, "take at most this many examples; 0 = all")
	f.StringVar(&p.Shard, "shard", "0/1", "part `i/k` of the run, i = 0…k−1: the examples whose turn is i modulo k")
	f.StringVar(&o.device, "device", "auto", "auto, cpu or cuda[:i]")
	f.IntVar(&o.batch, "batch", 0, "samples a call of the model; 0 = choose")
	f.IntVar(&o.threads, "threads", 0, "threads; 0 = one a core")
	libraryFlag(cmd, &o.library)
	f.BoolVar(&o.resume, "resume", false, "go on where the run folder stops; begin it if there is none")
	f.BoolVar(&o.json, "json", false, "print the summary as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	return cmd
}

// shard is the part i of k of a run.
type shard struct{ i, k int }

func parseShard(s string) (shard, error) {
	a, b, ok := strings.Cut(s, "/")
	i, err1 := strconv.Atoi(a)
	k, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || k < 1 || i < 0 || i >= k {
		return shard{}, badInputf("--shard %q: want i/k with 0 ≤ i < k, as in 0/4", s)
	}
	return shard{i, k}, nil
}

// maxThreads is above the cores of any machine; each thread holds a batch.
const maxThreads = 1024

// plan is what the flags of certify mean.
type plan struct {
	shard  shard
	layout onnx.Layout
	device onnx.Device
	kind   onnx.OutputKind
	votes  certify.VoteParams
	scores certify.ScoreParams // of a run with scores
	stop   *certify.StopRule   // nil: all n samples
}

func (o certifyOptions) plan() (plan, error) {
	for _, required := range []struct{ name, value string }{{"model", o.model}, {"data", o.data}, {"out", o.out}} {
		if required.value == "" {
			return plan{}, withHint(badInputf("--%s is missing", required.name), "see 'rscert certify --help'")
		}
	}
	if o.Scores && (!(o.Temperature > 0) || math.IsInf(o.Temperature, 0)) {
		return plan{}, badInputf("--temperature %v: want a number above 0", o.Temperature)
	}
	if !(o.Sigma > 0) || math.IsInf(o.Sigma, 0) {
		return plan{}, badInputf("--sigma %v: want a number above 0", o.Sigma)
	}
	if o.N < 1 {
		return plan{}, badInputf("--n %d: want at least 1", o.N)
	}
	if o.N0 < 0 || (o.N0 == 0 && o.Class == certify.Predicted.String()) {
		return plan{}, badInputf("--n0 %d: the predicted class needs at least 1 selection sample", o.N0)
	}
	if o.Skip < 1 {
		return plan{}, badInputf("--skip %d: want at least 1", o.Skip)
	}
	if o.N > certify.MaxVotes || o.N0 > certify.MaxVotes {
		return plan{}, badInputf("--n %d and --n0 %d: want at most %d", o.N, o.N0, int64(certify.MaxVotes))
	}
	if o.Max < 0 || o.batch < 0 {
		return plan{}, badInputf("--max and --batch cannot be negative")
	}
	if o.threads < 0 || o.threads > maxThreads {
		return plan{}, badInputf("--threads %d: want 0 to %d", o.threads, maxThreads)
	}
	var p plan
	var err error
	if p.shard, err = parseShard(o.Shard); err != nil {
		return plan{}, err
	}
	p.votes = certify.VoteParams{Target: certify.Target{Alpha: o.Alpha, Sigma: o.Sigma, Lipschitz: o.Lipschitz}}
	parsers := []func() error{
		func() (err error) { p.layout, err = onnx.ParseLayout(o.Layout); return },
		func() (err error) { p.device, err = onnx.ParseDevice(o.device); return },
		func() (err error) { p.kind, err = onnx.ParseOutputKind(o.Outputs); return },
		func() error { return p.votes.Margin.UnmarshalText([]byte(o.Margin)) },
		func() error { return p.votes.Class.UnmarshalText([]byte(o.Class)) },
	}
	if o.Scores {
		parsers = append(parsers,
			func() error { return p.scores.Bound.UnmarshalText([]byte(o.Method)) },
			func() error { return p.scores.Combine.UnmarshalText([]byte(o.Combine)) },
		)
	} else {
		parsers = append(parsers, func() error { return p.votes.Method.UnmarshalText([]byte(o.Method)) })
	}
	if o.Stop != "" {
		if o.Scores {
			return plan{}, badInputf("--stop %s: only votes can be stopped early, not --scores", o.Stop)
		}
		rule, err := certify.ParseStop(o.Stop)
		if err != nil {
			return plan{}, badInput(err)
		}
		p.stop = &rule
	}
	if len(o.ConfidenceRadii) > 0 {
		confidence := &p.scores.Confidence
		confidence.Radii = o.ConfidenceRadii
		parsers = append(parsers,
			func() error { return confidence.Method.UnmarshalText([]byte(o.Confidence)) },
			func() error { return confidence.Bound.UnmarshalText([]byte(o.ConfidenceBound)) },
			func() error { return confidence.Band.UnmarshalText([]byte(o.Band)) },
		)
	}
	for _, parse := range parsers {
		if err := parse(); err != nil {
			return plan{}, badInput(err)
		}
	}
	p.scores.Margin, p.scores.Class = p.votes.Margin, p.votes.Class
	p.scores.Alpha, p.scores.Sigma, p.scores.Lipschitz = o.Alpha, o.Sigma, o.Lipschitz
	return p, nil
}

// idleFlag is a flag that plays no part without another.
type idleFlag struct{ flag, without string }

// settle fills in the flags that follow from others.
func (o *certifyOptions) settle() (idle []idleFlag) {
	o.Scores = o.Scores || o.SaveScores || len(o.ConfidenceRadii) > 0
	if o.Method == "" {
		o.Method = certify.ExactMargin.String()
		if o.Scores {
			o.Method = certify.Betting.String()
		}
	}
	// What plays no part is not a parameter of the run.
	if !o.Scores {
		o.Combine, o.Temperature = "", 0
		idle = append(idle, idleFlag{"combine", "scores"}, idleFlag{"temperature", "scores"})
	}
	if len(o.ConfidenceRadii) == 0 {
		o.Confidence, o.ConfidenceBound, o.Band = "", "", ""
		for _, flag := range []string{"confidence", "confidence-bound", "band"} {
			idle = append(idle, idleFlag{flag, "confidence-radii"})
		}
	}
	return idle
}

func runCertify(ctx context.Context, s streams, o certifyOptions) error {
	p, err := o.plan()
	if err != nil {
		return err
	}
	if p.stop != nil {
		o.Stop = p.stop.String() // as in every line of votes.jsonl
	}
	c := &certification{options: o}
	if o.Scores {
		c.byScores, err = certify.NewScoreCertifier(p.scores)
	} else {
		c.byVotes, err = certify.NewVoteCertifier(p.votes)
	}
	if err == nil && p.stop != nil {
		c.stopping, err = certify.NewStopping(p.votes, *p.stop, o.N)
	}
	if err != nil {
		return badInput(err)
	}
	modelBytes, err := os.ReadFile(o.model)
	if err != nil {
		return badInput(err)
	}
	data, err := dataset.Open(ctx, o.data, dataset.Options{Labels: o.labels})
	if err != nil {
		return badInput(err)
	}
	defer data.Close()
	ort, err := openLibrary(o.library)
	if err != nil {
		return err
	}
	defer ort.Close()
	threads := o.threads
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	model, err := ort.Load(modelBytes, onnx.LoadOptions{
		Device: p.device, Batch: o.batch, Workers: threads, Outputs: p.kind, Output: o.ScoresOutput, Scores: o.Scores,
		Example: data.Shape(),
	})
	if err != nil {
		return badInput(fmt.Errorf("%s: %w", o.model, err))
	}
	defer model.Close()
	arrangement, err := model.Fit(data.Shape(), p.layout)
	if err != nil {
		return badInput(fmt.Errorf("%s and %s: %w", o.model, o.data, err))
	}
	if err := data.CheckLabels(model.Classes()); err != nil {
		return badInput(err)
	}
	norm, err := newNormalisation(o.Mean, o.Std, arrangement, model.InputLen())
	if err != nil {
		return err
	}
	scale := norm.scale(o.Sigma)
	if low, high := slices.Min(scale), slices.Max(scale); low < minScale || high > maxScale {
		return badInputf("--sigma %v over --std %v: noise of %v to %v at the model's input is beyond float32", o.Sigma, o.Std, low, high)
	}
	if o.Scores && model.Outputs() == onnx.Probabilities && o.Temperature != 1 {
		return badInputf("--temperature %v: %s returns probabilities; a temperature is applied to logits", o.Temperature, o.model)
	}
	if note := data.Note(); note != "" && !o.quiet {
		fmt.Fprintf(s.err, "data: %s\n", note)
	}
	for _, w := range model.Warnings() {
		fmt.Fprintf(s.err, "warning: %s: %s\n", o.model, w)
	}

	positions := selectPositions(data.Len(), o.Skip, o.Max, p.shard)
	if len(positions) == 0 {
		return badInputf("--shard %s: has none of the %d examples", o.Shard, len(selectPositions(data.Len(), o.Skip, o.Max, shard{0, 1})))
	}
	run := runfolder.Run{
		Schema: runfolder.Schema, Version: version(),
		Model: runfolder.Model{
			File: o.model, SHA256: hexSHA256(modelBytes),
			Input: model.Input().String(), Output: model.Output().String(), Classes: model.Classes(),
		},
		Data: runfolder.Data{
			File: o.data, SHA256: data.SHA256(), Format: data.Format(), Shape: data.Shape(),
			Examples: data.Len(), Selected: len(positions),
		},
		Parameters: o.Parameters,
		Runtime: runfolder.Runtime{
			Library: ort.Version(), Provider: model.Provider(), Device: model.Device().String(),
			Batch: model.Batch(), Threads: threads,
		},
	}
	run.Parameters.Outputs = model.Outputs().String()
	folder, err := openFolder(o, run)
	if err != nil {
		return err
	}
	if err := agree(folder, positions, o.out); err != nil {
		return errors.Join(err, folder.Close())
	}

	c.data, c.positions, c.norm, c.folder, c.certs = data, positions, norm, folder, folder.Done()
	c.classes, c.outputs = model.Classes(), model.Outputs()
	if o.SaveScores {
		c.saved, err = folder.Scores(scorefile.Shape{Examples: len(positions), Classes: c.classes, N0: o.N0, N: o.N})
		if err != nil {
			return errors.Join(err, folder.Close())
		}
	}
	sampler := smoothing.Sampler{
		Classifier: model, Seed: o.Seed, Scale: scale, N0: o.N0, Workers: threads,
	}
	started := time.Now()
	if err = c.run(ctx, s, sampler); err == nil {
		err = folder.Finish()
	}
	if closeErr := folder.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		if errors.Is(err, context.Canceled) {
			fmt.Fprintf(s.err, "%d of %d examples are in %s; go on with --resume\n", len(c.certs), len(positions), o.out)
		} else if len(c.certs) > 0 {
			err = withHint(err, "%d of %d examples are in %s; go on with --resume", len(c.certs), len(positions), o.out)
		}
		return err
	}
	return c.report(s, time.Since(started))
}

func hexSHA256(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func openFolder(o certifyOptions, run runfolder.Run) (*runfolder.Folder, error) {
	open := runfolder.Create
	if o.resume {
		open = runfolder.Resume
	}
	folder, err := open(o.out, run)
	var mismatch *runfolder.MismatchError
	switch {
	case errors.Is(err, runfolder.ErrExists):
		return nil, withHint(badInput(err), "go on with it by --resume, or choose another --out")
	case errors.As(err, &mismatch):
		return nil, badInput(err)
	}
	return folder, err
}

// selectPositions are the positions in the dataset of the examples to certify.
func selectPositions(n, skip, limit int, s shard) []int {
	var positions []int
	for turn, i := 0, 0; i < n && (limit == 0 || turn < limit); turn, i = turn+1, i+skip {
		if turn%s.k == s.i {
			positions = append(positions, i)
		}
	}
	return positions
}

// agree checks that a resumed folder holds the first of the positions.
func agree(folder *runfolder.Folder, positions []int, dir string) error {
	done := folder.Done()
	if len(done) > len(positions) {
		return fmt.Errorf("%s: holds %d examples of a run of %d", dir, len(done), len(positions))
	}
	for i, c := range done {
		if c.Index != positions[i] {
			return fmt.Errorf("%s: line %d is example %d, not %d as in this run", dir, i+1, c.Index, positions[i])
		}
	}
	return nil
}
