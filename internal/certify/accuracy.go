package certify

// Accuracy counts the correct answers of the model without noise. It also counts the correct answers of the smoothed
// classifier, which it estimates from the votes. Neither count is certified.
type Accuracy struct {
	Labelled int // examples with a label
	Asked    int // labelled examples whose prediction without noise is recorded
	Clean    int // examples that the model answers correctly without noise
	// None is the mode of the smoothed classifier. With NoneIgnore the classifier answers even if most samples vote for
	// no class.
	None     NoneMode
	Smoothed int // examples whose label has the most estimation votes; of tied classes only the lowest counts
}

// Add counts an example.
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
	if a.None == NoneIgnore {
		v.None = 0
	}
	if v.Right() {
		a.Smoothed++
	}
}

// Right reports whether the label has the most estimation votes of all classes, and more votes than v.None. Of tied
// classes only the lowest has the most votes.
func (v Votes) Right() bool {
	k := argMax(v.Counts)
	return k == v.Label && v.Counts[k] > v.None
}

// CleanShare returns the accuracy without noise, and false if it is unknown.
func (a Accuracy) CleanShare() (float64, bool) {
	return float64(a.Clean) / float64(max(1, a.Asked)), a.Asked > 0
}

// SmoothedShare returns the estimated accuracy of the smoothed classifier, and false if it is unknown.
func (a Accuracy) SmoothedShare() (float64, bool) {
	return float64(a.Smoothed) / float64(max(1, a.Labelled)), a.Labelled > 0
}
