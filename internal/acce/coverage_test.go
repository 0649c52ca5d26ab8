package acce_test

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/acce"
	"github.com/rscert/rscert/internal/binomial"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/table"
)

// A row is an example with two classes. The score of class 0 takes two values. If a linear function of the noise
// exceeds a threshold, the score is the field 'high'. Otherwise it is the field 'low'. So the mean score of class 0 is
// low + (high − low)p, where p is the share of votes for class 0. Under Gaussian noise of standard deviation σ, an
// attack of radius R can move p to Φ(Φ⁻¹(p) ± R/σ), but no further. The tests call R/σ the shift.
type row struct {
	label, p  float64
	low, high float64
}

// worst returns two results. The first result says whether some attack makes the classifier answer the row wrongly with
// confidence ≥ τ. The second result says whether the classifier answers the row rightly with confidence ≥ τ under every
// attack.
func (r row) worst(shift, tau float64) (wrong, right bool) {
	moved := func(by float64) (share, score float64) {
		q := normal(inverseNormal(r.p) + by)
		return q, r.low + (r.high-r.low)*q
	}
	share, score := moved(-shift) // the smallest share of votes and the smallest score of class 0
	if r.label == 1 {
		share, score = moved(shift)
		share, score = 1-share, 1-score
	}
	return share <= 0.5 && 1-score >= tau, share > 0.5 && score >= tau
}

func normal(z float64) float64        { return math.Erfc(-z/math.Sqrt2) / 2 }
func inverseNormal(p float64) float64 { return -math.Sqrt2 * math.Erfcinv(2*p) }

// truth returns the largest confidence-thresholded error that an attack attains on the rows.
func truth(rows []row, shift, tau float64) float64 {
	wrong, right := 0.0, 0.0
	for _, r := range rows {
		w, c := r.worst(shift, tau)
		if w {
			wrong++
		} else if c {
			right++
		}
	}
	if wrong == 0 {
		return 0
	}
	return wrong / (wrong + right)
}

// dataset makes n rows. One third of the rows are right by a wide margin. The argument 'kind' says what the other rows
// are. Most kinds make borderline cases. In these cases, an attack within the radius is barely strong enough to tie the
// votes, or to move the confidence across τ.
func dataset(kind int, n int, shift, tau float64) []row {
	var rows []row
	edge := func(q float64) float64 { return normal(inverseNormal(q) + shift) } // vote share that an attack lowers to q
	for i := range n {
		r := row{low: 0.25, high: 0.9375, p: 0.97}
		switch hard := (tau - r.low) / (r.high - r.low); {
		case i%3 == 2: // right by a wide margin
		case kind == 0: // the votes can tie
			r.p = edge(0.5)
		case kind == 1 && hard > 0.02 && hard < 0.98: // an attack can lower the confidence to just below τ
			r.p = edge(hard) - 1e-9
		case kind == 2: // the label is class 1, and the certified class is wrong
			r.label, r.p = 1, edge(0.6)
		case kind == 3: // an attack can raise the confidence in a wrong class to τ
			r.p = edge(max(0.02, (1-tau-r.low)/(r.high-r.low)))
		}
		rows = append(rows, r)
	}
	return rows
}

// sampleBounds draws noise samples for the rows. It returns the bounds.csv that 'rscert certify' would write for them.
func sampleBounds(t *testing.T, rows []row, shift, alpha float64, n0, n int, r *rand.Rand) string {
	t.Helper()
	params := certify.ScoreParams{
		Target: certify.Target{Alpha: alpha, Sigma: 1}, ClassByVotes: true,
		Confidence: certify.ConfidenceParams{Radii: []float64{shift}, Method: certify.ConfidenceStandard, Bound: certify.Hoeffding},
	}
	scores, err := certify.NewScoreCertifier(params)
	if err != nil {
		t.Fatal(err)
	}
	votes, err := certify.NewVoteCertifier(certify.VoteParams{Target: params.ClassTarget(), Method: certify.ClopperPearson})
	if err != nil {
		t.Fatal(err)
	}
	var bounds []certify.ConfidenceBound
	for i, x := range rows {
		v := certify.Votes{Index: i, Label: int(x.label), N0: int64(n0), N: int64(n), Counts0: make([]int64, 2), Counts: make([]int64, 2)}
		draw := func(k int, counts []int64) (probs []float32) {
			for range k {
				if r.Float64() < x.p {
					counts[0]++
					probs = append(probs, float32(x.high), float32(1-x.high))
				} else {
					counts[1]++
					probs = append(probs, float32(x.low), float32(1-x.low))
				}
			}
			return probs
		}
		a, err := scores.Start(certify.ScoreExample{Index: i, Label: v.Label, Classes: 2, N0: v.N0, N: v.N})
		if err == nil {
			err = a.Selection(draw(n0, v.Counts0))
		}
		var class int
		if err == nil {
			class, err = v.Elected(certify.Predicted)
		}
		if err == nil {
			err = a.Choose(class)
		}
		if err == nil {
			err = a.Estimation(draw(n, v.Counts))
		}
		var cert certify.Certificate
		if err == nil {
			cert, err = votes.Certify(v)
		}
		if err != nil {
			t.Fatal(err)
		}
		bounds = append(bounds, a.Confidence(cert)...)
	}
	var b bytes.Buffer
	if err := runfolder.WriteBounds(&b, bounds, len(rows), law.L2); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// certifiedErrors returns the field ThresholdedError.Certified for each τ: a bound on the error that holds with
// probability 1 − δ. If no row has a certified class, the bound is 1 for every τ.
func certifiedErrors(t *testing.T, bounds string, taus []float64, delta float64) []float64 {
	t.Helper()
	opt := acce.Columns()
	opt.Input = strings.NewReader(bounds)
	table, err := table.Read(t.Context(), table.Stdin, opt)
	if err != nil {
		t.Fatal(err)
	}
	errors := make([]float64, len(taus))
	study, err := acce.NewStudy(table, acce.Options{Bins: 1, Thresholds: taus, Dataset: &acce.Dataset{Delta: delta}})
	if err != nil {
		for i := range errors {
			errors[i] = 1
		}
		return errors
	}
	results, err := study.Solve(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range results[0].Thresholded {
		errors[i] = *e.Certified
	}
	return errors
}

// judge returns the share of failed statements divided by δ. Let p be the probability of at least this many failures at
// a failure rate of δ. The test fails if p < 10⁻⁶.
func judge(t *testing.T, what string, failures int64, trials int, delta float64) float64 {
	t.Helper()
	share := float64(failures) / float64(trials) / delta
	t.Logf("δ = %v, %s: %d of %d statements fail, %.2f δ", delta, what, failures, trials, share)
	if binomial.Tail(int64(trials), failures, delta).Upper < 1e-6 {
		t.Errorf("δ = %v, %s: %d of %d statements fail", delta, what, failures, trials)
	}
	return share
}

// checkThresholdedCoverage simulates noise samples. It computes the bounds from these samples, and the certified error
// from the bounds. A failure is a dataset on which, at some τ, an attack causes an error above the certified error. The
// function returns the largest result of the function 'judge', that is, the largest share of failures divided by δ.
func checkThresholdedCoverage(t *testing.T, trials int, deltas []float64) (worst float64) {
	t.Helper()
	const examples, alpha, shift, n0, n = 40, 0.3, 0.3, 5, 40
	taus := []float64{0.3, 0.45, 0.6, 0.8}
	informative := 0
	for _, delta := range deltas {
		for kind := range 4 {
			r := rand.New(rand.NewPCG(uint64(kind), 7))
			failures := int64(0)
			for range trials {
				failed := false
				rows := make([][]row, len(taus))
				for i, tau := range taus {
					rows[i] = dataset(kind, examples, shift, tau)
				}
				// The rows are borderline cases at one τ, which is drawn at random (see the function 'dataset').
				hard := r.IntN(len(taus))
				for i, e := range certifiedErrors(t, sampleBounds(t, rows[hard], shift, alpha, n0, n, r), taus, delta) {
					failed = failed || e < truth(rows[hard], shift, taus[i])
					if e < 1 {
						informative++
					}
				}
				if failed {
					failures++
				}
			}
			worst = max(worst, judge(t, fmt.Sprintf("datasets of kind %d", kind), failures, trials, delta))
		}
	}
	if informative == 0 {
		t.Error("nothing is certified")
	}
	return worst
}

// checkWorstRows makes tables. In these tables, the bounds of 60 rows fail with probability exactly α. The bounds of
// the other 2 rows never fail. A failed bound has the largest possible effect: it says that the answer is right under
// every attack, although some attack makes the answer wrong. The function returns the largest value that judge
// returned: a share of failures divided by δ.
func checkWorstRows(t *testing.T, trials int, deltas []float64) (worst float64) {
	t.Helper()
	const hard, clear = 60, 2
	r := rand.New(rand.NewPCG(8, 1))
	for _, delta := range deltas {
		for _, alpha := range []float64{0.001, 0.02, 0.3} {
			failures := int64(0)
			for range trials {
				var b strings.Builder
				fmt.Fprintln(&b, "lower,upper,correct,certified,alpha,examples")
				for i := range hard + clear {
					if i >= hard || r.Float64() < alpha {
						fmt.Fprintf(&b, "0.9,1,1,1,%v,%d\n", alpha, hard+clear)
					} else {
						fmt.Fprintf(&b, "0,1,1,0,%v,%d\n", alpha, hard+clear)
					}
				}
				if certifiedErrors(t, b.String(), []float64{0.5}, delta)[0] < hard/float64(hard+clear) {
					failures++
				}
			}
			worst = max(worst, judge(t, fmt.Sprintf("the worst rows at α = %v", alpha), failures, trials, delta))
		}
	}
	return worst
}

func TestThresholdedCoverage(t *testing.T) {
	trials, rows := 100, 2000
	if testing.Short() {
		trials, rows = 20, 500
	}
	worst := max(checkThresholdedCoverage(t, trials, []float64{0.05, 0.5}), checkWorstRows(t, rows, []float64{0.05, 0.2, 0.5}))
	t.Logf("largest share of failures: %.2f of δ", worst)
	if worst < 0.4 {
		t.Errorf("the worst rows fail in only %.2f of δ: the simulation is too kind", worst)
	}
}
