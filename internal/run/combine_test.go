package run

import (
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
)

// TestComposable checks which certificates can be combined. composable must refuse a condition that it does not know,
// because the condition may change what the certificate says.
func TestComposable(t *testing.T) {
	plain := certify.Certificate{Index: 3, Label: 1, Prediction: 1, Correct: true, Radius: 0.5, Margin: 1, Method: "margin", Alpha: 0.001,
		Sigma: 0.25, N: 100, Sound: true, Precision: "f32", Quantisation: 0.01, Bounds: map[string]float64{"p_a": 0.9}}
	for _, c := range []struct {
		want string
		edit func(*certify.Certificate)
	}{
		{"", func(*certify.Certificate) {}},
		{"", func(c *certify.Certificate) { c.Prediction, c.Correct, c.Radius = certify.Abstained, false, 0 }},
		{"its method margin is not sound", func(c *certify.Certificate) { c.Sound = false }},
		{"Lipschitz", func(c *certify.Certificate) { c.Lipschitz = 1 }},
		{"its alpha is 0.01", func(c *certify.Certificate) { c.Alpha = 0.01 }},
		{`the condition "composition"`, func(c *certify.Certificate) { c.Composition = "majority of 3" }},
		{`the condition "unbounded"`, func(c *certify.Certificate) { c.Unbounded = true }},
		{`the condition "members"`, func(c *certify.Certificate) { c.Members = []certify.MemberCertificate{{Run: "x"}} }},
	} {
		cert := plain
		c.edit(&cert)
		err := composable(cert, 0.001)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: %v, want %q", cert, err, c.want)
		}
	}
}
