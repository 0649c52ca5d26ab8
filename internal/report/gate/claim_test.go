package gate

import (
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/law"
)

// A requirement must apply only to certificates that make the claim named in the requirement.
func TestClaimOfARequirement(t *testing.T) {
	claims := map[string]certify.Claim{
		"":             {},
		".safe":        {None: certify.NoneSafe},
		".ignore":      {None: certify.NoneIgnore},
		".top3":        {TopK: 3},
		".ignore.top3": {None: certify.NoneIgnore, TopK: 3},
	}
	for text, claim := range claims {
		for _, norm := range []string{"", ".l1"} {
			r, err := Parse("certified-accuracy" + norm + text + "@0.5>=0.6")
			if err != nil {
				t.Fatal(err)
			}
			if n, ok := r.Norm(); ok != (norm != "") || ok && n != law.L1 {
				t.Errorf("%s: norm %v", r, n)
			}
			for other, of := range claims {
				of.RejectBelow = 0.9 // RejectBelow is part of the classifier, not of the claim
				err := r.checkClaim(of)
				if (err == nil) != (of.TopK == claim.TopK && of.None == claim.None) {
					t.Errorf("%s of a run that claims %q: %v", r, other, err)
				}
				if err != nil && !strings.Contains(err.Error(), "certified-accuracy"+other) {
					t.Errorf("the error does not name %q: %v", other, err)
				}
			}
		}
	}
	if r, err := Parse("selective-error@0.5<=0.1"); err != nil || !r.Selective() || r.checkClaim(certify.Claim{TopK: 2}) != nil {
		t.Errorf("the error among answers depends on the claim (%v)", err)
	}
	for _, wrong := range []string{
		"certified-accuracy.top1@0.5>=0.6", "certified-accuracy.topx@0.5>=0.6", "certified-accuracy.l1.l2@0.5>=0.6", "clean-accuracy.safe>=0.5",
		"cbs.safe@0.5<=0.1", "selective-error.safe@0.5<=0.1", "certified-accuracy.answer@0.5>=0.6",
	} {
		if _, err := Parse(wrong); err == nil {
			t.Errorf("%s is accepted", wrong)
		}
	}
}
