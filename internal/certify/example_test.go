package certify_test

import (
	"fmt"

	"github.com/rscert/rscert/internal/certify"
)

// The votes of 100 selection samples choose the class. The votes of 1,000 estimation samples certify it.
func ExampleVoteCertifier() {
	c, err := certify.NewVoteCertifier(certify.VoteParams{
		Target: certify.Target{Alpha: 0.001, Sigma: 0.5}, Method: certify.ClopperPearson,
	})
	if err != nil {
		panic(err)
	}
	cert, err := c.Certify(certify.Votes{
		Label: 2, N0: 100, Counts0: []int64{1, 0, 99}, N: 1000, Counts: []int64{8, 2, 990},
	})
	if err != nil {
		panic(err)
	}
	fmt.Printf("class %d, right: %v, within %.3f with probability at least %v\n",
		cert.Prediction, cert.Correct, cert.Radius, 1-cert.Alpha)
	// Output:
	// class 2, right: true, within 0.989 with probability at least 0.999
}

// Votes that are too divided give no certificate.
func ExampleVoteCertifier_abstained() {
	c, err := certify.NewVoteCertifier(certify.VoteParams{Target: certify.Target{Alpha: 0.001, Sigma: 0.5}})
	if err != nil {
		panic(err)
	}
	cert, err := c.Certify(certify.Votes{
		Label: 0, N0: 100, Counts0: []int64{52, 48}, N: 1000, Counts: []int64{510, 490},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(cert.Prediction == certify.Abstained, cert.Radius)
	// Output: true 0
}

// The second margin is Φ⁻¹(p_A) − Φ⁻¹(p_B). Its radius is σ/2 times the margin, rounded down.
func ExampleTarget_Radius() {
	fmt.Println(certify.Target{Sigma: 0.25}.Radius(3))
	// Output: 0.374999999
}
