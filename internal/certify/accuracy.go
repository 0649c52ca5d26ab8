package certify

// Accuracy counts the right answers of the model without noise and of the smoothed
// classifier as the votes show it. They are estimates: nothing is certified.
type Accuracy struct {
	Labelled int // examples with a label
	Asked    int // of those, examples whose votes say what the model gives without noise
	Clean    int // right without noise
	Smoothed int // right by the most estimation votes, the lowest class of equals
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
	if v.Right() {
		a.Smoothed++
	}
}

// Right reports whether the label has the most estimation votes, none included; of equals the lowest class has them.
func (v Votes) Right() bool {
	k := argMax(v.Counts)
	return k == v.Label && v.Counts[k] > v.None
}

// CleanShare is the accuracy without noise; false if it is not known.
func (a Accuracy) CleanShare() (float64, bool) {
	return float64(a.Clean) / float64(max(1, a.Asked)), a.Asked > 0
}

// SmoothedShare is the accuracy of the smoothed classifier; false if it is not known.
func (a Accuracy) SmoothedShare() (float64, bool) {
	return float64(a.Smoothed) / float64(max(1, a.Labelled)), a.Labelled > 0
}
