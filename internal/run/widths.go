package run

import (
	"context"

	"github.com/rscert/rscert/internal/certify"
	"github.com/rscert/rscert/internal/law"
	"github.com/rscert/rscert/internal/progress"
)

// Widths holds the mean widths of the intervals that one method computes for the confidence under attack (Emde et al.
// 2025, figure 8).
type Widths struct {
	Path       string             `json:"path"`
	Method     string             `json:"method"`
	Class      string             `json:"class_method"` // the method that certifies the class
	Examples   int                `json:"examples"`
	Alpha      float64            `json:"alpha"`
	Law        law.Name           `json:"law,omitempty"`
	Sigma      float64            `json:"sigma"`
	Norm       law.Norm           `json:"norm"`
	N          int64              `json:"n"`
	Arithmetic certify.Arithmetic `json:"arithmetic"`
	Radii      []RadiusConfidence `json:"radii"`
}

// CompareWidths bounds the confidence of the saved examples with each of the methods. It returns the mean widths of the
// bounds. The class of an example is certified in the same way for all methods, so the means at a radius are over the
// same examples.
func CompareWidths(ctx context.Context, q SavedScores, methods []certify.ConfidenceParams, show progress.Options) ([]Widths, error) {
	var all []Widths
	for _, m := range methods {
		m.Radii = q.Params.Confidence.Radii
		q.Params.Confidence = m
		c, err := BoundConfidence(ctx, q, show)
		if err != nil {
			return nil, err
		}
		all = append(all, Widths{Path: q.Evidence.Path, Method: c.Method, Class: c.Class, Examples: c.Examples, Alpha: c.Alpha, Law: c.Law,
			Sigma: c.Sigma, Norm: c.Norm, N: c.N, Arithmetic: c.Arithmetic, Radii: c.Radii})
	}
	return all, nil
}
