package certify_test

import (
	"errors"
	"fmt"

	"github.com/rscert/rscert/internal/certify"
)

// All sound methods bound the margin Φ⁻¹(p_A) − Φ⁻¹(p_B) from the same votes. The default method comes first. There are
// 90 votes for the class, 5 for the runner-up and 5 for the rest.
func ExampleVoteMethods() {
	for _, method := range certify.VoteMethods() {
		if !method.Sound {
			continue
		}
		c, err := certify.NewVoteCertifier(certify.VoteParams{
			Target: certify.Target{Class: certify.Label, Alpha: 0.001, Sigma: 1}, Method: method.Name,
		})
		if err != nil {
			panic(err)
		}
		cert, err := c.Certify(certify.Votes{Label: 0, N: 100, Counts: []int64{90, 5, 5}})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s %.4f\n", method.Name, cert.Margin)
	}
	// Output:
	// margin 1.7991
	// bonferroni 1.7061
	// clopper-pearson 1.5130
	// bonferroni-classes 1.6704
}

// All 100 votes are for the class. The method of Moutaouakil gives the lower bound +∞ on the margin, and its
// certificate says that the method is not sound.
func ExampleVoteMethod_Sound() {
	for _, method := range []certify.VoteMethod{certify.ExactMargin, certify.Moutaouakil} {
		c, err := certify.NewVoteCertifier(certify.VoteParams{
			Target: certify.Target{Class: certify.Label, Alpha: 0.001, Sigma: 1}, Method: method,
		})
		if err != nil {
			panic(err)
		}
		cert, err := c.Certify(certify.Votes{Label: 0, N: 100, Counts: []int64{100, 0, 0}})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: sound %v, unbounded %v\n", method, cert.Sound, cert.Unbounded)
	}
	// Output:
	// margin: sound true, unbounded false
	// moutaouakil: sound false, unbounded true
}

// The first margin is p_A − p_B itself. The example uses the votes and α of ExampleVoteMethods, and the default method.
func ExampleMarginKinds() {
	for _, kind := range certify.MarginKinds() {
		c, err := certify.NewVoteCertifier(certify.VoteParams{
			Target: certify.Target{Margin: kind.Name, Class: certify.Label, Alpha: 0.001, Sigma: 1},
		})
		if err != nil {
			panic(err)
		}
		cert, err := c.Certify(certify.Votes{Label: 0, N: 100, Counts: []int64{90, 5, 5}})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s margin %.4f\n", kind.Name, cert.Margin)
	}
	// Output:
	// second margin 1.7991
	// first margin 0.6316
}

// With Predicted, the selection samples alone elect the class to certify. With Label, this class is the true label.
func ExampleVotes_Elected() {
	v := certify.Votes{Label: 0, N0: 10, Counts0: []int64{4, 6}, N: 100, Counts: []int64{52, 48}}
	for _, class := range []certify.Class{certify.Predicted, certify.Label} {
		elected, err := v.Elected(class)
		if err != nil {
			panic(err)
		}
		fmt.Println(class, elected)
	}
	// Output:
	// predicted 1
	// label 0
}

// Votes without selection samples cannot say which class is predicted.
func ExampleVotes_Certifiable() {
	v := certify.Votes{Label: 0, N: 100, Counts: []int64{90, 10}}
	fmt.Println(v.Certifiable(certify.Label))
	fmt.Println(errors.Is(v.Certifiable(certify.Predicted), certify.ErrNoSelection))
	// Output:
	// <nil>
	// true
}

// The counts and None must add up to the number of samples. None is the number of samples without an answer.
func ExampleVotes_Validate() {
	v := certify.Votes{Label: 0, N: 100, Counts: []int64{90, 8}}
	fmt.Println(v.Validate())
	v.None = 2
	fmt.Println(v.Validate())
	// Output:
	// counts sum to 98 and n is 100
	// <nil>
}

// Right reports whether the class with the most votes is the label. Here class 1 has 60 of 100 votes.
func ExampleVotes_Right() {
	v := certify.Votes{Label: 1, N: 100, Counts: []int64{40, 60}}
	fmt.Println(v.Right())
	v.Label = 0
	fmt.Println(v.Right())
	// Output:
	// true
	// false
}

// The example prints the number of labelled examples and two accuracies. The first is the accuracy of the classifier
// without noise. The second is the accuracy of the smoothed classifier, which answers the class with the most votes.
func ExampleAccuracy() {
	right, wrong := 0, 1
	var a certify.Accuracy
	a.Add(certify.Votes{Label: 0, N: 10, Counts: []int64{9, 1}, Clean: &right})
	a.Add(certify.Votes{Label: 0, N: 10, Counts: []int64{7, 3}, Clean: &wrong})
	a.Add(certify.Votes{Label: certify.UnknownLabel, N: 10, Counts: []int64{7, 3}, Clean: &wrong})
	clean, _ := a.CleanShare()
	smoothed, _ := a.SmoothedShare()
	fmt.Println(a.Labelled, clean, smoothed)
	// Output: 2 0.5 1
}

// Sampling ends as soon as a radius of half a σ is certified. Each checkpoint may use only its share of α, so sampling
// with checkpoints takes 23 votes even if all are for the class. If the number of samples were fixed beforehand, 19
// votes would be enough.
func ExampleStopping() {
	rule, err := certify.ParseStop("radius>=0.5")
	if err != nil {
		panic(err)
	}
	p := certify.VoteParams{Target: certify.Target{Class: certify.Label, Alpha: 0.001, Sigma: 1}}
	s, err := certify.NewStopping(p, rule, 100_000)
	if err != nil {
		panic(err)
	}
	v := certify.Votes{Label: 0, Counts: []int64{0, 0}}
	for {
		next, err := s.Next(v)
		if err != nil {
			panic(err)
		}
		if next == v.N {
			break
		}
		v.N, v.Counts[0] = next, next // every vote is for the label
	}
	if err := s.Mark(&v); err != nil {
		panic(err)
	}
	c, err := certify.NewVoteCertifier(p)
	if err != nil {
		panic(err)
	}
	cert, err := c.Certify(v)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%d of 100,000 samples: radius at least 0.5: %v\n", v.N, cert.Radius >= 0.5)
	// Output: 23 of 100,000 samples: radius at least 0.5: true
}

// Sampling may end only at checkpoints. Each checkpoint gets a share of α, and the shares of all checkpoints add up to
// 1.
func ExampleStopping_Checkpoints() {
	rule, err := certify.ParseStop("precision=0.1")
	if err != nil {
		panic(err)
	}
	s, err := certify.NewStopping(certify.VoteParams{Target: certify.Target{Alpha: 0.001, Sigma: 1}}, rule, 1000)
	if err != nil {
		panic(err)
	}
	total := 0.0
	for _, c := range s.Checkpoints() {
		total += c.Share
	}
	last := s.Checkpoints()[len(s.Checkpoints())-1]
	fmt.Printf("last after %d samples, shares sum to %.3f\n", last.N, total)
	// Output: last after 1000 samples, shares sum to 1.000
}

// A radius of 8σ needs more than 100,000 votes, even if all votes are for the class.
func ExampleNewStopping_outOfReach() {
	rule, err := certify.ParseStop("radius>=2")
	if err != nil {
		panic(err)
	}
	_, err = certify.NewStopping(
		certify.VoteParams{Target: certify.Target{Alpha: 0.001, Sigma: 0.25}}, rule, 100_000)
	fmt.Println(errors.Is(err, certify.ErrOutOfReach))
	// Output: true
}

// A rule is written as radius>=R or as precision=F. R is a radius in the units of the data, and F is a fraction. For
// all other text, ParseStop returns an error.
func ExampleParseStop() {
	for _, text := range []string{"radius>=0.5", "precision=0.1", "radius=0.5"} {
		rule, err := certify.ParseStop(text)
		fmt.Println(rule.Given(), rule, err != nil)
	}
	// Output:
	// true radius>=0.5 false
	// true precision=0.1 false
	// false  true
}

// The certified class is either the class that the selection samples predict or the true label.
func ExampleClasses() {
	for _, class := range certify.Classes() {
		fmt.Println(class.Name)
	}
	// Output:
	// predicted
	// label
}
