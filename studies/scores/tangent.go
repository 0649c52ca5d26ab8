package main

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/rscert/rscert/internal/certify"
)

// tangentWidths compares the methods 'tangent' and 'standard' for runs that have no selection samples. It prints the
// mean widths of the label's confidence intervals. The method 'tangent' determines its tangent from the first k of the
// n samples, and bounds the mean with the other samples. Every mean is over the same examples: the examples whose
// certificate from n samples reaches the radius. The function returns a map from k to the mean width at the radius
// splitRadius. The key k = 0 stands for the method 'standard'.
func (s study) tangentWidths(n int) (map[int]float64, error) {
	params := certify.ScoreParams{Target: certify.Target{Alpha: alpha, Sigma: sigma, Class: certify.Label}}
	params.Confidence = certify.ConfidenceParams{Radii: widthRadii, Method: certify.ConfidenceStandard}
	standard, err := certify.NewScoreCertifier(params)
	if err != nil {
		return nil, err
	}
	params.Confidence.Method = certify.ConfidenceTangent
	tangent, err := certify.NewScoreCertifier(params)
	if err != nil {
		return nil, err
	}
	all := temperedAll(s.examples, n, 1)
	certs := make([]certify.Certificate, len(all))
	counts := make([]int, len(widthRadii))
	for i, e := range all {
		e.selection = nil
		if certs[i], _, err = e.certify(standard); err != nil {
			return nil, err
		}
		for j, r := range widthRadii {
			if certs[i].Radius >= r && certs[i].Prediction != certify.Abstained {
				counts[j]++
			}
		}
	}
	drawn := map[int]float64{}
	row := func(name string, c *certify.ScoreCertifier, k int) error {
		widths := make([]float64, len(widthRadii))
		for i, e := range all {
			bounds, err := e.bound(c, k, certs[i])
			if err != nil {
				return err
			}
			for j, b := range bounds {
				widths[j] += b.Upper - b.Lower
			}
		}
		line := "| " + name
		for j, w := range widths {
			w /= math.Max(1, float64(counts[j]))
			line += fmt.Sprintf(" | %.4f", w)
			if widthRadii[j] == splitRadius {
				drawn[k] = w
			}
		}
		fmt.Fprintln(s, line+" |")
		return nil
	}
	header := "| method | k |"
	for _, r := range widthRadii {
		header += fmt.Sprintf(" R = %g |", r)
	}
	fmt.Fprintln(s, header)
	fmt.Fprintln(s, "| --- | ---: |"+strings.Repeat(" ---: |", len(widthRadii)))
	if err := row("standard+betting | 0", standard, 0); err != nil {
		return nil, err
	}
	for _, k := range []int{1, 2, 3, 5, 10, 20, 30, 50, 100, 200} {
		if 2*k >= n {
			break
		}
		if err := row(fmt.Sprintf("tangent+betting | %d", k), tangent, k); err != nil {
			return nil, err
		}
	}
	line := "| examples |"
	for _, k := range counts {
		line += fmt.Sprintf(" | %d", k)
	}
	fmt.Fprintln(s, line+" |")
	return drawn, nil
}

// bound returns the bounds at the radii that the certificate 'cert' certifies. It uses the first k samples for the
// selection.
func (e example) bound(c *certify.ScoreCertifier, k int, cert certify.Certificate) ([]certify.ConfidenceBound, error) {
	m := e.classes
	n := len(e.estimation)/m - k
	a, err := c.Start(certify.ScoreExample{Index: e.index, Label: e.label, Classes: m, N0: int64(k), N: int64(n)})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(a.Selection(e.estimation[:k*m]), a.Estimation(e.estimation[k*m:])); err != nil {
		return nil, err
	}
	return certified(a.Confidence(cert)), nil
}
