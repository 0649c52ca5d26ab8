package main

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/onnx"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/scorefile"
	"github.com/rscert/rscert/internal/smoothing"
)

// Noise outside these standard deviations is lost to float32, or is infinite.
const minScale, maxScale = 1e-30, 1e30

// normalisation is what is done to an example between noise and model:
// (x − mean)/std, per value of the model's input.
type normalisation struct {
	onnx.Arrangement
	mean, std []float32
}

func newNormalisation(mean, std []float64, a onnx.Arrangement, inputLen int) (normalisation, error) {
	n := normalisation{Arrangement: a, mean: make([]float32, inputLen), std: make([]float32, inputLen)}
	for _, f := range []struct {
		flag     string
		values   []float64
		absent   float64
		positive bool
		to       []float32
	}{{"mean", mean, 0, false, n.mean}, {"std", std, 1, true, n.std}} {
		values := f.values
		if len(values) == 0 {
			values = []float64{f.absent}
		}
		if len(values) != 1 && len(values) != a.Channels {
			return n, badInputf("--%s has %d values; the model's input has %d channels", f.flag, len(values), a.Channels)
		}
		for _, v := range values {
			if x := float32(v); x-x != 0 || (f.positive && x <= 0) {
				return n, badInputf("--%s %v: want numbers within float32, for --std above 0", f.flag, values)
			}
		}
		for j := range f.to {
			v := values[0]
			if len(values) > 1 {
				v = values[a.Channel(j)]
			}
			f.to[j] = float32(v)
		}
	}
	return n, nil
}

// clean is the example as the model would see it without noise.
func (n normalisation) clean(example []float32) []float32 {
	in := make([]float32, len(n.mean))
	n.Arrange(in, example)
	for j, v := range in {
		in[j] = (v - n.mean[j]) / n.std[j]
	}
	return in
}

// scale is the noise's standard deviation at the model's input: rounded up, as
// radii are stated for σ and more noise certifies no less.
func (n normalisation) scale(sigma float64) []float32 {
	scale := make([]float32, len(n.std))
	for j, std := range n.std {
		s := float32(sigma / float64(std))
		if float64(s)*float64(std) < sigma {
			s = math.Nextafter32(s, float32(math.Inf(1)))
		}
		scale[j] = s
	}
	return scale
}

// certification is a run under way.
type certification struct {
	options   certifyOptions
	data      *dataset.Dataset
	positions []int
	norm      normalisation
	classes   int
	outputs   onnx.OutputKind
	byVotes   *certify.VoteCertifier
	byScores  *certify.ScoreCertifier // of a run with scores, else nil
	stopping  *certify.Stopping       // nil: every example gets all n samples
	folder    *runfolder.Folder
	saved     *scorefile.Writer // nil: scores are not kept
	bar       *progress.Bar
	started   time.Time
	drawn     atomic.Int64

	certs   []certify.Certificate // in the folder; owned by Emit
	correct int                   // of certs
}

func (c *certification) run(ctx context.Context, s streams, sampler smoothing.Sampler) error {
	o := c.options
	perExample := o.N0 + o.N
	for _, cert := range c.certs {
		c.count(cert)
	}
	if len(c.certs) > 0 && !o.quiet {
		fmt.Fprintf(s.err, "resuming %s: %d of %d examples are done\n", o.out, len(c.certs), len(c.positions))
	}
	c.started = time.Now()
	c.bar = progress.Start(progress.Options{Writer: s.err, Terminal: s.terminal(), Quiet: o.quiet},
		"certify", int64(len(c.positions))*perExample, int64(len(c.certs))*perExample)
	defer c.bar.Finish()
	sampler.Progress = func(n int64) {
		c.drawn.Add(n)
		c.bar.Add(n, "")
	}
	next := len(c.certs)
	return sampler.Run(ctx, func() (smoothing.Experiment, error) {
		if next == len(c.positions) {
			return nil, nil
		}
		example, err := c.data.Example(c.positions[next])
		if err != nil {
			return nil, badInput(err)
		}
		next++
		e := &experiment{certification: c, clean: c.norm.clean(example.Values)}
		e.Votes.Index, e.Votes.Label = example.Index, example.Label
		if c.byScores == nil {
			return e, nil
		}
		scores, err := c.byScores.Start(certify.ScoreExample{
			Index: example.Index, Label: example.Label, Classes: c.classes, N0: o.N0, N: o.N,
		})
		if err == nil && c.saved != nil {
			err = c.saved.WriteExample(next-1, example.Index, example.Label)
		}
		return &scoreExperiment{experiment: e, scores: scores, turn: next - 1}, err
	})
}

func (c *certification) count(cert certify.Certificate) {
	if cert.Correct {
		c.correct++
	}
}

// experiment is one example of a run, certified by its votes. It implements
// smoothing.Experiment.
type experiment struct {
	*certification
	runfolder.Record
	clean []float32
}

func (e *experiment) Input() (int, []float32) { return e.Votes.Index, e.clean }

func (e *experiment) Goal(t smoothing.Votes) (int64, error) {
	if e.stopping == nil {
		return e.options.N, nil
	}
	e.tally(t)
	return e.stopping.Next(e.Votes)
}

func (e *experiment) Finish(t smoothing.Votes) (err error) {
	e.tally(t)
	if e.stopping != nil {
		if err := e.stopping.Mark(&e.Votes); err != nil {
			return err
		}
	}
	e.Certificate, err = e.byVotes.Certify(e.Votes)
	return err
}

func (e *experiment) tally(t smoothing.Votes) {
	e.Votes.N, e.Votes.Counts, e.Votes.None = t.N, t.Counts, t.None
	if t.N0 > 0 {
		e.Votes.N0, e.Votes.Counts0, e.Votes.None0 = t.N0, t.Counts0, t.None0
	}
}

func (e *experiment) Emit() error {
	if err := e.folder.Append(e.Record); err != nil {
		return err
	}
	e.certs = append(e.certs, e.Certificate)
	e.count(e.Certificate)
	rate := float64(e.drawn.Load()) / time.Since(e.started).Seconds()
	e.bar.Add(e.options.N-e.Votes.N, fmt.Sprintf("%d/%d examples, certified accuracy %.1f %%, %.0f samples/s",
		len(e.certs), len(e.positions), 100*float64(e.correct)/float64(len(e.certs)), rate))
	return nil
}

// scoreExperiment is an experiment certified by its scores. It implements
// smoothing.Observer.
type scoreExperiment struct {
	*experiment
	scores *certify.ScoreAccumulator
	turn   int      // the example's place in the run
	seen   [2]int64 // samples, by phase
	probs  []float32
}

func (e *scoreExperiment) Observe(phase smoothing.Phase, outputs []float32) error {
	if len(e.probs) < len(outputs) {
		e.probs = make([]float32, len(outputs))
	}
	probs := e.probs[:len(outputs)]
	if e.outputs == onnx.Logits {
		certify.Softmax(outputs, probs, e.classes, e.options.Temperature)
	} else {
		copy(probs, outputs)
		certify.ClearNone(probs, e.classes)
	}
	take, save := e.scores.Estimation, e.saved.WriteEstimation
	if phase == smoothing.Selection {
		take, save = e.scores.Selection, e.saved.WriteSelection
	}
	if e.saved != nil {
		if err := save(e.turn, e.seen[phase], probs); err != nil {
			return err
		}
		e.seen[phase] += int64(len(probs) / e.classes)
	}
	return take(probs)
}

func (e *scoreExperiment) Finish(t smoothing.Votes) (err error) {
	e.tally(t)
	if e.Certificate, err = e.scores.Certificate(); err == nil {
		e.Bounds = e.scores.Confidence(e.Certificate)
	}
	return err
}

// report prints what the run found.
func (c *certification) report(s streams, took time.Duration) error {
	summary := certify.Summarize(c.certs, certify.SummaryRadii(c.certs))
	drawn := c.drawn.Load()
	rate := float64(drawn) / took.Seconds()
	if c.options.json {
		return printJSON(s.out, struct {
			certify.Summary
			Out              string  `json:"out"`
			SamplesDrawn     int64   `json:"samples_drawn"` // by this process, selection included
			Seconds          float64 `json:"seconds"`
			SamplesPerSecond float64 `json:"samples_per_second"`
		}{summary, c.options.out, drawn, took.Seconds(), rate})
	}
	if err := writeSummaries(s.out, []certify.Summary{summary}); err != nil {
		return err
	}
	fmt.Fprintln(s.out)
	if drawn > 0 {
		fmt.Fprintf(s.out, "%d samples in %s, %.0f samples/s\n", drawn, took.Round(100*time.Millisecond), rate)
	}
	fmt.Fprintf(s.out, "results are in %s\n", c.options.out)
	return nil
}
