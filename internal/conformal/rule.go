package conformal

import "github.com/rscert/rscert/internal/choice"

// Rule is a way to choose the weights w of the theorem (see the package comment).
type Rule string

const (
	// Auto is Clean if there is no noise. Otherwise it is Count if two conditions hold: the numbers of draws suit
	// Count, and rscert can prove a pair of counts for these numbers. In all other cases it is Weights (see
	// chooseAuto).
	Auto Rule = "auto"
	// Count is the rule with the weights w = 1{N ≥ t}. With these weights, only the t-th largest score of each example
	// matters, and the threshold is an order statistic of these scores (count.go).
	Count Rule = "count"
	// Weights is the rule that takes w from a linear program (weights.go). It also works with one draw per query.
	Weights Rule = "weights"
	// RCP1 is robust conformal prediction with one sample, Zargarbashi et al. 2025 (rcp1.go).
	RCP1 Rule = "rcp1"
	// BinCP is the single binary certificate of Zargarbashi & Bojchevski 2025 (bincp.go).
	BinCP Rule = "bincp"
	// Clean is split conformal prediction with one score per example. It ignores attacks (clean.go).
	Clean Rule = "clean"
)

// Rules lists all rules, the default first.
var Rules = choice.Of("rule", Auto, Count, Weights, RCP1, BinCP, Clean).Describe(func(r Rule) string {
	return map[Rule]string{
		Auto:    "without noise, takes 'clean'; with noise, takes 'count' if the numbers of noisy copies suit 'count' and rscert can prove its guarantee; in all other cases, takes 'weights'",
		Count:   "counts a calibration example as covered if at least t of its scores (one per noisy copy) reach the threshold; rscert chooses t",
		Weights: "weighs each calibration example by the number of its scores that reach the threshold; suited to few noisy copies per query",
		RCP1:    "uses one noisy copy per calibration example and per query (robust conformal prediction, Zargarbashi et al. 2025); for comparison",
		BinCP:   "uses Clopper–Pearson bounds with a union bound over the calibration examples and the query (Zargarbashi & Bojchevski 2025); for comparison",
		Clean:   "ignores attacks (split conformal prediction); for comparison",
	}[r]
})

func (r Rule) String() string { return string(r) }

// MarshalText returns the name.
func (r Rule) MarshalText() ([]byte, error) { return []byte(r), nil }

// UnmarshalText parses the name of a Rule.
func (r *Rule) UnmarshalText(text []byte) error { return Rules.Unmarshal(text, r) }
