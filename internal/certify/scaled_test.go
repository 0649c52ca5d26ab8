package certify

import "testing"

// A target with Scaled = true is for noise that has a separate scale for each column. Its certificates have Scaled =
// true too. Its certifier refuses votes that were sampled under noise with a single scale. If the target also has a
// Lipschitz constant or a Sigma other than 1, NewVoteCertifier refuses it, because the unit of the radius would change.
func TestScaledTarget(t *testing.T) {
	target := Target{Alpha: .001, Sigma: 1, Class: Label, Scaled: true}
	votes := Votes{N: 100, Counts: []int64{100, 0}, Scaled: true, Quantisation: .01}
	certifier := mustVotes(t, VoteParams{Target: target, Method: ExactMargin})
	cert, err := certifier.Certify(votes)
	if err != nil || !cert.Scaled || cert.Sigma != 1 || cert.Radius > 1.5005-.01 || cert.Radius < 1.5004-.01 {
		t.Errorf("certificate %+v, %v", cert, err) // the margin of these votes is 3.0010
	}
	if s := summarize([]Certificate{cert}, []float64{1}); !s.Scaled {
		t.Error("the summary does not say that its radii are scaled")
	}
	votes.Scaled = false
	if _, err := certifier.Certify(votes); err == nil {
		t.Error("votes of noise with one scale were certified")
	}
	if _, err := certifier.CertifyAtLeast(votes, .1); err == nil {
		t.Error("votes of noise with one scale were certified")
	}
	votes.Scaled = true
	if _, err := mustVotes(t, VoteParams{Target: Target{Alpha: .001, Sigma: 1, Class: Label}, Method: ExactMargin}).Certify(votes); err == nil {
		t.Error("votes with a scale for each column were certified without")
	}
	for name, change := range map[string]func(*Target){
		"sigma":     func(t *Target) { t.Sigma = .5 },
		"lipschitz": func(t *Target) { t.Margin, t.Lipschitz = FirstMargin, 2 },
	} {
		wrong := target
		change(&wrong)
		if _, err := NewVoteCertifier(VoteParams{Target: wrong, Method: ExactMargin}); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
