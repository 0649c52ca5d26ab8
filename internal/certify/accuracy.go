package certify

// Accuracy counts the correct answers of the model without noise. From the votes, it also estimates how many answers of
// the smoothed classifier are correct. Neither count is certified.
type Accuracy struct {
	Labelled int // examples with a label
	Asked    int // labelled examples whose prediction without noise is recorded
	Clean    int // examples that the model answers correctly without noise
	VoteRule     // how the smoothed classifier answers
	Smoothed int // examples whose label is the answer of the smoothed classifier
	stopped  int // labelled examples whose votes do not decide the answer of the smoothed classifier
}

// VoteRule says how votes decide the answer of the smoothed classifier. If classes tie, the class with the lowest index
// wins.
type VoteRule struct {
	// The field None says how the smoothed classifier treats samples without an answer. With NoneIgnore the classifier
	// answers even if most samples vote for no class.
	None NoneMode
	// Deterministic means that the law has no random noise. Then "no class" loses every tie.
	Deterministic bool
}

// Decides reports whether the votes decide the answer of the smoothed classifier. If sampling under a deterministic law
// stopped early, the votes do not decide it, because the known evaluations are not a random sample of all evaluations.
func (r VoteRule) Decides(v Votes) bool { return !r.Deterministic || !v.Stop.Given() }

// Answer returns the class that wins the estimation votes, or Abstained if "no class" wins.
func (r VoteRule) Answer(v Votes) int {
	k := argMax(v.Counts)
	switch n := v.Counts[k]; {
	case n > v.None, r.None == NoneIgnore && n > 0, r.Deterministic && n == v.None:
		return k
	}
	return Abstained
}

// Right reports whether Answer(v) is the label of v.
func (r VoteRule) Right(v Votes) bool {
	k := r.Answer(v)
	return k == v.Label && k != Abstained
}

// Add counts the example with the votes v.
func (a *Accuracy) Add(v Votes) {
	if v.Label == UnknownLabel {
		return
	}
	a.Labelled++
	if v.Clean != nil {
		a.Asked++
		if *v.Clean == v.Label {
			a.Clean++
		}
	}
	switch {
	case !a.Decides(v):
		a.stopped++
	case a.VoteRule.Right(v):
		a.Smoothed++
	}
}

// Right reports whether the label has the most estimation votes of all classes, and more than "no class" (v.None). If
// classes tie, only the class with the lowest index counts as having the most votes.
func (v Votes) Right() bool { return VoteRule{}.Right(v) }

// CleanShare returns the accuracy without noise, and false if it is unknown.
func (a Accuracy) CleanShare() (float64, bool) {
	return float64(a.Clean) / float64(max(1, a.Asked)), a.Asked > 0
}

// SmoothedShare returns the estimated accuracy of the smoothed classifier, and false if this accuracy is unknown. The
// accuracy is unknown if the votes of some examples do not decide the answer, because the remaining examples are not a
// random sample of all examples.
func (a Accuracy) SmoothedShare() (float64, bool) {
	return float64(a.Smoothed) / float64(max(1, a.Labelled)), a.Labelled > 0 && a.stopped == 0
}
