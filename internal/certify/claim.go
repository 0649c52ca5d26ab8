package certify

import (
	"errors"
	"fmt"

	"github.com/rscert/rscert/internal/choice"
)

// A Claim says what a certificate claims about its class A within the radius. The zero value claims that the smoothed
// classifier answers A. This classifier treats 'no answer' as one more class: a sample without an answer is a vote for
// this class.
type Claim struct {
	// TopK is the rank that is claimed: A stays among the TopK classes with the most votes. 0 and 1 both mean the one
	// class with the most votes. Files omit these two values.
	TopK int `json:"top_k,omitempty"`
	// The field None says how the claim treats samples without an answer.
	None NoneMode `json:"none_mode,omitempty"`
	// A sample whose confidence is below RejectBelow counts as a sample without an answer. This rule is part of the
	// classifier. 0 means that every sample with finite outputs votes.
	RejectBelow float64 `json:"reject_below,omitempty"`
}

// NoneMode says how the smoothed classifier and the certificate's claim treat samples without an answer.
type NoneMode string

const (
	// NoneAnswer stands for the classifier that answers the class with the most votes. This classifier is silent (it
	// has no answer) if the number of samples without an answer is larger than the number of votes for each class. The
	// certificate claims that the classifier answers A.
	NoneAnswer NoneMode = ""
	// NoneIgnore stands for the classifier that always answers the class with the most votes. The certificate claims
	// that this class is A, the class that the certificate names.
	NoneIgnore NoneMode = "ignore"
	// NoneSafe stands for the same classifier as NoneAnswer. The certificate claims that this classifier answers A or
	// is silent.
	NoneSafe NoneMode = "safe"
)

// NoneModes lists all modes, the default first.
var NoneModes = choice.Of("none mode", NoneAnswer, NoneIgnore, NoneSafe).Optional().Describe(func(n NoneMode) string {
	return map[NoneMode]string{
		NoneAnswer: "the smoothed classifier answers the class",
		NoneIgnore: "the class gets more votes than every other class; votes for \"no class\" do not count",
		NoneSafe:   "the smoothed classifier answers the class or is silent",
	}[n]
})

// String returns the mode's name, even for the default.
func (n NoneMode) String() string {
	if n == NoneAnswer {
		return "answer"
	}
	return string(n)
}

// MarshalText returns the name, or empty text for the default.
func (n NoneMode) MarshalText() ([]byte, error) { return []byte(n), nil }

// UnmarshalText parses the name of a mode. Empty text is the default.
func (n *NoneMode) UnmarshalText(text []byte) error { return NoneModes.Unmarshal(text, n) }

// Ranked reports whether TopK ≥ 2. The claim is then that A is among the first TopK classes.
func (c Claim) Ranked() bool { return c.TopK > 1 }

// Usual reports whether c is the zero value: the classifier answers A, and every sample with finite outputs votes.
func (c Claim) Usual() bool { return c == Claim{} }

// Says describes the claim in words, for example "the class is the answer".
func (c Claim) Says() string {
	says := "the class is the answer"
	switch {
	case c.None == NoneSafe:
		says = "the answer is the class or silence"
	case c.Ranked() && c.None == NoneIgnore:
		says = fmt.Sprintf("the class is among the first %d classes; samples that vote for no class do not count", c.TopK)
	case c.Ranked():
		says = fmt.Sprintf("the class is among the first %d classes", c.TopK)
	case c.None == NoneIgnore:
		says = "the class leads all other classes; samples that vote for no class do not count"
	}
	if c.RejectBelow > 0 {
		says += fmt.Sprintf("; a sample with a confidence below %v votes for no class", c.RejectBelow)
	}
	return says
}

// Accuracy returns the name of the certified accuracy, as the captions of tables print it. The certified accuracy is
// the share of the examples whose certified class is the label.
func (c Claim) Accuracy() string {
	switch {
	case c.None == NoneSafe:
		return "certified share right or silent"
	case c.Ranked() && c.None == NoneIgnore:
		return fmt.Sprintf("certified top-%d accuracy, silence ignored,", c.TopK)
	case c.Ranked():
		return fmt.Sprintf("certified top-%d accuracy", c.TopK)
	case c.None == NoneIgnore:
		return "certified accuracy, silence ignored,"
	}
	return "certified accuracy"
}

// Short returns the claim in a few words, for example "top 3".
func (c Claim) Short() string {
	short := "answer"
	if c.Ranked() {
		short = fmt.Sprintf("top %d", c.TopK)
	}
	switch c.None {
	case NoneSafe:
		return "right or silent"
	case NoneIgnore:
		return short + ", silence ignored"
	}
	return short
}

// Qualifiers returns a suffix for the names of quantities, for example ".top3". The suffix says which claim the
// quantity is about. It is empty if the claim is that the smoothed classifier answers A.
func (c Claim) Qualifiers() string {
	text := ""
	if c.None != NoneAnswer {
		text += "." + c.None.String()
	}
	if c.Ranked() {
		text += fmt.Sprintf(".top%d", c.TopK)
	}
	return text
}

// The method 'complete' returns an error if the claim is invalid. It replaces a TopK of 1 by 0.
func (c *Claim) complete() error {
	_, err := NoneModes.Parse(string(c.None))
	switch {
	case err != nil:
		return err
	case c.TopK < 0:
		return fmt.Errorf("top_k is %d, want at least 1", c.TopK)
	case !(c.RejectBelow >= 0 && c.RejectBelow <= 1):
		return fmt.Errorf("reject_below is %v, want a confidence from 0 to 1", c.RejectBelow)
	case c.Ranked() && c.None == NoneSafe:
		return errors.New("silence has no rank: a certificate is for the first classes or for the answer or silence, not both")
	}
	if c.TopK == 1 {
		c.TopK = 0
	}
	return nil
}

// check returns an error unless the method m can certify the claim with a margin of the given kind.
func (c Claim) check(m VoteMethod, kind MarginKind) error {
	if !c.Ranked() && c.None == NoneAnswer {
		return nil
	}
	if !m.Ranks() {
		return fmt.Errorf("method %s certifies only the answer itself; use %s or %s", m, ExactMargin, Bonferroni)
	}
	if kind != SecondMargin && (c.Ranked() || c.None == NoneSafe) {
		return errors.New("ranks, and the answer or silence, need the second margin")
	}
	return nil
}
