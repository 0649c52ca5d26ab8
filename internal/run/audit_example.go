package run

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/rscert/rscert/internal/attack"
	"github.com/rscert/rscert/internal/audit"
	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/dataset"
	"github.com/rscert/rscert/internal/experiment"
	"github.com/rscert/rscert/internal/progress"
	"github.com/rscert/rscert/internal/runfolder"
	"github.com/rscert/rscert/internal/smoothing"
)

// The error probability of an example's tests is split into three shares. flipShare is for the tests of the candidates
// in all rounds. cleanShare is for the tests of the example itself. confidenceShare is for the tests of the bounds on
// the example's confidence. The shares add up to 1.
const (
	flipShare       = .5
	cleanShare      = .25
	confidenceShare = .25
)

// The method 'examples' audits the examples that the folder lacks, in the order of the header's Examples.
func (a *auditor) examples(ctx context.Context) error {
	done, err := byExample(a.lines)
	if err != nil {
		return fmt.Errorf("%s: %w", a.plan.Out, err)
	}
	bar := progress.Start(a.console.Progress, "audit", int64(len(a.header.Examples)), 0)
	defer bar.Finish()
	contradicted := 0
	for _, index := range a.header.Examples {
		r := done[index]
		if r == nil {
			r = newRounds()
		}
		rec := a.records[index]
		for round := 0; round <= a.header.Rounds && !r.settled(rec.Certificate, round); round++ {
			if err := a.round(ctx, rec, round, r); err != nil {
				return err
			}
		}
		if len(r.contradictions(rec.Certificate)) > 0 {
			contradicted++
			if err := a.escalate(ctx, rec, r); err != nil {
				return err
			}
		}
		bar.Add(1, fmt.Sprintf("%d contradictions", contradicted))
	}
	return nil
}

// settled reports whether an example needs no search in a round. There are two such cases. In the first case, there is
// no class to attack. In the second case, the example has no certificate, and the answer at the example is already
// verified to be wrong.
func (r *rounds) settled(c certify.Certificate, round int) bool {
	if round == 0 {
		return false
	}
	return target(c) < 0 || c.Prediction == certify.Abstained && r.rejects(TestWrong)
}

// rejects reports whether round 0 has a test of this kind whose result is a rejection.
func (r *rounds) rejects(kind TestKind) bool {
	for i, t := range r.tests[0] {
		if results := r.results[0]; t.Kind == kind && i < len(results) && results[i].Rejected {
			return true
		}
	}
	return false
}

// round carries out one round of tests for an example. It chooses the tests and appends them to the folder, unless the
// folder already holds tests for this round. Then it carries out the tests and appends their results, unless the folder
// already holds these results.
func (a *auditor) round(ctx context.Context, rec runfolder.Record, round int, r *rounds) (err error) {
	index := rec.Votes.Index
	tests, frozen := r.tests[round]
	if !frozen {
		if round == 0 {
			tests = a.cleanTests(rec)
		} else if tests, err = a.searchTests(ctx, rec, round); err != nil {
			return err
		}
		r.tests[round] = tests
		if err := a.journal.Append(AuditLine{Index: index, Step: Frozen, Round: round, SHA256: hashTests(tests), Tests: tests}); err != nil {
			return err
		}
	}
	if r.done(round) {
		return nil
	}
	line := AuditLine{Index: index, Step: Verified, Round: round}
	if len(tests) > 0 {
		seed, err := experiment.DrawSeed() // the seed is drawn after the tests are in the folder
		if err != nil {
			return err
		}
		line.Seed = &seed
		if line.Results, err = a.verify(ctx, index, seed, tests); err != nil {
			return err
		}
	}
	r.results[round] = line.Results
	return a.journal.Append(line)
}

// cleanTests returns the tests of the example itself. Each test compares the probability of its Class with the
// probability of a rival. The rival is chosen from the votes and the certificate of the run. This choice is valid
// because the noise of the verification is independent of the noise of the run.
func (a *auditor) cleanTests(rec runfolder.Record) (tests []AuditTest) {
	label, certified := rec.Votes.Label, rec.Certificate.Prediction
	level := a.header.exampleLevel() * cleanShare / 3
	if label >= 0 {
		rival := topOther(rec.Votes, label, !a.byScores())
		if certified != certify.Abstained && certified != label {
			rival = certified
		}
		tests = append(tests, AuditTest{Kind: TestWrong, Class: label, Rival: rival, Level: level},
			AuditTest{Kind: TestRight, Class: label, Rival: rival, Level: level})
	}
	if p := a.run.Parameters; certified != certify.Abstained && !a.byScores() && p.Lipschitz == 0 {
		tests = append(tests, AuditTest{Kind: TestSlack, Class: certified, Rival: topOther(rec.Votes, certified, true), Radius: rec.Certificate.Radius, Level: level})
	}
	return tests
}

// topOther returns the class with the most votes among all classes except the argument 'a'. If the argument 'none' is
// true and more samples vote for no class than for any of these classes, topOther returns −1.
func topOther(v certify.Votes, a int, none bool) int {
	best, most := -1, v.None0+v.None
	if !none {
		most = -1
	}
	for class := range v.Counts {
		votes := v.Counts[class]
		if class < len(v.Counts0) {
			votes += v.Counts0[class]
		}
		if class != a && (votes > most || best < 0 && votes == most) {
			best, most = class, votes
		}
	}
	return best
}

// mostCandidates limits the candidates of a round. If a round has more candidates, only the farthest candidates are
// tested.
const mostCandidates = 64

// searchTests searches for candidates. A candidate is an input at which the answer may be another class. searchTests
// returns the tests of the candidates, with the farthest candidate first, and then the tests of the confidence. The
// tests of the confidence are at inputs between the example and the nearest candidate.
func (a *auditor) searchTests(ctx context.Context, rec runfolder.Record, round int) ([]AuditTest, error) {
	index := rec.Votes.Index
	x, err := a.Values(index)
	if err != nil {
		return nil, err
	}
	search, err := a.search(ctx, round)
	if err != nil {
		return nil, err
	}
	found, err := search.Candidates(ctx, attack.Example{Index: index, Label: target(rec.Certificate), Values: x.Values})
	if err != nil {
		return nil, err
	}
	level := a.header.exampleLevel()
	flips := level * flipShare
	if a.header.Rounds > 1 {
		flips = audit.RoundLevel(flips, round)
	}
	var tests []AuditTest
	for _, c := range found {
		_, distance, err := a.Perturbed(x, c.Values)
		if err != nil {
			return nil, err
		}
		if c.Rival < 0 || c.Rival >= a.Model().Classes() || c.Rival == target(rec.Certificate) {
			return nil, fmt.Errorf("example %d: a candidate's rival is class %d: please report this", index, c.Rival)
		}
		tests = append(tests, AuditTest{Kind: TestFlip, Distance: distance, Class: target(rec.Certificate), Rival: c.Rival, Level: flips, Values: packValues(c.Values)})
	}
	slices.SortStableFunc(tests, func(s, t AuditTest) int { return cmp.Compare(t.Distance, s.Distance) })
	tests = tests[:min(len(tests), mostCandidates)]
	if len(tests) == 0 {
		return nil, nil
	}
	nearest, err := unpackValues(tests[len(tests)-1].Values, len(x.Values))
	if err != nil {
		return nil, err
	}
	more, err := a.confidenceTests(x, nearest, tests[len(tests)-1].Distance, level*confidenceShare/float64(a.header.Rounds))
	return append(tests, more...), err
}

// confidenceTests returns a test of each bound on the example's confidence. The tested input lies within the bound's
// radius, in the direction of the nearest candidate.
func (a *auditor) confidenceTests(x dataset.Example, nearest []float32, distance, level float64) (tests []AuditTest, err error) {
	claims := a.claims[x.Index]
	for _, c := range claims {
		values, at, err := a.shrink(x, nearest, distance, c.radius)
		if err != nil {
			return nil, err
		}
		tests = append(tests, AuditTest{
			Kind: TestConfidence, Distance: at, Class: c.class, Rival: -1, Radius: c.radius, Lower: c.lower, Upper: c.upper,
			Level: level / float64(len(claims)), Values: packValues(values),
		})
	}
	return tests, nil
}

// shrink moves an input towards the example x. The argument "to" is this input. Its new distance from x is at most the
// argument 'radius'. The argument 'distance' is the distance between x and "to".
func (a *auditor) shrink(x dataset.Example, to []float32, distance, radius float64) ([]float32, float64, error) {
	for scale := 1.; ; scale *= .98 {
		share := math.Min(1, scale*radius/distance)
		if distance == 0 || scale < 1e-6 {
			share = 0
		}
		values := make([]float32, len(to))
		for d, v := range x.Values {
			values[d] = float32(float64(v) + share*(float64(to[d])-float64(v)))
		}
		if _, at, err := a.Perturbed(x, values); err != nil || at <= radius || share == 0 {
			return values, at, err
		}
	}
}

// verify carries out the tests that a frozen line records (AuditLine). The argument 'seed' determines the noise. The
// flip tests have a fixed order. When a flip test does not reject its null hypothesis, verify carries out no further
// flip tests.
func (a *auditor) verify(ctx context.Context, index int, seed uint64, tests []AuditTest) ([]TestResult, error) {
	results := make([]TestResult, len(tests))
	ended := false
	for i, t := range tests {
		if t.Kind == TestFlip && ended {
			continue
		}
		r, err := a.test(ctx, index, seed, i, t)
		if err != nil {
			return nil, err
		}
		results[i] = r
		ended = ended || t.Kind == TestFlip && !r.Rejected
	}
	return results, nil
}

// testsPerExample is the maximum number of tests of an example. Each test has its own stream of noise.
const testsPerExample = 1 << 8

// test carries out one test. The argument 'turn' numbers the tests that share the seed, so that each test has its own
// noise.
func (a *auditor) test(ctx context.Context, index int, seed uint64, turn int, t AuditTest) (TestResult, error) {
	if turn >= testsPerExample {
		return TestResult{}, fmt.Errorf("example %d: more than %d tests: take fewer confidence radii", index, testsPerExample)
	}
	stream := index*testsPerExample + turn
	input, err := a.place(index, t)
	if err != nil {
		return TestResult{}, err
	}
	switch t.Kind {
	case TestSlack:
		return a.slack(ctx, seed, stream, t, input)
	case TestConfidence:
		return a.confidence(ctx, seed, stream, t, input, a.header.Screen)
	case TestRight:
		t.Class, t.Rival = t.Rival, t.Class
		r, err := a.flip(ctx, seed, stream, t, input, a.header.Verify)
		r.Votes, r.Against = r.Against, r.Votes
		return r, err
	default:
		return a.flip(ctx, seed, stream, t, input, a.header.Verify)
	}
}

// The method 'slack' carries out a slack test: it draws a fixed number of samples at an input, and computes an upper
// bound on the margin at this input. The test rejects if the bound is below the margin that the claimed radius needs.
func (a *auditor) slack(ctx context.Context, seed uint64, stream int, t AuditTest, input smoothing.Input) (r TestResult, err error) {
	n := a.header.Screen
	p := &probe{stream: stream, input: input, first: n, most: n}
	if err := a.sample(ctx, seed, p); err != nil {
		return r, err
	}
	noise, err := a.run.Parameters.Law.Additive()
	if err != nil {
		return r, err
	}
	second := a.run.Parameters.Margin != certify.FirstMargin
	theorem := noise.First()
	if second {
		theorem = noise.Second()
	}
	r.Samples, r.Votes, r.Against = p.votes.N, count(p.votes, t.Class), count(p.votes, t.Rival)
	margin := audit.Slack(noise, second, n, r.Votes, r.Against, a.level(t.Level, n))
	// The factor lowers the needed margin, so that rounding errors cannot reject a right certificate. Certification has
	// already lowered the radius: it multiplied the radius by 1 − 2⁻⁵⁰ and rounded it down (certify.Target.Radius).
	needed := theorem.Margin(t.Radius-t.Distance, a.run.Parameters.Sigma) * (1 - 0x1p-50)
	if !math.IsInf(margin, 0) {
		r.Margin = &margin
	}
	r.Rejected = margin < needed
	return r, nil
}
