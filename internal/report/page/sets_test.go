package page

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/conformal"
	"github.com/rscert/rscert/internal/conformalfile"
	"github.com/rscert/rscert/internal/report/gate"
)

// evaluatedSets returns a file of sound sets with labels, and a file of unsound sets without labels.
func evaluatedSets() Sets {
	coverage := conformal.Coverage{N: 8, Covered: 7, Coverage: 0.875, Lower: 0.4734, Upper: 0.9969}
	labelled := &conformalfile.Evaluated{
		File: "out/a<b>.jsonl", Sets: 8, Labelled: 8, Classes: 9,
		Conditions: conformalfile.Conditions{
			Predictor: "p<q>", Rule: conformal.Count, Scale: 0.5, Radius: 0.25, Shift: 0.5, Miss: 0.1, Guarantee: conformal.Group,
			Sound: true, Arithmetic: certify.Exact, M: 20, T: 13, QueryM: 20, QueryT: 8, N: 100, K: 10,
		},
		Evaluation: &conformal.Evaluation{
			Coverage: coverage, Singletons: 6, Correct: 5, Empty: 1, MeanDraws: 13.25,
			BySize:          []conformal.Stratum{{Name: "1", MeanSize: 1, Coverage: coverage}},
			ByClass:         []conformal.Stratum{{Name: "1", MeanSize: 1.5, Coverage: coverage}},
			ByGroup:         []conformal.Stratum{{Name: "<u>", MeanSize: 2, Coverage: coverage}},
			Exchangeability: []conformal.Exchangeability{{TooMany: 0.25}, {TooMany: 0.5}},
			CertifiedSize:   &conformal.CertifiedSize{Upper: 1.2341},
		},
	}
	bare := *labelled
	bare.File, bare.Labelled, bare.Unsound, bare.Evaluation = "b.jsonl", 0, 3, nil
	bare.Sound, bare.Arithmetic = false, certify.Idealised
	return Sets{
		Files: []*conformalfile.Evaluated{labelled, &bare}, Level: 0.95, ClassNames: []string{"zero", "<one>"},
		Requirements: []gate.Outcome{{Requirement: "conformal-size<=1.2", Run: "<i>", Says: "1.125", Met: true}},
		Figures:      []Figure{{Title: "A curve", Meaning: "A point.", SVG: []byte("<svg/>")}},
	}
}

// TestSets checks the numbers and the words of the page about prediction sets. The page has no script, asks for no
// other file, and shows names as text.
func TestSets(t *testing.T) {
	p := evaluatedSets()
	var first, second bytes.Buffer
	if err := errors.Join(p.Write(&first), p.Write(&second)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("the same page has other bytes")
	}
	text := strings.ReplaceAll(first.String(), "\u00a0", " ")
	for _, want := range []string{
		"<title>Prediction sets of 2 files</title>", "a&lt;b&gt;.jsonl: 8 sets of the rule count, miss 0.1, L2 radius 0.25",
		"<strong>87.5 %</strong><small>7 of 8, [47.3, 99.7] %</small></td><td><strong>–</strong>", "<strong>1.125</strong>",
		"<strong>6</strong><small>5 hold the label</small>", "<strong>13.3</strong>", "<strong>≤ 1.235</strong>",
		"<strong>0.500</strong>", // twice the smaller p-value
		`<th scope="row">1 &lt;one&gt;</th><td>8</td><td>87.5 %</td><td>[47.3, 99.7] %</td><td>1.500</td>`,
		`<th scope="row">&lt;u&gt;</th>`, "by group", "<strong>8 of 20</strong>", "p&lt;q&gt;",
		"b.jsonl: 3 of 8 sets promise nothing under attack: the lines say that they are not sound.",
		"b.jsonl: these sets are for idealised noise", "b.jsonl: the coverage is that of the 0 labelled sets of 8.",
		"The set of a query contains the true class with probability at least 0.9, for every group",
		"Nothing is promised under attack: the lines say", "The requirement is met.", "conformal-size&lt;=1.2",
		`<img src="data:image/svg&#43;xml;base64,PHN2Zy8&#43;"`, "default-src &#39;none&#39;; img-src data:; style-src &#39;sha256-",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, bad := range []string{"<script", `href="http`, `src="http`, "url(h", "@import", "<u>", "<one>", "<i>"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

// TestSetsSingle checks the title of a page about one file.
func TestSetsSingle(t *testing.T) {
	p := evaluatedSets()
	p.Files, p.Figures, p.Requirements = p.Files[1:], nil, nil
	var page bytes.Buffer
	if err := p.Write(&page); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{`id="strata"`, `id="curves"`, `id="requirements"`} {
		if strings.Contains(page.String(), bad) {
			t.Errorf("the page has the empty part %s", bad)
		}
	}
	if !strings.Contains(page.String(), "<title>Prediction sets: b.jsonl</title>") {
		t.Error("the page has another title")
	}
}
