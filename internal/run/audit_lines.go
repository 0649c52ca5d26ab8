package run

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// AuditLine is a line of audit.jsonl. A round of an example has two lines. The first line, called frozen, records the
// tests of the round. It is recorded before any noise for these tests is drawn. Then a seed is drawn. The second line,
// called verified, records the results of these tests with the noise of this seed. Round 0 tests the example itself. A
// test that rejects its hypothesis may contradict the example's certificate, or a bound on the example's confidence. In
// the case of such a contradiction, the example has one more line, called escalated.
type AuditLine struct {
	Index int       `json:"index"`
	Step  AuditStep `json:"step"`
	Round int       `json:"round"`

	// These fields are set only in frozen lines. SHA256 is the hash of the tests.
	SHA256 string      `json:"sha256,omitempty"`
	Tests  []AuditTest `json:"tests,omitempty"`

	// These fields are set only in verified lines.
	Seed    *uint64      `json:"seed,omitempty"`
	Results []TestResult `json:"results,omitempty"`

	// Escalation is set only in escalated lines.
	Escalation *Escalation `json:"escalation,omitempty"`
}

// AuditStep is the step of an audit that a line of audit.jsonl records.
type AuditStep string

// These are the steps that a line can record.
const (
	Frozen    AuditStep = "frozen"
	Verified  AuditStep = "verified"
	Escalated AuditStep = "escalated"
)

// TestKind is the kind of a test.
type TestKind string

// These are the kinds of tests. Each comment says what a rejection means.
const (
	// TestWrong: at the example itself, Rival is more probable than Class. Class is the label.
	TestWrong TestKind = "wrong"
	// TestRight: at the example itself, Class is more probable than Rival. Class is the label.
	TestRight TestKind = "right"
	// TestSlack: at the example itself, the margin of Class over Rival is too small for the certified Radius.
	TestSlack TestKind = "slack"
	// TestFlip: at the tested input, Rival is more probable than Class.
	TestFlip TestKind = "flip"
	// TestConfidence: at the tested input, the mean score of Class is outside the interval [Lower, Upper] claimed for
	// Radius.
	TestConfidence TestKind = "confidence"
)

// AuditTest is one of the tests that a line of audit.jsonl records before the noise for these tests is drawn (a frozen
// line, see AuditLine).
type AuditTest struct {
	Kind     TestKind `json:"kind"`
	Distance float64  `json:"distance"` // distance of the input from the example, rounded up
	Class    int      `json:"class"`
	Rival    int      `json:"rival"` // −1: the samples that vote for no class
	Radius   float64  `json:"radius,omitempty"`
	Lower    float64  `json:"lower,omitempty"`
	Upper    float64  `json:"upper,omitempty"`
	// Level is the error probability of the test. It includes the small error that arises because the noise is made
	// from random words of finite length.
	Level float64 `json:"level"`
	// Values is the input, as little-endian float32. It is absent for the example itself.
	Values []byte `json:"values,omitempty"`
}

// TestResult is the result of a test.
type TestResult struct {
	Samples int64 `json:"samples"` // number of samples; 0 if the test was not reached
	Votes   int64 `json:"votes"`   // votes for the class
	Against int64 `json:"against"` // votes for the rival
	// LogEvidence is the maximum of the logarithm of the evidence during a sequential test (flip or confidence).
	LogEvidence float64 `json:"log_evidence,omitempty"`
	// Margin is the result of a slack test: an upper bound on the margin of the class over the rival. Margin is absent
	// if the bound is infinite.
	Margin *float64 `json:"margin,omitempty"`
	// Mean is the mean score of the class in the samples. Mean is set only for tests of a confidence.
	Mean     *float64 `json:"mean,omitempty"`
	Rejected bool     `json:"rejected"`
}

// Escalation is the result of an escalation: the example was certified and tested again, with fresh noise and at far
// smaller levels.
type Escalation struct {
	Seed       uint64  `json:"seed"` // seed of the noise with which the example was certified again
	Alpha      float64 `json:"alpha"`
	Prediction int     `json:"prediction"`
	Radius     float64 `json:"radius"`
	VerifySeed uint64  `json:"verify_seed"`
	Gamma      float64 `json:"gamma"`
	// Contradicted means that the fresh certificate is contradicted, too.
	Contradicted bool `json:"contradicted"`
}

// hashTests returns the SHA-256, in hex, of the JSON of tests.
func hashTests(tests []AuditTest) string {
	text, err := json.Marshal(tests)
	if err != nil {
		panic(err) // cannot happen: JSON can encode finite numbers and bytes
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// valid returns an error if the members of a line contradict each other.
func (l AuditLine) valid() error {
	switch l.Step {
	case Frozen:
		if l.SHA256 != hashTests(l.Tests) {
			return errors.New("sha256 is not of the tests")
		}
	case Verified:
		if l.Seed == nil && len(l.Results) > 0 {
			return errors.New("it has results and no seed")
		}
	case Escalated:
		if l.Escalation == nil {
			return errors.New("it has no escalation")
		}
	default:
		return fmt.Errorf("step %q is unknown", l.Step)
	}
	return nil
}

// packValues encodes an input.
func packValues(values []float32) []byte {
	var b bytes.Buffer
	_ = binary.Write(&b, binary.LittleEndian, values) // writing to a Buffer cannot fail
	return b.Bytes()
}

// unpackValues decodes an input of n values.
func unpackValues(packed []byte, n int) ([]float32, error) {
	if len(packed) != 4*n {
		return nil, fmt.Errorf("a frozen input has %d bytes, want %d", len(packed), 4*n)
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = math.Float32frombits(binary.LittleEndian.Uint32(packed[4*i:]))
	}
	return values, nil
}

// rounds holds the lines of one example.
type rounds struct {
	tests     map[int][]AuditTest
	results   map[int][]TestResult
	escalated *Escalation
}

func newRounds() *rounds {
	return &rounds{tests: map[int][]AuditTest{}, results: map[int][]TestResult{}}
}

// done reports whether a round is verified.
func (r rounds) done(round int) bool {
	_, ok := r.results[round]
	return ok
}

// byExample groups lines by example. Each verified line must follow its frozen line and have as many results as the
// frozen line has tests.
func byExample(lines []AuditLine) (map[int]*rounds, error) {
	all := map[int]*rounds{}
	for _, l := range lines {
		r := all[l.Index]
		if r == nil {
			r = newRounds()
			all[l.Index] = r
		}
		tests, frozen := r.tests[l.Round]
		switch l.Step {
		case Frozen:
			if frozen {
				return nil, fmt.Errorf("example %d: round %d is frozen twice", l.Index, l.Round)
			}
			r.tests[l.Round] = l.Tests
		case Verified:
			if !frozen || r.done(l.Round) || len(tests) != len(l.Results) {
				return nil, fmt.Errorf("example %d: the results of round %d are not of its tests", l.Index, l.Round)
			}
			r.results[l.Round] = l.Results
		case Escalated:
			r.escalated = l.Escalation
		}
	}
	return all, nil
}
