// Command conformal compares rules that make prediction sets from saved scores. It divides the examples of a run at
// random into calibration examples and queries, many times. The divisions are the same for all rules and attacks. The
// command prints a table for docs/conformal.md, with the mean size and the coverage of the sets of each rule.
//
// The first argument is the file with the run's saved scores. Each further argument is RHO=SCORES, where RHO is
// radius/σ and SCORES is a file with the scores of the same examples under attack. To make this file,
// 'rscert attack --keep all' writes the attacked examples to worst.npz, and 'rscert certify' saves their scores.
//
//	rscert certify --model testdata/mnist-cnn.onnx --data testdata/mnist --sigma 0.5 --n 512 --n0 0 --class label \
//	  --save-scores --out run
//	rscert attack --model testdata/mnist-cnn.onnx --data testdata/mnist --smoothed --sigma 0.5 --eps 0.25 --keep all \
//	  --steps 20 --out worst
//	rscert certify --model testdata/mnist-cnn.onnx --data worst/worst.npz --sigma 0.5 --n 512 --n0 0 --class label \
//	  --save-scores --out attacked
//	go run ./studies/conformal -name sizes run/scores.npz 0.5=attacked/scores.npz | go run ./studies/page docs/conformal.md
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/rscert/rscert/internal/conformal"
	"github.com/rscert/rscert/internal/scorefile"
)

func main() {
	var s study
	flag.IntVar(&s.splits, "splits", 100, "number of random splits")
	flag.Float64Var(&s.sigma, "sigma", 0.5, "scale of the noise")
	flag.StringVar(&s.name, "name", "", "name of the table in docs/conformal.md")
	flag.StringVar(&s.order, "order", "", "write the order of the examples in each split to this file, instead of the table")
	flag.Parse()
	if err := s.run(os.Stdout, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// example holds an example's label and the model's probabilities for its noisy copies, one copy after the other.
type example struct {
	label int
	probs []float64
}

// data holds the saved scores.
type data struct {
	examples []example
	draws    int64
	classes  int
}

func read(path string) (d data, err error) {
	r, err := scorefile.Open(path)
	if err != nil {
		return d, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	d.draws, d.classes = r.N, r.Classes
	for {
		_, label, err := r.Next()
		if errors.Is(err, io.EOF) {
			return d, nil
		}
		if err != nil {
			return d, err
		}
		e := example{label: label}
		if err := r.Estimation(func(probs []float32) error {
			for _, p := range probs {
				e.probs = append(e.probs, float64(p))
			}
			return nil
		}); err != nil {
			return d, err
		}
		d.examples = append(d.examples, e)
	}
}

// rule is one row of the table: the name and the parameters of a rule.
type rule struct {
	name   string
	params conformal.Params
}

// rules lists the rules that the table compares, for the given σ, radius and miss probability.
func rules(sigma, radius, miss float64) []rule {
	of := func(name string, r conformal.Rule, draws, calibration int64) rule {
		return rule{name, conformal.Params{
			Rule: r, Scorer: conformal.NewScorer(conformal.THR), Miss: miss, Guarantee: conformal.Marginal, Draws: draws, CalibrationDraws: calibration,
			Attack: conformal.Attack{Scale: sigma, Radius: radius},
		}}
	}
	return []rule{
		of("`count`", conformal.Count, 20, 20),
		of("`count`", conformal.Count, 100, 100),
		of("`weights`", conformal.Weights, 1, 64),
		of("`rcp1`", conformal.RCP1, 1, 1),
		of("`bincp`", conformal.BinCP, 100, 100),
		of("`bincp`", conformal.BinCP, 512, 512),
		of("`clean`", conformal.Clean, 1, 1),
	}
}

// figures holds means over splits. The field Attacked is the coverage under attack, or NaN if there is no attack.
type figures struct {
	Size, Coverage, Attacked float64
	design                   *conformal.Design
}

// cell returns the figures as the text of a table's cell.
func (f figures) cell() string {
	if math.IsNaN(f.Attacked) {
		return fmt.Sprintf("%.3f (%.3f)", f.Size, f.Coverage)
	}
	return fmt.Sprintf("%.3f (%.3f, %.3f)", f.Size, f.Coverage, f.Attacked)
}

// orders calls the function 'do' with the order of the examples in each split. The first half of each order holds the
// calibration examples.
func (d data) orders(splits int, do func(order []int) error) error {
	random := rand.New(rand.NewPCG(1, 2))
	order := make([]int, len(d.examples))
	for i := range order {
		order[i] = i
	}
	for range splits {
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		if err := do(order); err != nil {
			return err
		}
	}
	return nil
}

// measure computes the figures of a rule. The argument 'attacked' holds the same examples under attack. It is empty if
// there is no attack.
func (d data) measure(r rule, splits int, attacked data) (f figures, err error) {
	if f.design, err = conformal.NewDesign(r.params); err != nil {
		return f, err
	}
	queries := 0.
	if len(attacked.examples) == 0 {
		f.Attacked = math.NaN()
	}
	err = d.orders(splits, func(order []int) error {
		half := len(order) / 2
		p, err := d.fit(f.design, order[:half])
		if err != nil {
			return err
		}
		for _, i := range order[half:] {
			set, err := d.query(p, d.examples[i])
			if err != nil {
				return err
			}
			queries++
			f.Size += float64(len(set))
			if slices.Contains(set, d.examples[i].label) {
				f.Coverage++
			}
			if len(attacked.examples) == 0 {
				continue
			}
			if set, err = d.query(p, attacked.examples[i]); err != nil {
				return err
			}
			if slices.Contains(set, d.examples[i].label) {
				f.Attacked++
			}
		}
		return nil
	})
	f.Size, f.Coverage, f.Attacked = f.Size/queries, f.Coverage/queries, f.Attacked/queries
	return f, err
}

// fit fits a predictor on some examples. It uses the first design.M noisy copies of each example.
func (d data) fit(design *conformal.Design, which []int) (*conformal.Predictor, error) {
	if design.M > d.draws || design.QueryM > d.draws {
		return nil, fmt.Errorf("the run has %d draws, and the rule %s needs %d", d.draws, design.Rule, max(design.M, design.QueryM))
	}
	c := design.Calibrator()
	for _, i := range which {
		e := d.examples[i]
		point := conformal.Point{Label: e.label}
		for k := range int(design.M) {
			point.Scores = append(point.Scores, design.Score(e.probs[k*d.classes:(k+1)*d.classes], e.label, 0))
		}
		if err := c.Add(point); err != nil {
			return nil, err
		}
	}
	return c.Predictor(d.classes)
}

// query returns the prediction set of an example.
func (d data) query(p *conformal.Predictor, e example) ([]int, error) {
	thresholds, counts := p.Thresholds(""), make([]int64, d.classes)
	var verdicts []conformal.Verdict
	var scores []float64
	drawn := int64(0)
	for decided := false; drawn < p.QueryM && !decided; {
		row := e.probs[int(drawn)*d.classes : int(drawn+1)*d.classes]
		scores = p.Scores(scores, row, 0)
		conformal.CountDraw(counts, scores, thresholds)
		drawn++
		verdicts, decided = p.Decide(verdicts, counts, drawn)
	}
	return p.Set(counts, drawn)
}

// The table has a column for each combination of a radius in 'shifts' and a miss probability in 'misses'.
var (
	shifts = []float64{0.5, 1} // radius in units of sigma
	misses = []float64{0.1, 0.05, 0.01}
)

// study holds the settings of the comparison.
type study struct {
	sigma  float64
	splits int
	name   string
	order  string
}

// run prints the table: mean sizes, with coverages in brackets.
func (s study) run(w io.Writer, paths []string) error {
	if len(paths) == 0 {
		return errors.New("want the scores of a run, and RHO=SCORES for each attack")
	}
	d, err := read(paths[0])
	if err != nil {
		return err
	}
	if s.order != "" {
		return d.writeOrders(s.order, s.splits)
	}
	attacked, err := d.readAttacked(paths[1:])
	if err != nil {
		return err
	}
	rows := rules(s.sigma, 0, .5)
	lines := make([]string, len(rows))
	header, rule := "| rule | draws |", "| --- | --- |"
	for k, r := range rows {
		lines[k] = fmt.Sprintf("| %s | %d |", r.name, r.params.Draws)
	}
	for _, shift := range shifts {
		for _, miss := range misses {
			header, rule = header+fmt.Sprintf(" ρ = %g, miss %g |", shift, miss), rule+" --- |"
			for k, r := range rules(s.sigma, shift*s.sigma, miss) {
				f, err := d.measure(r, s.splits, attacked[shift])
				if err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
				lines[k] += " " + f.cell() + " |"
			}
		}
	}
	_, err = fmt.Fprintf(w, "<!-- made: %s -->\n\n%s\n%s\n%s\n\n<!-- end: %s -->\n", s.name, header, rule, strings.Join(lines, "\n"), s.name)
	return err
}

// readAttacked reads the scores of attacks from arguments of the form RHO=SCORES.
func (d data) readAttacked(args []string) (map[float64]data, error) {
	all := map[float64]data{}
	for _, arg := range args {
		rho, path, _ := strings.Cut(arg, "=")
		shift, err := strconv.ParseFloat(rho, 64)
		if err != nil {
			return nil, fmt.Errorf("%s: want RHO=SCORES", arg)
		}
		a, err := read(path)
		if err != nil {
			return nil, err
		}
		same := func(x, y example) bool { return x.label == y.label }
		if !slices.EqualFunc(a.examples, d.examples, same) {
			return nil, fmt.Errorf("%s: has other examples than the run", path)
		}
		all[shift] = a
	}
	return all, nil
}

// writeOrders writes the orders of the examples, one line for each split.
func (d data) writeOrders(path string, splits int) error {
	var text strings.Builder
	err := d.orders(splits, func(order []int) error {
		fmt.Fprintln(&text, strings.Trim(fmt.Sprint(order), "[]"))
		return nil
	})
	return errors.Join(err, os.WriteFile(path, []byte(text.String()), 0o644))
}
