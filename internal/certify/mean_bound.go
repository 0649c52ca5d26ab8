package certify

// MeanBound is a way to bound the mean of a [0,1] variable from below, given independent samples. The level and the
// number of samples n are fixed beforehand. An upper bound on the mean of X is 1 minus the lower bound for 1 − X.
type MeanBound string

const (
	// Betting is the hedged capital of Waudby-Smith & Ramdas 2024 (betting.go).
	Betting MeanBound = "betting"
	// Hoeffding is the bound of Hoeffding 1963, Theorem 2 (hoeffding.go).
	Hoeffding MeanBound = "hoeffding"
	// Bernstein is the empirical Bernstein bound of Maurer & Pontil 2009 (bernstein.go).
	Bernstein MeanBound = "bernstein"
	// PrPlEB is the predictable plug-in empirical Bernstein bound (prpl_eb.go).
	PrPlEB MeanBound = "prpl-eb"
	// Chernoff always bets the same fraction of its capital. This fraction is fixed before sampling. The bound is at
	// least the bound of Hoeffding 1963, Theorem 1, minus a small loss from the grid (betting.go).
	Chernoff MeanBound = "chernoff"
	// STaR computes each bet from the ratio of 1/α to the capital so far (Voráček & Orabona 2025; betting.go).
	STaR MeanBound = "star"
	// PrPlSequence is the lower end of a confidence sequence. Its weights do not depend on n (prpl_eb_sequence.go).
	PrPlSequence MeanBound = "prpl-eb-sequence"
	// MoutaouakilBernstein is Proposition 2 of Moutaouakil 2024 as printed; it is not sound (moutaouakil_means.go).
	MoutaouakilBernstein MeanBound = "moutaouakil-bernstein"
	// MoutaouakilSequence is Proposition 3 of Moutaouakil 2024 as printed; it is not sound (moutaouakil_means.go).
	MoutaouakilSequence MeanBound = "moutaouakil-sequence"
)

// A newLowerMean prepares a bound at level 1−α for n samples. It returns a function that starts a stream of samples.
type newLowerMean func(n int64, alpha float64) func() lowerMean

var meanBounds = table[MeanBound, newLowerMean]{"bound", []entry[MeanBound, newLowerMean]{
	{Betting, true, "hedged capital bound (Waudby-Smith & Ramdas 2024)", "waudbysmith2024", bettingBy(stakeHedged)},
	{Hoeffding, true, "Hoeffding's bound (Hoeffding 1963)", "hoeffding1963", startHoeffding},
	{Bernstein, true, "empirical Bernstein bound (Maurer & Pontil 2009)", "maurer2009", startBernstein},
	{PrPlEB, true, "predictable plug-in empirical Bernstein bound (Waudby-Smith & Ramdas 2024)", "waudbysmith2024", startPrPlEB},
	{Chernoff, true, "betting bound that always bets the same fraction of its capital, fixed before sampling; at least as tight as Theorem 1 of Hoeffding 1963, apart from a small loss because it is computed on a grid of means", "hoeffding1963 waudbysmith2024", bettingBy(stakeFixed)},
	{STaR, true, "betting bound whose stake depends on the factor by which the capital must still grow to reach 1/alpha (Voráček & Orabona 2025)", "voracek2025 waudbysmith2024", bettingBy(stakeLeft)},
	{PrPlSequence, true, "two-sided confidence sequence that holds for every n (Waudby-Smith & Ramdas 2024); looser than 'prpl-eb' at a fixed n; the tables of Moutaouakil 2024 use this bound", "waudbysmith2024 moutaouakil2024", startPrPlSequence},
	{MoutaouakilBernstein, false, "Proposition 2 as printed in Moutaouakil 2024; not sound, and kept only to reproduce the paper", "moutaouakil2024 maurer2009", startMoutaouakilBernstein},
	{MoutaouakilSequence, false, "Proposition 3 as printed in Moutaouakil 2024; not sound, and kept only to reproduce the paper", "moutaouakil2024 waudbysmith2024", startMoutaouakilSequence},
}}

// MeanBounds describes all bounds on a mean, the default first.
func MeanBounds() []Row[MeanBound] { return meanBounds.rows() }

func (b MeanBound) String() string { return string(b) }

// Sound reports whether there is a proof that b fails with probability at most α for every variable in [0, 1].
func (b MeanBound) Sound() bool { return meanBounds.sound(b) }

// MarshalText returns the name, or empty text if no name is set.
func (b MeanBound) MarshalText() ([]byte, error) { return []byte(b), nil }

// UnmarshalText parses the name of a MeanBound.
func (b *MeanBound) UnmarshalText(text []byte) error { return meanBounds.parse(text, b) }

// A lowerMean bounds the mean of a [0,1] variable from below. Its memory does not grow with the number of samples.
type lowerMean interface {
	// add takes the next sample.
	add(x float64)
	// The method 'lower' returns the bound. Call it after all n samples were added. This n is the argument of
	// newLowerMean.
	lower() float64
}

// inUnit subtracts the argument 'slack' from a computed lower bound to allow for rounding errors. It clamps the result
// to [0, 1].
func inUnit(lower, slack float64) float64 { return min(max(lower-slack, 0), 1) }
