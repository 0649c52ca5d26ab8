package certify

import (
	"math"
	"math/big"
	"reflect"
	"strconv"
	"testing"
)

// TestSummarize compares the summary with numbers computed by hand.
func TestSummarize(t *testing.T) {
	certs := []Certificate{
		{Prediction: 1, Correct: true, Radius: 0.5, Method: "margin", Alpha: 0.001, Sigma: 0.25, Sound: true, N: 100},
		{Prediction: 2, Correct: false, Radius: 0.9, N: 100},
		{Prediction: Abstained, N: 40},
		{Prediction: 0, Correct: true, Radius: 0.25, N: 100},
	}
	got := summarize(certs, []float64{0, 0.25, 0.4, 0.6})
	want := Summary{
		Method: "margin", Sound: true, Alpha: 0.001, Sigma: 0.25, Examples: 4, Abstained: 1,
		Certified:     []CertifiedAccuracy{{0, 0.5}, {0.25, 0.5}, {0.4, 0.25}, {0.6, 0}},
		AverageRadius: 0.75 / 4, Samples: 340,
		Delta: 0.05, Failures: 0, // P(Bin(4, 0.001) > 0) = 0.004
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if s := summarize(nil, []float64{0}); s.Examples != 0 || s.Certified[0].Accuracy != 0 {
		t.Errorf("no certificates: %+v", s)
	}
	unbounded := []Certificate{{Correct: true, Radius: math.MaxFloat64}, {Correct: true, Radius: math.MaxFloat64}, {Correct: true, Radius: math.MaxFloat64}}
	if s := summarize(unbounded, nil); s.AverageRadius != math.MaxFloat64 {
		t.Errorf("average radius %v, want the number that stands for +∞", s.AverageRadius)
	}
}

// The average is computed exactly from the decimals in certificates.jsonl and then rounded down. (0.1 + 0.2 + 0.3)/3 is
// 0.2, although the floats sum to 0.6000000000000001. The average of 0.1, 0.1 and 0.2 is 2/15, which lies between two
// floats.
func TestAverageRadiusIsExact(t *testing.T) {
	for _, tt := range []struct {
		radii []float64
		want  *big.Rat
	}{
		{[]float64{0.1, 0.2, 0.3}, big.NewRat(1, 5)},
		{[]float64{0.1, 0.1, 0.2}, big.NewRat(2, 15)},
		{[]float64{0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3}, big.NewRat(3, 10)},
	} {
		var certs []Certificate
		for _, r := range tt.radii {
			certs = append(certs, Certificate{Correct: true, Radius: r})
		}
		got := summarize(certs, nil).AverageRadius
		written, _ := new(big.Rat).SetString(strconv.FormatFloat(got, 'g', -1, 64))
		next, _ := new(big.Rat).SetString(strconv.FormatFloat(math.Nextafter(got, 1), 'g', -1, 64))
		if written.Cmp(tt.want) > 0 || next.Cmp(tt.want) <= 0 {
			t.Errorf("%v: %v, want the largest float at most %v", tt.radii, got, tt.want)
		}
	}
}

// A part of a run may hold all failures of the whole run. The part in this test has 10 certificates. If the whole run
// has 100 certificates, there may be 5 failures, because P(Bin(100, 0.02) > 5) = 0.015 and P(Bin(100, 0.02) > 4) =
// 0.051. If the part is the whole run, there may be 1 failure, because P(Bin(10, 0.02) > 1) = 0.016.
func TestAmong(t *testing.T) {
	certs := make([]Certificate, 10)
	for i := range certs {
		certs[i] = Certificate{Index: i, Correct: true, Radius: 1, Alpha: 0.02, Sound: true}
	}
	part := summarize(certs, []float64{0})
	for _, tt := range []struct {
		sampled, want int
		failures      int64
	}{{0, 0, 1}, {10, 0, 1}, {11, 11, 1}, {100, 100, 5}, {1000, 1000, 10}} {
		if got := part.Among(tt.sampled); got.Failures != tt.failures || got.Sampled != tt.want || got.Examples != 10 || got.Delta != 0.05 {
			t.Errorf("10 of %d: %d failures of %d (%d here, delta %v), want %d of %d",
				tt.sampled, got.Failures, got.Sampled, got.Examples, got.Delta, tt.failures, tt.want)
		}
	}
	part.Sound, part.Delta, part.Failures = false, 0, 0
	if got := part.Among(100); got.Failures != 0 || got.Delta != 0 {
		t.Errorf("not sound: %+v", got)
	}
}

func TestSummaryRadii(t *testing.T) {
	for _, tt := range []struct {
		largest float64
		want    []float64
	}{
		{0, []float64{0}},
		{2, []float64{0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2}},
		{1.9, []float64{0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75}},
		{0.5, []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5}},
		{40, []float64{0, 5, 10, 15, 20, 25, 30, 35, 40}},
	} {
		got := RadiiUpTo(tallied([]Certificate{{Correct: true, Radius: tt.largest}, {Radius: 1e6}}).Largest())
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("largest %v: %v, want %v", tt.largest, got, tt.want)
		}
	}
}

// The test compares the summaries of two classes with numbers computed by hand. Examples without a label must have no
// summary.
func TestSummarizeClasses(t *testing.T) {
	certs := []Certificate{
		{Label: 3, Prediction: 3, Correct: true, Radius: 0.5},
		{Label: 0, Prediction: 0, Correct: true, Radius: 0.2},
		{Label: 3, Prediction: 1, Radius: 0.9},
		{Label: 0, Prediction: Abstained},
		{Label: UnknownLabel, Prediction: 2, Radius: 0.9},
		{Label: 3, Prediction: 3, Correct: true, Radius: 0.3},
	}
	got := summarizeClasses(certs, []float64{0, 0.3, 0.4})
	want := []ClassSummary{
		{Class: 0, Examples: 2, Abstained: 1, Certified: []CertifiedAccuracy{{0, 0.5}, {0.3, 0}, {0.4, 0}}, AverageRadius: 0.1},
		{Class: 3, Examples: 3, Abstained: 0, Certified: []CertifiedAccuracy{{0, 2. / 3}, {0.3, 2. / 3}, {0.4, 1. / 3}}, AverageRadius: 0.26666666666666666},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := summarizeClasses(certs[4:5], nil); got != nil {
		t.Errorf("without labels: %+v", got)
	}
}

func TestCheckRadii(t *testing.T) {
	for _, test := range []struct {
		radii []float64
		ok    bool
	}{
		{nil, true}, {[]float64{0, 0.5}, true}, {[]float64{0.5, -0.1}, false},
		{[]float64{math.NaN()}, false}, {[]float64{math.Inf(1)}, false},
	} {
		if err := CheckRadii(test.radii); (err == nil) != test.ok {
			t.Errorf("%v: error %v", test.radii, err)
		}
	}
}

func tallied(certs []Certificate) *Tally {
	var t Tally
	t.Add(certs...)
	return &t
}

func summarize(certs []Certificate, radii []float64) Summary { return tallied(certs).Summary(radii) }

func summarizeClasses(certs []Certificate, radii []float64) []ClassSummary {
	return tallied(certs).Classes(radii)
}
