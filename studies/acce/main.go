// Command acce makes the tables and figures of docs/calibration-under-attack.md. They show how far estimates of the
// certified calibration error are below its exact value.
//
//	go run ./studies/acce random              100 random instances of N = 7,000 (an hour or two)
//	go run ./studies/acce -instances 4 settings   ADMM with one setting against searches with dECE (minutes)
//	go run ./studies/acce residuals           constraint residuals of ADMM at each step
//	go run ./studies/acce model FILE σ …      bounds.csv of the bundled model, for each σ
//	go run ./studies/acce digits RUN          classes certified by votes and by scores, for a run with saved scores
//
// The command prints each row of a table as soon as it has computed the row. Tables for the page are between marks that
// studies/page reads. The command writes the figures to docs/img.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/rscert/rscert/internal/admm"
	"github.com/rscert/rscert/internal/calib"
)

func main() {
	log.SetFlags(0)
	instances := flag.Int("instances", 100, "random instances")
	images := flag.String("images", "docs/img", "folder for the figures")
	flag.Parse()
	var err error
	switch flag.Arg(0) {
	case "random":
		err = random(*instances)
	case "settings":
		err = settings(*instances)
	case "residuals":
		err = residuals(filepath.Join(*images, "acce-residuals.svg"))
	case "digits":
		err = digits(flag.Arg(1))
	case "model":
		err = model(flag.Args()[1:], filepath.Join(*images, "acce-radius.svg"))
	default:
		flag.Usage()
		os.Exit(2)
	}
	if err != nil {
		log.Fatal(err)
	}
}

const (
	bins    = 15
	samples = 100_000 // number of Monte Carlo samples for each interval, as in the paper
	alpha   = 0.001
	size    = 7000 // number of predictions in an instance, as in the paper's appendix G.1
)

var normal = distuv.UnitNormal

// instance draws a random classifier and n of its predictions that are certified at radius ratio·σ. In probit units the
// clean confidence has the distribution N(mean, spread²). In the same units, the probability that the prediction is
// right is the clean confidence times 'slope'. A slope below 1 gives an overconfident classifier. The interval of a
// prediction is the standard certificate with Hoeffding's bound, as in the paper: Φ(Φ⁻¹(z ∓ ε) ∓ R/σ). Here z is the
// clean confidence, and ε is √(ln(2/α)/(2·samples)). The function omits predictions whose interval begins below ½,
// because they are not certified.
func instance(r *rand.Rand, n int, ratio float64) (intervals []calib.Bounded, clean []float64) {
	mean, spread := 0.5+1.5*r.Float64(), 0.6+0.8*r.Float64()
	slope := 0.5 + 0.7*r.Float64()
	half := math.Sqrt(math.Log(2/alpha) / (2 * samples))
	for len(intervals) < n {
		x := mean + spread*r.NormFloat64()
		z := normal.CDF(x)
		lower := normal.CDF(probit(z-half) - ratio)
		upper := normal.CDF(probit(z+half) + ratio)
		correct := r.Float64() < normal.CDF(slope*x)
		if lower <= 0.5 {
			continue
		}
		intervals = append(intervals, calib.Bounded{Lower: lower, Upper: upper, Correct: correct})
		clean = append(clean, z)
	}
	return intervals, clean
}

func probit(p float64) float64 {
	switch {
	case p <= 0:
		return math.Inf(-1)
	case p >= 1:
		return math.Inf(1)
	}
	return normal.Quantile(p)
}

// oneSetting returns the paper's "one-size-fits-all" setting (appendix G.3) twice: for a start from the clean
// confidences, and for a start from the confidences with the largest Brier score. Both learning rates are 0.001, and
// the penalty ρ grows by 0.4 % at each step.
func oneSetting() []admm.Params {
	var out []admm.Params
	for _, start := range []admm.Start{admm.FromClean, admm.FromBrier} {
		out = append(out, admm.Params{Start: start, RateZ: 0.001, RateA: 0.001, Growth: 1.004, Steps: admm.Steps})
	}
	return out
}

// found holds calibration errors for one set of intervals. The field 'clean' is the error without an attack, and the
// field 'exact' is the exact maximum under attack. Further fields hold the errors that the solvers find, and the times
// that the solvers took, in seconds.
type found struct {
	ratio                                      float64 // R/σ of a random instance
	clean, brier, dece, pair, grid, exact      float64
	deceTime, pairTime, gridTime, exactSeconds float64
}

func solve(intervals []calib.Bounded, clean []float64, pair bool) (f found, err error) {
	b, err := calib.NewBins(bins)
	if err != nil {
		return f, err
	}
	p, err := admm.NewProblem(intervals, clean, b)
	if err != nil {
		return f, err
	}
	seconds := func(work func()) float64 {
		start := time.Now()
		work()
		return time.Since(start).Seconds()
	}
	ctx := context.Background()
	f.clean = b.ECE(clean, func(n int) bool { return intervals[n].Correct })
	f.brier = p.Brier().ECE
	var worst calib.Worst
	f.exactSeconds = seconds(func() { worst, err = calib.CCE(intervals, b) })
	if err != nil {
		return f, err
	}
	f.exact = worst.Value
	f.deceTime = seconds(func() {
		var e admm.Estimate
		e, err = p.DECE(ctx, admm.DECEParams{}, admm.Watch{})
		f.dece = e.ECE
	})
	if err != nil {
		return f, err
	}
	if pair {
		f.pairTime = seconds(func() { f.pair = p.Best(ctx, oneSetting(), admm.Watch{}).ECE })
	}
	f.gridTime = seconds(func() { f.grid = p.Best(ctx, admm.PaperGrid().Runs(true), admm.Watch{}).ECE })
	for _, s := range solvers {
		if x := s.value(f); x > f.exact {
			return f, fmt.Errorf("%s %v is above the exact value %v", s.name, x, f.exact)
		}
	}
	return f, nil
}

func random(instances int) error {
	var all []found
	fmt.Println("| instance | R/σ | accuracy | clean | Brier | dECE | ADMM, one setting | ADMM, best of grid | exact |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for i := range instances {
		r := rand.New(rand.NewPCG(2025, uint64(i)))
		ratio := 0.1 + 0.9*r.Float64()
		intervals, clean := instance(r, size, ratio)
		right := 0
		for _, v := range intervals {
			if v.Correct {
				right++
			}
		}
		f, err := solve(intervals, clean, true)
		if err != nil {
			return fmt.Errorf("instance %d: %w", i, err)
		}
		f.ratio = ratio
		all = append(all, f)
		fmt.Printf("| %d | %.2f | %.3f | %.4f | %.4f | %.4f | %.4f | %.4f | %.4f |\n", i, ratio, float64(right)/size,
			f.clean, f.brier, f.dece, f.pair, f.grid, f.exact)
	}
	fmt.Printf("\n%d instances of N = %d, M = %d.\n\n", len(all), size, bins)
	end := marked("estimates", "random")
	summary(all)
	end()
	end = marked("estimates-by-radius", "random")
	byRadius(all)
	end()
	return nil
}

// The function 'marked' begins a part of the page and returns a function that ends the part. Some parts contain
// timings, or took hours to compute. Such a part begins with a line that states its command and the date.
func marked(name, command string) (end func()) {
	fmt.Printf("<!-- made: %s -->\n\n", name)
	if command != "" {
		fmt.Printf("<!-- by: go run ./studies/acce %s, %s -->\n\n", command, time.Now().Format("2 January 2006"))
	}
	return func() { fmt.Printf("\n<!-- end: %s -->\n\n", name) }
}

// A solver is one method of the comparison. The function 'value' returns the method's result for one set of intervals.
// The text 'note' gives the settings. The field 'seconds' is nil if the time is negligible.
type solver struct {
	name, note     string
	value, seconds func(found) float64
}

var solvers = []solver{
	{"clean ECE", "", func(f found) float64 { return f.clean }, nil},
	{"Brier confidences", "", func(f found) float64 { return f.brier }, nil},
	{"dECE", "", func(f found) float64 { return f.dece }, func(f found) float64 { return f.deceTime }},
	{"ADMM, one setting", " (appendix G.3), two starts", func(f found) float64 { return f.pair }, func(f found) float64 { return f.pairTime }},
	{"ADMM, best of grid", " (16 runs, appendix I.1)", func(f found) float64 { return f.grid }, func(f found) float64 { return f.gridTime }},
	{"exact", "", func(f found) float64 { return f.exact }, func(f found) float64 { return f.exactSeconds }},
}

// summary prints a table of the solvers. It shows by how much their estimates are below the exact value.
func summary(all []found) {
	fmt.Println("| solver | mean value | mean shortfall | largest shortfall | mean share of exact | below Brier | below dECE | median seconds |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- |")
	n := float64(len(all))
	for _, s := range solvers {
		var sum, short, most, share float64
		var times []float64
		for _, f := range all {
			x := s.value(f)
			sum += x
			short += f.exact - x
			most = max(most, f.exact-x)
			share += x / f.exact
			if s.seconds != nil {
				times = append(times, s.seconds(f))
			}
		}
		median := "–"
		if len(times) > 0 {
			slices.Sort(times)
			median = fmt.Sprintf("%.2g", times[len(times)/2])
		}
		fmt.Printf("| %s | %.4f | %.4f | %.4f | %.1f %% | %s | %s | %s |\n", s.name+s.note, sum/n, short/n, most, 100*share/n,
			s.countBelow(all, "Brier confidences"), s.countBelow(all, "dECE"), median)
	}
}

// countBelow counts the instances for which s finds a smaller value than the solver 'other'. It compares values rounded
// to four decimals.
func (s solver) countBelow(all []found, other string) string {
	if s.name == other {
		return "–"
	}
	o := solvers[slices.IndexFunc(solvers, func(o solver) bool { return o.name == other })]
	count := 0
	for _, f := range all {
		if math.Round(1e4*s.value(f)) < math.Round(1e4*o.value(f)) {
			count++
		}
	}
	return fmt.Sprint(count)
}

// byRadius prints the mean ratio of each estimate to the exact value, in percent. It prints one row for small radii,
// one for middle radii and one for large radii.
func byRadius(all []found) {
	estimates := solvers[:len(solvers)-1] // all solvers except the last one, which is exact
	fmt.Print("| R/σ | instances |")
	for _, s := range estimates {
		fmt.Print(" ", s.name, " |")
	}
	fmt.Println("\n| --- | --- |" + strings.Repeat(" --- |", len(estimates)))
	for _, part := range [][2]float64{{0.1, 0.3}, {0.3, 0.8}, {0.8, 1}} {
		n := 0
		share := make([]float64, len(estimates))
		for _, f := range all {
			if f.ratio < part[0] || f.ratio >= part[1] {
				continue
			}
			n++
			for k, s := range estimates {
				share[k] += s.value(f) / f.exact
			}
		}
		if n == 0 {
			continue
		}
		fmt.Printf("| %g to %g | %d |", part[0], part[1], n)
		for _, x := range share {
			fmt.Printf(" %.1f %% |", 100*x/float64(n))
		}
		fmt.Println()
	}
}
