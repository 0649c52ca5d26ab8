package attack

// Candidate is a perturbed input that may make the smoothed classifier answer another class. It won among the selection
// samples of a search, which is no evidence: draw fresh noise to verify it.
type Candidate struct {
	Values   []float32 // in the units of the data; on the run's lattice, if it has one
	Distance float64   // from the example, rounded up
	Rival    int       // the class with the most votes besides the label; it had more votes than the label
}
