// Command acce makes the tables and figures of docs/calibration-under-attack.md:
// how far the estimates of the certified calibration error fall short of its
// exact value.
//
//	go run ./studies/acce random              100 random instances of N = 7,000
//	go run ./studies/acce residuals           constraint residuals of ADMM by step
//	go run ./studies/acce model FILE σ …      bounds.csv of the bundled model, by σ
//
// Tables go to stdout as they grow, figures to docs/img.
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
	"time"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/rscert/rscert/internal/admm"
	"github.com/rscert/rscert/internal/calib"
)

func main() {
	log.SetFlags(0)
	instances := flag.Int("instances", 100, "random instances")
	grids := flag.Int("grids", 8, "of these, how many get the 16-run grid of ADMM")
	budget := flag.Duration("budget", time.Hour, "start no instance after this time")
	images := flag.String("images", "docs/img", "folder for the figures")
	flag.Parse()
	var err error
	switch flag.Arg(0) {
	case "random":
		err = random(*instances, *grids, *budget)
	case "residuals":
		err = residuals(filepath.Join(*images, "acce-residuals.svg"))
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
	samples = 100_000 // Monte Carlo samples behind an interval, as in the paper
	alpha   = 0.001
	size    = 7000 // predictions of an instance, as in the paper's appendix G.1
)

var normal = distuv.UnitNormal

// instance draws a certified classifier and n predictions that it certifies at
// radius ratio·σ. In probit units the clean confidence is N(mean, spread²), and
// the prediction is right with the probability that slope makes of it (below 1:
// overconfident). The interval is the standard certificate with Hoeffding's
// bound, as in the paper: Φ(Φ⁻¹(z ∓ ε) ∓ R/σ), ε = √(ln(2/α)/2n). A prediction
// whose lower end is below ½ is not certified and is left out.
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

// oneSetting is the paper's "one-size-fits-all" (appendix G.3): both rates 0.001,
// ρ growing by 0.4 % a step, from either start.
func oneSetting() []admm.Params {
	var out []admm.Params
	for _, start := range []admm.Start{admm.FromClean, admm.FromBrier} {
		out = append(out, admm.Params{Start: start, RateZ: 0.001, RateA: 0.001, Growth: 1.004, Steps: admm.Steps})
	}
	return out
}

// found are the values for one set of intervals, and the seconds that each took.
type found struct {
	clean, brier, dece, pair, grid, exact      float64
	deceTime, pairTime, gridTime, exactSeconds float64
}

func solve(intervals []calib.Bounded, clean []float64, pair, grid bool) (f found, err error) {
	b, err := admm.EqualWidth(bins)
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
	var worst admm.Worst
	f.exactSeconds = seconds(func() { worst, err = admm.CCE(intervals, b) })
	if err != nil {
		return f, err
	}
	f.exact = worst.Value
	f.deceTime = seconds(func() { f.dece = p.DECE(ctx, admm.DECESteps, nil).ECE })
	if pair {
		f.pairTime = seconds(func() { f.pair = p.Best(ctx, oneSetting(), nil).ECE })
	}
	if grid {
		f.gridTime = seconds(func() { f.grid = p.Best(ctx, admm.Grid(true), nil).ECE })
	}
	for name, x := range map[string]float64{"clean": f.clean, "Brier": f.brier, "dECE": f.dece, "ADMM": f.pair, "ADMM grid": f.grid} {
		if x > f.exact {
			return f, fmt.Errorf("%s %v is above the exact value %v", name, x, f.exact)
		}
	}
	return f, nil
}

func random(instances, grids int, budget time.Duration) error {
	start := time.Now()
	var all []found
	fmt.Println("| instance | R/σ | accuracy | clean | Brier | dECE | ADMM, one setting | ADMM, best of grid | exact |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for i := range instances {
		if time.Since(start) > budget {
			break
		}
		r := rand.New(rand.NewPCG(2025, uint64(i)))
		ratio := 0.1 + 0.9*r.Float64()
		intervals, clean := instance(r, size, ratio)
		right := 0
		for _, v := range intervals {
			if v.Correct {
				right++
			}
		}
		f, err := solve(intervals, clean, true, i < grids)
		if err != nil {
			return fmt.Errorf("instance %d: %w", i, err)
		}
		all = append(all, f)
		fmt.Printf("| %d | %.2f | %.3f | %.4f | %.4f | %.4f | %.4f | %s | %.4f |\n", i, ratio, float64(right)/size,
			f.clean, f.brier, f.dece, f.pair, dash(f.grid), f.exact)
	}
	fmt.Printf("\n%d instances of N = %d, M = %d; the grid on %d of them.\n\n", len(all), size, bins, min(grids, len(all)))
	summary(all, min(grids, len(all)))
	return nil
}

func dash(x float64) string {
	if x == 0 {
		return "–"
	}
	return fmt.Sprintf("%.4f", x)
}

// summary prints how far each estimate is below the exact value.
func summary(all []found, grids int) {
	fmt.Println("| solver | instances | mean value | mean shortfall | largest shortfall | mean share of exact | median seconds |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- |")
	line := func(name string, of []found, value, seconds func(found) float64) {
		if len(of) == 0 {
			return
		}
		var sum, short, most, share float64
		var times []float64
		for _, f := range of {
			x := value(f)
			sum += x
			short += f.exact - x
			most = max(most, f.exact-x)
			share += x / f.exact
			times = append(times, seconds(f))
		}
		n := float64(len(of))
		slices.Sort(times)
		fmt.Printf("| %s | %d | %.4f | %.4f | %.4f | %.1f %% | %.2g |\n", name, len(of), sum/n, short/n, most, 100*share/n, times[len(times)/2])
	}
	none := func(found) float64 { return 0 }
	line("clean ECE", all, func(f found) float64 { return f.clean }, none)
	line("Brier confidences", all, func(f found) float64 { return f.brier }, none)
	line("dECE", all, func(f found) float64 { return f.dece }, func(f found) float64 { return f.deceTime })
	line("ADMM, one setting, two starts", all, func(f found) float64 { return f.pair }, func(f found) float64 { return f.pairTime })
	line("ADMM, best of the 16-run grid", all[:grids], func(f found) float64 { return f.grid }, func(f found) float64 { return f.gridTime })
	line("the same instances, one setting", all[:grids], func(f found) float64 { return f.pair }, func(f found) float64 { return f.pairTime })
	line("exact", all, func(f found) float64 { return f.exact }, func(f found) float64 { return f.exactSeconds })
}
