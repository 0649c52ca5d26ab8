package certify

import "github.com/rscert/rscert/internal/law"

// The function scaleOf returns the scale (see scale.go) of a kind of margin under Gaussian noise. The other functions
// return values of the Gaussian distribution. The tests compute expected results with these functions.

func scaleOf(m MarginKind) scale { return Target{Margin: m}.scale() }

func normalCDF(z float64) (p, relErr float64) { return law.Gaussian.CDF(z) }

func quantileNear(p float64) float64 { return law.Gaussian.Quantile(p) }

func quantileHigh(p float64) float64 { return law.High(law.Gaussian, p) }
