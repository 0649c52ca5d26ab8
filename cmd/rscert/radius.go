package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
)

// radiusOptions are the flags of radius as given.
type radiusOptions struct {
	methods                      []string
	margin, class, combine       string
	alpha, sigma, lipschitz      float64
	temperature                  float64
	n0                           int64
	radii                        []float64
	out                          string
	json, quiet                  bool
	alphaGiven, sigmaGiven       bool
	marginGiven, classGiven      bool
	lipschitzGiven, combineGiven bool
}

func newRadius(s streams) *cobra.Command {
	var o radiusOptions
	cmd := &cobra.Command{
		Use:   "radius RUN | votes.jsonl | scores.npz",
		Short: "Certify saved votes or scores again, without the model",
		Long: `Radius certifies the votes of a run, or of a file, again: with other methods, another
alpha, class or margin. Several methods give a table to compare them by. What is
not given is taken from the run; a file from elsewhere needs --sigma.

From votes:
  margin           exact margin search: Buehler's bound for the bonferroni order (default)
  bonferroni       Clopper–Pearson for class and runner-up at alpha/2 each
  clopper-pearson  Cohen et al. 2019: the class alone, abstains below ½
  moutaouakil      as printed in moutaouakil 2024; not sound, to reproduce its tables
From scores (scores.npz, or a run with --save-scores): betting, hoeffding, bernstein,
prpl-eb, chernoff, star, combined as --combine says.

With the second margin Φ⁻¹(p_A)−Φ⁻¹(p_B) the radius is σ/2 times the margin; with the
first, p_A−p_B, it is σ√(π/2) times the margin, or margin/(√2·L) with --lipschitz L, a
Lipschitz constant of the smoothed probabilities. Votes that were stopped early are
certified by their share of alpha at that number of samples.`,
		Example: `  rscert radius run --method clopper-pearson,bonferroni,margin
  rscert radius run --alpha 0.01 --margin first --out certificates.jsonl
  rscert radius votes.jsonl --sigma 0.25 --class label --json
  rscert radius scores.npz --sigma 0.5 --n0 100 --method betting,hoeffding`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return badInputf("want one run folder, votes.jsonl or scores.npz, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flags().Changed
			o.alphaGiven, o.sigmaGiven, o.marginGiven = given("alpha"), given("sigma"), given("margin")
			o.classGiven, o.lipschitzGiven, o.combineGiven = given("class"), given("lipschitz"), given("combine")
			return runRadius(cmd.Context(), s, args[0], o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringSliceVar(&o.methods, "method", nil, "methods, comma-separated; of a run, as it was run; else margin, or betting for scores")
	f.StringVar(&o.margin, "margin", "second", "margin to certify: second (Φ⁻¹(p_A)−Φ⁻¹(p_B)) or first (p_A−p_B)")
	f.StringVar(&o.class, "class", "predicted", "class to certify: predicted (needs n0 and counts0) or label")
	f.Float64Var(&o.alpha, "alpha", 0.001, "allowed failure probability of a certificate")
	f.Float64Var(&o.sigma, "sigma", 0, "standard deviation σ of the noise; of a run, as it was run")
	f.Float64Var(&o.lipschitz, "lipschitz", 0, "known Lipschitz constant for --margin first; 0 = use the smoothed classifier's")
	f.StringVar(&o.combine, "combine", "directed", "how scores bound a margin: directed, projected, bonferroni or taylor (not sound)")
	f.Float64Var(&o.temperature, "temperature", 1, "temperature of saved scores, relative to the one they were saved with")
	f.Int64Var(&o.n0, "n0", 0, "take the first `k` scores for the selection, where the file has none")
	f.Float64SliceVar(&o.radii, "radii", nil, "radii of the table; default: round ones")
	f.StringVar(&o.out, "out", "", "write the certificates of the one method to this JSON lines `file`")
	f.BoolVar(&o.json, "json", false, "print the summaries as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	return cmd
}

// recertification is what the flags of radius and the run mean.
type recertification struct {
	path       string
	run        *runfolder.Run // nil: a file from elsewhere
	votes      []certify.VoteParams
	scores     []certify.ScoreParams
	methods    []string // of votes and scores, in the order asked for
	fromScores []bool
}

// findRun returns the run folder that path is, or is the votes or scores of.
func findRun(path string) (*runfolder.Run, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, badInput(err)
	}
	dir := path
	if !info.IsDir() {
		dir = filepath.Dir(path)
		if name := filepath.Base(path); name != runfolder.VotesFile && name != runfolder.ScoresFile {
			return nil, nil
		}
		if _, err := os.Stat(filepath.Join(dir, runfolder.RunFile)); errors.Is(err, os.ErrNotExist) {
			return nil, nil
		}
	}
	run, err := runfolder.Read(dir)
	if err != nil {
		return nil, badInput(err)
	}
	return &run, nil
}

func (o radiusOptions) plan(path string) (r recertification, err error) {
	r.path = path
	if r.run, err = findRun(path); err != nil {
		return r, err
	}
	npz := strings.HasSuffix(path, ".npz")
	if r.run != nil {
		o.from(r.run.Parameters)
		if o.sigmaGiven && o.sigma != r.run.Parameters.Sigma {
			return r, badInputf("--sigma %v: the run's noise has σ = %v", o.sigma, r.run.Parameters.Sigma)
		}
		o.sigma = r.run.Parameters.Sigma
	}
	if len(o.methods) == 0 {
		o.methods = []string{certify.ExactMargin.String()}
		if npz {
			o.methods[0] = certify.Betting.String()
		}
	}
	if !(o.sigma > 0) || math.IsInf(o.sigma, 1) {
		if !o.sigmaGiven {
			return r, withHint(badInputf("--sigma is missing"), "%s does not say the σ of its noise", path)
		}
		return r, badInputf("--sigma %v: want a number above 0", o.sigma)
	}
	for _, radius := range o.radii {
		if !(radius >= 0) || math.IsInf(radius, 1) {
			return r, badInputf("--radii %v: want numbers from 0", o.radii)
		}
	}
	if o.out != "" && len(o.methods) != 1 {
		return r, badInputf("--out takes the certificates of one method, not of %d", len(o.methods))
	}
	votes := certify.VoteParams{Target: certify.Target{Alpha: o.alpha, Sigma: o.sigma, Lipschitz: o.lipschitz}}
	scores := certify.ScoreParams{Target: certify.Target{Alpha: o.alpha, Sigma: o.sigma, Lipschitz: o.lipschitz}}
	for _, parse := range []func() error{
		func() error { return votes.Margin.UnmarshalText([]byte(o.margin)) },
		func() error { return votes.Class.UnmarshalText([]byte(o.class)) },
		func() error { return scores.Combine.UnmarshalText([]byte(o.combine)) },
	} {
		if err := parse(); err != nil {
			return r, badInput(err)
		}
	}
	scores.Margin, scores.Class = votes.Margin, votes.Class
	for _, name := range o.methods {
		var byVotes certify.VoteMethod
		var byScores certify.MeanBound
		voteErr, scoreErr := byVotes.UnmarshalText([]byte(name)), byScores.UnmarshalText([]byte(name))
		switch {
		case voteErr == nil && npz:
			return r, badInputf("--method %s is for votes; %s holds scores", name, path)
		case voteErr == nil:
			votes.Method = byVotes
			r.votes = append(r.votes, votes)
		case scoreErr == nil:
			scores.Bound = byScores
			r.scores = append(r.scores, scores)
		default:
			return r, withHint(badInputf("--method %s is unknown", name), "see 'rscert radius --help'")
		}
		r.fromScores = append(r.fromScores, voteErr != nil)
	}
	r.methods = o.methods
	return r, nil
}

// from takes what is not given from a run.
func (o *radiusOptions) from(p runfolder.Parameters) {
	if len(o.methods) == 0 {
		o.methods = []string{p.Method}
		// Without its scores a run has votes still.
		if p.Scores && !p.SaveScores {
			o.methods = nil
		}
	}
	if !o.alphaGiven {
		o.alpha = p.Alpha
	}
	if !o.classGiven {
		o.class = p.Class
	}
	if !o.marginGiven {
		o.margin = p.Margin
	}
	if !o.lipschitzGiven && o.margin == p.Margin {
		o.lipschitz = p.Lipschitz
	}
	if !o.combineGiven && p.Combine != "" {
		o.combine = p.Combine
	}
}

func runRadius(ctx context.Context, s streams, path string, o radiusOptions) error {
	if err := checkOutput("out", o.out, path); err != nil {
		return err
	}
	r, err := o.plan(path)
	if err != nil {
		return err
	}
	var votes []certify.Votes
	if len(r.votes) > 0 {
		if votes, err = r.readVotes(); err != nil {
			return err
		}
	}
	bar := progress.Start(progress.Options{Writer: s.err, Terminal: s.terminal(), Quiet: o.quiet}, "certificates", int64(len(votes)*len(r.votes)), 0)
	defer bar.Finish()
	var sets [][]certify.Certificate
	for _, scores := range r.fromScores {
		var certs []certify.Certificate
		if scores {
			if certs, err = r.fromNextScores(ctx, s, o); err != nil {
				return err
			}
		} else {
			if certs, err = certifyVotes(ctx, r.votes[0], votes, bar); err != nil {
				return err
			}
			r.votes = r.votes[1:]
		}
		sets = append(sets, certs)
	}
	bar.Finish()
	if o.out != "" {
		if err := runfolder.WriteCertificates(o.out, sets[0]); err != nil {
			return err
		}
	}
	radii := o.radii
	if len(radii) == 0 {
		radii = certify.SummaryRadii(sets...)
	}
	report := radiusReport{File: path}
	for _, certs := range sets {
		report.Methods = append(report.Methods, certify.Summarize(certs, radii))
	}
	if o.json {
		return printJSON(s.out, report)
	}
	return writeSummaries(s.out, report.Methods)
}

// radiusReport is what radius --json prints.
type radiusReport struct {
	File    string            `json:"file"`
	Methods []certify.Summary `json:"methods"`
}

// fromNextScores certifies by the next of r.scores.
func (r *recertification) fromNextScores(ctx context.Context, s streams, o radiusOptions) (certs []certify.Certificate, err error) {
	source, err := findScores(r.path)
	if err != nil {
		return nil, err
	}
	err = certifyScores(ctx, s, scoreRequest{source, r.scores[0], o.n0, o.temperature, o.quiet},
		func(c certify.Certificate, _ []certify.ConfidenceBound) { certs = append(certs, c) })
	r.scores = r.scores[1:]
	return certs, err
}

// readVotes reads the votes and checks that all of them can be certified.
func (r recertification) readVotes() ([]certify.Votes, error) {
	classes := 0
	votes, err := runfolder.ReadVotes(r.path, func(v certify.Votes) error {
		if classes == 0 {
			classes = len(v.Counts)
		}
		if len(v.Counts) != classes {
			return fmt.Errorf("counts has %d classes, the lines before have %d", len(v.Counts), classes)
		}
		if r.run != nil && r.run.Parameters.Stop != v.Stop.String() {
			return fmt.Errorf("stop is %q, the run's %q", v.Stop, r.run.Parameters.Stop)
		}
		return v.Certifiable(r.votes[0].Class)
	})
	switch {
	case errors.Is(err, certify.ErrNoSelection):
		return nil, withHint(badInput(err), "certify the label by --class label")
	case err != nil:
		return nil, badInput(err)
	case len(votes) == 0:
		return nil, badInputf("%s: no votes", r.path)
	}
	return votes, nil
}

// certifyVotes certifies all examples, on all cores.
func certifyVotes(ctx context.Context, p certify.VoteParams, votes []certify.Votes, bar *progress.Bar) ([]certify.Certificate, error) {
	certifier, err := certify.NewVoteCertifier(p)
	if err != nil {
		return nil, badInput(err)
	}
	certs := make([]certify.Certificate, len(votes))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, v := range votes {
		g.Go(func() (err error) {
			if err := ctx.Err(); err != nil {
				return err
			}
			certs[i], err = certifier.Certify(v)
			bar.Add(1, "")
			return err
		})
	}
	return certs, g.Wait()
}
