package calib

// MetricOptions configure Measure.
type MetricOptions struct {
	Bins  int
	Edge  Edge    // which edge belongs to a bin of equal width: the lower or the upper edge
	Level float64 // confidence level of the intervals
	Seed  uint64  // for the betting intervals, the bootstrap and the Monte Carlo test
	Draws int     // number of simulations of MonteCarloTest; 0: a number that depends on the number of examples
}

// Metrics are the calibration metrics of predictions. A metric that the predictions do not define is NaN or nil.
type Metrics struct {
	Quantity       Quantity
	Accuracy       Estimate
	Prevalence     *Estimate // share of class 1; only for ClassOneQuantity
	MeanConfidence float64
	ECE            Estimate // bins of equal width
	AdaECE         Estimate // bins of equal count
	DebiasedL2     float64  // bins of equal count
	RMSCE          Estimate // bins of equal width
	AdaRMSCE       Estimate // bins of equal count
	MCE            Estimate
	Brier          Estimate
	BrierParts     Decomposition
	NLL            Estimate
	AUROC, AUPRC   float64 // NaN if all values of Correct are equal
	Test           *Test   // nil for weighted predictions
	PerClass       *PerClass

	Bins   []Bin // of equal width
	Ranked *Ranked
	Smooth SmoothCurve // Smooth.ECE is the smooth ECE
}

// PerClass are the metrics that need probability vectors.
type PerClass struct {
	ClasswiseECE Estimate
	ECE          []float64 // ECE of each class; ClasswiseECE is the mean of these
	Brier        Estimate  // of all classes
	BrierParts   Decomposition
}

// Test holds the results of three tests. Their hypothesis is that every stated probability is right.
type Test struct {
	P float64 // CalibrationTest: valid for any number of independent examples
	// p-value of MonteCarloTest: valid for any number of independent examples, like the field P, and more powerful
	MonteCarlo     float64
	Draws          int     // number of simulations of MonteCarloTest
	Spiegelhalter  float64 // Z
	SpiegelhalterP float64 // p-value of Z: approximately valid if there are many examples
}

// Measure computes every metric that the predictions allow. It returns an error if o.Bins is not a valid number of
// bins.
func Measure(p *Predictions, o MetricOptions) (Metrics, error) {
	width, err := EqualWidth(p, o.Bins, o.Edge)
	if err != nil {
		return Metrics{}, err
	}
	ranked := Rank(p)
	count, err := ranked.EqualCount(o.Bins)
	if err != nil {
		return Metrics{}, err
	}
	m := Metrics{
		Quantity:       p.Quantity,
		Accuracy:       AccuracyEstimate(p, o.Level),
		MeanConfidence: p.MeanConfidence(),
		ECE:            ECEEstimate(p, width, o.Level),
		AdaECE:         ECEEstimate(p, count, o.Level),
		DebiasedL2:     DebiasedL2(p, count),
		RMSCE:          RMSCEEstimate(p, width, o.Level),
		AdaRMSCE:       RMSCEEstimate(p, count, o.Level),
		MCE:            MCEEstimate(p, width, o.Level),
		Brier:          BrierEstimate(p, o.Level, o.Seed),
		NLL:            NLLEstimate(p, o.Level, o.Seed),
		Bins:           width, Ranked: ranked, Smooth: SmoothECE(p),
	}
	m.BrierParts = DecomposeBrier(width, m.Brier.Value)
	m.AUROC, _ = ranked.AUROC()
	m.AUPRC, _ = ranked.AveragePrecision()
	if p.Weight == nil {
		z, pz := Spiegelhalter(p)
		m.Test = &Test{P: CalibrationTest(p), Spiegelhalter: z, SpiegelhalterP: pz}
		m.Test.MonteCarlo, m.Test.Draws = MonteCarloTest(p, o.Seed, o.Draws)
	}
	switch {
	case p.Quantity == ClassOneQuantity:
		prevalence := PrevalenceEstimate(p, o.Level)
		m.Prevalence = &prevalence
	case p.Probability != nil:
		if m.PerClass, err = measureClasses(p, o); err != nil {
			return Metrics{}, err
		}
	}
	return m, nil
}

func measureClasses(p *Predictions, o MetricOptions) (*PerClass, error) {
	classwise, err := ClasswiseEstimate(p, o.Bins, o.Edge, o.Level)
	if err != nil {
		return nil, err
	}
	brier, parts, err := MulticlassBrierEstimate(p, o.Bins, o.Edge, o.Level, o.Seed)
	if err != nil {
		return nil, err
	}
	_, each, err := ClasswiseECE(p, o.Bins, o.Edge)
	if err != nil {
		return nil, err
	}
	return &PerClass{ClasswiseECE: classwise, ECE: each, Brier: brier, BrierParts: parts}, nil
}
