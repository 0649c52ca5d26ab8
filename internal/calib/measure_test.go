package calib

import (
	"reflect"
	"testing"
)

var measured = MetricOptions{Bins: 7, Edge: UpperClosed, Level: 0.9, Seed: 3}

// Measure returns the same values as the functions of the single metrics.
func TestMeasure(t *testing.T) {
	p := goldenPredictions()
	got, err := Measure(p, measured)
	if err != nil {
		t.Fatal(err)
	}
	width, err := EqualWidth(p, 7, UpperClosed)
	if err != nil {
		t.Fatal(err)
	}
	count, err := Rank(p).EqualCount(7)
	if err != nil {
		t.Fatal(err)
	}
	auroc, _ := Rank(p).AUROC()
	auprc, _ := Rank(p).AveragePrecision()
	z, pz := Spiegelhalter(p)
	simulated, draws := MonteCarloTest(p, 3, 0)
	want := Metrics{
		Quantity: p.Quantity, Accuracy: AccuracyEstimate(p, .9), MeanConfidence: p.MeanConfidence(),
		ECE: ECEEstimate(p, width, .9), AdaECE: ECEEstimate(p, count, .9), DebiasedL2: DebiasedL2(p, count),
		RMSCE: RMSCEEstimate(p, width, .9), AdaRMSCE: RMSCEEstimate(p, count, .9), MCE: MCEEstimate(p, width, .9), Brier: BrierEstimate(p, .9, 3), NLL: NLLEstimate(p, .9, 3), AUROC: auroc, AUPRC: auprc,
		BrierParts: DecomposeBrier(width, BrierEstimate(p, .9, 3).Value),
		Test:       &Test{CalibrationTest(p), simulated, draws, z, pz}, Bins: width, Ranked: Rank(p), Smooth: SmoothECE(p),
	}
	if !reflect.DeepEqual(got, want) {
		got.Smooth, want.Smooth = SmoothCurve{}, SmoothCurve{}
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Measure returns the metrics that the kind of predictions allows.
func TestMeasureByKind(t *testing.T) {
	logits, classes, label := goldenLogits()
	top, err := TopLabel(Softmax(logits, classes, 1), classes, label)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Measure(top, measured)
	if err != nil {
		t.Fatal(err)
	}
	classwise, err := ClasswiseEstimate(top, 7, UpperClosed, .9)
	if err != nil {
		t.Fatal(err)
	}
	brier, parts, err := MulticlassBrierEstimate(top, 7, UpperClosed, .9, 3)
	if err != nil {
		t.Fatal(err)
	}
	each := make([]float64, top.Classes)
	for k := range each { // the ECE of the probability of class k
		one := &Predictions{Confidence: make([]float64, top.N()), Correct: make([]bool, top.N()), Weight: top.Weight}
		for i, y := range top.Label {
			one.Confidence[i], one.Correct[i] = top.Probability[i*top.Classes+k], y == k
		}
		bins, err := EqualWidth(one, 7, UpperClosed)
		if err != nil {
			t.Fatal(err)
		}
		each[k] = ECE(bins)
	}
	if want := (&PerClass{classwise, each, brier, parts}); !reflect.DeepEqual(m.PerClass, want) || m.Prevalence != nil {
		t.Errorf("probability vectors: %+v, want %+v; prevalence %v", m.PerClass, want, m.Prevalence)
	}

	one := goldenPredictions()
	one.Quantity = ClassOneQuantity
	if m, err = Measure(one, measured); err != nil || m.Prevalence == nil || *m.Prevalence != PrevalenceEstimate(one, .9) || m.PerClass != nil {
		t.Errorf("class 1: %+v, %v", m, err)
	}

	weighted := goldenPredictions()
	weighted.Weight = make([]float64, weighted.N())
	for i := range weighted.Weight {
		weighted.Weight[i] = 1
	}
	if m, err = Measure(weighted, measured); err != nil || m.Test != nil {
		t.Errorf("weighted: test %+v, %v", m.Test, err)
	}
	if _, err := Measure(one, MetricOptions{Bins: 0, Level: .9}); err == nil {
		t.Error("no bins: no error")
	}
}
