package predict

import (
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/law"
)

// For each radius, a table of answers must name the certified class, the norm and the claim of the certificate.
func TestTablesNameTheCertificate(t *testing.T) {
	answers := []Answer{
		{Index: 0, Class: -1, Votes: []int64{1, 2}, Certificate: &certify.Certificate{Prediction: 1, Radius: 0.5, Norm: law.L1, Claim: certify.Claim{None: certify.NoneSafe}}},
		{Index: 1, Class: 1, Votes: []int64{1, 2}, Certificate: &certify.Certificate{Prediction: 1, Radius: 2, Scaled: true}},
		{Index: 2, Class: 1, Votes: []int64{1, 2}, Certificate: &certify.Certificate{Prediction: certify.Abstained}},
	}
	var b strings.Builder
	if err := WriteCSV(&b, answers); err != nil {
		t.Fatal(err)
	}
	want := `index,label,class,samples,votes,none,moved,radius,certified_class,norm,claim
0,,-1,0,2,0,0,0.5,1,l1,right or silent
1,,1,0,2,0,0,2,1,scaled-l2,answer
2,,1,0,2,0,0,,,,
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", &b, want)
	}
}
