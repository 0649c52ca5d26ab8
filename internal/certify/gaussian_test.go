package certify

import "github.com/rscert/rscert/internal/law"

// The functions below return the scale and the distribution of Gaussian noise. The tests compute expected results with
// them.

func scaleOf(m MarginKind) scale { return Target{Margin: m}.scale() }

func normalCDF(z float64) (p, relErr float64) { return law.Gaussian.CDF(z) }

func quantileNear(p float64) float64 { return law.Gaussian.Quantile(p) }

func quantileHigh(p float64) float64 { return law.High(law.Gaussian, p) }
