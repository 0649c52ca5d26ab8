package experiment

import (
	"testing"
)

// TestJudgeAccuracy checks outcomes that follow from exact tail probabilities. The comments on the cases give P(Bin(n,
// 1/m) ≥ k) and, where it matters, P(Bin(n, u) ≤ k). Here k is the number of right answers; for u, see judgeAccuracy.
// These probabilities were computed with Python's math.comb.
func TestJudgeAccuracy(t *testing.T) {
	for _, k := range []struct {
		n, right, m int
		want        Outcome
	}{
		{1, 1, 10, Fine},       // all answers are right
		{1, 0, 10, Unsure},     // 1 and 0.675
		{7, 0, 10, Unsure},     // 1 and 0.0638
		{8, 0, 10, Suspect},    // 1 and 0.0431
		{15, 0, 10, Suspect},   // 1 and 0.0028
		{15, 3, 10, Unsure},    // 0.1841 and 0.2293
		{15, 5, 10, Fine},      // 0.0127
		{200, 111, 2, Suspect}, // 0.0687 and 0.0252
		{200, 113, 2, Fine},    // 0.0384
	} {
		var predicted, labels []int
		for i := range k.n {
			label := i % k.m
			answer := (label + 1 + i/k.m%(k.m-1)) % k.m
			if i < k.right {
				answer = label
			}
			predicted, labels = append(predicted, answer), append(labels, label)
		}
		if got := judgeAccuracy(predicted, labels, k.m); got.Outcome != k.want {
			t.Errorf("%d of %d right, %d classes: %s (%v), want %s", k.right, k.n, k.m, got.Outcome, got.Text, k.want)
		}
	}
}

// A model that gives all examples the same class must be suspect if the labels differ, and must not be suspect if all
// labels are equal.
func TestJudgeConstantAnswers(t *testing.T) {
	labels := make([]int, 20)
	predicted := make([]int, 20)
	if got := judgeAccuracy(predicted, labels, 2); got.Outcome != Fine {
		t.Errorf("all right: %s", got.Outcome)
	}
	for i := range 5 { // 15 of 20 answers are right; the binomial test rejects chance, as P(Bin(20, 1/2) ≥ 15) = 0.0207
		labels[i] = 1
	}
	if got := judgeAccuracy(predicted, labels, 2); got.Outcome != Suspect {
		t.Errorf("always the same answer: %s", got.Outcome)
	}
	predicted[0] = 1
	if got := judgeAccuracy(predicted, labels, 2); got.Outcome != Fine {
		t.Errorf("two answers: %s", got.Outcome)
	}
}
