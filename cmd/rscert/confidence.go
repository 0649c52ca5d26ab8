package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/runfolder"
)

// confidenceOptions are the flags of confidence as given.
type confidenceOptions struct {
	radii                              []float64
	method, bound, band                string
	combine, class                     string
	alpha, sigma, temperature          float64
	n0                                 int64
	out                                string
	json, quiet                        bool
	alphaGiven, sigmaGiven, classGiven bool
}

func newConfidence(s streams) *cobra.Command {
	var o confidenceOptions
	cmd := &cobra.Command{
		Use:   "confidence RUN | scores.npz --radii R,…",
		Short: "Bound the confidence under attack",
		Long: `Confidence bounds the mean score z(x+δ) = E f_A(x+δ+ε) of the certified class A for
every perturbation with ‖δ‖ ≤ R (L2), with probability at least 1 − alpha an
example: half of alpha is spent on the class, half on the interval. Only examples
whose class is certified at R appear.

standard: Φ(Φ⁻¹(z̲)−R/σ) ≤ z ≤ Φ(Φ⁻¹(z̄)+R/σ) (Kumar et al. 2020, Theorem 1);
cdf: the same for every threshold on the score, from a band for its distribution
(their Theorem 2, with the term that emde 2025, eq. 13, leaves out);
tangent (default): the tangent of cdf's sum at the selection samples' distribution,
a mean, which needs no band.

--out writes bounds.csv, the input of 'rscert acce'.`,
		Example: `  rscert certify --model cnn.onnx --data mnist/ --sigma 0.5 --n 1000 --save-scores --out run
  rscert confidence run --radii 0.25,0.5 --out bounds.csv
  rscert confidence run --radii 0.25,0.5 --method cdf --band dkw --json
  rscert confidence scores.npz --sigma 0.5 --n0 100 --radii 0.25 --bound hoeffding`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return badInputf("want one run folder or scores.npz, got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.alphaGiven = cmd.Flags().Changed("alpha")
			o.sigmaGiven = cmd.Flags().Changed("sigma")
			o.classGiven = cmd.Flags().Changed("class")
			return runConfidence(cmd.Context(), s, args[0], o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Float64SliceVar(&o.radii, "radii", nil, "radii of the attack (L2), in the units of the data")
	f.StringVar(&o.method, "method", "tangent", "tangent, standard or cdf")
	f.StringVar(&o.bound, "bound", "betting", "bound on means: betting, hoeffding (the papers' for standard), bernstein, prpl-eb, chernoff, star")
	f.StringVar(&o.band, "band", "binomial", "band of cdf: binomial (tight in the tails) or dkw (the papers')")
	f.StringVar(&o.combine, "combine", "directed", "how the class is certified: directed, projected or bonferroni")
	f.StringVar(&o.class, "class", "predicted", "class to certify: predicted or label; of a run, as it was run")
	f.Float64Var(&o.alpha, "alpha", 0.001, "allowed failure probability of an example; of a run, as it was run")
	f.Float64Var(&o.sigma, "sigma", 0, "standard deviation σ of the noise; of a run, as it was run")
	f.Int64Var(&o.n0, "n0", 0, "take the first `k` samples for the selection, where the file has none")
	f.Float64Var(&o.temperature, "temperature", 1, "temperature of the saved probabilities, relative to the one they were saved with")
	f.StringVar(&o.out, "out", "", "write the bounds to this CSV `file`")
	f.BoolVar(&o.json, "json", false, "print the bounds as JSON")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	return cmd
}

// params parses the flags; those not given are those of the run.
func (o confidenceOptions) params(run *runfolder.Run) (certify.ScoreParams, error) {
	if len(o.radii) == 0 {
		return certify.ScoreParams{}, badInputf("--radii is missing")
	}
	if run != nil {
		if !o.alphaGiven {
			o.alpha = run.Parameters.Alpha
		}
		if !o.classGiven {
			o.class = run.Parameters.Class
		}
		if o.sigmaGiven && o.sigma != run.Parameters.Sigma {
			return certify.ScoreParams{}, badInputf("--sigma %v: the run's noise has σ = %v", o.sigma, run.Parameters.Sigma)
		}
		o.sigma = run.Parameters.Sigma
	}
	p := certify.ScoreParams{Target: certify.Target{Alpha: o.alpha, Sigma: o.sigma}}
	p.Confidence.Radii = o.radii
	for _, parse := range []func() error{
		func() error { return p.Confidence.Method.UnmarshalText([]byte(o.method)) },
		func() error { return p.Confidence.Bound.UnmarshalText([]byte(o.bound)) },
		func() error { return p.Confidence.Band.UnmarshalText([]byte(o.band)) },
		func() error { return p.Combine.UnmarshalText([]byte(o.combine)) },
		func() error { return p.Class.UnmarshalText([]byte(o.class)) },
	} {
		if err := parse(); err != nil {
			return p, badInput(err)
		}
	}
	if !p.Combine.Sound() {
		return p, badInputf("--combine %s is not sound: it cannot certify the class", p.Combine)
	}
	p.Bound = p.Confidence.Bound
	return p, nil
}

func runConfidence(ctx context.Context, s streams, path string, o confidenceOptions) error {
	if err := checkOutput("out", o.out, path); err != nil {
		return err
	}
	source, err := findScores(path)
	if err != nil {
		return err
	}
	params, err := o.params(source.run)
	if err != nil {
		return err
	}
	report := newConfidenceReport(params)
	err = certifyScores(ctx, s, scoreRequest{source, params, o.n0, o.temperature, o.quiet}, report.add)
	if err != nil {
		return err
	}
	report.finish()
	if o.out != "" {
		var b bytes.Buffer
		if err := runfolder.WriteBounds(&b, report.Bounds, report.Examples); err != nil {
			return err
		}
		if err := runfolder.WriteFile(o.out, b.Bytes()); err != nil {
			return err
		}
	}
	if o.json {
		return printJSON(s.out, report)
	}
	return report.write(s.out)
}

// confidenceReport is the result of confidence.
type confidenceReport struct {
	Examples int                       `json:"examples"`
	Method   string                    `json:"method"`
	Alpha    float64                   `json:"alpha"` // of class and interval together
	Sigma    float64                   `json:"sigma"`
	N        int64                     `json:"n"`
	Radii    []radiusConfidence        `json:"radii"`
	Bounds   []certify.ConfidenceBound `json:"bounds"`
}

// radiusConfidence sums up one radius.
type radiusConfidence struct {
	Radius    float64 `json:"radius"`
	Certified int     `json:"certified"` // examples with bounds
	LeftOut   int     `json:"left_out"`  // class not certified at the radius
	Lower     float64 `json:"mean_lower"`
	Upper     float64 `json:"mean_upper"`
	Width     float64 `json:"mean_width"`
}

func newConfidenceReport(p certify.ScoreParams) *confidenceReport {
	r := &confidenceReport{
		Method: p.Confidence.String(), Alpha: p.Alpha, Sigma: p.Sigma, Bounds: []certify.ConfidenceBound{},
	}
	for _, radius := range p.Confidence.Radii {
		r.Radii = append(r.Radii, radiusConfidence{Radius: radius})
	}
	return r
}

func (r *confidenceReport) add(cert certify.Certificate, bounds []certify.ConfidenceBound) {
	r.Examples++
	r.N = cert.N
	r.Bounds = append(r.Bounds, bounds...)
	for i := range r.Radii {
		at := &r.Radii[i]
		at.LeftOut++
		for _, b := range bounds {
			if b.Radius == at.Radius {
				at.LeftOut--
				at.Certified++
				at.Lower += b.Lower
				at.Upper += b.Upper
				break
			}
		}
	}
}

// finish turns the sums into means.
func (r *confidenceReport) finish() {
	for i := range r.Radii {
		at := &r.Radii[i]
		if at.Certified > 0 {
			at.Lower /= float64(at.Certified)
			at.Upper /= float64(at.Certified)
			at.Width = at.Upper - at.Lower
		}
	}
}

func (r *confidenceReport) write(w io.Writer) error {
	fmt.Fprintf(w, "confidence of the certified class under attack, %s (%d examples, n = %d, σ = %g, α = %g)\n\n",
		r.Method, r.Examples, r.N, r.Sigma, r.Alpha)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "radius\tcertified\tleft out\tmean lower\tmean upper\tmean width\t\n")
	for _, at := range r.Radii {
		fmt.Fprintf(t, "%g\t%d\t%d\t", at.Radius, at.Certified, at.LeftOut)
		if at.Certified == 0 {
			fmt.Fprint(t, "–\t–\t–\t\n")
			continue
		}
		fmt.Fprintf(t, "%s\t%.4f\t%.4f\t\n", floorDecimals(at.Lower, 4), math.Ceil(at.Upper*1e4)/1e4, at.Width)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nleft out: the class is not certified at the radius")
	return err
}
