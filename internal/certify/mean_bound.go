package certify

import "fmt"

// MeanBound is a way to bound the mean of a [0,1] variable from below, at a
// level fixed beforehand, from n independent samples; n is fixed beforehand too.
// An upper bound is 1 minus the lower bound for 1 − X.
type MeanBound int

const (
	Betting MeanBound = iota
	Hoeffding
	Bernstein
	PrPlEB
	Chernoff
	STaR
)

var meanBoundNames = []string{"betting", "hoeffding", "bernstein", "prpl-eb", "chernoff", "star"}

func (b MeanBound) String() string { return meanBoundNames[b] }

// ParseMeanBound reads the name of a MeanBound.
func ParseMeanBound(s string) (MeanBound, error) {
	i, err := parseName("bound", s, meanBoundNames)
	return MeanBound(i), err
}

// MeanBounds are all of them.
func MeanBounds() []MeanBound {
	return []MeanBound{Betting, Hoeffding, Bernstein, PrPlEB, Chernoff, STaR}
}

// lowerMean bounds the mean of a [0,1] variable from below. What it holds does
// not grow with the number of samples.
type lowerMean interface {
	// add takes the next sample.
	add(x float64)
	// lower returns the bound after the n samples that were announced.
	lower() float64
}

// level is a bound at one level for one number of samples: what the streams of
// all examples share.
type level struct {
	bound MeanBound
	n     int64
	alpha float64
	grid  *bettingGrid // for the bounds by betting
}

func newLevel(bound MeanBound, n int64, alpha float64) *level {
	l := &level{bound: bound, n: n, alpha: alpha}
	switch bound {
	case Betting, Chernoff, STaR:
		l.grid = newBettingGrid(bound, n, alpha)
	}
	return l
}

func (l *level) start() lowerMean {
	switch l.bound {
	case Betting, Chernoff, STaR:
		return newCapital(l.grid)
	case Hoeffding:
		return &hoeffding{n: l.n, alpha: l.alpha}
	case Bernstein:
		return &bernstein{n: l.n, alpha: l.alpha}
	case PrPlEB:
		return newPrPlEB(l.n, l.alpha)
	}
	panic(fmt.Sprintf("certify: unknown mean bound %d", int(l.bound)))
}

// LowerMean returns a lower bound at level 1−α on the mean of a variable in
// [0,1] from independent samples, whose number was fixed beforehand and whose
// order was not chosen after seeing them.
func LowerMean(bound MeanBound, samples []float64, alpha float64) float64 {
	s := newLevel(bound, int64(len(samples)), alpha).start()
	for _, x := range samples {
		s.add(x)
	}
	return s.lower()
}

// inUnit bounds the result of an evaluation from below: it takes off slack for
// its rounding and keeps it in [0, 1].
func inUnit(lower, slack float64) float64 { return min(max(lower-slack, 0), 1) }
