package certify

import "github.com/rscert/rscert/internal/law"

// The functions below return the scale of a margin under Gaussian noise, and values of the Gaussian distribution. The
// tests compute expected results with these functions.

func scaleOf(m MarginKind) scale { return Target{Margin: m}.scale() }

func normalCDF(z float64) (p, relErr float64) { return law.Gaussian.CDF(z) }

func quantileNear(p float64) float64 { return law.Gaussian.Quantile(p) }

func quantileHigh(p float64) float64 { return law.High(law.Gaussian, p) }
